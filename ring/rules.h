/* SPDX-License-Identifier: Apache-2.0 */
/* rules.h - what sentences of our own take from the list of rules. */
#ifndef TENT_RING_RULES_H
#define TENT_RING_RULES_H

#include <stdint.h>

/* What a rule allows, as a part of a sentence; "" for one that is unknown. */
const char *rule_allowed(uint32_t rule);

#endif /* TENT_RING_RULES_H */
