/* SPDX-License-Identifier: Apache-2.0 */
/* data.h - plays one end of a data connection on a plain TCP socket, byte by byte. */
#ifndef TENT_TESTS_DATA_H
#define TENT_TESTS_DATA_H

#include "io/tcp_frame.h"
#include "tests/common/wire.h"

/* A link to an engine, played by hand, and what it was told there. */
struct data_guest {
	struct wire link;
	struct engine_address address;	/* of data */
	uint64_t epoch, their_epoch, token[2];
	uint32_t handle;
};

/* Joins and has a segment described. */
void data_join(struct data_guest *g, const struct engine_address *a, const char *segment);
/* What a caller says first. */
struct tcp_hello data_hello(const struct data_guest *g, uint16_t purpose, uint64_t connection);
/* Connects, says it. */
int data_call(const struct data_guest *g, const struct tcp_hello *h);
/* The same, and is welcome. */
int data_open(const struct data_guest *g, uint64_t connection);

/* All of it, or the test fails. */
void data_send(int fd, const void *bytes, size_t size);
void data_receive(int fd, void *bytes, size_t size);
/* The other end closes and has said nothing more. */
void data_expect_end(int fd);
struct tcp_head data_request(const struct data_guest *g, uint8_t type, uint64_t id,
			     const void *address, uint32_t length);

#endif /* TENT_TESTS_DATA_H */
