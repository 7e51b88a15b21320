/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "sim/hca/front/card.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "sim/hca/front/descriptor.h"
#include "sim/hca/front/trace.h"

struct process process = { .kick_fd = -1 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int cancel_state;		/* of the lock's holder, before */
static unsigned nr_waiting;
#define MOMENT_NS 100000
#define MAX_EXIT_MOMENTS 5000
#define MAX_CATCH_UP_ROUNDS 1024	/* more than a socket holds: a peer may never pause */

/* System calls may end a thread that is cancelled, and with it the lock would be lost. */
void card_lock(void)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	__atomic_add_fetch(&nr_waiting, 1, __ATOMIC_RELAXED);
	pthread_mutex_lock(&lock);
	__atomic_sub_fetch(&nr_waiting, 1, __ATOMIC_RELAXED);
	cancel_state = before;
}

void card_unlock(void)
{
	int before = cancel_state;

	pthread_mutex_unlock(&lock);
	pthread_setcancelstate(before, NULL);
}

/* The mutex alone would let one who unlocks and locks again have it each time: the others
 * need a moment to wake. */
void card_give_way(void)
{
	uint64_t start = 0;

	while (__atomic_load_n(&nr_waiting, __ATOMIC_RELAXED)) {
		if (!start)
			start = card_now_ns();
		else if (card_now_ns() - start > MOMENT_NS)
			break;
		sched_yield();
	}
}

uint64_t card_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- what the engine and the commands need of the world -------------------------- */

static const struct host_device *device_of(const struct card *card)
{
	return &host_table(process.host)->devices[card->index];
}

static struct host_memory_device *memory_of(const struct card *card)
{
	return &host_memory(process.host)->devices[card->index];
}

static void env_send(void *ctx, const struct hca_packet *p)
{
	wire_send(process.wire, ((struct card *)ctx)->index, p);
}

static uint64_t env_now_ns(void *ctx)
{
	(void)ctx;
	return card_now_ns();
}

static uint32_t env_port_mtu_bytes(void *ctx, uint8_t port)
{
	return __atomic_load_n(&device_of(ctx)->ports[port - 1].active_mtu_bytes, __ATOMIC_RELAXED);
}

static void env_cq_event(void *ctx, void *cookie)
{
	(void)ctx;
	uverbs_cq_event(cookie);
}

static void env_async_event(void *ctx, enum hca_event event, void *cookie)
{
	(void)ctx;
	uverbs_async_event(event, cookie);
}

static void env_trace(void *ctx, const char *line)
{
	trace_line(((struct card *)ctx)->index, line);
}

static int env_event_open(void *ctx, struct event_queue *q)
{
	(void)ctx;
	return descriptor_open_events(q);
}

static void env_event_abandon(void *ctx, int fd)
{
	(void)ctx;
	descriptor_abandon_events(fd);
}

static struct event_queue *env_event_of(void *ctx, int fd)
{
	(void)ctx;
	return descriptor_events(fd);
}

static void env_port(void *ctx, unsigned port, struct uverbs_port *out)
{
	const struct host_port *p = &device_of(ctx)->ports[port - 1];

	*out = (struct uverbs_port){
		.is_ethernet = p->wire.is_ethernet,
		.is_up = p->state == HOST_PORT_ACTIVE,
		.active_mtu_bytes = p->active_mtu_bytes,
		.lid = (uint16_t)p->wire.lid,
	};
}

static bool env_gid(void *ctx, unsigned port, unsigned index, uint8_t gid[16])
{
	const struct card *card = ctx;

	return host_gid(host_table(process.host), card->index, port, index, gid);
}

static uint64_t env_max_mr_bytes(void *ctx)
{
	uint64_t limit = __atomic_load_n(&memory_of(ctx)->front.max_mr_bytes, __ATOMIC_RELAXED);

	return limit ? limit : UINT64_MAX;
}

/* Counts down, in whichever process they are. */
static int refuse_one_of(uint32_t *left)
{
	uint32_t n = __atomic_load_n(left, __ATOMIC_RELAXED);

	if (n == UINT32_MAX)
		return -ENOMEM;
	while (n && !__atomic_compare_exchange_n(left, &n, n - 1, false, __ATOMIC_RELAXED,
						 __ATOMIC_RELAXED))
		;
	return n ? -ENOMEM : 0;
}

static int env_refuse_mr(void *ctx)
{
	return refuse_one_of(&memory_of(ctx)->front.reg_mr_fails);
}

static int env_refuse_qp(void *ctx)
{
	return refuse_one_of(&memory_of(ctx)->front.create_qp_fails);
}

static bool env_takes_dma_bufs(void *ctx)
{
	return !__atomic_load_n(&memory_of(ctx)->front.no_dma_buf, __ATOMIC_RELAXED);
}

static bool env_takes_peers(void *ctx)
{
	return __atomic_load_n(&memory_of(ctx)->front.peer_memory, __ATOMIC_RELAXED);
}

bool card_is_forbidden(const struct card *card)
{
	return __atomic_load_n(&memory_of(card)->front.no_permission, __ATOMIC_RELAXED);
}

/* ---- joining the host ---------------------------------------------------------- */

static int open_wire(void)
{
	struct wire_device devices[HOST_MAX_DEVICES];
	struct wire_config c = {
		.fd = host_udp_fd(process.host),
		.devices = devices,
		.nr_devices = host_wire_devices(process.host, devices),
		.use_gso = host_table(process.host)->use_gso,
		.now_ns = env_now_ns,
	};

	return wire_open(&process.wire, &c);
}

bool process_is_ours(void)
{
	return getpid() == process.owner;
}

int process_join(void)
{
	int rc;

	if (process.host)
		return 0;
	rc = host_join(&process.host);
	if (rc)
		return rc == -ENOENT ? -ENODEV : rc;
	uar_init();
	rc = open_wire();
	if (!rc)
		rc = thread_start();
	if (!rc)
		return 0;
	if (process.wire)
		wire_close(process.wire);
	host_leave(process.host);
	process.wire = NULL;
	process.host = NULL;
	return rc;
}

static int make_engine(struct card *card)
{
	const struct host_port *port = &device_of(card)->ports[0];
	uint32_t slot = host_slot(process.host);
	struct hca_config c = {
		.env = &card->hca_env,
		.faults = &memory_of(card)->engine,
		.counters = &memory_of(card)->slots[slot].engine,
		.gauges = &memory_of(card)->slots[slot].gauges,
		.is_ethernet = port->wire.is_ethernet,
		.first_qpn = slot << HOST_SLOT_SHIFT,
		.nr_qpns = 1U << HOST_SLOT_SHIFT,
	};

	uverbs_fill_config(&c);
	card->hca_env = (struct hca_env){
		.ctx = card,
		.send = env_send,
		.now_ns = env_now_ns,
		.port_mtu_bytes = env_port_mtu_bytes,
		.cq_event = env_cq_event,
		.async_event = env_async_event,
		.trace = trace_is_on() ? env_trace : NULL,
	};
	return hca_create(&card->uverbs.hca, &c);
}

static struct card *make_card(uint32_t index, int *error)
{
	struct card *card = calloc(1, sizeof(*card));

	*error = -ENOMEM;
	if (!card)
		return NULL;
	card->index = index;
	card->next_ns = UINT64_MAX;
	*error = make_engine(card);
	if (*error) {
		free(card);
		return NULL;
	}
	card->uverbs_env = (struct uverbs_env){
		.ctx = card,
		.event_open = env_event_open,
		.event_abandon = env_event_abandon,
		.event_of = env_event_of,
		.port = env_port,
		.gid = env_gid,
		.max_mr_bytes = env_max_mr_bytes,
		.refuse_mr = env_refuse_mr,
		.refuse_qp = env_refuse_qp,
		.takes_dma_bufs = env_takes_dma_bufs,
		.takes_peers = env_takes_peers,
		.uars_used = uar_find_mappings,
		.uar_freed = uar_freed,
	};
	card->uverbs.env = &card->uverbs_env;
	card->uverbs.node_guid = device_of(card)->node_guid;
	card->uverbs.nr_ports = device_of(card)->nr_ports;
	card->uverbs.is_removed = device_of(card)->is_removed;
	return card;
}

struct card *card_get(uint32_t index, int *error)
{
	*error = process_join();
	if (*error)
		return NULL;
	*error = -ENODEV;
	if (index >= HOST_MAX_DEVICES || index >= host_table(process.host)->nr_devices)
		return NULL;
	if (!process.cards[index])
		process.cards[index] = make_card(index, error);
	return process.cards[index];
}

/* ---- time ------------------------------------------------------------------------ */

void card_settle(struct card *card)
{
	uint64_t next;

	if (card->is_stale)
		return;
	card->next_ns = hca_timers(card->uverbs.hca);
	wire_flush(process.wire);
	next = wire_next_ns(process.wire);
	if (card->next_ns < next)
		next = card->next_ns;
	if (next < process.wakes_at_ns)
		thread_kick();
}

uint64_t card_run(void)
{
	uint64_t next;

	uar_run_deferred();
	wire_run(process.wire);
	for (int i = 0; i < HOST_MAX_DEVICES; i++)
		if (process.cards[i])
			process.cards[i]->next_ns = hca_timers(process.cards[i]->uverbs.hca);
	wire_flush(process.wire);
	next = wire_next_ns(process.wire);
	for (int i = 0; i < HOST_MAX_DEVICES; i++)
		if (process.cards[i] && process.cards[i]->next_ns < next)
			next = process.cards[i]->next_ns;
	return next;
}

/* True: a packet is held back by a fault, or another thread is about to send one. */
static bool is_packet_held(void)
{
	bool is_held;

	if (pthread_mutex_trylock(&lock))
		return true;
	wire_run(process.wire);
	wire_flush(process.wire);
	is_held = wire_next_ns(process.wire) != UINT64_MAX;
	pthread_mutex_unlock(&lock);
	return is_held;
}

/* A packet that is late is on the wire: it does not end with the process that sent it. The
 * peer may still wait for the last acknowledgement. */
__attribute__((destructor)) static void let_packets_go(void)
{
	struct timespec pause = { .tv_nsec = MOMENT_NS };

	if (!process.wire || !process_is_ours())
		return;
	for (int i = 0; i < MAX_EXIT_MOMENTS && is_packet_held(); i++)
		nanosleep(&pause, NULL);
}

/* ---- the order of packets that go different ways ---------------------------------- */

void card_send_first(void)
{
	struct timespec t;
	uint64_t last_ns;

	if (!process_is_ours())
		return;
	thread_poll_doorbells();
	card_lock();
	last_ns = process.wire ? wire_last_ns(process.wire) : 0;
	card_unlock();
	t = (struct timespec){ .tv_sec = (time_t)(last_ns / 1000000000),
			       .tv_nsec = (long)(last_ns % 1000000000) };
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
	card_lock();
	if (process.wire)
		card_run();
	card_unlock();
}

void card_receive_first(void)
{
	for (int i = 0; i < MAX_CATCH_UP_ROUNDS && process_is_ours(); i++)
		if (!thread_take_packets())
			return;
}

/* ---- what the holder tells --------------------------------------------------------- */

static void remove_card(struct card *card)
{
	if (card->uverbs.is_removed)
		return;
	card->uverbs.is_removed = true;
	hca_remove(card->uverbs.hca);
	uverbs_port_event(&card->uverbs, IBV_EVENT_DEVICE_FATAL, 0);
}

void card_host_event(const struct host_event *e)
{
	struct card *card = e->device < HOST_MAX_DEVICES ? process.cards[e->device] : NULL;

	if (!card || card->uverbs.is_removed)
		return;
	if (e->ibv_event == IBV_EVENT_DEVICE_FATAL)
		remove_card(card);
	else
		uverbs_port_event(&card->uverbs, (int)e->ibv_event, e->port);
}

void card_host_lost(void)
{
	for (int i = 0; i < HOST_MAX_DEVICES; i++)
		if (process.cards[i])
			remove_card(process.cards[i]);
}

/* ---- fork ---------------------------------------------------------------------------- */

/* The child shares sockets and pages with its parent but is another process to the host:
 * it lets go of all, and joins anew when it opens a device itself. */
static void fork_child(void)
{
	struct host *host;

	for (int i = 0; i < HOST_MAX_DEVICES; i++) {
		if (process.cards[i])
			process.cards[i]->is_stale = true;
		process.cards[i] = NULL;
	}
	descriptor_inherit();
	host = process.host;
	process.host = NULL;
	if (host)
		host_leave(host);
	process.wire = NULL;		/* its memory is left: others may have been in it */
	process.owner = getpid();
	thread_forget();
	nr_waiting = 0;
	pthread_mutex_init(&lock, NULL);
	pthread_setcancelstate(cancel_state, NULL);
}

__attribute__((constructor)) static void watch_forks(void)
{
	process.owner = getpid();
	pthread_atfork(card_lock, card_unlock, fork_child);
}
