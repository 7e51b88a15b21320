/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meters.h - what a poller counts for those who watch it over time: by transport and
 * opcode how many, how much, how long. One writer, the poller; anybody reads.
 *
 * Only an engine whose metrics somebody serves has them: they cost instructions, which
 * others do not pay (make cost, vector "metered").
 */
#ifndef TENT_ENGINE_METERS_H
#define TENT_ENGINE_METERS_H

#include <tent/tent.h>

#include "engine/backend.h"
#include "ring/clock.h"

enum meter_unit { METER_US, METER_BYTES, METER_PERMILLE };

#define METER_BOUNDS_MAX 11

/* Where the buckets of a histogram end; what is above the last bound is one bucket more. */
struct meter_scale {
	enum meter_unit unit;
	uint32_t nr;
	uint32_t bounds[METER_BOUNDS_MAX];
};

extern const struct meter_scale meter_latency, meter_stage, meter_size, meter_load;

struct histogram {
	uint64_t buckets[METER_BOUNDS_MAX + 1];
	uint64_t sum;
};

/* What one transport did for one opcode. */
struct transport_meter {
	uint64_t requests;	/* that ended, however */
	uint64_t failures;	/* of these, not COMPLETED */
	uint64_t bytes;		/* moved, those of failures too */
	uint64_t attempts;	/* of this transport to move one, ... */
	uint64_t attempt_failures; /* ... and those that did not */
	struct histogram latency;	/* us, of those that COMPLETED: from seen to published */
	struct histogram size;	/* bytes asked for */
};

struct meters {
	struct transport_meter transports[TENT_TRANSPORT_COUNT][2]; /* by enum tent_opcode */
	uint64_t failovers[TENT_TRANSPORT_COUNT][TENT_TRANSPORT_COUNT]; /* from, to */
	struct histogram queue_wait;	/* us from seen to posted */
	struct histogram transport;	/* us from posted to the transport's end */
	struct histogram load;		/* permille of its time that a request took */
};

/* Transfers that ended: when the transport finished with them, and when their completions
 * are published, in ticks of that clock. Deadlines are judged by it too. */
void meters_count(struct meters *m, const struct tick_clock *clock,
		  struct transfer *const *ended, uint32_t n, uint64_t device_ticks,
		  uint64_t published_ticks);

/* A transport failed t, and it goes on: that was one attempt of from. */
void meters_count_hop(struct meters *m, const struct transfer *t, uint8_t from);

/* Any thread. Adds what another poller counted. */
void meters_add(struct meters *sum, const struct meters *m);

#endif /* TENT_ENGINE_METERS_H */
