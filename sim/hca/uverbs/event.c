/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "sim/hca/uverbs/event.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <rdma/ib_user_verbs.h>

#include "sim/hca/mem/user.h"

struct event {
	struct event *next;
	uint32_t *reported;
	uint8_t bytes[sizeof(struct ib_uverbs_async_event_desc)];
};

struct event_queue {
	unsigned references;
	int fd;			/* semaphore: one for each event, and one at the end */
	size_t bytes;
	bool has_ended;
	struct event *first, **last;
};

int event_queue_create(struct event_queue **out, size_t bytes)
{
	struct event_queue *q = calloc(1, sizeof(*q));
	int rc;

	if (!q)
		return -ENOMEM;
	q->fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
	if (q->fd < 0) {
		rc = -errno;
		free(q);
		return rc;
	}
	q->references = 1;
	q->bytes = bytes;
	q->last = &q->first;
	*out = q;
	return 0;
}

struct event_queue *event_queue_hold(struct event_queue *q)
{
	q->references++;
	return q;
}

void event_queue_drop(struct event_queue *q)
{
	struct event *e;

	if (--q->references)
		return;
	while ((e = q->first)) {
		q->first = e->next;
		free(e);
	}
	close(q->fd);
	free(q);
}

int event_queue_fd(const struct event_queue *q)
{
	return q->fd;
}

bool event_queue_is_async(const struct event_queue *q)
{
	return q->bytes == sizeof(struct ib_uverbs_async_event_desc);
}

static void raise_semaphore(struct event_queue *q)
{
	uint64_t one = 1;
	ssize_t n = write(q->fd, &one, sizeof(one));

	(void)n;		/* 2^64 - 1 events are never waiting */
}

/* Must not sleep, whatever flags the program gave its copy of the descriptor: there is none
 * if a reader has it and not yet its event. */
static void lower_semaphore(struct event_queue *q)
{
	uint64_t count;
	struct iovec v = { &count, sizeof(count) };
	ssize_t n = preadv2(q->fd, &v, 1, -1, RWF_NOWAIT);

	(void)n;
}

void event_queue_push(struct event_queue *q, const void *event, uint32_t *reported)
{
	struct event *e = calloc(1, sizeof(*e));

	if (!e)
		return;
	memcpy(e->bytes, event, q->bytes);
	e->reported = reported;
	*q->last = e;
	q->last = &e->next;
	raise_semaphore(q);
}

int event_queue_take(struct event_queue *q, void *to, size_t n)
{
	struct event *e = q->first;
	int rc;

	if (!e && !q->has_ended)
		return -EAGAIN;
	if (!e || n < q->bytes) {
		raise_semaphore(q);
		return e ? -EINVAL : -EIO;
	}
	q->first = e->next;
	if (!q->first)
		q->last = &q->first;
	rc = user_write((uintptr_t)to, e->bytes, q->bytes);
	if (e->reported)
		++*e->reported;
	free(e);
	return rc ? rc : (int)q->bytes;
}

void event_queue_forget(struct event_queue *q, const uint32_t *reported)
{
	struct event **at = &q->first, *e;

	while ((e = *at)) {
		if (e->reported != reported) {
			at = &e->next;
			continue;
		}
		*at = e->next;
		lower_semaphore(q);
		free(e);
	}
	q->last = at;
}

void event_queue_end(struct event_queue *q)
{
	if (!q->has_ended)
		raise_semaphore(q);
	q->has_ended = true;
}
