/* SPDX-License-Identifier: Apache-2.0 */
/* tap.h - what software RoCE of IPv4 sends to this host, as its interface sees it. */
#ifndef TENT_TESTS_TAP_H
#define TENT_TESTS_TAP_H

#include <stdbool.h>

/* At this interface of this thread's host. */
int tap_open(const char *interface);
/* Which traffic classes packets had since the last look. */
void tap_classes(int tap, bool seen[256]);

#endif /* TENT_TESTS_TAP_H */
