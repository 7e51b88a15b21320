/* SPDX-License-Identifier: Apache-2.0 */
/* wire.c - a peer of an engine, played on a socket. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/common/wire.h"

void wire_set(struct engine_config *c, const char *key, const char *value)
{
	struct config_report r;

	if (engine_config_apply_key(c, key, value, &r))
		fail_msg("%s", r.error);
}

void wire_tune(struct engine_config *c)
{
	wire_set(c, "peers/enable", "true");
	wire_set(c, "rpc_server_hostname", "127.0.0.1");
}

struct engine_address wire_address(const struct engine_fix *f)
{
	struct tent_client *c = engine_fix_attach(f, NULL);
	struct segment_name n;

	assert_null(segment_name_read(tent_client_segment(c), &n));
	tent_client_detach(c);
	return n.engine;
}

char *wire_fault(const struct engine_fix *f)
{
	struct tent_client *c;
	char *answer = NULL, *fault;
	json_t *root;

	assert_int_equal(tent_client_observe(f->path, &c), 0);
	assert_int_equal(tent_client_query(c, TENT_QUERY_PEERS, &answer), 0);
	tent_client_detach(c);
	root = json_loads(answer, 0, NULL);
	free(answer);
	assert_non_null(root);
	fault = strdup(json_string_value(json_object_get(root, "last_fault")));
	json_decref(root);
	assert_non_null(fault);
	return fault;
}

void wire_expect_fault(const struct engine_fix *f, const char *text)
{
	char *fault = wire_fault(f);

	if (!strstr(fault, text))
		fail_msg("\"%s\" is not \"%s\"", fault, text);
	free(fault);
}

void wire_secret_file(char path[64], const char *secret)
{
	int fd;

	strcpy(path, "/tmp/tent-secret-XXXXXX");
	fd = mkostemp(path, O_CLOEXEC);		/* mode 0600 */
	assert_true(fd >= 0);
	assert_int_equal(write(fd, secret, strlen(secret)), strlen(secret));
	close(fd);
}

static void dial(struct wire *w, const struct engine_address *a, int room)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *to;
	char port[8];
	int yes = 1;

	memset(w, 0, sizeof(*w));
	frame_reader_init(&w->reader, FRAME_MAX);
	snprintf(port, sizeof(port), "%u", a->port);
	assert_int_equal(getaddrinfo(a->host, port, &hints, &to), 0);
	w->fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(w->fd >= 0);
	if (room)
		setsockopt(w->fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	setsockopt(w->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	if (connect(w->fd, to->ai_addr, to->ai_addrlen) < 0)
		fail_msg("connect: %s", strerror(errno));
	freeaddrinfo(to);
}

void wire_dial(struct wire *w, const struct engine_address *a)
{
	dial(w, a, 0);
}

void wire_dial_small(struct wire *w, const struct engine_address *a)
{
	dial(w, a, 16384);
}

void wire_close(struct wire *w)
{
	frame_reader_free(&w->reader);
	tls_session_free(w->tls);
	w->tls = NULL;
	close(w->fd);
	w->fd = -1;
}

static bool write_clear(struct wire *w, const void *bytes, size_t size)
{
	for (size_t sent = 0; sent < size; ) {
		ssize_t n = send(w->fd, (const char *)bytes + sent, size - sent, MSG_NOSIGNAL);

		if (n < 0)
			return false;
		sent += (size_t)n;
	}
	return true;
}

/* What TLS has to say. */
static bool write_said(struct wire *w)
{
	uint8_t bytes[4096];
	size_t n;

	while ((n = tls_take(w->tls, bytes, sizeof(bytes))))
		if (!write_clear(w, bytes, n))
			return false;
	return true;
}

bool wire_write(struct wire *w, const void *bytes, size_t size)
{
	if (!w->tls)
		return write_clear(w, bytes, size);
	return tls_write(w->tls, bytes, size) && write_said(w);
}

void wire_send(struct wire *w, json_t *frame)
{
	size_t size;
	uint8_t *bytes = frame_bytes(frame, &size);

	assert_non_null(bytes);
	wire_write(w, bytes, size);
	free(bytes);
}

/* More bytes, at most as many as the frame needs would be wasteful: all there are. */
static bool fill_clear(struct wire *w, int wait_ms)
{
	struct pollfd p = { .fd = w->fd, .events = POLLIN };
	ssize_t n;

	if (poll(&p, 1, wait_ms) != 1)
		return false;
	n = recv(w->fd, w->bytes, sizeof(w->bytes), 0);
	w->used = n > 0 ? (size_t)n : 0;
	return n > 0;
}

/* Goes on until TLS has bytes for us, is up, or needs what does not come. */
static enum tls_result read_secret(struct wire *w, int wait_ms)
{
	enum tls_result result;

	for (;;) {
		result = tls_read(w->tls, w->bytes, sizeof(w->bytes), &w->used);
		write_said(w);
		if (result != TLS_MORE || !fill_clear(w, wait_ms))
			return result;
		assert_true(tls_put(w->tls, w->bytes, w->used));
		w->used = 0;
	}
}

static bool fill(struct wire *w, int wait_ms)
{
	return w->tls ? read_secret(w, wait_ms) == TLS_BYTES : fill_clear(w, wait_ms);
}

const char *wire_secret(struct wire *w, const struct tls *tls)
{
	w->tls = tls_session_create(tls, true);
	assert_non_null(w->tls);
	switch (read_secret(w, WIRE_WAIT_MS)) {
	case TLS_UP:
		return NULL;
	case TLS_FAULT:
		return tls_fault(w->tls);
	default:
		return "it ended";
	}
}

json_t *wire_receive(struct wire *w, int wait_ms)
{
	json_t *frame = NULL;
	size_t taken;

	while (w->used || fill(w, wait_ms)) {
		enum frame_result result = frame_read(&w->reader, w->bytes, w->used, &taken,
						      &frame);

		assert_true(result >= 0);
		w->used -= taken;
		memmove(w->bytes, w->bytes + taken, w->used);
		if (result == FRAME_WHOLE)
			return frame;
	}
	return NULL;
}

json_t *wire_expect(struct wire *w, const char *type)
{
	json_t *frame = wire_receive(w, WIRE_WAIT_MS);

	if (!frame)
		fail_msg("no %s came", type);
	if (strcmp(type, "ping") != 0 && strcmp(frame_text(frame, "type", 32), "ping") == 0) {
		json_decref(frame);
		wire_send(w, json_pack("{s:s}", "type", "pong"));
		return wire_expect(w, type);
	}
	if (strcmp(frame_text(frame, "type", 32), type) != 0)
		fail_msg("not %s came, but %s", type, json_dumps(frame, 0));
	return frame;
}

void wire_expect_end(struct wire *w)
{
	json_t *frame;

	while ((frame = wire_receive(w, WIRE_WAIT_MS)))
		json_decref(frame);
	while (fill_clear(w, WIRE_WAIT_MS))
		;		/* what nobody understands: TLS came to no agreement */
	assert_true(recv(w->fd, w->bytes, 1, MSG_DONTWAIT) == 0 || errno == ECONNRESET);
}

void wire_expect_refusal(struct wire *w, const char *reason)
{
	json_t *frame = wire_expect(w, "refused");

	if (!strstr(frame_text(frame, "reason", 200), reason))
		fail_msg("%s is not why: %s", reason, frame_text(frame, "reason", 200));
	json_decref(frame);
	wire_expect_end(w);
}

json_t *wire_hello(uint64_t epoch)
{
	return json_pack("{s:s,s:o,s:s}", "type", "hello", "epoch", frame_hex(epoch),
			 "name", "");
}

void wire_join(struct wire *w, const struct engine_address *a, uint64_t epoch)
{
	wire_dial(w, a);
	wire_send(w, wire_hello(epoch));
	json_decref(wire_expect(w, "hello"));
}

struct shaker {
	struct wire wire;
	const struct engine_address *at;
	const struct tls *tls;
	pthread_t thread;
};

static void *shake_hands(void *arg)
{
	struct shaker *s = arg;

	wire_dial(&s->wire, s->at);
	if (!s->tls || !wire_secret(&s->wire, s->tls))
		wire_send(&s->wire, wire_hello(1000 + (uint64_t)s->wire.fd));
	return NULL;
}

void wire_shake_hands(const struct engine_address *a, const struct tls *tls)
{
	static struct shaker all[100];

	for (int i = 0; i < 100; i++) {
		all[i].at = a;
		all[i].tls = tls;
		assert_int_equal(pthread_create(&all[i].thread, NULL, shake_hands, &all[i]), 0);
	}
	for (int i = 0; i < 100; i++)
		pthread_join(all[i].thread, NULL);
	for (int i = 0; i < 100; i++)
		json_decref(wire_expect(&all[i].wire, "hello"));
	for (int i = 0; i < 100; i++) {
		wire_ping(&all[i].wire);
		wire_close(&all[i].wire);
	}
}

void wire_ping(struct wire *w)
{
	wire_send(w, json_pack("{s:s}", "type", "ping"));
	json_decref(wire_expect(w, "pong"));
}
