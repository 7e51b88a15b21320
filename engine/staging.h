/* SPDX-License-Identifier: Apache-2.0 */
/*
 * staging.h - memory of GPUs for backends that know memory of the host alone. Each poller has
 * a few pinned buffers, and beside each queue of such a backend another one, of the same
 * transport, that reaches what the first does where one end is a GPU's.
 */
#ifndef TENT_ENGINE_STAGING_H
#define TENT_ENGINE_STAGING_H

#include "engine/backend.h"

#define STAGING_QUEUES_MAX 4u	/* backends that are staged */
#define STAGING_BUFFERS 16u	/* of a poller */
#define STAGING_BYTES (512u << 10) /* of one */
#define STAGING_WINDOW 4u		/* buffers of one request: some copied, some moved */
#define STAGING_LOANS 16u	/* buffers beside those, for what peers want here */
#define STAGING_PIECE_MIN (64u << 10) /* bytes that are worth a copy of their own */

struct staging;

/* Control, before the poller runs: adds its queues to those, which are nr and may become
 * max. *s is NULL where no backend moves memory of GPUs. 0 or -errno. */
int staging_open(struct staging **s, struct backend_queue **queues, uint32_t *nr, uint32_t max);
/* The queues are closed. Control; *s may be NULL. */
void staging_close(struct staging *s);
/* There is memory of a GPU: the buffers are made, unless they are there. What keeps them
 * from being pinned is asked again with the next memory. Control. */
void staging_fill(struct staging *s);

#endif /* TENT_ENGINE_STAGING_H */
