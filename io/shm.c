/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm.c - the backend for memory on this host. When both ends are mapped here
 * the poller copies them itself, a budget at a time; private ends go through
 * shm_private.c.
 *
 * Why a stale region can never be written: a transfer holds pointers to its
 * regions only while a poller holds the transfer. Before the control thread
 * unmaps a region it sends POLLER_DROP_REGION to every poller, and each answers
 * only after it has ended every transfer that names the region. Between two
 * chunks of a copy the poller is not inside this file; so whenever post() runs,
 * both mappings are in place.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <fcntl.h>
#include <unistd.h>

#include "io/backends.h"
#include "io/copy.h"
#include "io/shm.h"

static int shm_create(struct backend_instance **out, const struct backend_options *o)
{
	struct shm_instance *inst = calloc(1, sizeof(*inst));

	if (!inst)
		return -ENOMEM;
	inst->base.ops = &shm_backend;
	inst->stream_bytes = o->stream_bytes;
	pthread_mutex_init(&inst->dying_lock, NULL);
	LIST_INIT(&inst->dying);
	*out = &inst->base;
	return 0;
}

static void shm_destroy(struct backend_instance *base)
{
	struct shm_instance *inst = (struct shm_instance *)base;

	shm_owners_reap(inst, true);
	pthread_mutex_destroy(&inst->dying_lock);
	free(inst);
}

/* The duplicate is ours because a worker that is stuck in the kernel may write
 * it after the engine has closed its own. */
static struct shm_inbox *inbox_create(int event_fd)
{
	struct shm_inbox *inbox = calloc(1, sizeof(*inbox));

	if (!inbox)
		return NULL;
	inbox->refs = 1;
	inbox->event_fd = -1;
	if (event_fd < 0)
		return inbox;
	inbox->event_fd = fcntl(event_fd, F_DUPFD_CLOEXEC, 0);
	if (inbox->event_fd >= 0)
		return inbox;
	free(inbox);
	return NULL;
}

/* Owners have a channel per queue, so queues come first: -EBUSY afterwards. */
static int shm_queue_open(struct backend_instance *base, int event_fd,
			  struct backend_queue **out)
{
	struct shm_instance *inst = (struct shm_instance *)base;
	struct shm_queue *q;

	if (inst->owners_seen || inst->nr_queues == SHM_QUEUES_MAX)
		return -EBUSY;
	q = calloc(1, sizeof(*q));
	if (!q)
		return -ENOMEM;
	q->inbox = inbox_create(event_fd);
	if (!q->inbox) {
		free(q);
		return -ENOMEM;
	}
	q->base.ops = &shm_backend;
	q->base.inst = base;
	q->stream_bytes = inst->stream_bytes;
	q->index = inst->nr_queues++;
	inst->inboxes[q->index] = q->inbox;
	inst->queues[q->index] = q;
	transfer_list_init(&q->ready);
	transfer_list_init(&q->fencing);
	transfer_list_init(&q->ended);
	TAILQ_INIT(&q->starved);
	*out = &q->base;
	return 0;
}

static void shm_queue_close(struct backend_queue *base)
{
	struct shm_queue *q = (struct shm_queue *)base;

	shm_inbox_put(q->inbox);
	free(q);
}

static bool is_within(const struct region *r, uint64_t address, uint64_t length)
{
	return address >= r->base && address <= r->end && length <= r->end - address;
}

/* The judge has checked this; a transfer that reaches us otherwise is a bug of
 * ours, which must not become a write outside a region. */
static bool is_sound(struct transfer *t)
{
	if (is_within(t->local, t->local_addr, t->length) &&
	    is_within(t->remote, t->remote_addr, t->length))
		return true;
	transfer_end_by(t, is_within(t->local, t->local_addr, t->length) ?
			TENT_RULE_TARGET_UNREGISTERED : TENT_RULE_SOURCE_UNREGISTERED);
	return false;
}

static bool shm_reaches(const struct backend_instance *inst,
			const struct region *local, const struct region *remote)
{
	(void)inst;
	return (local->addr || local->owner) && (remote->addr || remote->owner);
}

static enum post_result shm_post(struct backend_queue *base, struct transfer *t,
				 uint64_t budget)
{
	struct shm_queue *q = (struct shm_queue *)base;
	uint8_t *from, *to;
	uint64_t n, offset;

	if (t->done == 0 && !is_sound(t))
		return POST_FAILED;
	if (__builtin_expect(!t->local->addr || !t->remote->addr, 0))
		return private_post(q, t);

	from = t->opcode == TENT_OPCODE_READ ? transfer_remote(t) : transfer_local(t);
	to = t->opcode == TENT_OPCODE_READ ? transfer_local(t) : transfer_remote(t);
	n = t->length - t->done < budget ? t->length - t->done : budget;
	offset = chunk_offset(t, (uintptr_t)from, (uintptr_t)to, n);
	copy_bytes(to + offset, from + offset, n, t->length >= q->stream_bytes);
	t->done += n;
	if (t->done < t->length)
		return POST_MORE;
	transfer_end(t, TENT_STATUS_COMPLETED, 0, 0);
	return POST_DONE;
}

const struct backend shm_backend = {
	.name = "shm",
	.transport = TENT_TRANSPORT_SHM,
	.open = shm_create,
	.close = shm_destroy,
	.queue_open = shm_queue_open,
	.queue_close = shm_queue_close,
	.reaches = shm_reaches,
	.is_staged = true,
	.reaches_mapped = true,
	.post = shm_post,
	.owner_open = shm_owner_open,
	.owner_close = shm_owner_close,
	.poll = private_poll,
	.cancel = private_cancel,
};
