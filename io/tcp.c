/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp.c - the backend between memory here and memory of other engines. It has nothing to
 * do before peers_open(): without peers there is no thread, no ring, no port.
 *
 * Local memory has to be mapped here: what a client keeps to itself goes by way of
 * memory that it shares.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "io/backends.h"
#include "io/tcp_door.h"
#include "io/tcp_serve.h"

static int tcp_create(struct backend_instance **out, const struct backend_options *o)
{
	struct tcp_instance *inst = calloc(1, sizeof(*inst));

	if (!inst)
		return -ENOMEM;
	inst->base.ops = &tcp_backend;
	inst->o = o->tcp;
	*out = &inst->base;
	return 0;
}

static void tcp_destroy(struct backend_instance *inst)
{
	tcp_door_close((struct tcp_instance *)inst);
	free(inst);
}

static int tcp_queue_open(struct backend_instance *base, int event_fd,
			  struct backend_queue **out)
{
	struct tcp_instance *inst = (struct tcp_instance *)base;
	struct tcp_queue *q;

	if (inst->nr_queues == TCP_QUEUES_MAX)
		return -EBUSY;
	q = calloc(1, sizeof(*q));
	if (!q)
		return -ENOMEM;
	q->base.ops = &tcp_backend;
	q->base.inst = base;
	q->inst = inst;
	q->event_fd = event_fd;
	q->epoll_fd = -1;
	q->o = inst->o;
	TAILQ_INIT(&q->conns);
	TAILQ_INIT(&q->ready);
	TAILQ_INIT(&q->cut);
	TAILQ_INIT(&q->called_back);
	TAILQ_INIT(&q->detached);
	TAILQ_INIT(&q->lent);
	TAILQ_INIT(&q->starving);
	transfer_list_init(&q->ended);
	q->index = inst->nr_queues;
	inst->queues[inst->nr_queues++] = q;
	*out = &q->base;
	return 0;
}

static void queue_stop(struct tcp_queue *q)
{
	if (!q->io)
		return;
	tcp_queue_drain(q);
	q->io->close(q);
	free(q->scratch);
	q->io = NULL;
}

/* The door goes first: it knows every queue. It keeps what it has for tcp_destroy(). */
static void tcp_queue_close(struct backend_queue *base)
{
	struct tcp_queue *q = (struct tcp_queue *)base;

	tcp_door_stop(q->inst);
	queue_stop(q);
	q->inst->queues[q->index] = NULL;
	free(q);
}

/* ---- peers ------------------------------------------------------------- */

static int queue_start(struct tcp_queue *q, const struct tcp_io *io, char *why, size_t size)
{
	int rc;

	q->scratch = malloc(TCP_ZEROS);
	if (!q->scratch) {
		snprintf(why, size, "no memory for a queue");
		return -ENOMEM;
	}
	rc = io->open(q, why, size);
	if (rc < 0)
		free(q->scratch);
	else
		q->io = io;
	return rc;
}

/* All queues alike, or none. */
static int start_with(struct tcp_instance *inst, const struct tcp_io *io)
{
	int rc = 0;

	for (uint32_t i = 0; i < inst->nr_queues && rc == 0; i++)
		rc = queue_start(inst->queues[i], io, inst->why, sizeof(inst->why));
	for (uint32_t i = 0; i < inst->nr_queues && rc < 0; i++)
		queue_stop(inst->queues[i]);
	if (rc == 0)
		inst->io = io;
	return rc;
}

static int start(struct tcp_instance *inst)
{
	if (!inst->o.io_uring)
		snprintf(inst->why, sizeof(inst->why), "transports/tcp/io_uring is false");
	else if (start_with(inst, &tcp_io_uring) == 0)
		return 0;
	return start_with(inst, &tcp_io_plain);
}

/* Pollers use what is made here only after they took a note: R16/A16. */
static int tcp_peers_open(struct backend_instance *base, const void *address, uint32_t size,
			  uint16_t *port)
{
	struct tcp_instance *inst = (struct tcp_instance *)base;
	int rc = start(inst);

	return rc < 0 ? rc : tcp_door_open(inst, address, size, port);
}

static int tcp_guest_open(struct backend_instance *base, struct guest *guest)
{
	struct tcp_guest *g = calloc(1, sizeof(*g));

	if (!g)
		return -ENOMEM;
	g->guest = guest;
	fetch_add(&guest->refs, 1u); /* R15 */
	guest->backend = g;
	LIST_INIT(&g->conns);
	g->comes = (struct tcp_note){ .kind = NOTE_GUEST, .about = g };
	tcp_door_send((struct tcp_instance *)base, &g->comes);
	return 0;
}

static void tcp_guest_close(struct backend_instance *base, struct guest *guest)
{
	struct tcp_guest *g = guest->backend;

	g->ends = (struct tcp_note){ .kind = NOTE_GUEST_ENDS, .about = g };
	tcp_door_send((struct tcp_instance *)base, &g->ends);
}

/* It has room for many jobs, of which few are ever made: pages come when they are used. */
static struct tcp_peer *peer_map(uint32_t nr_queues)
{
	uint32_t per_queue = nr_queues < TCP_TENANTS ? TCP_TENANTS / nr_queues : 1;
	size_t nr = (size_t)nr_queues * per_queue;
	size_t size = sizeof(struct tcp_peer) + nr * sizeof(struct tcp_tenant) +
		      nr * LEVELS * TCP_JOBS * sizeof(struct tcp_job);
	struct tcp_peer *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	p->size = size;
	p->nr_queues = p->left = nr_queues;
	p->nr_tenants = per_queue;
	return p;
}

void tcp_peer_free(struct tcp_peer *p)
{
	munmap(p, p->size);
}

static void line_init(struct tcp_line *l, struct tcp_peer *p, struct tcp_tenant *t,
		      struct tcp_queue *q, struct tcp_job *jobs)
{
	l->peer = p;
	l->tenant = t;
	l->queue = q;
	l->level = (uint32_t)(l - t->lines);
	l->jobs = jobs;
	TAILQ_INIT(&l->free);
	TAILQ_INIT(&l->waiting);
}

static int tcp_far_open(struct backend_instance *base, struct far_end *f)
{
	struct tcp_instance *inst = (struct tcp_instance *)base;
	struct tcp_peer *p = peer_map(inst->nr_queues);
	uint32_t nr = p ? p->nr_queues * p->nr_tenants : 0;
	struct tcp_job *jobs = p ? (struct tcp_job *)&p->tenants[nr] : NULL;

	if (!p)
		return -ENOMEM;
	p->end = *f;
	for (uint32_t i = 0; i < nr * LEVELS; i++) {
		struct tcp_tenant *t = &p->tenants[i / LEVELS];

		line_init(&t->lines[i % LEVELS], p, t, inst->queues[i / LEVELS / p->nr_tenants],
			  jobs + (size_t)i * TCP_JOBS);
	}
	f->peer = p;
	p->comes = (struct tcp_note){ .kind = NOTE_PEER, .about = p };
	tcp_door_send(inst, &p->comes);
	return 0;
}

static void tcp_far_close(struct backend_instance *base, struct far_end *f)
{
	struct tcp_instance *inst = (struct tcp_instance *)base;
	struct tcp_peer *p = f->peer;

	for (uint32_t i = 0; i < inst->nr_queues; i++) {
		p->leave[i] = (struct tcp_note){ .kind = NOTE_LEAVE, .about = p };
		tcp_queue_send(inst->queues[i], &p->leave[i]);
	}
}

static int tcp_wait_fd(const struct backend_queue *queue)
{
	const struct tcp_queue *q = (const struct tcp_queue *)queue;

	return q->io ? q->io->wait_fd(q) : -1;
}

static bool tcp_reaches(const struct backend_instance *inst, const struct region *local,
			const struct region *remote)
{
	(void)inst;
	return remote->far && remote->far->peer && local->addr;
}

/* ---- facts ------------------------------------------------------------- */

static void tcp_facts(const struct backend_instance *base, char *text, size_t size)
{
	const struct tcp_instance *inst = (const struct tcp_instance *)base;
	struct tcp_counts sum = { 0 };

	if (!inst->io) {
		snprintf(text, size, "peers are off");
		return;
	}
	for (uint32_t i = 0; i < inst->nr_queues; i++) {
		const struct tcp_counts *c = &inst->queues[i]->counts;

		sum.frames += load_relaxed(&c->frames);
		sum.answers += load_relaxed(&c->answers);
		sum.sends += load_relaxed(&c->sends);
		sum.receives += load_relaxed(&c->receives);
		sum.zero_copies += load_relaxed(&c->zero_copies);
		sum.cuts += load_relaxed(&c->cuts);
		sum.unfenced += load_relaxed(&c->unfenced);
	}
	snprintf(text, size, "by %s%s%s%s: %" PRIu64 " frames sent, %" PRIu64 " answers taken; %"
		 PRIu64 " sends, %" PRIu64 " of them in place, %" PRIu64 " receives; %" PRIu64
		 " connections cut, %" PRIu64 " requests unfenced", inst->io->name,
		 *inst->why ? " (" : "", inst->why, *inst->why ? ")" : "", sum.frames, sum.answers,
		 sum.sends, sum.zero_copies, sum.receives, sum.cuts, sum.unfenced);
}

const struct backend tcp_backend = {
	.name = "tcp",
	.transport = TENT_TRANSPORT_TCP,
	.open = tcp_create,
	.close = tcp_destroy,
	.queue_open = tcp_queue_open,
	.queue_close = tcp_queue_close,
	.reaches = tcp_reaches,
	.is_staged = true,
	.post = tcp_post,
	.peers_open = tcp_peers_open,
	.guest_open = tcp_guest_open,
	.guest_close = tcp_guest_close,
	.far_open = tcp_far_open,
	.far_close = tcp_far_close,
	.drop = tcp_drop,
	.loan_copied = tcp_loan_copied,
	.wait_fd = tcp_wait_fd,
	.facts = tcp_facts,
	.poll = tcp_poll,
	.cancel = tcp_cancel,
};
