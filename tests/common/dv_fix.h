/* SPDX-License-Identifier: Apache-2.0 */
/* dv_fix.h - a device, a protection domain and memory, for tests of dv/. */
#ifndef TENT_TESTS_DV_FIX_H
#define TENT_TESTS_DV_FIX_H

#include "dv/device.h"

extern const struct dv_choice dv_fix_any;	/* every device, any port of it */
extern char dv_fix_why[512];			/* the last sentence */
#define WHY dv_fix_why, sizeof(dv_fix_why)

/* mlx5_0. */
void dv_fix_device(struct dv_device *d);
struct ibv_pd *dv_fix_pd(struct dv_device *d);
/* Both end; EBUSY if something was left in the domain. */
void dv_fix_close(struct dv_device *d, struct ibv_pd *pd);
void *dv_fix_pages(size_t size);

#endif /* TENT_TESTS_DV_FIX_H */
