/* SPDX-License-Identifier: Apache-2.0 */
/* tenants.c - who uses how much of what this process has. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "engine/tenants.h"
#include "ring/sigbus.h"

#define FDS_RESERVED 64u	/* the engine's own, and the program's around it */
#define FDS_MOST (1u << 20)
#define MAPS_USUAL 65530u	/* vm.max_map_count where it cannot be read */

static uint32_t fd_limit(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_cur > FDS_MOST)
		return FDS_MOST;
	return l.rlim_cur > 2 * FDS_RESERVED ? (uint32_t)l.rlim_cur - FDS_RESERVED :
					       FDS_RESERVED;
}

/* Half of what the kernel allows: threads, heaps and libraries map memory too. */
static uint32_t map_limit(bool guards)
{
	FILE *f = fopen("/proc/sys/vm/max_map_count", "re");
	unsigned int most = MAPS_USUAL;

	if (f) {
		if (fscanf(f, "%u", &most) != 1)
			most = MAPS_USUAL;
		fclose(f);
	}
	most /= 2;
	return guards && most > SIGBUS_RANGES_MAX ? SIGBUS_RANGES_MAX : most;
}

void tenants_open(struct tenants *t, bool guards, uint32_t far, uint32_t far_buffers)
{
	t->limit[RESOURCE_FDS] = fd_limit();
	t->limit[RESOURCE_MAPS] = map_limit(guards);
	t->limit[RESOURCE_FAR] = 2 * far;	/* nobody may take more than half */
	t->limit[RESOURCE_FAR_BUFFERS] = 2 * far_buffers;
}

void tenants_close(struct tenants *t)
{
	while (t->first) {
		struct tenant *next = t->first->next;

		free(t->first);
		t->first = next;
	}
}

struct tenant *tenant_find(struct tenants *t, uint32_t uid)
{
	struct tenant *tenant;

	for (tenant = t->first; tenant; tenant = tenant->next) {
		if (tenant->uid == uid)
			return tenant;
	}
	tenant = calloc(1, sizeof(*tenant));
	if (!tenant)
		return NULL;
	tenant->uid = uid;
	tenant->next = t->first;
	t->first = tenant;
	return tenant;
}

void tenant_tidy(struct tenants *t, struct tenant *tenant)
{
	struct tenant **at = &t->first;

	if (tenant->refs || tenant->nr_names || tenant->used[RESOURCE_FAR])
		return;
	while (*at != tenant)
		at = &(*at)->next;
	*at = tenant->next;
	free(tenant);
}

bool tenant_charge(struct tenants *t, struct tenant *tenant, enum resource r, uint32_t n)
{
	if (t->limit[r] - t->used[r] < n)
		return false;
	if (tenant->used[r] + n > t->limit[r] / 2)
		return false;
	t->used[r] += n;
	tenant->used[r] += n;
	return true;
}

void tenant_refund(struct tenants *t, struct tenant *tenant, enum resource r, uint32_t n)
{
	t->used[r] -= n;
	tenant->used[r] -= n;
}
