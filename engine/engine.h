/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.h - an engine: one control thread, its pollers, its clients. The same
 * code runs as a thread in a program, on the caller's own core, and in tentd.
 */
#ifndef TENT_ENGINE_ENGINE_H
#define TENT_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/backend.h"
#include "engine/config.h"

struct engine;

/*
 * backends: NULL-terminated, in the order plan prefers them; those the config
 * disables are not opened. 0, or a negative enum tent_error with a sentence in
 * error (error_size bytes).
 */
int engine_create(struct engine **e, const struct engine_config *config,
		  const struct backend *const *backends, char *error,
		  size_t error_size);

/* What its owner should know: a port that was in use, peers that nobody checks. One line
 * each, or "". Constant. */
const char *engine_notices(const struct engine *e);

/* Ends every request with ENGINE_STOPPED, every client, every thread. */
void engine_destroy(struct engine *e);

/* A new client of this process itself: returns its end of a socketpair (the
 * caller's to close), or -errno. Its memory is used in place. */
int engine_attach_local(struct engine *e);

/* Accepts clients at a Unix socket path (mode 0666: identity comes from peer
 * credentials). A stale socket file is replaced, a live one is -EADDRINUSE. */
int engine_listen(struct engine *e, const char *path);

/*
 * Other contracts for a running engine. ask is called, on the control thread and not to
 * block, whenever a client wants the configuration to be read again; set it before the
 * engine listens. Whoever reads it then says how many of these calls it has seen (asked):
 * their clients get the answer.
 */
void engine_on_reload(struct engine *e, void (*ask)(void *context), void *context);
/* Any thread. All clients go by the contracts of c from their next batch on; nothing else
 * of c counts. later: keys that changed and wait for a new start, one line each. Other QP
 * pools where there is RDMA are refused, to those who asked. 0, or a negative enum
 * tent_error: then nothing has changed. */
int engine_reload(struct engine *e, const struct engine_config *c, const char *later,
		  uint64_t asked);
/* Any thread. The configuration was no good, and why. */
void engine_refuse_reload(struct engine *e, const char *why, uint64_t asked);

/* Caller mode: one turn of the poller, under its lock. True: it did something. */
bool engine_drive(struct engine *e);

#endif /* TENT_ENGINE_ENGINE_H */
