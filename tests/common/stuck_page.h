/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stuck_page.h - a page of memory that never arrives: a file of a FUSE file system
 * whose server answers everything but reads. Whoever touches it sits in the kernel
 * until the server ends. Needs root and /dev/fuse.
 */
#ifndef TENT_TESTS_STUCK_PAGE_H
#define TENT_TESTS_STUCK_PAGE_H

#include <stdint.h>
#include <sys/types.h>

#define STUCK_PATH "/mnt/stuck"	/* of the file, for the attacker */

/* Shared between the test, the server and the attacker. */
struct stuck_board {
	uint32_t reads;		/* accesses that sit in the page now */
	uint32_t closes;	/* the same, of those who close the file */
	uint32_t no_flush;	/* set before the start: closing it sticks as well */
	uint32_t stage;		/* the attacker's */
	pid_t attacker;
};

/*
 * Forks a server, which mounts (in a mount namespace of its own) and forks an
 * attacker that runs attack(page, arg). Returns the server's pid: kill it, and the
 * page's readers fail. -1 when this machine has no FUSE.
 */
pid_t stuck_page_start(struct stuck_board *board, void (*attack)(void *page, void *arg),
		       void *arg);

#endif /* TENT_TESTS_STUCK_PAGE_H */
