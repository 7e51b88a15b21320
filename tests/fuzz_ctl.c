/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_ctl.c - any bytes as control messages to an engine with a socket. Whatever comes:
 * each message is answered or the connection ends, no descriptor stays behind, and an
 * honest client is served meanwhile.
 *
 * Input: messages, each one byte of mode, one of type, two of length, and its bytes.
 * The mode says how much of the head is made right, or no message would get further.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <tent/tentring.h>
#include <unistd.h>

#include "engine/engine.h"
#include "io/backends.h"
#include "ring/ctl_io.h"
#include "ring/mem.h"

#define MESSAGES_MAX 16
#define MEMORY_MAX (16u << 20)

enum { RIGHT_HEAD = 1, RIGHT_SIZE = 2, SAY_HELLO = 4, SMALL_NUMBERS = 8, END_TEXTS = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct engine *engine;
static struct tent_client *honest;
static char dir[] = "/tmp/tent-fuzz-XXXXXX", path[64];
static int memfd;	/* sealed; what messages carry */

static void need(bool ok)
{
	if (!ok)
		abort();
}

static void stop(void)
{
	tent_client_detach(honest);
	engine_destroy(engine);
	unlink(path);
	rmdir(dir);
}

static void start(void)
{
	static const struct backend *const backends[] = { &shm_backend, &null_backend, NULL };
	struct engine_config config;
	struct shared_mem m;
	char error[256];

	engine_config_default(&config);
	config.caller_mode = true;
	config.memory_max = MEMORY_MAX;
	need(!engine_create(&engine, &config, backends, error, sizeof(error)));
	need(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/sock", dir);
	need(!engine_listen(engine, path));
	need(!tent_client_attach(path, "honest", &honest));
	need(!shared_mem_create(&m, "fuzz", 65536, false));
	memfd = m.fd;
	atexit(stop);
}

static int dial(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strcpy(a.sun_path, path);
	need(fd >= 0 && !connect(fd, (struct sockaddr *)&a, sizeof(a)));
	return fd;
}

/* 0: answered, and *reply holds it; else the connection is over. */
static int exchange_raw(int fd, const struct ctl_message *m, size_t size, struct ctl_message *reply)
{
	struct iovec v = { (void *)(uintptr_t)m->bytes, size };
	char control[CMSG_SPACE(sizeof(int) * 4)] __attribute__((aligned(8))) = { 0 };
	struct msghdr h = { .msg_iov = &v, .msg_iovlen = 1 };

	if (m->nr_fds) {
		struct cmsghdr *c = (struct cmsghdr *)control;

		h.msg_control = control;
		h.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)m->nr_fds);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)m->nr_fds);
		memcpy(CMSG_DATA(c), m->fds, sizeof(int) * (size_t)m->nr_fds);
	}
	if (sendmsg(fd, &h, MSG_NOSIGNAL) < 0)
		return -1;
	return ctl_recv(fd, reply, 0);
}

static bool say_hello(int fd)
{
	struct ctl_message m = { .nr_fds = 0 }, reply;
	struct tent_ctl_hello *h = (void *)m.bytes;

	h->head = (struct tent_ctl_head){ .size = sizeof(*h), .type = TENT_CTL_HELLO };
	h->abi_major = TENT_RING_ABI_MAJOR;
	return exchange_raw(fd, &m, sizeof(*h), &reply) == 0;
}

static uint32_t size_of(uint16_t type)
{
	static const uint32_t sizes[] = {
		[TENT_CTL_HELLO] = sizeof(struct tent_ctl_hello),
		[TENT_CTL_RING_OPEN] = sizeof(struct tent_ctl_ring_open),
		[TENT_CTL_RING_CLOSE] = sizeof(struct tent_ctl_id),
		[TENT_CTL_MEM_ALLOC] = sizeof(struct tent_ctl_mem_alloc),
		[TENT_CTL_MEM_FREE] = sizeof(struct tent_ctl_id),
		[TENT_CTL_MEM_REGISTER] = sizeof(struct tent_ctl_mem_register),
		[TENT_CTL_MEM_UNREGISTER] = sizeof(struct tent_ctl_mem_unregister),
		[TENT_CTL_SEGMENT_OPEN] = sizeof(struct tent_ctl_segment_open),
		[TENT_CTL_SEGMENT_CLOSE] = sizeof(struct tent_ctl_id),
		[TENT_CTL_SEGMENT_INFO] = sizeof(struct tent_ctl_segment_info),
		[TENT_CTL_QUERY] = sizeof(struct tent_ctl_query),
		[TENT_CTL_INBOX_OPEN] = sizeof(struct tent_ctl_head),
		[TENT_CTL_INBOX_TAKEN] = sizeof(struct tent_ctl_id),
	};

	return type && type < sizeof(sizes) / sizeof(sizes[0]) ? sizes[type] : 64;
}

/* Ids, counts and lengths that mean something are small; base and offset are pages. */
static void shrink_numbers(struct ctl_message *m, size_t size)
{
	for (size_t at = sizeof(m->head); at + 8 <= size; at += 8) {
		uint64_t *word = (uint64_t *)(void *)(m->bytes + at);

		*word = (*word & 0x000000070000000f) | (*word >> 62 == 3 ? 0x1000 : 0);
	}
}

static void end_texts(struct ctl_message *m, size_t size)
{
	m->bytes[size - 1] = '\0';
	if (m->head.type == TENT_CTL_QUERY)
		m->bytes[size - 1] = (uint8_t)m->head.nr_fds; /* no text: count's top */
}

/* Builds the next message; how many bytes it is long. */
static size_t build(struct ctl_message *m, uint8_t mode, uint16_t type, const uint8_t *data,
		    size_t size)
{
	size_t length = mode & RIGHT_SIZE ? size_of(type) : size;

	memset(m, 0, sizeof(*m));
	if (length < sizeof(m->head))
		length = sizeof(m->head);
	memcpy(m->bytes, data, size < length ? size : length);
	m->nr_fds = mode >> 5 & 3;
	for (int i = 0; i < m->nr_fds; i++)
		m->fds[i] = memfd;
	if (mode & RIGHT_HEAD) {
		m->head.size = (uint32_t)length;
		m->head.type = type;
		m->head.nr_fds = (uint16_t)m->nr_fds;
	}
	if (mode & SMALL_NUMBERS)
		shrink_numbers(m, length);
	if (mode & END_TEXTS)
		end_texts(m, length);
	return length;
}

/* What a reply to this message has to look like. */
static void check_reply(const struct ctl_message *m, const struct ctl_message *reply)
{
	const struct tent_ctl_plain_reply *r = (const void *)reply->bytes;

	need(reply->head.size >= sizeof(*r));
	need(reply->head.type == (uint16_t)(m->head.type | TENT_CTL_REPLY));
	need(reply->head.cookie == m->head.cookie);
	need(memchr(r->status.message, '\0', sizeof(r->status.message)));
	if (!r->status.error)
		return;
	need(reply->head.size == sizeof(*r) && !reply->nr_fds);
	need(r->status.error < 0 && r->status.error >= TENT_ERR_CONFIG && r->status.message[0]);
}

static void check_honest(void)
{
	tent_segment_id_t id;

	need(!tent_client_open_segment(honest, tent_client_segment(honest), &id) && !id);
}

/* Sends what is in the input until the connection ends. */
static void talk(int fd, const uint8_t *data, size_t size)
{
	struct ctl_message m, reply;

	for (int i = 0; i < MESSAGES_MAX && size >= 4; i++) {
		size_t length = data[2] | (size_t)(data[3] & 15) << 8, sent;

		length = length < size - 4 ? length : size - 4;
		sent = build(&m, data[0], data[1] % 14, data + 4, length);
		if (exchange_raw(fd, &m, sent, &reply))
			return;
		check_reply(&m, &reply);
		ctl_close_fds(&reply);
		data += 4 + length;
		size -= 4 + length;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ctl_message m;
	int fd;

	if (!engine)
		start();
	fd = dial();
	if (!size || !(data[0] & SAY_HELLO) || say_hello(fd))
		talk(fd, data, size);
	check_honest();
	/* Its end is over when the engine's comes: then nothing of it is left. */
	shutdown(fd, SHUT_WR);
	while (ctl_recv(fd, &m, 0) != -EPIPE)
		ctl_close_fds(&m);
	close(fd);
	return 0;
}
