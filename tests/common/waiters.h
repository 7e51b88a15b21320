/* SPDX-License-Identifier: Apache-2.0 */
/* waiters.h - processes that make waking a descriptor as costly as they can. */
#ifndef TENT_TESTS_WAITERS_H
#define TENT_TESTS_WAITERS_H

#include <sys/types.h>

#define WAITERS 8

struct waiters {
	pid_t children[WAITERS];
};

/* Each waits on both descriptors (-1: none), thousands of times on each, for what never
 * happens to them; all do once this returns. */
void waiters_start(struct waiters *w, int fd, int other_fd);
void waiters_end(const struct waiters *w);

#endif /* TENT_TESTS_WAITERS_H */
