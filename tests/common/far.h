/* SPDX-License-Identifier: Apache-2.0 */
/* far.h - segments of other engines, as a client of one sees them. */
#ifndef TENT_TESTS_FAR_H
#define TENT_TESTS_FAR_H

#include <stdint.h>
#include <tent/tentring.h>

/* 0, or the rule that an open is refused by. */
uint32_t far_rule_of_open(struct tent_client *c, const char *name, tent_segment_id_t *id);
/* Opens it, or fails the test. */
tent_segment_id_t far_open_it(struct tent_client *c, const char *name);
/* How many buffers the segment has, or -rule. */
int far_buffers(struct tent_client *c, tent_segment_id_t id);
/* Waits until it has: engines tell each other in their own time. */
void far_expect_buffers(struct tent_client *c, tent_segment_id_t id, int expected);

#endif /* TENT_TESTS_FAR_H */
