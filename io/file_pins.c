/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_pins.c - memory whose pages the kernel keeps at hand: a direct operation on it need
 * not look up and pin each page, which is half of what one costs the poller's core.
 *
 * The poller pins a piece itself, one in a turn, and only what operations name again and
 * again: that takes about as long as two operations on it without. It is memory of memory
 * files alone; pages of other memory may be given back and taken anew under the pin, which
 * would go on to hold the old ones.
 */
#include "io/file.h"

static struct file_pin *set_of(struct file_queue *q, const struct region *r, uint64_t piece)
{
	uint64_t hash = ((uintptr_t)r / sizeof(*r) + piece) * 0x9e3779b97f4a7c15u;

	return &q->pins[(hash >> 32) % (FILE_PINS / FILE_PIN_WAYS) * FILE_PIN_WAYS];
}

static void unpin(struct file_queue *q, struct file_pin *p)
{
	if (p->pinned)
		kring_set_buffer(&q->kring, (uint32_t)(p - q->pins), NULL, 0);
	*p = (struct file_pin){ .region = NULL };
}

/* What cannot be pinned, for want of RLIMIT_MEMLOCK or of pages, goes without from then on,
 * and nothing else: a client can see to it that its own memory cannot be. */
static void pin(struct file_queue *q, struct file_pin *p)
{
	uint64_t at = p->piece * FILE_PIN_BYTES, left = p->region->end - p->region->base - at;

	q->may_pin = false;
	p->pinned = kring_set_buffer(&q->kring, (uint32_t)(p - q->pins), p->region->addr + at,
				     left < FILE_PIN_BYTES ? left : FILE_PIN_BYTES) == 0;
	p->refused = !p->pinned;
}

/* That of the piece; else the one that was named longest ago, emptied; or NULL. */
static struct file_pin *find(struct file_queue *q, const struct region *r, uint64_t piece)
{
	struct file_pin *set = set_of(q, r, piece), *oldest = NULL;

	for (struct file_pin *p = set; p < set + FILE_PIN_WAYS; p++) {
		if (p->region == r && p->piece == piece)
			return p;
		if (!p->nr_out && (!oldest || p->last < oldest->last))
			oldest = p;
	}
	if (!oldest)
		return NULL;
	unpin(q, oldest);
	oldest->region = r;
	oldest->piece = piece;
	return oldest;
}

struct file_pin *file_pin_take(struct file_queue *q, const struct file_op *op)
{
	const struct region *r = op->job->transfer->local;
	uint64_t at = (uint64_t)(op->memory - r->addr);
	struct file_pin *p = NULL;

	if (op->direct && q->kring.has_buffers && r->backing &&
	    at % FILE_PIN_BYTES + op->length <= FILE_PIN_BYTES)
		p = find(q, r, at / FILE_PIN_BYTES);
	if (!p)
		return NULL;
	p->last = ++q->nr_named;
	if (!p->pinned && !p->refused && ++p->named > FILE_PIN_AFTER && q->may_pin)
		pin(q, p);
	if (!p->pinned)
		return NULL;
	p->nr_out++;
	file_count(&q->counts.pinned);
	return p;
}

bool file_drop(struct backend_queue *queue, const struct region *r)
{
	struct file_queue *q = (struct file_queue *)queue;
	bool done = true;

	for (struct file_pin *p = q->pins; p < q->pins + FILE_PINS; p++) {
		if (p->region != r)
			continue;
		if (p->nr_out)
			done = false;
		else
			unpin(q, p);
	}
	return done;
}
