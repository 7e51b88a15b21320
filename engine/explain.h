/* SPDX-License-Identifier: Apache-2.0 */
/* explain.h - what explain.c and explain_policy.c share. */
#ifndef TENT_ENGINE_EXPLAIN_H
#define TENT_ENGINE_EXPLAIN_H

#include <jansson.h>

#include "engine/contract.h"

/* An accepted request, and what it was judged by. */
struct explained {
	const struct transfer *t;
	const struct contract *contract; /* or NULL */
	const char *cell;		/* its policy's name */
	uint32_t name_length;
	int32_t hint;
	struct paths *paths;
	uint32_t attempts;		/* further ones, when a transport fails it */
	struct backend_queue *const *queues;
	uint32_t nr_queues;
};

/* The effective policy, as an object. */
json_t *explained_effective(const struct explained *x);
/* Each transport that does not move it, with the reason. */
json_t *explained_others(const struct explained *x);
/* Those that it goes by next when that fails it, in order. */
json_t *explained_fallbacks(const struct explained *x);
/* Why the name of a policy did not count. */
uint16_t explained_name_rule(const struct explained *x);

#endif /* TENT_ENGINE_EXPLAIN_H */
