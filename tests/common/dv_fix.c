/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "tests/common/dv_fix.h"

const struct dv_choice dv_fix_any = { .allow = "", .deny = "", .gid_index = DV_GID_ANY };
char dv_fix_why[512];

void dv_fix_device(struct dv_device *d)
{
	if (dv_device_open(d, "mlx5_0", &dv_fix_any, dv_fix_why, sizeof(dv_fix_why)) < 0)
		fail_msg("%s", dv_fix_why);
}

struct ibv_pd *dv_fix_pd(struct dv_device *d)
{
	struct ibv_pd *pd;

	dv_fix_device(d);
	pd = dv_pd_open(d, dv_fix_why, sizeof(dv_fix_why));
	assert_non_null(pd);
	return pd;
}

void dv_fix_close(struct dv_device *d, struct ibv_pd *pd)
{
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	dv_device_close(d);
}

void *dv_fix_pages(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	return p;
}
