/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file.c - the backend between memory and regular files. Its queues get what they need
 * when the first file opens: an engine that has none pays for none.
 *
 * Who owns a file: the control thread opens and closes its descriptors. It closes them
 * after POLLER_DROP_REGION for the file's region was answered, that is once every job
 * that names the file has ended, and a job ends with its last operation.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "io/backends.h"
#include "io/file.h"

static int file_create(struct backend_instance **out, const struct backend_options *o)
{
	struct file_instance *inst = calloc(1, sizeof(*inst));

	if (!inst)
		return -ENOMEM;
	inst->base.ops = &file_backend;
	inst->o = o->file;
	if (inst->o.chunk_bytes >= 4096)	/* pieces of an aligned transfer are aligned */
		inst->o.chunk_bytes &= ~4095u;
	*out = &inst->base;
	return 0;
}

static void file_destroy(struct backend_instance *inst)
{
	free(inst);
}

static int file_queue_open(struct backend_instance *base, int event_fd,
			   struct backend_queue **out)
{
	struct file_instance *inst = (struct file_instance *)base;
	struct file_queue *q;

	if (inst->nr_queues == FILE_QUEUES_MAX)
		return -EBUSY;
	q = calloc(1, sizeof(*q));
	if (!q)
		return -ENOMEM;
	q->base.ops = &file_backend;
	q->base.inst = base;
	q->event_fd = event_fd;
	q->o = inst->o;
	q->index = inst->nr_queues;
	inst->queues[inst->nr_queues++] = q;
	*out = &q->base;
	return 0;
}

static void queue_stop(struct file_queue *q)
{
	if (!q->io)
		return;
	q->io->close(q);
	file_queue_free(q);
	q->io = NULL;
}

static void file_queue_close(struct backend_queue *base)
{
	struct file_queue *q = (struct file_queue *)base;

	queue_stop(q);
	free(q);
}

/* ---- starting ---------------------------------------------------------- */

static int queue_start(struct file_queue *q, const struct file_io *io, char *why, size_t size)
{
	int rc = file_queue_init(q);

	if (rc < 0) {
		snprintf(why, size, "no memory for %u operations", q->o.depth);
		return rc;
	}
	rc = io->open(q, why, size);
	if (rc < 0)
		file_queue_free(q);
	else
		q->io = io;
	return rc;
}

/* All queues alike, or none. */
static int start_with(struct file_instance *inst, const struct file_io *io)
{
	int rc = 0;

	for (uint32_t i = 0; i < inst->nr_queues && rc == 0; i++)
		rc = queue_start(inst->queues[i], io, inst->why, sizeof(inst->why));
	for (uint32_t i = 0; i < inst->nr_queues && rc < 0; i++)
		queue_stop(inst->queues[i]);
	if (rc == 0)
		inst->io = io;
	return rc;
}

/* Pollers use what is made here only after they found a region of a file: R7/A7. */
int file_start(struct file_instance *inst, const struct file_io *io)
{
	if (inst->io)
		return 0;
	if (io)
		return start_with(inst, io);
	if (!inst->o.io_uring)
		snprintf(inst->why, sizeof(inst->why), "transports/file/io_uring is false");
	else if (start_with(inst, &file_io_uring) == 0)
		return 0;
	return start_with(inst, &file_io_workers);
}

/* ---- files ------------------------------------------------------------- */

static void set_place(struct file_instance *inst, uint32_t place, int fd, int direct_fd)
{
	for (uint32_t i = 0; i < inst->nr_queues; i++) {
		kring_set_file(&inst->queues[i]->kring, 2 * place, fd);
		kring_set_file(&inst->queues[i]->kring, 2 * place + 1, direct_fd);
	}
}

/* In the table of every queue, or in none: an entry then names the descriptor. */
static bool take_place(struct file_instance *inst, const struct file *f, uint32_t place)
{
	for (uint32_t i = 0; i < inst->nr_queues; i++) {
		struct kring *k = &inst->queues[i]->kring;

		if (!k->has_files || kring_set_file(k, 2 * place, f->fd) < 0 ||
		    kring_set_file(k, 2 * place + 1, f->direct_fd) < 0) {
			set_place(inst, place, -1, -1);
			return false;
		}
	}
	return true;
}

static int file_open(struct backend_instance *base, struct file *f)
{
	struct file_instance *inst = (struct file_instance *)base;
	int rc = file_start(inst, NULL);

	f->place = FILE_NO_PLACE;
	if (rc < 0 || inst->io != &file_io_uring)
		return rc;
	for (uint32_t i = 0; i < FILE_PLACES; i++) {
		if (inst->used[i])
			continue;
		if (take_place(inst, f, i)) {
			inst->used[i] = true;
			f->place = i;
		}
		break;
	}
	return 0;
}

static void file_close(struct backend_instance *base, struct file *f)
{
	struct file_instance *inst = (struct file_instance *)base;

	if (f->place == FILE_NO_PLACE)
		return;
	set_place(inst, f->place, -1, -1);
	inst->used[f->place] = false;
	f->place = FILE_NO_PLACE;
}

static bool file_reaches(const struct backend_instance *inst,
			 const struct region *local, const struct region *remote)
{
	(void)inst;
	return remote->file && (local->addr || local->owner);
}

/* ---- facts ------------------------------------------------------------- */

static void file_facts(const struct backend_instance *base, char *text, size_t size)
{
	const struct file_instance *inst = (const struct file_instance *)base;
	struct file_counts sum = { 0 };
	uint64_t enters = 0;

	if (!inst->io) {
		snprintf(text, size, "no file was opened yet");
		return;
	}
	for (uint32_t i = 0; i < inst->nr_queues; i++) {
		const struct file_queue *q = inst->queues[i];

		sum.ops += load_relaxed(&q->counts.ops);
		sum.direct += load_relaxed(&q->counts.direct);
		sum.pinned += load_relaxed(&q->counts.pinned);
		sum.short_ops += load_relaxed(&q->counts.short_ops);
		sum.retries += load_relaxed(&q->counts.retries);
		enters += load_relaxed(&q->kring.enters);
	}
	snprintf(text, size, "by %s%s%s%s: %" PRIu64 " operations, %" PRIu64 " of them direct and %"
		 PRIu64 " of these with pinned memory, %" PRIu64 " came back short, %" PRIu64
		 " went again; %" PRIu64 " io_uring_enter()", inst->io->name,
		 *inst->why ? " (" : "", inst->why, *inst->why ? ")" : "", sum.ops, sum.direct,
		 sum.pinned, sum.short_ops, sum.retries, enters);
}

const struct backend file_backend = {
	.name = "file",
	.transport = TENT_TRANSPORT_IOURING,
	.open = file_create,
	.close = file_destroy,
	.queue_open = file_queue_open,
	.queue_close = file_queue_close,
	.reaches = file_reaches,
	.is_staged = true,
	.post = file_post,
	.file_open = file_open,
	.file_close = file_close,
	.drop = file_drop,
	.facts = file_facts,
	.poll = file_poll,
	.cancel = file_cancel,
};
