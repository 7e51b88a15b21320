/* SPDX-License-Identifier: Apache-2.0 */
/* scene.h - what the scenes of perf/show.c share. */
#ifndef TENT_PERF_SCENE_H
#define TENT_PERF_SCENE_H

#include <stddef.h>
#include <stdint.h>
#include <tent/tent.h>

#define SCENE_BLOCK 65536u

/* One line on stderr. Always -1. */
int scene_fail(const char *what);

/* An engine of this process for the next scene: "unix:PATH", "caller", ...; NULL
 * after saying why. name: of its segment, or NULL. */
tent_engine_t scene_attach(const char *engine, const char *name);

/* Shareable registered memory of an engine (may be NULL), or NULL after saying
 * why. It goes with the engine. */
uint8_t *scene_memory(tent_engine_t e, size_t size);

tent_request_v1_t scene_request(int opcode, void *source, uint64_t target_id,
				uint64_t target, uint64_t length);

/* Waits for a batch: its overall state, or -1 after saying why. */
int scene_await(tent_engine_t e, tent_batch_id_t batch);

/* scene_killed.c: a client dies while requests of its own and of others touch its
 * memory. 0 when everything ended as promised. */
int show_killed(void);

#endif /* TENT_PERF_SCENE_H */
