/* SPDX-License-Identifier: Apache-2.0 */
/*
 * other_host.h - a process that stands for another host: an engine that listens at the
 * loopback address with memory for everybody, and beside it, at a port of its own, the
 * plain loops that a program without tent would write. Both work on the second core,
 * never at the same time.
 */
#ifndef TENT_PERF_OTHER_HOST_H
#define TENT_PERF_OTHER_HOST_H

#include <stdbool.h>
#include <stdint.h>
#include <tent/tentring.h>

#include "engine/engine.h"
#include "perf/common/process.h"

/* What a plain connection is for; its first bytes. */
enum plain_kind {
	PLAIN_ECHO,		/* bytes at a time are sent back; both ends spin */
	PLAIN_ECHO_BLOCKING,	/* the same, asleep in the kernel meanwhile */
	PLAIN_SINK,		/* is received, in pieces of at most bytes */
	PLAIN_SOURCE		/* sends, in pieces of bytes */
};

struct plain_order {
	uint32_t kind;		/* enum plain_kind */
	uint32_t bytes;
};

struct other_host {
	struct process process;
	char segment[64];
	uint64_t memory;	/* where it has it: size bytes */
	uint16_t port;		/* of plain connections */
};

/* To be called before this process has threads. 0 or -1, after saying why. */
int other_host_start(struct other_host *h, uint64_t size);
/* A connection to its plain loops, or -1. */
int other_host_connect(const struct other_host *h, enum plain_kind kind, uint32_t bytes);

/* An engine of our own that this thread drives, a client of it, and the segment there. */
struct this_host {
	struct engine *engine;
	struct tent_client *client;
	struct tent_ring *ring;
	tent_segment_id_t segment;
	uint8_t *memory;
};
int this_host_open(struct this_host *t, const struct other_host *h, uint64_t size,
		   bool io_uring);
void this_host_close(struct this_host *t);
/* Makes a request with this user_data of length bytes, at these offsets. 0 or -1. */
int this_host_submit(struct this_host *t, const struct other_host *h, int opcode,
		     uint64_t mine, uint64_t theirs, uint64_t length, uint64_t user_data);

#endif /* TENT_PERF_OTHER_HOST_H */
