/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm.c - System V segments, whose coming and going the kernel reports to no userfaultfd.
 */
#undef _FORTIFY_SOURCE
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/shm.h>

#include "sim/hca/front/card.h"
#include "sim/hca/front/interpose.h"

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
		mapping_goes(start, bytes);
	return NEXT(shmdt)(start);
}

/* In place of what is mapped there. */
INTERPOSE void *shmat(int id, const void *address, int flags)
{
	uintptr_t start = (uintptr_t)address;
	struct shmid_ds segment;

	if (flags & SHM_REMAP && !shmctl(id, IPC_STAT, &segment)) {
		if (flags & SHM_RND)
			start -= start % (uintptr_t)SHMLBA;
		mapping_goes((void *)start, segment.shm_segsz);
	}
	return NEXT(shmat)(id, address, flags);
}
