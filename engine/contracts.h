/* SPDX-License-Identifier: Apache-2.0 */
/* contracts.h - the set of contracts that an engine goes by, and its replacement. */
#ifndef TENT_ENGINE_CONTRACTS_H
#define TENT_ENGINE_CONTRACTS_H

#include "engine/client.h"
#include "engine/contract.h"

/* Before the control thread starts, with pollers open. 0 or -ENOMEM. */
int contracts_open(struct engine *e);
/* Pollers are gone. */
void contracts_close(struct engine *e);

/* What a client is given when it says hello. */
const struct contract *contracts_find(const struct engine *e, const struct client *c);

/* The owner's user, or one whose tenant the owner's contract shares with. local: this
 * process itself. What is open already stays so. */
bool contracts_may_open(const struct engine *e, const struct segment *s, uint32_t uid,
			bool local);

/* Any thread: a set for this engine, see contract_set_create(). */
struct contract_set *contracts_compile(const struct engine *e,
				       const struct contract_config *c, int *rc);
/* All clients go by another set (NULL: none) from their next batch on. Takes it. 0, or
 * -ENOMEM and nothing has changed. */
int contracts_replace(struct engine *e, struct contract_set *set);

#endif /* TENT_ENGINE_CONTRACTS_H */
