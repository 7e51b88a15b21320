/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "sim/hca/front/clock.h"

#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include <rdma/mlx5-abi.h>

#include "sim/hca/uverbs/uverbs.h"

static uint64_t read_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* A tick is a nanosecond of the monotonic clock, so nothing needs scaling and one look at
 * the wall clock holds for a long time. */
int clock_write(int fd)
{
	struct mlx5_ib_clock_info info = {
		.nsec = read_ns(CLOCK_REALTIME),
		.cycles = read_ns(CLOCK_MONOTONIC),
		.mult = 1,
		.shift = 0,
		.mask = INT64_MAX,
		.overflow_period = INT64_MAX,
	};

	return pwrite(fd, &info, sizeof(info), (off_t)UVERBS_CLOCK_PAGE * UVERBS_PAGE) ==
	       (ssize_t)sizeof(info) ? 0 : -1;
}
