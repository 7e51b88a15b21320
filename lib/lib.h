/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib.h - what the files of libtent share: engine handles, rings, batches, errors.
 *
 * Lifetime. Engines, rings and batches are never given back to the heap: their
 * structs go to a pool and come out again under a new id. A reader with a stale
 * handle therefore reads a live struct, sees that the id differs, and says so; it
 * needs no lock and no reference count.
 *
 * Locks, in the order they may be taken: engine->life, engine->rings_lock, a ring's
 * lock, the pools' lock. No two rings are ever locked by one thread.
 *
 * Pairs of this layer (see ring/order.h for the others):
 *   L1/L1  ring and drive lock   unlock        -> lock
 *   L2/L2  lib_batch.id          batch is set  -> any thread that got the id
 *   L3/L3  lib_task.end, bytes   reaper        -> any thread that polls
 *   L4/L4  lib_batch.pending     reaper        -> any thread that polls
 *   L5/L5  lib_engine.handle     engine is set -> any thread that got the handle
 *   L6/L6  lib_ring.engine       ring changes hands -> a thread with a batch of before
 */
#ifndef TENT_LIB_LIB_H
#define TENT_LIB_LIB_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <tent/tentring.h>

#include "engine/engine.h"
#include "ring/order.h"

#define LIB_RINGS_MAX 64		/* rings of one engine; more threads share them */
#define LIB_BATCH_MAX TENT_INDIRECT_MAX	/* requests of one batch over its life */

/* ---- errors (error.c): each stores the thread's last error and returns its
 * category, a negative enum tent_error --------------------------------------- */

/* "<field> is <value>; allowed: <allowed>" with the rule's own field. */
int lib_fail(uint32_t rule, int64_t value);
/* The same with the name of the argument in place of the rule's field. */
int lib_fail_field(uint32_t rule, const char *field, int64_t value);
/* "<field> is NULL; allowed: not NULL". */
int lib_fail_null(const char *field);
/* A batch id that is nobody's, or no longer. */
int lib_fail_stale(uint64_t batch_id);
/* There are only nr tasks. */
int lib_fail_range(size_t task_id, uint32_t nr);
/* malloc failed. */
int lib_fail_memory(void);
/* A sentence of the caller's own. */
int lib_fail_text(int error, uint32_t rule, const char *field, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* What libtentring's last call on this thread said. */
int lib_fail_client(void);
/* A stored failure again. */
int lib_fail_again(const struct tent_error_info *info);
/* Entry index of a batch was refused; policy: the name it carries, or NULL. */
int lib_fail_entry(uint32_t rule, uint32_t index, int64_t value, const char *policy);
/* What tent_last_error() would say. */
const struct tent_error_info *lib_last_error(void);

/* ---- settings (settings.c) --------------------------------------------------- */

/* This thread's settings and the environment. 0, or a category (stored). */
int lib_settings_resolve(struct engine_config *c);
/* Prints each line of warnings that this process has not printed before. */
void lib_warn(const char *warnings);
/* Frees the calling thread's settings. */
void lib_settings_free(void);

/* ---- locks (ring.c) ---------------------------------------------------------- */

/* Held for a ring round trip at most; one read-modify-write when it is free. */
void lib_lock_wait(uint32_t *word);

static inline bool lib_trylock(uint32_t *word)
{
	return !load_relaxed(word) && !exchange(word, 1u); /* L1 */
}

static inline void lib_lock(uint32_t *word)
{
	if (exchange(word, 1u)) /* L1 */
		lib_lock_wait(word);
}

static inline void lib_unlock(uint32_t *word)
{
	store_release(word, 0u); /* L1 */
}

/* ---- engines (handle.c) ------------------------------------------------------ */

struct lib_ring;
struct tent_notifi_info;
struct tent_nic_load_stat;

struct lib_engine {
	uint64_t handle;		/* L5; 0 while it is nobody's */
	uint64_t generation;		/* of its place; pool lock */
	uint32_t index;			/* in the table, constant */
	bool used;			/* pool lock */
	uint32_t closing;		/* destroy has begun: waits end early */
	uint32_t lost;			/* the engine process is gone */
	uint32_t drives;		/* caller mode */
	uint32_t direct_max;		/* entries that fit a ring of this engine */
	uint32_t drive_lock;		/* guards local while a thread drives it */
	struct engine *local;		/* NULL: a tentd */
	struct tent_client *client;
	pthread_rwlock_t life;		/* control calls read, destroy writes */
	pthread_mutex_t rings_lock;
	struct lib_ring *rings[LIB_RINGS_MAX];
	uint32_t nr_rings;
	struct lib_indirect *spare;	/* INDIRECT memory for reuse; pool lock */
	struct lib_texts *spare_texts;	/* memory of notifications for reuse; pool lock */
	struct lib_gpu_memory *gpu_memory; /* that it allocated; pool lock */
	bool failed;			/* it never worked: failure says why */
	struct tent_error_info failure;
};

/* gpu.c; control calls, the engine is entered. "cuda:N"? */
bool lib_gpu_location(const char *location);
int lib_gpu_allocate(struct lib_engine *e, void **addr, size_t size, const char *location);
/* False: it is not one of those. */
bool lib_gpu_free(struct lib_engine *e, const void *addr);
void lib_gpu_registered(struct lib_engine *e, const void *addr, size_t size);
void lib_gpu_unregistered(struct lib_engine *e, const void *addr, size_t size);
/* Is it memory of a GPU that this engine cannot reach? 0, or the error, which is stored. */
int lib_gpu_check(const struct lib_engine *e, const void *addr);
/* The engine is no more. */
void lib_gpu_forget(struct lib_engine *e);

/* For the data path: the engine behind a handle, or NULL with the error stored. */
struct lib_engine *lib_engine_find(tent_engine_t handle);
/* For control calls: the engine stays until lib_engine_leave(). */
struct lib_engine *lib_engine_enter(tent_engine_t handle);
void lib_engine_leave(struct lib_engine *e);
/* Is this still the engine that the handle named? */
static inline bool lib_engine_is(const struct lib_engine *e, uint64_t handle)
{
	return load_acquire(&e->handle) == handle; /* L5 */
}

/* Caller mode: one turn of the engine, unless another thread is at it. True: it
 * did something. */
bool lib_drive(struct lib_engine *e);

/* True in the process that made the engines, false in a child of fork(). */
bool lib_process_is_ours(void);
/* Serves the pools of engines, rings and batches. */
void lib_pool_lock(void);
void lib_pool_unlock(void);

/* ---- batches (batch.c) ------------------------------------------------------- */

/* One request. end packs status, transport, rule, error and flags, see lib_task_word(). */
struct lib_task {
	uint64_t bytes;			/* L3 */
	uint64_t end;			/* L3 */
};

struct lib_tasks {			/* pooled by capacity, which never changes */
	struct lib_tasks *next;
	uint32_t capacity;
	uint32_t class;
	struct lib_task task[];
};

struct lib_batch {
	uint64_t id;			/* L2; 0 while it is nobody's */
	uint64_t engine;		/* handle */
	struct lib_ring *ring;		/* where its requests go; ring's lock */
	struct lib_tasks *tasks;
	uint32_t capacity;
	uint32_t nr_tasks;		/* accepted so far; written under the ring's lock */
	uint32_t pending;		/* L4; not ended yet; ring's lock */
	uint32_t worst;			/* severity, see lib_severity(); ring's lock */
	uint64_t bytes;			/* of completed tasks; ring's lock */
	bool orphan;			/* freed while pending; ring's lock */
	uint32_t unseen;		/* its ring's watch: it did not look at ends of tasks;
					 * ring's lock */
	uint32_t index;			/* in the table, constant */
	uint64_t generation;		/* pool lock */
	struct lib_batch *next_free;
};

/* error is an enum tent_error: it fits 16 bits. flags: TENT_CQE_F_* of the task. */
static inline uint64_t lib_task_word(uint8_t status, uint8_t transport, uint16_t rule,
				     int32_t error, uint16_t flags)
{
	return (uint64_t)flags << 48 | (uint64_t)(uint16_t)error << 32 | (uint64_t)rule << 16 |
	       (uint64_t)transport << 8 | status;
}
static inline int lib_word_status(uint64_t word) { return (int)(word & 0xff); }
static inline uint8_t lib_word_transport(uint64_t word) { return (uint8_t)(word >> 8); }
static inline uint16_t lib_word_rule(uint64_t word) { return (uint16_t)(word >> 16); }
static inline int32_t lib_word_error(uint64_t word) { return (int16_t)(word >> 32); }
static inline uint16_t lib_word_flags(uint64_t word) { return (uint16_t)(word >> 48); }

/* Terminal statuses by how bad they are: 0 COMPLETED, then INVALID < CANCELED <
 * TIMEOUT < FAILED. */
uint32_t lib_severity(int status);
int lib_severity_status(uint32_t severity);

/* A new batch on this ring, or NULL without memory. */
struct lib_batch *lib_batch_new(uint64_t engine, struct lib_ring *ring, uint32_t capacity);
/* The batch behind an id, or NULL with the error stored. Its other fields are true
 * only while lib_batch_is() says so afterwards. */
struct lib_batch *lib_batch_find(struct lib_engine *e, uint64_t id);
static inline bool lib_batch_is(const struct lib_batch *b, uint64_t id)
{
	return load_acquire(&b->id) == id; /* L2 */
}
struct lib_batch *lib_batch_at(uint32_t index);
uint32_t lib_batch_count(void);
/* Ends one task, under the ring's lock. False: there is no such task in flight.
 * Reclaims an orphan with its last task. */
bool lib_task_finish(struct lib_batch *b, uint32_t task, uint64_t word, uint64_t bytes);
/* Makes the id stale and the batch free for reuse. Nothing may be pending. */
void lib_batch_reclaim(struct lib_batch *b);
/* The engine with this handle is gone: reclaims the batch if it was its. */
void lib_batch_drop(struct lib_batch *b, uint64_t engine);
/* In a child of fork(): every batch is nobody's and stays so. */
void lib_batch_forget_all(void);

/* ---- rings (ring.c, reap.c) ---------------------------------------------------- */

/* user_data of what libtent publishes: a task of a batch, or one of these. */
#define LIB_DATA_CANCEL (1ull << 63)
#define LIB_DATA_INDIRECT (1ull << 62)
#define LIB_DATA_NOTIFY (1ull << 61)

static inline uint64_t lib_user_data(const struct lib_batch *b, uint32_t task)
{
	return (uint64_t)b->index << 32 | task;
}

/* Memory of one INDIRECT batch: slots, results, cells, in that order. */
struct lib_indirect {
	struct lib_indirect *next;
	uint8_t *memory;		/* from tent_client_alloc(), registered */
	uint32_t capacity;		/* entries it has room for */
	uint32_t base, count;		/* the tasks of batch that it carries */
	bool has_cells;			/* an entry names a policy */
	struct lib_batch *batch;
};

struct lib_ring {
	uint32_t lock;			/* L1; guards all of it but users */
	uint32_t users;			/* threads seated here; written under rings_lock */
	struct tent_ring *tent;		/* NULL once closed: that may be seen without lock */
	struct lib_engine *engine;	/* L6 */
	struct lib_indirect *indirect;	/* in flight, one at a time */
	struct {			/* how the batch under judgement was refused */
		bool rejected;
		uint16_t rule;
		uint32_t index;
		int64_t value;
	} verdict;
	struct {			/* how the notification that was sent alone ended */
		bool ended;
		uint16_t rule;
	} sent;
	uint64_t quiet_since_ns;	/* when polling began to find nothing, 0: it finds */
	uint32_t wants_fd;		/* tent_completion_fd() was asked for */
	uint32_t reaped;		/* since the last arm */
	uint32_t watch;			/* which waiter on the fd it has, from 1 */
	uint32_t nr_unseen;		/* batches whose ends that one has yet to look at */
	bool is_told;			/* self_fd is readable */
	int watch_fd;			/* what tent_completion_fd() gave, or -1 */
	int self_fd;			/* an eventfd under it: our own word to its waiter */
	struct lib_ring *next_free;
};

/* Lets the library see the calling thread's exit. 0, or a category (stored). */
int lib_thread_watch(void);
/* The calling thread's ring of an engine, opened or taken over when it has none;
 * NULL with the error stored. */
struct lib_ring *lib_ring_mine(struct lib_engine *e);
/* The same, without opening one: NULL when it has none. */
struct lib_ring *lib_ring_seat(struct lib_engine *e);
/* Locks the ring a batch lives on. NULL with the error stored when the batch is
 * stale. to: where the batch may move when it is idle, or NULL. */
struct lib_ring *lib_ring_lock_batch(struct lib_engine *e, struct lib_batch *b, uint64_t id,
				     struct lib_ring *to);
/* For an engine that is being destroyed: closes every ring; then, when no batch names
 * one any more, gives them to the pool. */
void lib_rings_close(struct lib_engine *e);
void lib_rings_release(struct lib_engine *e);

/* The functions below need the ring's lock. */

/* Tasks of a batch end that the waiter on the completion fd does not look at now. */
void lib_ring_tell_later(struct lib_ring *r, struct lib_batch *b);
/* It looks now, or will not any more. */
void lib_ring_told(struct lib_ring *r, struct lib_batch *b);
/* Takes every completion there is; polled: the batch the caller asks about, or NULL.
 * Returns how many. */
uint32_t lib_ring_reap(struct lib_ring *r, const struct lib_batch *polled);
/* After a reap that found nothing: now and then looks whether the engine still
 * lives, and ends everything when it does not. */
void lib_ring_check(struct lib_ring *r);
/* Ends every task of the ring with a rule and closes it. */
void lib_ring_lost(struct lib_ring *r, uint32_t rule);
/* Waits until n entries may be published. 0 or the rule that ended the ring. */
uint32_t lib_ring_make_room(struct lib_ring *r, uint32_t n);
/* Waits until it carries no INDIRECT batch: one at a time. As above. */
uint32_t lib_ring_await_indirect(struct lib_ring *r);
/* Waits until the notification that was sent alone has ended. As above. */
uint32_t lib_ring_await_sent(struct lib_ring *r);
/* Waits until the engine judged everything before position, reaps. As above. */
uint32_t lib_ring_await(struct lib_ring *r, uint32_t position);
/* For users of the completion fd, after a reap: empties and arms it again. */
void lib_ring_rearm(struct lib_ring *r, struct lib_batch *polled);

/* ---- INDIRECT (indirect.c) ------------------------------------------------------ */

/* Memory for count entries, from what the engine's earlier batches left or new; NULL
 * with the error stored. Not under a ring's lock. */
struct lib_indirect *lib_indirect_get(struct lib_engine *e, uint32_t count);
/* For reuse. */
void lib_indirect_put(struct lib_engine *e, struct lib_indirect *m);
/* The engine and all its memory are gone. */
void lib_indirect_forget(struct lib_engine *e);
/* Where entry i goes. */
struct tent_slot *lib_indirect_slot(const struct lib_indirect *m, uint32_t i);
char *lib_indirect_cell(const struct lib_indirect *m, uint32_t i);
/* The INDIRECT slot that publishes m. Ring's lock. */
void lib_indirect_describe(struct lib_indirect *m, struct tent_slot *slot);
/* The INDIRECT batch of the ring ended: takes its results over. Ring's lock. */
void lib_indirect_finish(struct lib_ring *r, const struct tent_completion *c,
			 const struct lib_batch *polled);

/* ---- submit (submit.c) ---------------------------------------------------------- */

struct lib_source {			/* what the caller hands in */
	const void *entries;
	size_t count;
	size_t stride;			/* bytes */
	bool legacy;			/* struct tent_request, else tent_request_v1 */
	const char *name, *message;	/* of a notification; NULL: there is none */
};

/* What entries_fault() or array_fault() found in a call's arguments; 0 for rule 0. */
int lib_fail_array(uint32_t rule, int64_t value);
/* The checks of a call's own arguments, shared with explain. 0 or a category. */
int lib_check_entries(const void *entries, size_t count, size_t stride, uint32_t schema);
/* The entries were checked. 0 or a category. */
int lib_submit(struct lib_engine *e, tent_batch_id_t batch_id, const struct lib_source *src);

/* ---- notifications (notify.c) ----------------------------------------------------- */

/* A notification as the engine reads it, in memory that is registered. */
struct lib_texts {
	struct lib_texts *next;
	struct tent_notify *memory;
};

/* A call's arguments. 0 or a category. */
int lib_check_texts(const char *name, const char *message);
/* Texts that were checked; NULL with the error stored. Not under a ring's lock. Back once
 * the engine has judged the slot that names them. */
struct lib_texts *lib_texts_get(struct lib_engine *e, const char *name, const char *message);
void lib_texts_put(struct lib_engine *e, struct lib_texts *t);
/* The engine and all its memory are gone. */
void lib_texts_forget(struct lib_engine *e);
/* Does the engine know of notifications? Ring's lock. 0 or a category. */
int lib_check_notifies(const struct lib_ring *r);
/* One to the owner of a segment: returns when it is there. 0 or a category. */
int lib_send_notification(struct lib_engine *e, uint64_t handle, const char *name,
			  const char *message);
/* Those that came; *info is always written. 0 or a category. */
int lib_receive_notifications(struct lib_engine *e, struct tent_notifi_info *info);

/* ---- network interfaces (nics.c) --------------------------------------------------- */

/* *count in: room, out: interfaces that there are; 0 after a failure. 0 or a category. */
int lib_nic_loads(struct lib_engine *e, struct tent_nic_load_stat *stats, size_t *count);

#endif /* TENT_LIB_LIB_H */
