/* SPDX-License-Identifier: Apache-2.0 */
/* other_host.c - see other_host.h. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/backends.h"
#include "perf/common/complain.h"
#include "perf/common/machine.h"
#include "perf/common/other_host.h"

static int fail(const char *what)
{
	fprintf(stderr, "other_host: %s: %s\n", what, strerror(errno));
	return -1;
}

/* ---- plain loops, in the other process --------------------------------- */

static bool move_all(int fd, uint8_t *bytes, size_t size, bool in, int flags)
{
	for (size_t done = 0; done < size; ) {
		ssize_t n = in ? recv(fd, bytes + done, size - done, flags) :
				 send(fd, bytes + done, size - done, flags | MSG_NOSIGNAL);

		if (n > 0)
			done += (size_t)n;
		else if (n == 0 || errno != EAGAIN)
			return false;
	}
	return true;
}

struct plain {
	int listener;
	uint64_t size;		/* of the memory that streams go round in, as tent's requests do */
};

/* In or out, round the memory, until the other side has enough. */
static void stream(int fd, uint8_t *bytes, uint64_t size, uint32_t piece, bool in)
{
	uint64_t at = 0;
	ssize_t n;

	do {
		n = in ? recv(fd, bytes + at, piece, 0) :
			 send(fd, bytes + at, piece, MSG_NOSIGNAL);
		at = at + 2 * (uint64_t)piece > size ? 0 : at + piece;
	} while (n > 0);
}

static void serve_plain(int fd, uint8_t *bytes, uint64_t size)
{
	struct plain_order o;
	int flags;

	if (!move_all(fd, (uint8_t *)&o, sizeof(o), true, 0) || o.bytes > size)
		return;
	flags = o.kind == PLAIN_ECHO ? MSG_DONTWAIT : 0;
	switch (o.kind) {
	case PLAIN_ECHO:
	case PLAIN_ECHO_BLOCKING:
		while (move_all(fd, bytes, o.bytes, true, flags) &&
		       move_all(fd, bytes, o.bytes, false, flags))
			;
		break;
	case PLAIN_SINK:
	case PLAIN_SOURCE:
		stream(fd, bytes, size, o.bytes, o.kind == PLAIN_SINK);
		break;
	}
}

static void *plain_main(void *arg)
{
	const struct plain *p = arg;
	uint8_t *bytes = malloc(p->size);
	int yes = 1;

	if (!bytes)
		return NULL;
	memset(bytes, 0x5a, p->size);
	machine_pin(machine_core(1));
	for (;;) {
		int fd = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0)
			break;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
		serve_plain(fd, bytes, p->size);
		close(fd);
	}
	free(bytes);
	return NULL;
}

static int listen_plain(uint16_t *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t size = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 4) < 0 ||
	    getsockname(fd, (struct sockaddr *)&a, &size) < 0)
		return fail("plain port");
	*port = ntohs(a.sin_port);
	return fd;
}

/* ---- engines ----------------------------------------------------------- */

static int open_engine(struct engine **e, struct tent_client **c, bool caller, bool io_uring)
{
	struct engine_config config;
	char error[256] = "";
	int fd;

	engine_config_default(&config);
	config.peers_enable = true;
	config.port_any = true;
	config.caller_mode = caller;
	config.tcp.io_uring = io_uring;
	config.cores[0] = caller ? -1 : machine_core(1);
	if (engine_create(e, &config, all_backends, error, sizeof(error))) {
		fprintf(stderr, "other_host: engine: %s\n", error);
		return -1;
	}
	fd = engine_attach_local(*e);
	return fd < 0 || tent_client_attach_fd(fd, NULL, c) ? complain_ring("attach") : 0;
}

static int open_memory(struct tent_client *c, uint64_t size, uint8_t **memory)
{
	void *p;

	if (tent_client_alloc(c, size, "*", &p) ||
	    tent_client_register(c, p, size, TENT_PERM_GLOBAL_READ_WRITE, NULL, 0))
		return complain_ring("memory");
	memset(p, 0x5a, size);
	*memory = p;
	return 0;
}


static int there_main(struct helper *h, const void *arg)
{
	struct plain plain = { .size = *(const uint64_t *)arg };
	struct engine *e = NULL;
	struct tent_client *c = NULL;
	pthread_t thread;
	uint8_t *memory;
	uint16_t port;
	char text[120];

	plain.listener = listen_plain(&port);
	if (plain.listener < 0 || open_engine(&e, &c, false, true) ||
	    open_memory(c, plain.size, &memory) ||
	    pthread_create(&thread, NULL, plain_main, &plain))
		return 1;
	snprintf(text, sizeof(text), "%s %" PRIu64 " %u", tent_client_segment(c),
		 (uint64_t)(uintptr_t)memory, port);
	helper_say(h, text);
	helper_wait(h);
	shutdown(plain.listener, SHUT_RDWR);
	pthread_join(thread, NULL);
	close(plain.listener);
	tent_client_detach(c);
	engine_destroy(e);
	return 0;
}

int other_host_start(struct other_host *h, uint64_t size)
{
	unsigned int port;

	memset(h, 0, sizeof(*h));
	if (process_start(&h->process, "other-host", there_main, &size))
		return -1;
	if (sscanf(h->process.said, "%63s %" SCNu64 " %u", h->segment, &h->memory, &port) != 3)
		return fail("what it said");
	h->port = (uint16_t)port;
	return 0;
}

int other_host_connect(const struct other_host *h, enum plain_kind kind, uint32_t bytes)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(h->port) };
	const struct plain_order o = { kind, bytes };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    send(fd, &o, sizeof(o), MSG_NOSIGNAL) != sizeof(o))
		return fail("connection");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	return fd;
}

/* ---- this host --------------------------------------------------------- */

int this_host_open(struct this_host *t, const struct other_host *h, uint64_t size,
		   bool io_uring)
{
	memset(t, 0, sizeof(*t));
	if (open_engine(&t->engine, &t->client, true, io_uring) ||
	    open_memory(t->client, size, &t->memory))
		return -1;
	if (tent_ring_open(t->client, 1024, 0, &t->ring))
		return complain_ring("ring");
	return tent_client_open_segment(t->client, h->segment, &t->segment) ?
	       complain_ring(h->segment) : 0;
}

void this_host_close(struct this_host *t)
{
	if (t->client)
		tent_client_detach(t->client);
	if (t->engine)
		engine_destroy(t->engine);
	t->client = NULL;
	t->engine = NULL;
}

int this_host_submit(struct this_host *t, const struct other_host *h, int opcode,
		     uint64_t mine, uint64_t theirs, uint64_t length, uint64_t user_data)
{
	const struct tent_request_v1 r = {
		.struct_size = sizeof(r), .schema_version = TENT_REQUEST_SCHEMA_V1,
		.opcode = opcode, .source = t->memory + mine, .target_id = t->segment,
		.target_offset = h->memory + theirs, .length = length,
	};

	return tent_ring_submit(t->ring, &r, 1, sizeof(r), user_data, 0);
}
