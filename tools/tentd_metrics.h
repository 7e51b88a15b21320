/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tentd_metrics.h - what tentd tells a Prometheus. tentd_http.c: who is answered how;
 * tentd_metrics.c: the answer.
 */
#ifndef TENT_TOOLS_TENTD_METRICS_H
#define TENT_TOOLS_TENTD_METRICS_H

#include "engine/engine.h"

#define METRICS_ADDRESS_SIZE 96

struct metrics;

/* Serves them where the configuration says, until metrics_stop(), which comes before the
 * engine's end. 0, or -errno with a sentence. */
int metrics_start(struct metrics **m, struct engine *e, const struct engine_config *c,
		  char *error, size_t size);
void metrics_stop(struct metrics *m);
/* The URL. */
void metrics_address(const struct metrics *m, char text[METRICS_ADDRESS_SIZE]);

/* The answer to TENT_QUERY_METRICS as Prometheus text, the caller's to free. NULL: it is no
 * such answer, or there is no memory. */
char *metrics_text(const char *json);

#endif /* TENT_TOOLS_TENTD_METRICS_H */
