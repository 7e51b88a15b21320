/* SPDX-License-Identifier: Apache-2.0 */
/* memory.h - what a client registers, and the mappings behind it. */
#ifndef TENT_ENGINE_MEMORY_H
#define TENT_ENGINE_MEMORY_H

#include "engine/client.h"

/* A mapping of ours that one client's regions lie in. */
struct buffer {
	struct buffer *next;
	struct shared_mem mem;	/* its fd is closed: the mapping holds the memory */
	uint64_t id;		/* of MEM_ALLOC; 0: the client's own memfd */
	dev_t dev;		/* which memfd it is, where id is 0 */
	ino_t ino;
	uint32_t nr_regions;	/* without id, the last one takes the mapping along */
	bool guarded;
	/* while a MEM_ALLOC makes it */
	uint64_t length;	/* bytes, as asked for */
	int node;		/* where its pages should come from, or -1 */
	int error;		/* errno, when rule is SYSTEM */
	uint16_t rule;		/* why there is none, or 0 */
};

/* memory.c: control messages. */
void memory_register(struct engine *e, struct client *c, struct ctl_message *m);
void memory_unregister(struct engine *e, struct client *c, struct ctl_message *m);
void memory_free(struct engine *e, struct client *c, struct ctl_message *m);
/* Asks every poller to let go of the doomed regions, a few at a time, then calls
 * c->resume. */
void memory_drop(struct engine *e, struct client *c);
/* The same, then gives up everything that lay behind them. */
void memory_end(struct engine *e, struct client *c,
		void (*after)(struct engine *e, struct client *c));
/* The same for a message that waits for it. */
void memory_drop_and_reply(struct engine *e, struct client *c);
/* All regions of a segment of its own become doomed; pollers find none any more. */
void memory_doom_all(struct engine *e, struct client *c, struct segment *s);

/* buffers.c */
void memory_alloc(struct engine *e, struct client *c, struct ctl_message *m);
struct buffer *buffer_find(struct client *c, uint64_t id);
/* The mapping of a client's own memfd, made or shared; m keeps the descriptor. NULL:
 * the client was told why not. */
struct buffer *buffer_of_fd(struct engine *e, struct client *c, struct ctl_message *m);
/* Is fd the memfd that b maps? */
bool buffer_is_of_fd(const struct buffer *b, int fd);
/* No region of it is left: to be unmapped by the next buffers_unmap(). */
void buffer_leave(struct client *c, struct buffer *b);
/* Unmaps those that left, which may be the end of all of their pages, then calls after;
 * the client is busy until then. */
void buffers_unmap(struct engine *e, struct client *c,
		   void (*after)(struct engine *e, struct client *c));
/* Unmaps one at once, whose pages somebody else still holds. */
void buffer_unmap_unused(struct engine *e, struct client *c, struct buffer *b);

/* Is it "", "*", "cpu" or "cpu:N"? *node: N, or -1. */
bool location_parse(const char *text, int *node);

#endif /* TENT_ENGINE_MEMORY_H */
