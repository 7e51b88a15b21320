/* SPDX-License-Identifier: Apache-2.0 */
/*
 * window.h - a descriptor that stands for a part of a file. sim/cuda exports memory of its
 * devices so: what follows at the descriptor's position says which part it is. A position
 * of 0, where descriptors begin, is none of that; nor is anything else that lies there.
 */
#ifndef TENT_SIM_HCA_WINDOW_H
#define TENT_SIM_HCA_WINDOW_H

#include <errno.h>
#include <stdint.h>

#include "sim/hca/mem/sys.h"

#define WINDOW_MAGIC 0x776f646e69772d67ull	/* "g-window" */

struct window {
	uint64_t magic;
	uint64_t start, length;	/* in the file */
	uint64_t resv;
};

/* Makes an offset in the window one in its file. 0, or -EINVAL: length bytes from it are
 * not in it. */
static inline int window_enter(int fd, uint64_t *offset, uint64_t length)
{
	long at = syscall(SYS_lseek, fd, 0l, SEEK_CUR);
	struct window w;

	if (at <= 0 || syscall(SYS_pread64, fd, &w, sizeof(w), at) != sizeof(w) ||
	    w.magic != WINDOW_MAGIC)
		return 0;
	if (*offset > w.length || length > w.length - *offset)
		return -EINVAL;
	*offset += w.start;
	return 0;
}

#endif /* TENT_SIM_HCA_WINDOW_H */
