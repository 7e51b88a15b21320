/* SPDX-License-Identifier: Apache-2.0 */
/*
 * outbox.h - datagrams on their way to the kernel: packets of one way and size become one
 * large send that the kernel, or nobody, cuts up; several sends are one system call.
 */
#ifndef TENT_SIM_HCA_OUTBOX_H
#define TENT_SIM_HCA_OUTBOX_H

#include "sim/hca/wire/icrc.h"
#include "sim/hca/wire/wire.h"

struct outbox_way {
	uint8_t source[16], dest[16];	/* as in struct icrc_path */
	uint32_t ifindex;		/* for link-local addresses */
	uint8_t tclass, hop_limit;	/* 0: the host's default */
	struct wire_counters *counters;
};

struct outbox;

int outbox_open(struct outbox **out, int fd, bool use_gso);
void outbox_close(struct outbox *o);

/* Room for n bytes, at most CODEC_MAX_BYTES, of a datagram to the process in this slot;
 * the caller fills it in, then seals it. */
uint8_t *outbox_reserve(struct outbox *o, const struct outbox_way *way, uint8_t slot, size_t n);
void outbox_seal(struct outbox *o);	/* adds the ICRC */
void outbox_flush(struct outbox *o);

#endif /* TENT_SIM_HCA_OUTBOX_H */
