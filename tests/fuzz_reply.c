/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_reply.c - any bytes as an engine's replies and rings. The client's calls are
 * answered before they are made: the replies wait in the socket. Whatever they say, a
 * call ends with success or an error, touches no memory that was not checked, and
 * leaves no descriptor behind.
 *
 * Input: replies, each one byte for the call, one of mode, two of length and its bytes.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <tent/tentring.h>
#include <unistd.h>

#include "ring/ctl_io.h"
#include "ring/host.h"

#define CALLS_MAX 8
#define EPOCH 7

enum { RIGHT_HEAD = 1, RIGHT_SIZE = 2, GOOD_STATUS = 4, RIGHT_FDS = 8, BEND_MEMORY = 16 };
enum call { RING, ALLOC, REGISTER, UNREGISTER, OPEN, INFO, QUERY, EXPLAIN, CALLS };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct shape {
	uint16_t type;
	int nr_fds;
	size_t size;
};

static const struct shape shapes[CALLS] = {
	[RING] = { TENT_CTL_RING_OPEN, 4, sizeof(struct tent_ctl_ring_open_reply) },
	[ALLOC] = { TENT_CTL_MEM_ALLOC, 1, sizeof(struct tent_ctl_mem_alloc_reply) },
	[REGISTER] = { TENT_CTL_MEM_REGISTER, 0, sizeof(struct tent_ctl_plain_reply) },
	[UNREGISTER] = { TENT_CTL_MEM_UNREGISTER, 0, sizeof(struct tent_ctl_plain_reply) },
	[OPEN] = { TENT_CTL_SEGMENT_OPEN, 0, sizeof(struct tent_ctl_segment_open_reply) },
	[INFO] = { TENT_CTL_SEGMENT_INFO, 0, sizeof(struct tent_ctl_segment_info_reply) },
	[QUERY] = { TENT_CTL_QUERY, 1, sizeof(struct tent_ctl_query_reply) },
	[EXPLAIN] = { TENT_CTL_QUERY, 1, sizeof(struct tent_ctl_query_reply) },
};

/* What one call is answered with. */
struct scene {
	enum call call;
	struct ring_host host;
	struct shared_mem text;
};

static void need(bool ok)
{
	if (!ok)
		abort();
}

static void xor_in(void *to, size_t room, const uint8_t *data, size_t size)
{
	for (size_t i = 0; i < size && i < room; i++)
		((uint8_t *)to)[i] ^= data[i];
}

static void make_host(struct scene *s)
{
	const struct ring_geometry g = {
		.slot_count = 8, .completion_count = 8, .epoch = EPOCH,
		.features = TENT_RING_F_ADAPTIVE, .clock = { .tick_mult = 1 },
	};

	need(!ring_host_create(&s->host, &g));
}

/* Fields of a good reply; what the input says is laid over them. */
static void fill_good(struct scene *s, struct ctl_message *m)
{
	struct tent_ctl_ring_open_reply *ring = (void *)m->bytes;

	if (s->call == RING) {
		ring->ring_id = 1;
		ring->client_size = s->host.client_mem.size;
		ring->engine_size = s->host.engine_mem.size;
		memcpy(m->fds, (int[]){ s->host.client_mem.fd, s->host.engine_mem.fd,
					s->host.event_fd, s->host.completion_fd },
		       sizeof(m->fds));
	} else {
		m->fds[0] = m->fds[1] = m->fds[2] = m->fds[3] = s->text.fd;
	}
	if (s->call == ALLOC)
		((struct tent_ctl_mem_alloc_reply *)m->bytes)->length = s->text.size;
	if (s->call == QUERY || s->call == EXPLAIN)
		((struct tent_ctl_query_reply *)m->bytes)->length = 100;
}

/* Sends the answer to the call with this cookie. */
static void answer(struct scene *s, int fd, uint64_t cookie, uint8_t mode,
		   const uint8_t *data, size_t size)
{
	const struct shape *shape = &shapes[s->call];
	struct tent_ctl_status status = { .error = 0 };
	struct ctl_message m = { .nr_fds = mode >> 5 & 3 };

	fill_good(s, &m);
	if (mode & BEND_MEMORY && s->call == RING)
		xor_in(s->host.engine_mem.addr, 4096, data, size);
	else
		xor_in(m.bytes, sizeof(m.bytes), data, size);
	if (mode & RIGHT_FDS)
		m.nr_fds = shape->nr_fds;
	if (mode & RIGHT_SIZE)
		size = shape->size;
	if (size < sizeof(m.head))
		size = sizeof(m.head);
	if (mode & RIGHT_HEAD)
		m.head = (struct tent_ctl_head){ .type = shape->type | TENT_CTL_REPLY,
						 .cookie = cookie };
	if (mode & GOOD_STATUS)
		memcpy(m.bytes + sizeof(m.head), &status, sizeof(status));
	m.head.size = (uint32_t)size;
	need(!ctl_send(fd, &m, MSG_DONTWAIT));
}

/* A ring that was taken: its memory may say anything now. */
static void use_ring(struct tent_ring *r)
{
	struct tent_request_v1 request[3] = { { .struct_size = 88, .policy_name = "p" } };
	struct tent_completion done[8];

	for (int i = 0; i < 12; i++) {
		uint32_t room = tent_ring_room(r);

		need(room <= tent_ring_header(r)->slot_count);
		need(tent_ring_submit(r, request, 3, 88, 0, 0) == (room < 3 ? TENT_ERR_CAPACITY : 0));
		tent_ring_poll(r, done, 8);
		tent_ring_wait(r, 0);
		tent_ring_wait_consumed(r, (uint32_t)i, 0);
		tent_ring_arm(r);
		tent_ring_ticks_to_ns(r, done[0].seen_ticks);
	}
	tent_ring_end_rule(r);
	tent_ring_close(r);	/* its reply was not sent: the engine is gone */
}

static void run_call(struct tent_client *c, enum call call)
{
	struct tent_request_v1 request = { .struct_size = 88 };
	struct tent_segment_info info = { .buffers = NULL };
	struct tent_ring *ring = NULL;
	tent_segment_id_t id;
	char *json = NULL;
	void *p = NULL;

	switch (call) {
	case RING:
		if (!tent_ring_open(c, 0, 0, &ring))
			use_ring(ring);
		break;
	case ALLOC:
		if (!tent_client_alloc(c, 5000, NULL, &p))
			memset(p, 1, 5000);
		break;
	case REGISTER:
		tent_client_register(c, &request, sizeof(request), 0, NULL, 0);
		break;
	case UNREGISTER:
		tent_client_unregister(c, &request, 0);
		break;
	case OPEN:
		tent_client_open_segment(c, "x", &id);
		break;
	case INFO:
		if (!tent_client_segment_info(c, 1, &info))
			need(!info.num_buffers || info.buffers);
		free(info.buffers);
		break;
	case QUERY:
		if (!tent_client_query(c, TENT_QUERY_STATS, &json))
			need(json != NULL);
		break;
	default:
		if (!tent_client_explain(c, &request, 1, 88, &json))
			need(json != NULL);
	}
	free(json);
}

static struct tent_client *attach(int fd, int client_fd)
{
	struct tent_ctl_hello_reply *r;
	struct tent_client *c = NULL;
	struct ctl_message m = { .nr_fds = 0 };

	r = (void *)m.bytes;
	r->head = (struct tent_ctl_head){ .size = sizeof(*r), .cookie = 1,
					  .type = TENT_CTL_HELLO | TENT_CTL_REPLY };
	r->abi_major = TENT_RING_ABI_MAJOR;
	r->epoch = EPOCH;
	need(!ctl_send(fd, &m, 0));
	need(!tent_client_attach_fd(client_fd, NULL, &c));
	return c;
}

static void play(int fd, struct tent_client *c, const uint8_t *data, size_t size)
{
	struct scene s[CALLS_MAX];
	uint32_t nr = 0;

	for (; nr < CALLS_MAX && size >= 4; nr++) {
		size_t length = data[2] | (size_t)(data[3] & 15) << 8;

		s[nr].call = data[0] % CALLS;
		make_host(&s[nr]);
		need(!shared_mem_create(&s[nr].text, "fuzz", 8192, false));
		size -= 4;
		length = length < size ? length : size;
		answer(&s[nr], fd, nr + 2, data[1], data + 4, length);
		data += 4 + length;
		size -= length;
	}
	shutdown(fd, SHUT_WR);
	for (uint32_t i = 0; i < nr; i++)
		run_call(c, s[i].call);
	tent_client_detach(c);
	for (uint32_t i = 0; i < nr; i++) {
		ring_host_destroy(&s[i].host);
		shared_mem_destroy(&s[i].text);
	}
}

/* The lowest free descriptor: the same before and after when none was left. */
static int lowest_fd(void)
{
	int fd = dup(0);

	close(fd);
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int lowest = lowest_fd(), fds[2];

	need(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds));
	play(fds[0], attach(fds[0], fds[1]), data, size);
	close(fds[0]);
	need(lowest_fd() == lowest);
	return 0;
}
