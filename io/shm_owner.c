/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm_owner.c - owners of private memory. Each has one worker thread, which is
 * all that ever enters the kernel for that owner's memory.
 *
 * Who frees an owner: owner_close() tells the worker to stop and waits a moment.
 * A worker that sits in a page fault of a hostile client does not come; the
 * owner then stays on the instance's list of dying ones, which is looked through
 * when owners come and go, and is freed once its worker is gone and no poller
 * holds a lane of it. When the whole instance closes first,
 * the worker inherits the owner and frees it when its system call returns.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/thread.h"
#include "io/file.h"
#include "io/shm.h"
#include "ring/clock.h"
#include "ring/wake.h"

/* private_owner.wake. One word, changed by exchange only, so the last exchange
 * decides: either the poller sees ASLEEP and wakes, or the worker sees CALLED
 * and looks at its lanes and at stopping again: R10/A10 too. */
enum { WORKER_AWAKE = 0, WORKER_CALLED = 1, WORKER_ASLEEP = 2 };

/* private_owner.life. Whoever exchanges it second frees: R12/A12, in both
 * directions. */
enum { LIFE_BOTH = 0, LIFE_WORKER_GONE = 1, LIFE_ABANDONED = 2 };

/* How long a worker stays awake after its last job: a poller answers a chunk
 * with the next one within this, and a wakeup costs both of them more. */
#define WORKER_SPIN_NS 20000ull

static void worker_call(struct private_owner *o)
{
	if (exchange(&o->wake, (uint32_t)WORKER_CALLED) == WORKER_ASLEEP) /* R10 */
		wake_futex_wake(&o->wake);
}

void shm_lane_post(struct lane *lane)
{
	lane->moved = 0;
	lane->fault = 0;
	lane->posted_ns = clock_monotonic_ns();
	lane->in_worker = true;
	/* R10, pairs with A10 in run_lane(): the job before its state. */
	store_release(&lane->state, (uint32_t)LANE_JOB);
	worker_call(lane->channel->owner);
}

/* ---- worker ------------------------------------------------------------ */

/* Moves bytes between the bounce buffer and a descriptor. Returns how many; where it
 * stops early *result is what the system said then, 0 or -errno. */
static uint32_t move_bytes(uint8_t *bounce, uint32_t length, int fd, uint64_t offset,
			   bool is_read, int32_t *result)
{
	uint32_t moved = 0;

	*result = 0;
	while (moved < length) {
		off_t where = (off_t)(offset + moved);
		ssize_t n = is_read ? pread(fd, bounce + moved, length - moved, where) :
				      pwrite(fd, bounce + moved, length - moved, where);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			*result = n < 0 ? -errno : 0;
			break;
		}
		moved += (uint32_t)n;
	}
	return moved;
}

/* Stops early at memory that is not there: EFAULT and EIO for a hole, 0 for a process
 * that is no more. */
static uint32_t move_memory(const struct lane *l, uint32_t length, int mem_fd)
{
	int32_t result;

	return move_bytes(l->bounce, length, mem_fd, l->address, l->is_source, &result);
}

static uint32_t move_file(struct lane *l, uint32_t length)
{
	int32_t result;
	uint32_t moved = move_bytes(l->bounce, length, l->file->fd, l->file_offset,
				    !l->is_source, &result);

	if (moved < length && !l->fault)
		l->fault = file_rule(result, !l->is_source);
	return moved;
}

/* A step between the two ends; false: the lane was left meanwhile. R10/A10 */
static bool lane_step(struct lane *l, uint32_t from, uint32_t to)
{
	return compare_exchange(&l->state, &from, to); /* R10/A10 */
}

/* Out of the file into the owner's memory, or back: what is there of it. moved is what
 * arrived at the other end. */
static void lane_move_file(struct lane *l, int mem_fd)
{
	uint32_t n;

	if (l->is_source) {
		n = move_memory(l, l->length, mem_fd);
		l->fault = n < l->length ? TENT_RULE_COPY_FAULT : 0;
		if (lane_step(l, LANE_BUSY, LANE_FILE))
			l->moved = move_file(l, n);
		return;
	}
	n = move_file(l, l->length);
	lane_step(l, LANE_FILE, LANE_BUSY);
	l->moved = move_memory(l, n, mem_fd);
	if (l->moved < n)
		l->fault = TENT_RULE_COPY_FAULT;
}

void shm_inbox_nudge(const struct shm_inbox *inbox)
{
	if (inbox->event_fd >= 0)
		wake_event_signal(inbox->event_fd);
}

static void inbox_push(struct shm_inbox *inbox, struct lane *lane)
{
	struct lane *top = load_relaxed(&inbox->done);

	/* R11, pairs with A11 in harvest(): the result before the lane. */
	do
		lane->next_done = top;
	while (!compare_exchange(&inbox->done, &top, lane));
	/* A poller that is awake sees the stack; one that falls asleep after it
	 * looked finds the eventfd readable. A lane on top of others needs no
	 * second write: whoever pushed the first one has it to do. */
	if (!top)
		shm_inbox_nudge(inbox);
}

static bool run_lane(struct private_owner *o, struct lane *lane)
{
	if (load_relaxed(&lane->state) != LANE_JOB)
		return false;
	/* The poller may take a job back until here. What it is may be read by whoever
	 * claimed it only, so it is claimed as reading a file first. */
	if (!lane_step(lane, LANE_JOB, LANE_FILE))
		return false;
	if (!lane->file || lane->is_source)
		lane_step(lane, LANE_FILE, LANE_BUSY);
	if (lane->file)
		lane_move_file(lane, o->mem_fd);
	else
		lane->moved = move_memory(lane, lane->length, o->mem_fd);
	store_release(&lane->state, (uint32_t)LANE_DONE); /* R10 */
	inbox_push(lane->channel->inbox, lane);
	return true;
}

static bool run_lanes(struct private_owner *o)
{
	bool worked = false;

	for (uint32_t c = 0; c < o->nr_channels; c++)
		for (uint32_t i = 0; i < SHM_LANES; i++)
			worked |= run_lane(o, &o->channels[c].lanes[i]);
	return worked;
}

/* Returns when there may be work: spins a little with yields, then sleeps. */
static void worker_idle(struct private_owner *o)
{
	uint64_t until = clock_monotonic_ns() + WORKER_SPIN_NS;
	uint32_t expected = WORKER_AWAKE;

	while (load_relaxed(&o->wake) == WORKER_AWAKE && clock_monotonic_ns() < until)
		sched_yield();
	/* A10, pairs with R10 in worker_call(). */
	if (compare_exchange(&o->wake, &expected, (uint32_t)WORKER_ASLEEP))
		while (load_acquire(&o->wake) == WORKER_ASLEEP)
			wake_futex_wait(&o->wake, WORKER_ASLEEP, UINT64_MAX);
}

static void owner_free(struct private_owner *o)
{
	for (uint32_t i = 0; i < o->nr_channels; i++)
		shm_inbox_put(o->channels[i].inbox);
	munmap(o->bounces, (size_t)o->nr_channels * SHM_LANES * SHM_CHUNK);
	free(o);
}

static void *worker_main(void *arg)
{
	struct private_owner *o = arg;

	pthread_setname_np(pthread_self(), "tent-copier");
	while (!load_relaxed(&o->stopping)) {
		exchange(&o->wake, (uint32_t)WORKER_AWAKE); /* A10 */
		while (!load_relaxed(&o->stopping) && run_lanes(o))
			;
		if (!load_relaxed(&o->stopping))
			worker_idle(o);
	}
	close(o->mem_fd);
	/* R12/A12, pairs with owner_abandon(). */
	if (exchange(&o->life, (uint32_t)LIFE_WORKER_GONE) == LIFE_ABANDONED)
		owner_free(o);
	else
		wake_futex_wake(&o->life); /* o lives until it has joined us */
	return NULL;
}

/* ---- control ----------------------------------------------------------- */

void shm_inbox_put(struct shm_inbox *inbox)
{
	if (fetch_add(&inbox->refs, -1u) != 1) /* R15/A15: the last one frees */
		return;
	if (inbox->event_fd >= 0)
		close(inbox->event_fd);
	free(inbox);
}

static void channel_init(struct channel *c, struct private_owner *o, uint32_t index)
{
	c->owner = o;
	c->inbox = o->inst->inboxes[index];
	c->queue = o->inst->queues[index];
	fetch_add(&c->inbox->refs, 1u); /* R15/A15 */
	for (uint32_t i = 0; i < LEVELS; i++)
		transfer_list_init(&c->waiting[i]);
	for (uint32_t i = 0; i < SHM_LANES; i++) {
		c->lanes[i].channel = c;
		c->lanes[i].bounce = o->bounces +
			((size_t)index * SHM_LANES + i) * SHM_CHUNK;
	}
}

static struct private_owner *owner_alloc(struct shm_instance *inst, int mem_fd)
{
	size_t size = (size_t)inst->nr_queues * SHM_LANES * SHM_CHUNK;
	struct private_owner *o;

	o = calloc(1, sizeof(*o) + inst->nr_queues * sizeof(o->channels[0]));
	if (!o)
		return NULL;
	o->bounces = mmap(NULL, size, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (o->bounces == MAP_FAILED) {
		free(o);
		return NULL;
	}
	madvise(o->bounces, size, MADV_DONTFORK); /* not a child's after a fork */
	o->inst = inst;
	o->mem_fd = mem_fd;
	o->nr_channels = inst->nr_queues;
	for (uint32_t i = 0; i < o->nr_channels; i++)
		channel_init(&o->channels[i], o, i);
	return o;
}

int shm_owner_open(struct backend_instance *base, int mem_fd,
		   struct private_owner **owner)
{
	struct shm_instance *inst = (struct shm_instance *)base;
	struct private_owner *o;
	int rc;

	if (inst->nr_queues == 0)
		return -EINVAL;
	shm_owners_reap(inst, false);
	o = owner_alloc(inst, mem_fd);
	if (!o)
		return -ENOMEM;
	rc = thread_start_small(&o->thread, false, worker_main, o);
	if (rc) {
		owner_free(o);
		return rc;
	}
	inst->owners_seen = true;
	*owner = o;
	return 0;
}

/* Does no poller hold a lane of it? A10, pairs with the last R10 in harvest(). */
static bool is_idle(const struct private_owner *o)
{
	for (uint32_t c = 0; c < o->nr_channels; c++)
		for (uint32_t i = 0; i < SHM_LANES; i++)
			if (load_acquire(&o->channels[c].lanes[i].state) != LANE_IDLE)
				return false;
	return true;
}

/* The pollers are gone. The one that comes second frees. */
static void owner_abandon(struct private_owner *o)
{
	pthread_t thread = o->thread;

	/* R12/A12, pairs with worker_main(). */
	if (exchange(&o->life, (uint32_t)LIFE_ABANDONED) == LIFE_WORKER_GONE) {
		pthread_join(thread, NULL);
		owner_free(o);
	} else {
		pthread_detach(thread);
	}
}

void shm_owners_reap(struct shm_instance *inst, bool all)
{
	struct private_owner *o, *next;

	pthread_mutex_lock(&inst->dying_lock);
	for (o = LIST_FIRST(&inst->dying); o; o = next) {
		next = LIST_NEXT(o, dying);
		if (!all && (load_acquire(&o->life) != LIFE_WORKER_GONE || /* A12 */
			     !is_idle(o)))
			continue;
		LIST_REMOVE(o, dying);
		owner_abandon(o);
	}
	pthread_mutex_unlock(&inst->dying_lock);
}

void shm_owner_close(struct private_owner *o)
{
	struct shm_instance *inst = o->inst;
	uint64_t now = clock_monotonic_ns(), until = now + SHM_CLOSE_NS;

	store_relaxed(&o->stopping, 1u); /* before R10 in worker_call() */
	worker_call(o);
	while (load_acquire(&o->life) == LIFE_BOTH && now < until) { /* A12 */
		wake_futex_wait(&o->life, LIFE_BOTH, until - now);
		now = clock_monotonic_ns();
	}
	pthread_mutex_lock(&inst->dying_lock);
	LIST_INSERT_HEAD(&inst->dying, o, dying);
	pthread_mutex_unlock(&inst->dying_lock);
	shm_owners_reap(inst, false);	/* from here on o may be gone */
}
