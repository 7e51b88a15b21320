/* SPDX-License-Identifier: Apache-2.0 */
/*
 * faults.h - what a device's faults do to one packet that leaves it, and the queue in
 * which delayed packets wait.
 */
#ifndef TENT_SIM_HCA_WIRE_FAULTS_H
#define TENT_SIM_HCA_WIRE_FAULTS_H

#include "sim/hca/wire/outbox.h"
#include "sim/hca/wire/wire.h"

#define FAULTS_NOW 0
#define FAULTS_LOST UINT64_MAX

/* What one process remembers of one device. */
struct dice {
	uint64_t state;			/* never 0 */
	uint32_t seed;			/* that it came from */
	uint64_t last_due_ns;		/* of the packets that keep their order */
};

void dice_init(struct dice *d);

/* When a packet of so many bytes shall leave: FAULTS_NOW, FAULTS_LOST or a time. */
uint64_t faults_judge(struct wire_faults *f, struct dice *d, bool is_response, size_t bytes,
		      uint64_t now_ns);

/* ---- delayed packets, ordered by when they are due --------------------------- */

struct delayed {
	uint64_t due_ns, order;
	struct outbox_way way;
	size_t bytes;
	uint8_t datagram[];
};

struct delay_queue {
	struct delayed **heap;
	size_t nr, room, bytes;
	uint64_t order;
};

/* NULL when the queue holds all it may. The caller fills in the datagram. */
struct delayed *delay_put(struct delay_queue *q, uint64_t due_ns, const struct outbox_way *way,
			  size_t bytes);
uint64_t delay_next_ns(const struct delay_queue *q);	/* UINT64_MAX: empty */
/* The first, which the caller frees; NULL if none is due. */
struct delayed *delay_take(struct delay_queue *q, uint64_t now_ns);
void delay_free(struct delay_queue *q);

#endif /* TENT_SIM_HCA_WIRE_FAULTS_H */
