/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring_fake.h - an engine for the ring tests: a thread that answers one client's
 * control messages and makes real rings and real memory, but moves nothing. The test
 * itself plays the poller on fake->hosts. Hooks bend a reply before it leaves.
 *
 * Header only: the ring tests also run alone, built for other CPUs.
 */
#ifndef TENT_TESTS_RING_FAKE_H
#define TENT_TESTS_RING_FAKE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <tent/tentring.h>

#include "ring/ctl_io.h"
#include "ring/host.h"
#include "tests/common/random.h"

#define FAKE_MAX 8
#define FAKE_EPOCH 0x1122334455667788u

struct fake {
	pthread_t thread;
	int fd, client_fd;
	struct ring_geometry g;		/* of the next rings */
	struct ring_host hosts[FAKE_MAX];
	uint32_t nr_hosts;
	struct shared_mem buffers[FAKE_MAX];
	uint32_t nr_buffers;
	uint32_t nr_segment_buffers;	/* what SEGMENT_INFO pretends to have */
	const char *json;		/* what QUERY answers */
	struct ctl_message last;	/* the last request but HELLO, without its fds */
	uint32_t seen[16];		/* requests by type */
	uint8_t *explained;		/* copy of the memfd of the last EXPLAIN */
	/* hooks */
	void (*bend)(struct fake *f, struct ctl_message *reply);
	void (*bend_ring)(struct ring_host *h);
	int argument;			/* for the hooks */
};

static inline void *fake_reply(struct ctl_message *m, size_t size)
{
	struct tent_ctl_head head = m->head;
	int nr_fds = m->nr_fds, fds[TENT_CTL_MAX_FDS];

	memcpy(fds, m->fds, sizeof(fds));
	memset(m, 0, sizeof(*m));
	memcpy(m->fds, fds, sizeof(fds));
	m->nr_fds = nr_fds;
	m->head = head;
	m->head.size = (uint32_t)size;
	m->head.type |= TENT_CTL_REPLY;
	return m->bytes;
}

static inline void fake_hello(struct ctl_message *m)
{
	struct tent_ctl_hello_reply *r = fake_reply(m, sizeof(*r));

	r->abi_major = TENT_RING_ABI_MAJOR;
	r->client_id = 7;
	r->epoch = FAKE_EPOCH;
	strcpy(r->segment, "127.0.0.1:15000/fake");
}

static inline void fake_ring_open(struct fake *f, struct ctl_message *m)
{
	struct tent_ctl_ring_open q = *(struct tent_ctl_ring_open *)m->bytes;
	struct tent_ctl_ring_open_reply *r = fake_reply(m, sizeof(*r));
	struct ring_host *h = &f->hosts[f->nr_hosts];
	struct ring_geometry g = f->g;

	if (q.slot_count)
		g.slot_count = q.slot_count;
	if (q.completion_count)
		g.completion_count = q.completion_count;
	if (ring_host_create(h, &g) < 0)
		abort();
	if (f->bend_ring)
		f->bend_ring(h);
	r->ring_id = f->nr_hosts + 1;
	store_release(&f->nr_hosts, r->ring_id); /* for a poller of the test's own */
	r->client_size = h->client_mem.size;
	r->engine_size = h->engine_mem.size;
	m->nr_fds = 4;
	m->fds[0] = h->client_mem.fd;
	m->fds[1] = h->engine_mem.fd;
	m->fds[2] = h->event_fd;
	m->fds[3] = h->completion_fd;
}

static inline void fake_mem_alloc(struct fake *f, struct ctl_message *m)
{
	struct tent_ctl_mem_alloc q = *(struct tent_ctl_mem_alloc *)m->bytes;
	struct tent_ctl_mem_alloc_reply *r = fake_reply(m, sizeof(*r));
	struct shared_mem *b = &f->buffers[f->nr_buffers];

	if (shared_mem_create(b, "fake", (size_t)q.length, false) < 0)
		abort();
	r->buffer_id = ++f->nr_buffers;
	r->length = b->size;
	m->nr_fds = 1;
	m->fds[0] = b->fd;
}

static inline void fake_segment_info(struct fake *f, struct ctl_message *m)
{
	struct tent_ctl_segment_info q = *(struct tent_ctl_segment_info *)m->bytes;
	struct tent_ctl_segment_info_reply *r = fake_reply(m, sizeof(*r));

	r->total = f->nr_segment_buffers;
	for (uint32_t i = q.first; i < r->total && r->count < TENT_CTL_BUFFERS_PER_REPLY; i++) {
		struct tent_ctl_buffer *b = &r->buffers[r->count++];

		b->base = 0x1000 * (i + 1);
		b->length = i + 1;
		memset(b->location, 'x', sizeof(b->location)); /* no NUL: a rude engine */
	}
}

static inline void fake_query(struct fake *f, struct ctl_message *m)
{
	struct tent_ctl_query q = *(struct tent_ctl_query *)m->bytes;
	size_t size = q.count * (sizeof(struct tent_slot) + TENT_CELL_SIZE);
	struct tent_ctl_query_reply *r;

	if (q.what == TENT_QUERY_EXPLAIN) {
		f->explained = realloc(f->explained, size);
		if (pread(m->fds[0], f->explained, size, 0) != (ssize_t)size)
			abort();
		ctl_close_fds(m);
	}
	r = fake_reply(m, sizeof(*r));
	r->length = strlen(f->json);
	m->fds[0] = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	m->nr_fds = 1;
	if (write(m->fds[0], f->json, strlen(f->json)) != (ssize_t)strlen(f->json))
		abort();
}

/* Fills the reply in; descriptors of the reply stay the fake's. */
static inline void fake_answer(struct fake *f, struct ctl_message *m)
{
	struct tent_ctl_segment_open_reply *s;

	switch (m->head.type) {
	case TENT_CTL_HELLO:
		fake_hello(m);
		break;
	case TENT_CTL_RING_OPEN:
		fake_ring_open(f, m);
		break;
	case TENT_CTL_MEM_ALLOC:
		fake_mem_alloc(f, m);
		break;
	case TENT_CTL_SEGMENT_OPEN:
		s = fake_reply(m, sizeof(*s));
		s->segment_id = 42;
		break;
	case TENT_CTL_SEGMENT_INFO:
		fake_segment_info(f, m);
		break;
	case TENT_CTL_QUERY:
		fake_query(f, m);
		break;
	default:
		ctl_close_fds(m);
		fake_reply(m, sizeof(struct tent_ctl_plain_reply));
	}
}

/* Until the client hangs up; then closes, as an engine does that has let go. */
static inline void *fake_serve(void *arg)
{
	struct fake *f = arg;
	struct ctl_message m;

	while (ctl_recv(f->fd, &m, 0) == 0) {
		uint16_t type = m.head.type;

		f->seen[type & 15]++;
		if (type != TENT_CTL_HELLO)
			f->last = m;
		fake_answer(f, &m);
		if (f->bend)
			f->bend(f, &m);
		if (ctl_send(f->fd, &m, 0) < 0)
			break;
		if (type == TENT_CTL_QUERY)
			ctl_close_fds(&m);
	}
	close(f->fd);
	return NULL;
}

static inline struct ring_geometry fake_geometry(uint32_t slots, uint32_t completions,
						 uint32_t first, uint32_t features)
{
	struct ring_geometry g = {
		.slot_count = slots, .completion_count = completions,
		.first_position = first, .features = features, .epoch = FAKE_EPOCH,
		.clock = { .tick_mult = 1u << 31 },
	};
	return g;
}

static inline struct fake *fake_start(struct ring_geometry g)
{
	struct fake *f = calloc(1, sizeof(*f));
	int fds[2];

	assert_non_null(f);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	f->g = g;
	f->json = "{}";
	f->fd = fds[0];
	f->client_fd = fds[1];
	assert_int_equal(pthread_create(&f->thread, NULL, fake_serve, f), 0);
	return f;
}

/* After the client has detached. */
static inline void fake_stop(struct fake *f)
{
	pthread_join(f->thread, NULL);
	for (uint32_t i = 0; i < f->nr_hosts; i++)
		ring_host_destroy(&f->hosts[i]);
	for (uint32_t i = 0; i < f->nr_buffers; i++)
		shared_mem_destroy(&f->buffers[i]);
	free(f->explained);
	free(f);
}

static inline struct tent_client *fake_attach(struct fake *f)
{
	struct tent_client *c = NULL;

	assert_int_equal(tent_client_attach_fd(f->client_fd, "fake", &c), 0);
	return c;
}

/* A fake engine, a client and one ring of it. */
struct pair {
	struct fake *fake;
	struct tent_client *client;
	struct tent_ring *ring;
	struct ring_host *host;
};

static inline void pair_open(struct pair *p, struct ring_geometry g)
{
	p->fake = fake_start(g);
	p->client = fake_attach(p->fake);
	assert_int_equal(tent_ring_open(p->client, 0, 0, &p->ring), 0);
	p->host = &p->fake->hosts[0];
}

static inline void pair_close(struct pair *p)
{
	tent_ring_close(p->ring);
	tent_client_detach(p->client);
	fake_stop(p->fake);
}

/* The engine judges the batch at the head: its nr, and the ring moves on. */
static inline uint32_t engine_take(struct ring_host *h)
{
	uint32_t nr;

	assert_true(ring_host_peek(h, &nr));
	ring_host_consume(h, h->consumed + nr);
	return nr;
}

/* The engine completes one request, or a whole batch of credits. */
static inline void engine_complete(struct ring_host *h, uint64_t user_data, uint32_t credits)
{
	struct tent_completion *c = ring_host_next(h);

	memset((uint8_t *)c + 8, 0, sizeof(*c) - 8);
	c->user_data = user_data;
	c->credits = credits;
	c->count = credits;
	ring_host_publish(h, c, 0, TENT_STATUS_COMPLETED, TENT_TRANSPORT_SHM);
}

static inline struct tent_error_info last_error(void)
{
	struct tent_error_info info = { .size = sizeof(info) };

	assert_int_equal(tent_client_error(&info), 0);
	return info;
}

/* Descriptors this process has open. */
static inline int count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Visible in the output, unlike a test that just returns. */
#define skip_because(...)			\
	do {					\
		print_message(__VA_ARGS__);	\
		skip();				\
	} while (0)

/* qemu-user answers 0 to every advice and follows none, among other differences. */
static inline bool is_emulated(void)
{
	static char page[4096] __attribute__((aligned(4096)));

	return madvise(page, sizeof(page), 12345) == 0;
}

/* A fake engine and a client of it. */
struct session {
	struct fake *fake;
	struct tent_client *client;
};

static inline int open_session(void **state)
{
	struct session *s = calloc(1, sizeof(*s));

	s->fake = fake_start(fake_geometry(8, 8, 0, 0));
	s->client = fake_attach(s->fake);
	*state = s;
	return 0;
}

static inline int close_session(void **state)
{
	struct session *s = *state;

	tent_client_detach(s->client);
	fake_stop(s->fake);
	free(s);
	return 0;
}

#define IN_SESSION(test) cmocka_unit_test_setup_teardown(test, open_session, close_session)

#endif /* TENT_TESTS_RING_FAKE_H */
