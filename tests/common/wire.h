/* SPDX-License-Identifier: Apache-2.0 */
/* wire.h - plays the peer of an engine on a plain TCP socket, byte by byte. */
#ifndef TENT_TESTS_WIRE_H
#define TENT_TESTS_WIRE_H

#include <stdbool.h>

#include "engine/frame.h"
#include "engine/segment_name.h"
#include "engine/tls.h"
#include "tests/common/engine_fix.h"

#define WIRE_WAIT_MS (-1)	/* for what must come, however late */

struct wire {
	int fd;
	struct tls_session *tls;	/* NULL: in the clear */
	struct frame_reader reader;
	uint8_t bytes[8192];
	size_t used;
};

/* A configuration with peers, at a loopback address and any port. */
void wire_tune(struct engine_config *c);
void wire_set(struct engine_config *c, const char *key, const char *value);
/* Where the engine listens. */
struct engine_address wire_address(const struct engine_fix *f);
/* Why the last link ended that the engine ended for a reason, or "". To be freed. */
char *wire_fault(const struct engine_fix *f);
/* That has this text in it. */
void wire_expect_fault(const struct engine_fix *f, const char *text);
/* A file of that name, NUL-terminated in path, that holds a secret. */
void wire_secret_file(char path[64], const char *secret);

void wire_dial(struct wire *w, const struct engine_address *a);
/* The same, to receive few bytes before it is read. Once these have come it may lose what
 * confirms what it sent: it must have sent all by then. */
void wire_dial_small(struct wire *w, const struct engine_address *a);
void wire_close(struct wire *w);
/* Speaks TLS from now on, as the end that called. NULL, or what is wrong. */
const char *wire_secret(struct wire *w, const struct tls *tls);
/* Sends bytes; false: the other end is closed. */
bool wire_write(struct wire *w, const void *bytes, size_t size);
/* Sends a frame; takes the reference. */
void wire_send(struct wire *w, json_t *frame);
/* The next frame, a new reference; NULL: the other end closed, or nothing in wait_ms. */
json_t *wire_receive(struct wire *w, int wait_ms);
/* The same, which must come and be of that type; signs of life asked for are given. */
json_t *wire_expect(struct wire *w, const char *type);
/* Its next frame is a refusal whose reason has that text in it, then it ends. */
void wire_expect_refusal(struct wire *w, const char *reason);
/* Waits for its end. */
void wire_expect_end(struct wire *w);

json_t *wire_hello(uint64_t epoch);
/* Dials and says hello. */
void wire_join(struct wire *w, const struct engine_address *a, uint64_t epoch);
/* A hundred at once, with their proofs where tls is given; all are served. */
void wire_shake_hands(const struct engine_address *a, const struct tls *tls);
/* Asks for a sign of life and gets it. */
void wire_ping(struct wire *w);

#endif /* TENT_TESTS_WIRE_H */
