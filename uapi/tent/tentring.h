/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tentring.h - libtentring: a program's own end of tent's rings, and nothing
 * else. It depends on libc only.
 *
 * A struct tent_client is one connection to an engine: the owner of a segment,
 * its memory and its rings. Its functions may be called from any thread, one at
 * a time is served. A struct tent_ring belongs to one thread at a time.
 *
 * Functions that return int: 0 or a negative enum tent_error;
 * tent_client_error() then describes the calling thread's last failure.
 */
#ifndef TENT_TENTRING_H
#define TENT_TENTRING_H

#include <tent/ring.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default) /* what is declared here is exported */
#endif

struct tent_client;
struct tent_ring;

#define TENTD_SOCKET_DEFAULT "/run/tent/tentd.sock"

/* ---- client ----------------------------------------------------------- */

/* Connects to the engine at the Unix socket path and says hello. name: of the
 * segment this program owns, 1..63 of [A-Za-z0-9._-], or NULL for one the
 * engine picks. Pair with tent_client_detach(). */
int tent_client_attach(const char *path, const char *name,
		       struct tent_client **client);

/* As above over a connected SEQPACKET socket, which the client then owns, on
 * failure too. */
int tent_client_attach_fd(int fd, const char *name, struct tent_client **client);

/* As tent_client_attach(), but owns no segment: for tools that only query. */
int tent_client_observe(const char *path, struct tent_client **client);

/* Ends every ring, request and registration, then frees. NULL is ignored. */
void tent_client_detach(struct tent_client *client);

/* Full name of the client's segment; valid until detach. */
const char *tent_client_segment(const struct tent_client *client);
/* The engine's number since its start: another one means another engine. */
uint64_t tent_client_epoch(const struct tent_client *client);

/* 1 while the engine process is alive. */
int tent_client_engine_alive(struct tent_client *client);

/* The calling thread's last failure in this library; info->size is set by the
 * caller. 0, or TENT_ERR_ARGUMENTS. */
int tent_client_error(struct tent_error_info *info);

/* The sentence for a rule: "<prefix><field> is <value>; allowed: <allowed>".
 * Always NUL-terminates when size > 0. */
void tent_rule_describe(uint32_t rule, int64_t value, char *text, size_t size);
/* Category, field and name of a rule; an unknown one gives RUNTIME, "", "". */
int tent_rule_error(uint32_t rule);
const char *tent_rule_field(uint32_t rule);
const char *tent_rule_name(uint32_t rule);

/* ---- memory and segments ---------------------------------------------- */

/* Shareable memory, zeroed, mapped read-write here, not yet registered. length
 * is rounded up to pages. */
int tent_client_alloc(struct tent_client *client, size_t length,
		      const char *location, void **addr);
/* Unregisters what lies inside, unmaps, frees. addr from tent_client_alloc(). */
int tent_client_free(struct tent_client *client, void *addr);

/* Registers [addr, addr + length). Memory of tent_client_alloc() is shared;
 * any other is private and copied by the engine. location NULL: "*". internal:
 * non-zero hides it from tent_client_segment_info(). */
int tent_client_register(struct tent_client *client, void *addr, size_t length,
			 int permission, const char *location, int internal);
/* Shares the range of a sealed memfd that the program mapped at addr. */
int tent_client_register_fd(struct tent_client *client, int memfd,
			    uint64_t offset, void *addr, size_t length,
			    int permission, const char *location);
/* Returns once nothing touches the range any more. length 0: match by addr. */
int tent_client_unregister(struct tent_client *client, void *addr, size_t length);

/* Sets *id, a target_id: 0 for the client's own segment, by its name or "".
 * The same name gives the same handle; closing ends it for all who use it.
 * Each is a round trip of the control plane. Errors as tent_open_segment() and
 * tent_close_segment() have. */
int tent_client_open_segment(struct tent_client *client, const char *name,
			     tent_segment_id_t *id);
int tent_client_close_segment(struct tent_client *client, tent_segment_id_t id);
/* *info is malloc'ed inside: free(info->buffers). */
int tent_client_segment_info(struct tent_client *client, tent_segment_id_t id,
			     struct tent_segment_info *info);

/* Takes what was sent to the client's own segment, oldest first: take is called for each,
 * with texts that end with a NUL and are gone when it returns; not 0: this one stays, and
 * those after it. How many were taken, or an error. Without any it makes no syscall. */
int tent_client_take_notifs(struct tent_client *client,
			    int (*take)(void *context, const char *name,
					uint32_t name_length, const char *message,
					uint32_t message_length),
			    void *context);

/* JSON text of an enum tent_query (not EXPLAIN), malloc'ed. */
int tent_client_query(struct tent_client *client, uint32_t what, char **json);
/* What the engine would do with up to TENT_EXPLAIN_MAX entries; as
 * tent_explain_requests(). */
int tent_client_explain(struct tent_client *client, const void *entries,
			size_t count, size_t entry_stride, char **json);

/* ---- ring: producer ---------------------------------------------------- */

/* A ring of the client: freed by tent_ring_close() or with the client.
 * slot_count, completion_count: powers of two; 0: the engine's default, and as
 * many completions as slots. */
int tent_ring_open(struct tent_client *client, uint32_t slot_count,
		   uint32_t completion_count, struct tent_ring **ring);
/* Waits for the ring's last request, then unmaps. NULL is ignored. */
void tent_ring_close(struct tent_ring *ring);

/* What the engine said of the ring when it was opened: a copy, valid until close. */
const struct tent_ring_header *tent_ring_header(const struct tent_ring *ring);

/* How many entries may be published now. */
uint32_t tent_ring_room(const struct tent_ring *ring);

/* Slot and cell i of the batch being built, i < tent_ring_room(). Their old
 * content is whatever an earlier lap left. */
struct tent_slot *tent_ring_slot(struct tent_ring *ring, uint32_t i);
char *tent_ring_cell(struct tent_ring *ring, uint32_t i);

/* Copies one caller entry (at most entry_stride bytes are read) and its policy
 * name into a slot and its cell. Judges nothing; the engine does. The slot's
 * seq, nr, user_data, op, flags and cq_head are untouched. */
void tent_entry_load(struct tent_slot *slot, char *cell, const void *entry,
		     size_t entry_stride);

/* Publishes slots 0..nr-1 as one batch: sets op, flags, seq, nr, cq_head and
 * reserved words; the caller has filled user_data, request and the tail words and,
 * where somebody is notified, notify of slot 0.
 * nr <= tent_ring_room(). Wakes the engine when it sleeps. Returns the position
 * after the batch. */
uint32_t tent_ring_publish(struct tent_ring *ring, uint32_t nr,
			   enum tent_slot_op op, uint16_t flags);

/* Loads count entries with user_data, user_data + 1, ... and publishes them.
 * TENT_ERR_CAPACITY when the room is too small (nothing was published); the
 * call arguments (alignment, stride, overflow) are checked first. */
int tent_ring_submit(struct tent_ring *ring, const void *entries, size_t count,
		     size_t entry_stride, uint64_t user_data, uint16_t flags);

/* Has the engine judged everything before position? */
int tent_ring_consumed(const struct tent_ring *ring, uint32_t position);

/* ---- ring: consumer ---------------------------------------------------- */

/* Copies up to max completions out and returns how many; gives their credits
 * back. Never blocks, makes no syscall. */
uint32_t tent_ring_poll(struct tent_ring *ring, struct tent_completion *out,
			uint32_t max);

/* Waits until a completion can be polled, or consumed reaches position
 * (tent_ring_wait_consumed), or the timeout passes. Spins, then sleeps in a
 * futex. 0, TENT_ERR_TIMEOUT, TENT_ERR_ENGINE_LOST (the engine process is gone)
 * or, when the engine ended the ring, the category of tent_ring_end_rule(). */
int tent_ring_wait(struct tent_ring *ring, uint64_t timeout_ns);
int tent_ring_wait_consumed(struct tent_ring *ring, uint32_t position,
			    uint64_t timeout_ns);

/* A non-blocking descriptor that becomes readable after tent_ring_arm() once
 * completions can be polled or the ring has ended; the ring's to close. It is read
 * like an eventfd: 8 bytes until EAGAIN, and arm again after each wake.
 * tent_ring_arm() returns 1 when there is something already (it is then not
 * armed): completions, or the ring's end. */
int tent_ring_event_fd(const struct tent_ring *ring);
int tent_ring_arm(struct tent_ring *ring);

/* The rule that ended the ring, or 0 while it is open. */
uint32_t tent_ring_end_rule(const struct tent_ring *ring);

/* Nanoseconds of CLOCK_MONOTONIC for a tick count of a completion. */
uint64_t tent_ring_ticks_to_ns(const struct tent_ring *ring, uint64_t ticks);
/* The tick count now. */
uint64_t tent_ring_now_ticks(void);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif /* TENT_TENTRING_H */
