/* SPDX-License-Identifier: Apache-2.0 */
/*
 * completion.c - waiting for, and ending, what is in flight: the descriptor for epoll
 * users, and cancellation.
 */
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lib/lib.h"
#include "ring/client.h"
#include "ring/wake.h"

static bool watch(int epoll, int fd, uint32_t events)
{
	struct epoll_event e = { .events = events };

	return fd < 0 || !epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e);
}

/* Nobody writes the completion socket of an engine process that died: the descriptor that
 * a program gets also watches whether it lives. And we cannot write it: what we have to
 * tell the program's waiter goes through an eventfd of ours. */
static bool watch_open(struct lib_ring *r)
{
	const struct tent_client *c = r->engine->client;

	if (r->watch_fd >= 0)
		return true;
	r->watch_fd = epoll_create1(EPOLL_CLOEXEC);
	r->self_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r->watch_fd >= 0 && r->self_fd >= 0 &&
	    watch(r->watch_fd, r->self_fd, EPOLLIN) &&
	    watch(r->watch_fd, tent_ring_event_fd(r->tent), EPOLLIN) &&
	    watch(r->watch_fd, c->pidfd, EPOLLIN) && watch(r->watch_fd, c->fd, EPOLLRDHUP))
		return true;
	fd_close(&r->watch_fd);
	fd_close(&r->self_fd);
	return false;
}

/* Under the ring's lock. What was reaped before nobody was told of: the first wait
 * ends at once. */
static int start_fd(struct lib_ring *r)
{
	if (!watch_open(r))
		return lib_fail_text(TENT_ERR_RUNTIME, TENT_RULE_SYSTEM, "epoll", "epoll: %m");
	store_relaxed(&r->wants_fd, 1u);
	r->watch++; /* what the last one did not look at is not this one's to look at */
	r->nr_unseen = 0;
	while (tent_ring_arm(r->tent) && lib_ring_reap(r, NULL))
		;
	r->reaped = 0;
	r->is_told = true;
	wake_event_signal(r->self_fd);
	return 0;
}

static int get_fd(struct lib_ring *r)
{
	if (!r->tent)
		return lib_fail(TENT_RULE_ENGINE_LOST, 0);
	if (load_relaxed(&r->users) > 1) /* the wake-ups of one would be the other's */
		return lib_fail_text(TENT_ERR_CAPACITY, TENT_RULE_RING_LIMIT, "rings",
				     "this thread shares its ring; allowed: up to %d threads "
				     "that have a completion fd", LIB_RINGS_MAX);
	if (!r->wants_fd && start_fd(r))
		return lib_last_error()->error;
	return r->watch_fd;
}

int tent_completion_fd(tent_engine_t engine)
{
	struct lib_engine *e = lib_engine_find(engine);
	struct lib_ring *r;
	int fd;

	if (!e)
		return lib_last_error()->error;
	if (load_relaxed(&e->drives))
		return lib_fail_text(TENT_ERR_UNSUPPORTED, TENT_RULE_NOT_BUILT, "engine",
				     "a caller-mode engine only works inside the caller's own "
				     "calls: poll the status functions");
	r = lib_ring_mine(e);
	if (!r)
		return lib_last_error()->error;
	lib_lock(&r->lock);
	fd = get_fd(r);
	lib_unlock(&r->lock);
	return fd;
}

/* Under the ring's lock, for a task in flight. */
static uint32_t send_cancel(struct lib_ring *r, uint64_t user_data)
{
	struct tent_slot *slot;
	uint32_t rule = lib_ring_make_room(r, 1);

	if (rule)
		return rule;
	slot = tent_ring_slot(r->tent, 0);
	memset(&slot->request, 0, sizeof(slot->request));
	memcpy((char *)&slot->request + offsetof(struct tent_request_v1, source), &user_data,
	       sizeof(user_data));
	slot->tail_offset = 0;
	slot->entry_stride = 0;
	slot->user_data = LIB_DATA_CANCEL;
	r->verdict.rejected = false;
	return lib_ring_await(r, tent_ring_publish(r->tent, 1, TENT_OP_CANCEL, 0));
}

static bool has_ended(const struct lib_batch *b, uint32_t task)
{
	return lib_word_status(load_relaxed(&b->tasks->task[task].end)) >= TENT_STATUS_INVALID;
}

/* Under the ring's lock. A request that ended meanwhile is unknown to the engine, which
 * is as good as canceled. */
static int cancel(struct lib_ring *r, struct lib_batch *b, size_t task_id)
{
	uint32_t rule;

	if (task_id >= b->nr_tasks)
		return lib_fail_range(task_id, b->nr_tasks);
	if (r->tent)
		lib_ring_reap(r, NULL);
	if (!r->tent || has_ended(b, (uint32_t)task_id))
		return 0;
	rule = send_cancel(r, lib_user_data(b, (uint32_t)task_id));
	if (rule)
		lib_ring_lost(r, rule); /* which ends the task */
	return 0;
}

int tent_cancel_task(tent_engine_t engine, tent_batch_id_t batch_id, size_t task_id)
{
	struct lib_engine *e = lib_engine_find(engine);
	struct lib_batch *b = e ? lib_batch_find(e, batch_id) : NULL;
	struct lib_ring *r = b ? lib_ring_lock_batch(e, b, batch_id, NULL) : NULL;
	int rc;

	if (!r)
		return lib_last_error()->error;
	rc = cancel(r, b, task_id);
	lib_ring_rearm(r, NULL);
	lib_unlock(&r->lock);
	return rc;
}
