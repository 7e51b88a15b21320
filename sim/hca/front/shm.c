/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm.c - System V segments, whose detaching the kernel reports to no userfaultfd.
 */
#undef _FORTIFY_SOURCE
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/shm.h>

#include "sim/hca/front/interpose.h"
#include "sim/hca/mem/umem.h"

/* Of the segment attached at start; 0: none. It may lie in several mappings by now. */
static uint64_t segment_bytes(uint64_t start)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	uint64_t from, to, inode, bytes = 0, segment = 0;
	char line[512];

	if (!maps)
		return 0;
	while (fgets(line, sizeof(line), maps)) {
		if (!strstr(line, "/SYSV") ||
		    sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %*s %*s %" SCNu64, &from, &to,
			   &inode) != 3 || from != start + bytes || (bytes && inode != segment))
			continue;
		segment = inode;
		bytes += to - from;
	}
	fclose(maps);
	return bytes;
}

INTERPOSE int shmdt(const void *start)
{
	uint64_t bytes = segment_bytes((uintptr_t)start);

	if (bytes)
		umem_range_goes(start, bytes);
	return NEXT(shmdt)(start);
}
