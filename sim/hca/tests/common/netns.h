/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netns.h - a network namespace of the test's own, so that no port and no abstract socket
 * is another's. Works for any user.
 */
#ifndef TENT_SIM_HCA_TESTS_NETNS_H
#define TENT_SIM_HCA_TESTS_NETNS_H

/* Moves the process there; the loopback interface is up. 0 or -errno. */
int netns_enter(void);

#endif /* TENT_SIM_HCA_TESTS_NETNS_H */
