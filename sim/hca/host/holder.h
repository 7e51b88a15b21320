/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holder.h - the process that is the host: owns the devices, the UDP sockets and the
 * slots, and answers packets to QP 1. One per network namespace, started by tent-sim; it
 * ends some time after its last client.
 */
#ifndef TENT_SIM_HCA_HOLDER_H
#define TENT_SIM_HCA_HOLDER_H

#include "sim/hca/host/host.h"

struct holder;

/* Connection management plugs in here. All hooks run on the holder's one thread and must
 * not wait. */
struct holder_cm {
	/* Required. Once, before any other; *ctx is what the others get. 0 or -errno. */
	int (*start)(void **ctx, struct holder *h);
	/* Required. */
	void (*stop)(void *ctx);
	/* Required. A packet to QP 1 of a device. */
	void (*packet)(void *ctx, uint32_t device, const struct hca_packet *p);
	/* Required. A frame from a process's CM. */
	void (*frame)(void *ctx, uint32_t slot, const void *frame, size_t length);
	/* Required. The process in the slot is gone; the slot may be another's soon. */
	void (*gone)(void *ctx, uint32_t slot);
	/* Required. Runs what is due; when to call again, UINT64_MAX for never. */
	uint64_t (*timers)(void *ctx, uint64_t now_ns);
};

/* For the plug: to send from QP 1, which is lost on any trouble; and to a process. 0,
 * -EAGAIN (it does not read what it has), -ESRCH, -EMSGSIZE. */
void holder_send_packet(struct holder *h, uint32_t device, const struct hca_packet *p);
int holder_send_frame(struct holder *h, uint32_t slot, const void *frame, size_t length);
const struct host_table *holder_table(const struct holder *h);
/* Of the process in a slot; -1 if there is none. */
int holder_slot_uid(const struct holder *h, uint32_t slot);
uint64_t holder_now_ns(void *unused);	/* CLOCK_MONOTONIC */

#endif /* TENT_SIM_HCA_HOLDER_H */
