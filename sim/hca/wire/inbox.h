/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inbox.h - datagrams from the kernel, many in one call; large ones come in one piece with
 * the size at which to cut them.
 */
#ifndef TENT_SIM_HCA_INBOX_H
#define TENT_SIM_HCA_INBOX_H

#include "sim/hca/wire/icrc.h"

struct inbox_datagram {
	struct icrc_path path;
	const uint8_t *bytes;
	size_t n, segment_bytes;	/* segment_bytes > 0 */
	uint8_t tclass, hop_limit;
};

struct inbox;

int inbox_open(struct inbox **out, int fd);
void inbox_close(struct inbox *in);

/* How many datagrams inbox_get() has now; 0: none waits. */
int inbox_fill(struct inbox *in);
/* False: one that was cut off, or that does not say where it went. */
bool inbox_get(struct inbox *in, int i, struct inbox_datagram *out);

#endif /* TENT_SIM_HCA_INBOX_H */
