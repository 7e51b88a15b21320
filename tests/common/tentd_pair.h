/* SPDX-License-Identifier: Apache-2.0 */
/* tentd_pair.h - two hosts, and on each a tentd that the other one finds. */
#ifndef TENT_TESTS_TENTD_PAIR_H
#define TENT_TESTS_TENTD_PAIR_H

#include <stdbool.h>

#include "tests/common/hosts.h"
#include "tests/common/tentd.h"

#define TENTD_PAIR_PORT 15000

struct tentd_pair {
	struct hosts hosts;
	bool permitted;		/* false: there are none */
	struct tentd daemons[2];
	const char *const *sims[2]; /* as of a struct tentd */
	char secret[64];	/* a file that both read, unless they are told otherwise */
};

/* The hosts; nothing runs yet. */
void tentd_pair_open(struct tentd_pair *p);
void tentd_pair_close(struct tentd_pair *p);

/* Starts the one on that host, which listens at this form of its address (see hosts.h).
 * peers: members of that object, NULL: the secret; more: of the whole, or NULL. */
void tentd_pair_start(struct tentd_pair *p, int host, const char *form, const char *peers,
		      const char *more);
/* Both end, well. */
void tentd_pair_end(struct tentd_pair *p);

#endif /* TENT_TESTS_TENTD_PAIR_H */
