/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trial_far.h - trials between two hosts: theirs is memory of an owner at the tentd of one,
 * mine of a user at that of the other. One at a time in a process.
 */
#ifndef TENT_TESTS_TRIAL_FAR_H
#define TENT_TESTS_TRIAL_FAR_H

#include "tests/common/trial.h"

/* Clients, by the sockets of their daemons, with all places registered. */
void trial_far_open_owner(struct trials *t, const char *socket);
void trial_far_open_user(struct trials *t, const char *socket);
void trial_far_close_owner(void);
void trial_far_close_user(struct trials *t);
/* After the owner's daemon was another one: the new owner, and the segment that it has. */
void trial_far_next_owner(struct trials *t, const char *socket);

/* A link that was lost is back, and what was unregistered is known again. */
void trial_far_await(struct trials *t);

/* A strike: takes memory away, of either end by turns; gives it back. */
uint8_t *trial_far_take(struct trials *t, struct trial *p);
void trial_far_give(struct trials *t);

/* Where nobody can say that WRITEs are fenced most are READs. */
int trial_far_mostly_read(uint64_t number);

#endif /* TENT_TESTS_TRIAL_FAR_H */
