/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notices.h - notifications on the control thread: whom they go to. A turn of the loop
 * sees to a bounded number, oldest first, so that a flood of them is not felt by others.
 */
#ifndef TENT_ENGINE_NOTICES_H
#define TENT_ENGINE_NOTICES_H

#include <jansson.h>

#include "engine/notice.h"

#define FAR_NOTICES_OUT 16u		/* to one engine, not answered yet */
#define FAR_NOTICES_PER_TENANT 64u	/* to one engine, these and those that wait */

struct client;
struct engine;
struct engine_peer;
struct far_notice;
struct far_segment;
struct link;

/* Part of struct engine. */
struct notices {
	struct notice *first, **last;	/* handed over, and not seen to */
	uint64_t delivered;		/* to clients of this engine, over its life */
	uint64_t sent;			/* to others, and taken there */
	uint64_t refused;		/* neither: no room, nobody there */
};

/* Part of struct engine_peer: those on their way to it. */
struct far_notices {
	struct far_notice *waiting, *out; /* oldest first; out: not answered */
	uint32_t nr_out;
	uint64_t last_id;
};

/* ---- notices.c ---- */
void notices_start(struct engine *e);
/* Sees to what pollers handed over. True: some of it has to wait for another turn. */
bool notices_serve(struct engine *e);
/* The same for what this client sent, before something else of it is done. */
void notices_serve_client(struct engine *e, struct client *c);
/* Back to its poller; one that is alone ends with rule, 0: it arrived. */
void notice_return(struct notice *n, uint16_t rule);
struct client *notice_sender(const struct notice *n);
/* One that came to a segment of this engine: 0, or the rule. */
uint16_t notice_deliver(struct engine *e, const struct segment *s, const char *name,
			uint32_t name_length, const char *message, uint32_t message_length);

/* ---- notices_link.c ---- */
/* 0: it is on its way, and one that is alone comes back with the answer; or the rule. */
uint16_t far_notice_send(struct engine *e, struct far_segment *s, struct notice *n);
/* The client ends, and waits for none any more. */
void far_notices_abandon(struct engine *e, struct client *c);
/* Its engine does not answer: what is on its way may have arrived, and is not sent again. */
void far_notices_drop(struct engine *e, struct engine_peer *p);
void far_notices_patrol(struct engine *e, struct engine_peer *p, uint64_t now);
/* Frames. */
void far_take_notified(struct engine *e, struct link *l, const json_t *frame);
void link_take_notify(struct engine *e, struct link *l, const json_t *frame);

#endif /* TENT_ENGINE_NOTICES_H */
