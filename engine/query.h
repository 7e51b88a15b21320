/* SPDX-License-Identifier: Apache-2.0 */
/* query.h - JSON for people and tools: answers in a memfd. */
#ifndef TENT_ENGINE_QUERY_H
#define TENT_ENGINE_QUERY_H

#include <jansson.h>

#include "engine/client.h"
#include "engine/words.h"

/* 64-bit identities exceed what JSON readers keep exact: "0x...". */
json_t *hex_json(uint64_t value);

json_t *stats_json(const struct poller_stats *s);

/* Why pages are not huge: an errno by name, or "" where nobody wanted them to be. */
const char *page_reason(int32_t reason);

/* Sends a value as the answer to a query; takes the reference. NULL: no memory. */
void client_reply_json(struct engine *e, struct client *c, json_t *value);

/* query_engine.c: {pollers, rings, totals, ...} for TENT_QUERY_STATS, and its parts. */
json_t *engine_json(struct engine *e, const struct client *asks);
json_t *facts_json(const struct engine *e);
/* Of clients other than the observer that asks. */
json_t *usage_json(const struct engine *e, const struct client *asks);
json_t *pages_json(void);
json_t *totals_json(const struct engine *e);
json_t *pollers_json(const struct engine *e);

/* query_metrics.c: {totals, transfers, ...} for TENT_QUERY_METRICS. */
json_t *metrics_json(const struct engine *e, const struct client *asks);

/* query_nics.c: {nics} for TENT_QUERY_NICS: the client waits until pollers have told. */
void client_ask_nics(struct engine *e, struct client *c);

/* query_peers.c: {peers, callers, ...} for TENT_QUERY_PEERS. */
json_t *peers_json(const struct engine *e);
/* Adds the segments of other engines that are open here, as rows like those of our own. */
void far_segments_json(const struct engine *e, json_t *list);

#endif /* TENT_ENGINE_QUERY_H */
