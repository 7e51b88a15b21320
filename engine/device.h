/* SPDX-License-Identifier: Apache-2.0 */
/* device.h - memory of GPUs, between those who register it and the backend that moves it. */
#ifndef TENT_ENGINE_DEVICE_H
#define TENT_ENGINE_DEVICE_H

#include "engine/client.h"

/* "cuda:N", of which N is *number? */
bool device_location(const char *text, uint32_t *number);

/* Is r, which asks for this location, memory of a GPU? 1: it is, and r knows of it; 0: it
 * is the host's; -1: the client was told what is wrong with it. */
int device_region_open(struct engine *e, struct client *c, struct region *r);
/* Cards have it, or not: what was there for them alone goes. */
void device_region_settle(struct engine *e, struct region *r);
/* Memory with an addr: GPUs may copy from and to it. */
void device_host_open(struct engine *e, struct region *r);
/* Of either kind: no poller knows it any more. */
void device_region_close(struct engine *e, struct region *r);

#endif /* TENT_ENGINE_DEVICE_H */
