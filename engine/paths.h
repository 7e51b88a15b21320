/* SPDX-License-Identifier: Apache-2.0 */
/*
 * paths.h - ways that failed of late: a transport, and the engine that it leads to. Where
 * there is another way nobody is sent there for a while; then one batch tries it, and it
 * is used again or left for longer. One writer, the poller; explain only asks.
 */
#ifndef TENT_ENGINE_PATHS_H
#define TENT_ENGINE_PATHS_H

#include "engine/backend.h"

#define PATHS_MAX 32u

struct paths {
	/* settings; times in ticks */
	uint32_t errors;	/* failures within window that begin a pause; 0: none does */
	uint64_t window;
	uint64_t pause, pause_max; /* the first one; doubled by each that did not help */
	uint32_t nr_paused;	/* 0: everything is used */
	struct path {
		uint32_t transport;	/* enum tent_transport; UNSPEC: the place is free */
		uint32_t failures;	/* since then */
		uint64_t epoch;		/* of the engine there; 0: this host */
		uint64_t since;
		uint64_t until;		/* nobody is sent there before; 0: it is used */
		uint64_t pause;		/* of the next one */
		uint64_t probe;		/* seen_ticks of the batch that tries it; 0: none */
	} path[PATHS_MAX];
};

static inline uint64_t path_epoch(const struct region *remote)
{
	return remote && remote->far ? remote->far->epoch : 0;
}

/* May t be sent there? It becomes the one that tries the way when that is due, and says
 * so in its flags. With seen_ticks 0 it only asks. Any thread. */
bool paths_admit(struct paths *p, uint8_t transport, struct transfer *t, uint64_t now);

/* Is anybody kept from it? */
bool paths_is_paused(const struct paths *p, uint8_t transport, uint64_t epoch);

/* It failed, or worked, for t. True: what is paused is not what it was. */
bool paths_failed(struct paths *p, const struct transfer *t, uint64_t now);
bool paths_worked(struct paths *p, const struct transfer *t);

#endif /* TENT_ENGINE_PATHS_H */
