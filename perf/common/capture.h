/* SPDX-License-Identifier: Apache-2.0 */
/* capture.h - what goes over the cable between two hosts, for others to judge: a pcap file. */
#ifndef TENT_PERF_CAPTURE_H
#define TENT_PERF_CAPTURE_H

#include "perf/common/process.h"
#include "perf/common/two_hosts.h"

/* A process on host 1 that writes every RoCE v2 packet, in both directions, to path. To be
 * called before this process has threads. 0; -1 after saying why on stderr. */
int capture_start(struct process *p, const struct two_hosts *h, const char *path);

/* What came before is written; how many packets are in p->said. -1: not all of them are, as
 * stderr says. Safe on a zeroed struct. */
int capture_stop(struct process *p);

#endif /* TENT_PERF_CAPTURE_H */
