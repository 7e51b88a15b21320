/* SPDX-License-Identifier: Apache-2.0 */
/* rdma_memory.h - tenants' protection domains, memory and its keys. Control, but for pin. */
#ifndef TENT_DV_RDMA_MEMORY_H
#define TENT_DV_RDMA_MEMORY_H

#include "dv/rdma.h"

/* Rails of the NUMA node that a location like "cpu:1" names; all,
 * where there is no telling. */
uint32_t rdma_nearest(const struct rdma_instance *inst, const char *location);
/* NULL: there is none, inst->why says why. */
struct rdma_tenant *rdma_tenant_find(struct rdma_instance *inst, uint32_t uid);
/* Its protection domain of this rail; NULL: there is none, and why. */
struct ibv_pd *rdma_tenant_pd(struct rdma_tenant *t, const struct rdma_rail *r, char *why,
			      size_t size);
void rdma_tenants_free(struct rdma_instance *inst);
void rdma_region_open(struct backend_instance *base, struct region *r, uint32_t uid);
void rdma_region_pin(struct region *r);
bool rdma_region_settle(struct backend_instance *base, struct region *r);
void rdma_region_close(struct backend_instance *base, struct region *r);
bool rdma_region_keys(const struct region *r, char *text);
/* How many rails the text has keys for; 0: it is no such text. */
uint32_t rdma_keys_count(const char *text);
/* False: it is no such text, or not of this range. k: of each rail, as many as were counted;
 * nr is 0 of those without. */
bool rdma_keys_read(const char *text, uint64_t base, uint64_t end, struct dv_keys *k);

#endif /* TENT_DV_RDMA_MEMORY_H */
