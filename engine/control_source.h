/* SPDX-License-Identifier: Apache-2.0 */
/* control_source.h - what the control thread waits for. */
#ifndef TENT_ENGINE_CONTROL_SOURCE_H
#define TENT_ENGINE_CONTROL_SOURCE_H

#include <stdbool.h>

struct engine;

/* Something the control thread waits for. One-shot: it is silent after ready() until
 * control_rearm(), so that a peer that hung up cannot make the thread spin. */
struct event_source {
	int fd;			/* -1: not watched */
	bool wants_out;		/* also told when fd takes bytes; for control_rearm() */
	void (*ready)(struct engine *e, struct event_source *s);
};

/* 0 or -errno. The source is armed. */
int control_watch(struct engine *e, struct event_source *s, int fd,
		  void (*ready)(struct engine *e, struct event_source *s));
void control_rearm(struct engine *e, struct event_source *s);
/* Forgets it; the fd stays the caller's. Safe on one that is not watched. */
void control_unwatch(struct engine *e, struct event_source *s);

#endif /* TENT_ENGINE_CONTROL_SOURCE_H */
