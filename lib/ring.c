/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring.c - which ring a thread submits on.
 *
 * Every thread that uses an engine gets a seat at a ring of its own; when it exits, the
 * ring goes to the next thread that comes. Where an engine grants no more rings,
 * threads share them. Each ring has a lock, free in the common case: the thread that
 * holds it is the ring's one producer and one consumer, which lets any thread poll any
 * batch.
 */
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "lib/lib.h"
#include "ring/mem.h"

#define SPINS 200		/* looks at a taken lock before yielding */
#define YIELDS 50		/* yields before sleeping */
#define NAP_NS 50000
#define FD_LOAD 1000u		/* threads that one waiting on its fd counts for */

struct seat {
	uint64_t handle;	/* of the engine: a stale one never comes back */
	struct lib_engine *engine;
	struct lib_ring *ring;
};

struct seats {
	uint32_t nr, capacity;
	struct seat seat[];
};

static __thread struct seats *mine;
static pthread_key_t exit_key;			/* its destructor leaves the seats */
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;
static bool exit_key_works;
static struct lib_ring *free_rings;		/* pool lock */

void lib_lock_wait(uint32_t *word)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };

	for (uint32_t i = 0; !lib_trylock(word); i++) {
		if (i < SPINS)
			spin_pause();
		else if (i < SPINS + YIELDS)
			sched_yield();
		else
			nanosleep(&nap, NULL);
	}
}

/* Takes over what completed, then leaves the ring to whoever comes next. */
static void seat_leave(struct seat *s)
{
	struct lib_engine *e = s->engine;

	pthread_mutex_lock(&e->rings_lock);
	if (lib_engine_is(e, s->handle)) {
		lib_lock(&s->ring->lock);
		if (s->ring->tent)
			lib_ring_reap(s->ring, NULL);
		store_relaxed(&s->ring->users, s->ring->users - 1);
		if (!s->ring->users)
			store_relaxed(&s->ring->wants_fd, 0u);
		lib_unlock(&s->ring->lock);
	}
	pthread_mutex_unlock(&e->rings_lock);
	s->handle = 0;
}

static void thread_exit(void *arg)
{
	struct seats *seats = arg;

	mine = NULL;
	for (uint32_t i = 0; lib_process_is_ours() && i < seats->nr; i++)
		if (seats->seat[i].handle)
			seat_leave(&seats->seat[i]);
	free(seats);
	lib_settings_free();
}

static void exit_key_create(void)
{
	exit_key_works = !pthread_key_create(&exit_key, thread_exit);
}

/* Unloading the library: its code must not run when threads exit later. */
__attribute__((destructor)) static void exit_key_delete(void)
{
	if (exit_key_works)
		pthread_key_delete(exit_key);
}

static int seats_grow(void)
{
	uint32_t capacity = mine ? 2 * mine->capacity : 4;
	struct seats *grown = realloc(mine, sizeof(*grown) + capacity * sizeof(struct seat));

	if (!grown)
		return lib_fail_memory();
	if (!mine)
		grown->nr = 0;
	grown->capacity = capacity;
	mine = grown;
	if (pthread_setspecific(exit_key, mine))
		return lib_fail_text(TENT_ERR_RUNTIME, TENT_RULE_SYSTEM, "pthread",
				     "no memory for thread-specific data");
	return 0;
}

int lib_thread_watch(void)
{
	pthread_once(&exit_once, exit_key_create);
	if (!exit_key_works)
		return lib_fail_text(TENT_ERR_RUNTIME, TENT_RULE_SYSTEM, "pthread",
				     "no pthread key is left");
	return mine ? 0 : seats_grow();
}

static struct seat *seat_find(uint64_t handle)
{
	for (uint32_t i = 0; mine && i < mine->nr; i++)
		if (mine->seat[i].handle == handle)
			return &mine->seat[i];
	return NULL;
}

/* A seat for a new engine: that of one that is gone, or one more. */
static struct seat *seat_new(void)
{
	if (lib_thread_watch())
		return NULL;
	for (uint32_t i = 0; i < mine->nr; i++) {
		struct seat *s = &mine->seat[i];

		if (!s->handle || !lib_engine_is(s->engine, s->handle))
			return s;
	}
	if (mine->nr == mine->capacity && seats_grow())
		return NULL;
	mine->seat[mine->nr].handle = 0;
	return &mine->seat[mine->nr++];
}

static struct lib_ring *ring_new(struct lib_engine *e)
{
	struct lib_ring *r;

	lib_pool_lock();
	r = free_rings;
	if (r)
		free_rings = r->next_free;
	lib_pool_unlock();
	if (!r)
		r = calloc(1, sizeof(*r));
	if (!r) {
		lib_fail_memory();
		return NULL;
	}
	r->watch_fd = r->self_fd = -1;
	store_release(&r->engine, e); /* L6 */
	return r;
}

static void ring_free(struct lib_ring *r)
{
	lib_pool_lock();
	r->next_free = free_rings;
	free_rings = r;
	lib_pool_unlock();
}

/* It outlives a ring that broke: who waits on it must still see that. */
static void watch_close(struct lib_ring *r)
{
	fd_close(&r->watch_fd);
	fd_close(&r->self_fd);
}

/* Opens a ring in r, which has none. */
static int ring_open(struct lib_ring *r)
{
	const struct tent_ring_header *h;
	struct tent_ring *tent;

	if (tent_ring_open(r->engine->client, 0, 0, &tent))
		return lib_fail_client();
	h = tent_ring_header(tent);
	store_relaxed(&r->engine->direct_max, h->slot_count < h->completion_count ?
		      h->slot_count : h->completion_count);
	lib_lock(&r->lock);
	watch_close(r);
	r->indirect = NULL;
	r->quiet_since_ns = 0;
	store_relaxed(&r->wants_fd, 0u);
	r->reaped = 0;
	r->is_told = false;
	store_relaxed(&r->tent, tent);
	lib_unlock(&r->lock);
	return 0;
}

/* Threads at a ring; one that waits on its fd had better stay alone. */
static uint32_t load_of(const struct lib_ring *r)
{
	return r->users + (load_relaxed(&r->wants_fd) ? FD_LOAD : 0);
}

/* A ring nobody sits at, else the one with the fewest threads; open: one that works. */
static struct lib_ring *ring_least_used(struct lib_engine *e, bool open)
{
	struct lib_ring *best = NULL;

	for (uint32_t i = 0; i < e->nr_rings; i++) {
		struct lib_ring *r = e->rings[i];

		if (!!load_relaxed(&r->tent) == open && (!best || load_of(r) < load_of(best)))
			best = r;
	}
	return best;
}

static struct lib_ring *ring_add(struct lib_engine *e)
{
	struct lib_ring *r = ring_least_used(e, false);

	if (r && !r->users) /* one that broke: nobody is left at it */
		return ring_open(r) ? NULL : r;
	if (e->nr_rings == LIB_RINGS_MAX) {
		lib_fail(TENT_RULE_RING_LIMIT, LIB_RINGS_MAX);
		return NULL;
	}
	r = ring_new(e);
	if (r && ring_open(r)) {
		ring_free(r);
		return NULL;
	}
	if (r)
		e->rings[e->nr_rings++] = r;
	return r;
}

/* rings_lock. NULL with the error stored. */
static struct lib_ring *ring_choose(struct lib_engine *e)
{
	struct lib_ring *best = ring_least_used(e, true), *r;

	if (best && !best->users)
		return best;
	r = ring_add(e);
	if (!r && best && lib_last_error()->error == TENT_ERR_CAPACITY)
		r = best;
	return r;
}

static struct lib_ring *seat_take(struct lib_engine *e, uint64_t handle)
{
	struct seat *s = seat_new();
	struct lib_ring *r = NULL;

	if (!s)
		return NULL;
	pthread_mutex_lock(&e->rings_lock);
	if (lib_engine_is(e, handle))
		r = ring_choose(e);
	else
		lib_fail_field(TENT_RULE_ENGINE_STALE, "engine", (int64_t)handle);
	if (r) {
		store_relaxed(&r->users, r->users + 1);
		*s = (struct seat){ handle, e, r };
	}
	pthread_mutex_unlock(&e->rings_lock);
	return r;
}

struct lib_ring *lib_ring_seat(struct lib_engine *e)
{
	struct seat *s = seat_find(load_acquire(&e->handle)); /* L5 */

	return s && s->handle ? s->ring : NULL;
}

struct lib_ring *lib_ring_mine(struct lib_engine *e)
{
	uint64_t handle = load_acquire(&e->handle); /* L5 */
	struct seat *s = handle ? seat_find(handle) : NULL;

	if (s && load_relaxed(&s->ring->tent))
		return s->ring;
	if (s)
		seat_leave(s); /* the ring broke */
	return seat_take(e, handle);
}

/* An idle batch moves to the ring of the thread that submits: requests in flight are
 * what ties it to another. */
struct lib_ring *lib_ring_lock_batch(struct lib_engine *e, struct lib_batch *b, uint64_t id,
				     struct lib_ring *to)
{
	for (;;) {
		struct lib_ring *r = load_acquire(&b->ring); /* L1 */
		bool ours;

		lib_lock(&r->lock);
		ours = load_acquire(&b->ring) == r && lib_batch_is(b, id) &&
		       load_acquire(&r->engine) == e; /* L2, L6 */
		if (ours && (!to || r == to || b->pending))
			return r;
		if (ours) {
			lib_ring_told(r, b); /* it is another's to wait for */
			store_release(&b->ring, to); /* L1 */
		}
		lib_unlock(&r->lock);
		if (lib_batch_is(b, id))
			continue;
		lib_fail_stale(id);
		return NULL;
	}
}

void lib_rings_close(struct lib_engine *e)
{
	pthread_mutex_lock(&e->rings_lock);
	for (uint32_t i = 0; i < e->nr_rings; i++) {
		struct lib_ring *r = e->rings[i];
		struct tent_ring *tent;

		lib_lock(&r->lock);
		tent = r->tent;
		store_relaxed(&r->tent, NULL);
		tent_ring_close(tent);
		lib_unlock(&r->lock);
	}
	pthread_mutex_unlock(&e->rings_lock);
}

void lib_rings_release(struct lib_engine *e)
{
	pthread_mutex_lock(&e->rings_lock);
	for (uint32_t i = 0; i < e->nr_rings; i++) {
		struct lib_ring *r = e->rings[i];

		lib_lock(&r->lock);
		store_relaxed(&r->users, 0u);
		watch_close(r);
		store_release(&r->engine, NULL); /* L6 */
		lib_unlock(&r->lock);
		ring_free(r);
	}
	e->nr_rings = 0;
	pthread_mutex_unlock(&e->rings_lock);
}
