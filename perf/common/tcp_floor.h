/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_floor.h - the floor under every read between two hosts: bare sockets. */
#ifndef TENT_PERF_TCP_FLOOR_H
#define TENT_PERF_TCP_FLOOR_H

#include <stddef.h>
#include <stdint.h>

#include "perf/common/samples.h"
#include "perf/common/two_hosts.h"

/* Adds the time of each of rounds reads: host 1 sends a few bytes, host 0 answers with a
 * block, both asleep in the kernel meanwhile. To be called before this process has
 * threads. 0; -1 after saying why on stderr. */
int tcp_floor_run(const struct two_hosts *h, size_t block, uint32_t rounds,
		  struct samples *ns);

#endif /* TENT_PERF_TCP_FLOOR_H */
