/* SPDX-License-Identifier: Apache-2.0 */
/*
 * raw.h - a client without manners: control messages and ring memory by hand, so
 * that a test can do what libtentring never would. Every function ends the process
 * with status 1 and a line on stderr when the system, not tentd, lets it down.
 */
#ifndef TENT_TESTS_RAW_H
#define TENT_TESTS_RAW_H

#include <stdbool.h>
#include <stdint.h>

#include "ring/ctl_io.h"
#include "tests/common/random.h"

/* Ends the process unless cond: for code that runs in a forked attacker. */
#define need(cond) raw_need(!!(cond), #cond, __FILE__, __LINE__)
void raw_need(bool good, const char *what, const char *file, int line);

struct raw {
	int sock;
	struct tent_ctl_status status;	/* of the last reply */
};

struct raw_memory {
	int fd;
	uint8_t *addr;
	uint64_t length, id;
	uint32_t page_kind;
};

struct raw_ring {
	int client_fd, engine_fd, wake_fd, done_fd;
	uint8_t *client, *engine;	/* the mappings */
	struct tent_ring_header h;	/* a copy */
	struct tent_engine_line *engine_line;
	struct tent_client_line *client_line;
	uint32_t position;		/* of the next batch */
	uint32_t cq_head;		/* of the next completion */
	uint32_t id;
};

/* A socket only; -1 when nobody listens or the queue is full. */
int raw_socket(const char *path);
/* Connects and says hello. name NULL: any. */
void raw_attach(struct raw *r, const char *path, const char *name);
/* Sends m (type and size set) and receives the reply into it. The reply's error, or
 * TENT_ERR_ENGINE_LOST when tentd hung up. */
int raw_call(struct raw *r, struct ctl_message *m, uint16_t type, uint32_t size);
/* As raw_attach() on a connected socket; its error. */
int raw_hello(struct raw *r, const char *name, uint32_t features);

int raw_alloc(struct raw *r, uint64_t length, struct raw_memory *m);
/* fd -1: none. */
int raw_register(struct raw *r, enum tent_mem_kind kind, const void *base, uint64_t length,
		 uint64_t buffer_id, int fd, uint64_t offset, int permission);
/* An allocated buffer, mapped and registered for everybody of this tenant. */
void raw_buffer(struct raw *r, uint64_t length, struct raw_memory *m);
int raw_unregister(struct raw *r, const void *base, uint64_t length);
int raw_open_segment(struct raw *r, const char *name, uint64_t *id);

int raw_ring_open(struct raw *r, uint32_t slots, struct raw_ring *ring);
void raw_ring_forget(struct raw_ring *ring);	/* unmaps and closes our side only */

/* Slot i of the next batch, zeroed. */
struct tent_slot *raw_slot(struct raw_ring *ring, uint32_t i);
/* ... filled with a sound request. */
struct tent_slot *raw_request(struct raw_ring *ring, uint32_t i, int opcode,
			      const void *source, uint64_t segment, uint64_t target,
			      uint64_t length);
/* Publishes the next batch; nr is what its first slot says, and moves position on. */
void raw_publish(struct raw_ring *ring, uint32_t nr);
/* Stores {seq, nr} of slot i for the next batch, as it should be or not. */
void raw_seq(struct raw_ring *ring, uint32_t i, uint32_t seq, uint32_t nr);
/* The next completion, if it is there. */
bool raw_reap(struct raw_ring *ring, struct tent_completion *c);
/* Waits for it, or for the ring's end (false). */
bool raw_wait(struct raw_ring *ring, struct tent_completion *c);
/* Waits until everything published is judged; false when the ring ended instead. */
bool raw_wait_consumed(struct raw_ring *ring);
/* Waits until tentd ended the ring; the rule. */
uint32_t raw_wait_end(struct raw_ring *ring);
uint32_t raw_end_rule(const struct raw_ring *ring);

/* Every request that there is with its right size, and three that are none. */
#define RAW_MESSAGES 14
extern const struct raw_message { uint16_t type; uint32_t size; } raw_messages[RAW_MESSAGES];

#endif /* TENT_TESTS_RAW_H */
