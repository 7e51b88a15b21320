/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_links_unread.c - peers that ask an engine and do not read what it answers: what it
 * keeps for them is bounded, in its memory and in the kernel's, and nobody else waits.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/common/wire.h"

#define BUFFERS 256		/* of the segment: one frame tells of all */
#define ANSWER_SIZE 8192	/* of that frame, and more */
#define UNREAD_MAX (1 << 20)	/* more than an engine and its socket keep, docs/peers.md */

static char secret[64];
static struct tls *knows;

static void patient(struct engine_config *c)
{
	wire_tune(c);
	wire_set(c, "peers/keepalive_ms", "20000");
}

static void with_secret(struct engine_config *c)
{
	patient(c);
	wire_set(c, "peers/secret_file", secret);
}

static void impatient(struct engine_config *c)
{
	wire_tune(c);
	wire_set(c, "peers/keepalive_ms", "10");
}

static int setup(void **state)
{
	char error[512];

	(void)state;
	wire_secret_file(secret, "correct-horse-battery-staple-0123456789\n");
	return tls_open(&knows, secret, error, sizeof(error));
}

static int teardown(void **state)
{
	(void)state;
	tls_close(knows);
	return unlink(secret);
}

/* An engine with a segment that takes long to tell. */
struct scene {
	struct engine_fix f;
	struct engine_address at;
	struct tent_client *owner;
};

static void scene_open(struct scene *s, void (*tune)(struct engine_config *))
{
	static char memory[BUFFERS][4096];

	engine_fix_start(&s->f, tune);
	s->at = wire_address(&s->f);
	s->owner = engine_fix_attach(&s->f, "many");
	for (int i = 0; i < BUFFERS; i++)
		assert_int_equal(tent_client_register(s->owner, memory[i], sizeof(memory[i]),
						      TENT_PERM_GLOBAL_READ_WRITE, NULL, 0), 0);
}

static void scene_close(struct scene *s)
{
	tent_client_detach(s->owner);
	engine_fix_stop(&s->f);
}

static void introduce(struct wire *w, const struct tls *tls)
{
	const char *fault = tls ? wire_secret(w, tls) : NULL;

	if (fault)
		fail_msg("TLS: %s", fault);
	wire_send(w, wire_hello((uint64_t)w->fd + 1));
	json_decref(wire_expect(w, "hello"));
}

/* In one stretch: no answer is on its way yet that could hold it up. */
static void ask(struct wire *w, size_t times)
{
	size_t size;
	uint8_t *all, *one = frame_bytes(json_pack("{s:s,s:s,s:i,s:i}", "type", "describe",
						   "segment", "many", "uid", (int)getuid(),
						   "first", 0), &size);

	all = malloc(times * size);
	assert_non_null(all);
	for (size_t i = 0; i < times; i++)
		memcpy(all + i * size, one, size);
	assert_true(wire_write(w, all, times * size));
	free(all);
	free(one);
}

/* Until the engine ends a link, which is for that. honest NULL: nobody else is there. */
static void await_fault(const struct scene *s, struct wire *honest, const char *why)
{
	char *fault;

	for (;; free(fault)) {
		if (honest)
			wire_ping(honest);
		fault = wire_fault(&s->f);
		if (*fault)
			break;
	}
	if (!strstr(fault, why))
		fail_msg("\"%s\" is not \"%s\"", fault, why);
	free(fault);
}

/* ---- bounds ------------------------------------------------------------ */

static void an_unread_link_is_left(void (*tune)(struct engine_config *), const struct tls *tls)
{
	struct wire honest, w;
	struct scene s;

	scene_open(&s, tune);
	wire_dial(&honest, &s.at);
	introduce(&honest, tls);
	wire_dial_small(&w, &s.at);
	introduce(&w, tls);
	ask(&w, UNREAD_MAX / ANSWER_SIZE);
	await_fault(&s, &honest, "does not read");
	wire_ping(&honest);
	wire_close(&w);
	wire_close(&honest);
	scene_close(&s);
}

static void who_does_not_read_is_left(void **state)
{
	(void)state;
	an_unread_link_is_left(patient, NULL);
}

static void who_proves_a_secret_and_does_not_read_is_left(void **state)
{
	(void)state;
	an_unread_link_is_left(with_secret, knows);
}

/* Other than one that was refused, which may read why. */
static void who_is_silent_is_cut_off_from_what_was_said(void **state)
{
	char bytes[4096];
	struct scene s;
	struct wire w;
	ssize_t n;

	(void)state;
	scene_open(&s, impatient);
	wire_dial(&w, &s.at);
	wire_send(&w, wire_hello(9));
	await_fault(&s, NULL, "silent");
	while ((n = recv(w.fd, bytes, sizeof(bytes), 0)) > 0)
		;		/* what had come */
	assert_int_equal(n, -1);
	assert_int_equal(errno, ECONNRESET);
	wire_close(&w);
	scene_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_does_not_read_is_left),
		cmocka_unit_test(who_proves_a_secret_and_does_not_read_is_left),
		cmocka_unit_test(who_is_silent_is_cut_off_from_what_was_said),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
