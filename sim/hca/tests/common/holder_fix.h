/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holder_fix.h - a holder of two devices with two ports, in a process of its own and the
 * network namespace of the test.
 */
#ifndef TENT_SIM_HCA_TESTS_HOLDER_FIX_H
#define TENT_SIM_HCA_TESTS_HOLDER_FIX_H

#include <sys/types.h>

#include "sim/hca/host/protocol.h"

extern const struct holder_config holder_fix_config;
extern pid_t holder_fix_pid;
extern struct host *holder_fix_lease;	/* keeps it */

/* Starts one and returns its first word: empty if it runs. */
const char *holder_fix_start(const struct holder_config *c);
/* Waits for its end. */
int holder_fix_status(void);

/* For cmocka: enter() for the group, the others for each test. */
int holder_fix_enter(void **state);
int holder_fix_setup(void **state);
int holder_fix_teardown(void **state);

struct host *holder_fix_join(void);
/* The next event; waits for it. 0 or -errno. */
int holder_fix_event(struct host *h, struct host_event *e);

#endif /* TENT_SIM_HCA_TESTS_HOLDER_FIX_H */
