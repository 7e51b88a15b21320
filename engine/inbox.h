/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inbox.h - the notifications that a client was sent and has not taken: memory that it
 * sees and only we write, made when the first one comes or when it asks. What finds no
 * room is refused and counted; nobody waits for a client that takes none.
 */
#ifndef TENT_ENGINE_INBOX_H
#define TENT_ENGINE_INBOX_H

#include <stdint.h>

#include "ring/ctl_io.h"
#include "ring/mem.h"

struct client;
struct engine;

struct inbox {
	struct shared_mem mem;		/* addr NULL: there is none yet */
	uint64_t taken, arrived;	/* positions, see struct tent_inbox */
	uint64_t refused;
};

/* The lengths are within their limits, and neither text has a NUL in it. 0, or the rule:
 * NOTIFY_ROOM, TARGET_GONE. */
uint16_t inbox_put(struct engine *e, struct client *c, const char *name, uint32_t name_length,
		   const char *message, uint32_t message_length);
/* The client ends. */
void inbox_close(struct engine *e, struct client *c);

/* Control messages. */
void inbox_open(struct engine *e, struct client *c, struct ctl_message *m);
void inbox_taken(struct engine *e, struct client *c, struct ctl_message *m);

#endif /* TENT_ENGINE_INBOX_H */
