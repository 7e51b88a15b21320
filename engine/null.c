/* SPDX-License-Identifier: Apache-2.0 */
/*
 * null.c - the backend that moves nothing. It reaches everything and completes in
 * post(): what is left is the cost of tent itself. Tests inject faults with it, and a
 * new backend starts as a copy of it.
 *
 * options->faults: a list, parts separated by commas, N in 1..1000000000:
 *   fail=N	every Nth post ends FAILED with INJECTED
 *   lose=N	every Nth post is kept and handed back FAILED, with INJECTED
 *   busy=N	every Nth post answers POST_BUSY
 *   more=N	every Nth post of a transfer that has not begun makes it a slow one: it
 *		counts only the budget of each post, like a backend that copies
 *   pending=N	every Nth post is kept and handed back by the next poll()
 *   hold	what is kept is not handed back until it is cancelled
 *   late	cancel() does not give back at once; the next poll() does
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/backend.h"
#include "engine/hot.h"
#include "engine/transfer_list.h"
#include "ring/wake.h"

#define EVERY_MAX 1000000000u

struct faults {
	uint32_t fail, lose, busy, more, pending; /* 0: never */
	bool hold, late;
	bool any;
};

struct null_instance {
	struct backend_instance base;
	struct faults faults;
};

struct null_queue {
	struct backend_queue base;
	struct faults faults;
	int event_fd;
	uint32_t fails, losses, busies, mores, pendings; /* posts counted so far */
	struct transfer_list kept;
	struct transfer_list ended;		/* for the next poll() */
};

/* ---- faults ------------------------------------------------------------ */

/* "name=N" of exactly length bytes: 0, or -EINVAL. */
static int parse_every(const char *text, size_t length, const char *name, uint32_t *every)
{
	size_t at = strlen(name);
	uint64_t n = 0;

	if (length <= at + 1 || length > at + 11 || strncmp(text, name, at) || text[at] != '=')
		return -EINVAL;
	for (at++; at < length; at++) {
		if (text[at] < '0' || text[at] > '9')
			return -EINVAL;
		n = n * 10 + (uint64_t)(text[at] - '0');
	}
	if (n < 1 || n > EVERY_MAX)
		return -EINVAL;
	*every = (uint32_t)n;
	return 0;
}

static int parse_part(struct faults *f, const char *text, size_t length)
{
	if (length == 4 && !strncmp(text, "hold", 4)) {
		f->hold = true;
		return 0;
	}
	if (length == 4 && !strncmp(text, "late", 4)) {
		f->late = true;
		return 0;
	}
	if (parse_every(text, length, "fail", &f->fail) == 0 ||
	    parse_every(text, length, "lose", &f->lose) == 0 ||
	    parse_every(text, length, "busy", &f->busy) == 0 ||
	    parse_every(text, length, "more", &f->more) == 0)
		return 0;
	return parse_every(text, length, "pending", &f->pending);
}

static int parse_faults(struct faults *f, const char *text)
{
	*f = (struct faults){ 0 };
	while (text && *text) {
		size_t length = strcspn(text, ",");
		int rc = parse_part(f, text, length);

		if (rc < 0)
			return rc;
		f->any = true;
		text += length;
		if (*text == ',' && !*++text)
			return -EINVAL;	/* nothing after the comma */
	}
	return 0;
}

static bool is_due(uint32_t every, uint32_t *count)
{
	return every && ++*count % every == 0;
}

/* ---- control thread ---------------------------------------------------- */

static int null_open(struct backend_instance **out, const struct backend_options *o)
{
	struct null_instance *inst = calloc(1, sizeof(*inst));
	int rc;

	if (!inst)
		return -ENOMEM;
	inst->base.ops = &null_backend;
	rc = parse_faults(&inst->faults, o->faults);
	if (rc < 0) {
		free(inst);
		return rc;
	}
	*out = &inst->base;
	return 0;
}

static void null_close(struct backend_instance *inst)
{
	free(inst);
}

static int null_queue_open(struct backend_instance *inst, int event_fd,
			   struct backend_queue **out)
{
	struct null_queue *q = calloc(1, sizeof(*q));

	if (!q)
		return -ENOMEM;
	q->base.ops = &null_backend;
	q->base.inst = inst;
	q->faults = ((struct null_instance *)inst)->faults;
	q->event_fd = event_fd;
	transfer_list_init(&q->kept);
	transfer_list_init(&q->ended);
	*out = &q->base;
	return 0;
}

static void null_queue_close(struct backend_queue *q)
{
	free(q);
}

static bool null_reaches(const struct backend_instance *inst,
			 const struct region *local, const struct region *remote)
{
	(void)inst;
	(void)local;
	(void)remote;
	return true;
}

/* ---- poller ------------------------------------------------------------ */

/* error and rule are 0 already. */
static inline enum post_result finish(struct transfer *t)
{
	t->done = t->length;
	t->status = TENT_STATUS_COMPLETED;
	return POST_DONE;
}

/* A backend with threads of its own would write event_fd from them. */
static enum post_result keep(struct null_queue *q, struct transfer *t)
{
	transfer_list_push(&q->kept, t);
	if (q->event_fd >= 0)
		wake_event_signal(q->event_fd);
	return POST_PENDING;
}

static enum post_result go_on(struct transfer *t, uint64_t budget)
{
	uint64_t left = t->length - t->done;

	if (left <= budget)
		return finish(t);
	t->done += budget;
	return POST_MORE;
}

static __attribute__((noinline)) enum post_result
post_faulty(struct null_queue *q, struct transfer *t, uint64_t budget)
{
	if (is_due(q->faults.busy, &q->busies))
		return POST_BUSY;
	if (t->done)
		return go_on(t, budget);
	if (is_due(q->faults.fail, &q->fails))
		return post_fail(t, TENT_RULE_INJECTED);
	if (is_due(q->faults.lose, &q->losses)) {
		transfer_end_by(t, TENT_RULE_INJECTED);
		return keep(q, t);
	}
	if (is_due(q->faults.pending, &q->pendings))
		return keep(q, t);
	if (is_due(q->faults.more, &q->mores))
		return go_on(t, budget);
	return finish(t);
}

static enum post_result null_post(struct backend_queue *base, struct transfer *t,
				  uint64_t budget)
{
	struct null_queue *q = (struct null_queue *)base;

	if (unlikely(q->faults.any))
		return post_faulty(q, t, budget);
	return finish(t);
}

static struct transfer *null_poll(struct backend_queue *base)
{
	struct null_queue *q = (struct null_queue *)base;
	struct transfer *t;

	while (!q->faults.hold && (t = transfer_list_pop(&q->kept))) {
		if (!t->rule)
			finish(t);
		transfer_list_push(&q->ended, t);
	}
	return transfer_list_take(&q->ended);
}

static bool null_cancel(struct backend_queue *base, struct transfer *t, uint16_t rule)
{
	struct null_queue *q = (struct null_queue *)base;

	transfer_list_remove(&q->kept, t);
	transfer_end_by(t, rule);
	if (!q->faults.late)
		return true;
	transfer_list_push(&q->ended, t);
	if (q->event_fd >= 0)
		wake_event_signal(q->event_fd);
	return false;
}

/* No tent transport number is its own; it stands in for one that this build lacks, so
 * that a transport_hint can name it. */
const struct backend null_backend = {
	.name = "null",
	.transport = TENT_TRANSPORT_MPCOMM,
	.open = null_open,
	.close = null_close,
	.queue_open = null_queue_open,
	.queue_close = null_queue_close,
	.reaches = null_reaches,
	.reaches_mapped = true,
	.post = null_post,
	.poll = null_poll,
	.cancel = null_cancel,
};
