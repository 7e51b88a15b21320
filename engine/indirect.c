/* SPDX-License-Identifier: Apache-2.0 */
/*
 * indirect.c - batches of up to 2^20 entries through one slot.
 *
 * The requests live in memory that is mapped for the batch: the one system call of
 * the data path, for a rare case, and unmapped in pieces so that no turn is long.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/indirect.h"
#include "engine/intake.h"
#include "engine/notice.h"

#define RECLAIM_BYTES (1u << 20)	/* unmapped per turn */

bool indirect_must_wait(const struct poller *p, const struct ring_state *r,
			const struct tent_slot *s)
{
	const struct indirect *ind = &r->indirect;
	struct tent_indirect area;

	memcpy(&area, &s->request, sizeof(area));
	if (ind->transfers)
		return ind->ended;	/* else it is refused as busy */
	return area.count <= TENT_INDIRECT_MAX &&
	       area.count > INDIRECT_POLLER_MAX - p->indirect_entries;
}

/* ---- the slot ---------------------------------------------------------- */

static uint64_t low(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t high(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* The region that holds all three arrays, or NULL. */
static struct region *find_region(const struct ring_state *r, const struct tent_indirect *a)
{
	const struct handle_table *h = load_acquire(&r->space->handles); /* A7 */
	uint64_t cells = a->cells ? a->cells : a->entries, first, last;
	uint64_t entries_end, cells_end, results_end;
	struct region *found;

	if (__builtin_add_overflow(a->entries, (uint64_t)a->count * sizeof(struct tent_slot),
				   &entries_end) ||
	    __builtin_add_overflow(cells, (uint64_t)a->count * TENT_CELL_SIZE, &cells_end) ||
	    __builtin_add_overflow(a->results, (uint64_t)a->count * sizeof(struct tent_result),
				   &results_end))
		return NULL;
	first = low(a->entries, low(cells, a->results));
	last = high(entries_end, high(cells_end, results_end));
	found = region_find(segment_table(h->segments[0]), first, last - first);
	return found && found->shareable && found->addr ? found : NULL;
}

static bool is_aligned(const struct region *g, uint64_t address)
{
	return ((uintptr_t)g->addr + (address - g->base)) % 8 == 0;
}

static struct refusal area_refusal(const struct ring_state *r, const struct tent_slot *s,
				   const struct tent_indirect *a, struct region **region)
{
	uint64_t resv = a->resv0 | s->resv0 | s->notify | s->tail_offset | s->entry_stride;
	struct region *g;

	if (a->count == 0 || a->count > TENT_INDIRECT_MAX)
		return (struct refusal){ .rule = TENT_RULE_INDIRECT_COUNT, .value = a->count };
	for (size_t i = 0; i < sizeof(a->resv1) / sizeof(a->resv1[0]); i++)
		resv |= a->resv1[i];
	if (resv)
		return (struct refusal){ .rule = TENT_RULE_SLOT_RESV, .value = (int64_t)resv };
	if (r->indirect.transfers)
		return (struct refusal){ .rule = TENT_RULE_INDIRECT_BUSY, .value = a->count };
	g = *region = find_region(r, a);
	if (!g || !is_aligned(g, a->entries) || !is_aligned(g, a->results) ||
	    (a->cells && !is_aligned(g, a->cells)))
		return (struct refusal){ .rule = TENT_RULE_INDIRECT_BUFFER,
					 .value = (int64_t)a->entries };
	return (struct refusal){ 0 };
}

static uint8_t *address_in(const struct region *g, uint64_t address)
{
	return g->addr + (address - g->base);
}

static void settle(struct ring_state *r, const struct tent_indirect *a, struct region *g,
		   void *memory, size_t size)
{
	const struct intake *in = &r->intake;

	r->indirect = (struct indirect){
		.transfers = memory, .mapped = size, .count = a->count, .region = g,
		.entries = address_in(g, a->entries),
		.cells = a->cells ? address_in(g, a->cells) : NULL,
		.results = (struct tent_result *)address_in(g, a->results),
		.batch = {
			.indirect = &r->indirect, .user_data = in->user_data,
			.seen_ticks = in->judge.seen_ticks, .nr = a->count, .credits = 1,
			.left = a->count, .first_bad = a->count,
			.posted_ticks = UINT32_MAX, .status = TENT_STATUS_COMPLETED,
			.member_ends = MEMBER_HAS_RESULT,
		},
	};
}

void indirect_begin(struct poller *p, struct ring_state *r, const struct tent_slot *s)
{
	struct intake *in = &r->intake;
	struct tent_indirect area;
	struct region *region = NULL;
	size_t size;
	void *memory;

	memcpy(&area, &s->request, sizeof(area));
	in->nr = area.count ? area.count : 1;
	in->why = area_refusal(r, s, &area, &region);
	if (in->why.rule) {
		in->step = INTAKE_RELEASE;
		return;
	}
	size = (size_t)area.count * sizeof(struct transfer);
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED) {
		in->why = (struct refusal){ .rule = TENT_RULE_SYSTEM, .value = errno };
		in->step = INTAKE_RELEASE;
		return;
	}
	settle(r, &area, region, memory, size);
	in->judge.batch = &r->indirect.batch;
	p->indirect_entries += area.count;
}

/* ---- copying and judging ----------------------------------------------- */

/* tent_copy_in() for memory that is only 8-aligned. */
static void copy_words(void *to, const void *from, size_t size)
{
	const volatile uint64_t *src = from;
	uint64_t *dst = to;

	for (size_t i = 0; i < size / sizeof(*dst); i++)
		dst[i] = src[i];
}

static void copy_entry(struct poller *p, const struct indirect *ind, uint32_t at, uint32_t i)
{
	struct tent_slot *s = &p->slots[i];

	copy_words(s, ind->entries + (size_t)at * sizeof(*s), sizeof(*s));
	/* Words that a slot uses and an entry must not: a dirty reserved word, too. */
	s->notify |= s->seq | s->nr | s->op | s->flags | s->cq_head;
	if (!s->request.policy_name)
		return;
	if (ind->cells)
		copy_words(p->cells[i], ind->cells + (size_t)at * TENT_CELL_SIZE, TENT_CELL_SIZE);
	else
		memset(p->cells[i], 0, TENT_CELL_SIZE);
}

static void judge_piece(struct poller *p, struct ring_state *r, uint32_t n)
{
	struct intake *in = &r->intake;
	struct indirect *ind = &r->indirect;
	struct refusal why;

	for (uint32_t i = 0; i < n; i++) {
		p->piece[i] = &ind->transfers[ind->judged + i];
		p->piece[i]->ring = r;
	}
	if (judge_batch(&in->judge, p->slots, p->cells, n, p->piece, &why) == BATCH_REFUSED) {
		why.index += in->taken;
		intake_refuse(r, &why);
	}
	if (!in->why.rule)
		notice_cover(r, p->slots, p->piece, n, &in->why);
	if (in->why.rule)
		return;		/* they are scratch for the next piece */
	for (uint32_t i = 0; i < n; i++)
		p->piece[i]->state = TRANSFER_PARKED;
	ind->judged += n;
}

uint32_t indirect_take(struct poller *p, struct ring_state *r, uint32_t left)
{
	struct intake *in = &r->intake;
	uint32_t n = in->nr - in->taken < left ? in->nr - in->taken : left;
	struct sniff sniff;

	sniff_begin(&sniff, in->judge.slot_flags);
	for (uint32_t i = 0; i < n; i++) {
		copy_entry(p, &r->indirect, in->taken + i, i);
		sniff_slot(&sniff, &p->slots[i], false);
	}
	intake_prepare(p, r, in->taken, sniff_is_plain(&sniff));
	judge_piece(p, r, n);
	in->taken += n;
	if (in->taken < in->nr)
		return n;
	if (in->why.rule) {
		in->step = INTAKE_RELEASE;
		return n;
	}
	intake_accept(p, r);
	r->indirect.admitting = true;
	return n;
}

void indirect_admit(struct poller *p, struct ring_state *r, uint32_t max)
{
	struct indirect *ind = &r->indirect;
	uint32_t n = 0;

	while (n < max && ind->admitted < ind->count)
		p->piece[n++] = &ind->transfers[ind->admitted++];
	ind->admitting = ind->admitted < ind->count;
	intake_admit(p, r, p->piece, n, ind->batch.seen_ticks);
}

/* ---- ends -------------------------------------------------------------- */

void indirect_end(struct indirect *ind, struct transfer *t)
{
	t->state = TRANSFER_FREE;
	if (!ind->results)
		return;
	ind->results[t->index] = (struct tent_result){
		.bytes = t->done, .error = t->error, .status = t->status,
		.transport = t->transport, .rule = t->rule,
	};
}

static void forget_arrays(struct indirect *ind)
{
	ind->region = NULL;
	ind->entries = ind->cells = NULL;
	ind->results = NULL;
}

/* judged 0: no scan finds its records any more. */
void indirect_done(struct poller *p, struct ring_state *r)
{
	forget_arrays(&r->indirect);
	r->indirect.judged = 0;
	r->indirect.ended = true;
	p->nr_reclaiming++;
}

void indirect_discard(struct poller *p, struct ring_state *r)
{
	if (r->intake.judge.batch == &r->indirect.batch)
		indirect_done(p, r);
}

static void reclaim_one(struct poller *p, struct ring_state *r)
{
	struct indirect *ind = &r->indirect;
	size_t keep = ind->mapped > RECLAIM_BYTES ? ind->mapped - RECLAIM_BYTES : 0;

	keep &= ~(size_t)(RECLAIM_BYTES - 1);	/* whole pages */
	munmap((uint8_t *)ind->transfers + keep, ind->mapped - keep);
	ind->mapped = keep;
	if (keep)
		return;
	p->indirect_entries -= ind->count;
	p->nr_reclaiming--;
	*ind = (struct indirect){ 0 };
}

bool indirect_reclaim(struct poller *p)
{
	for (struct ring_state *r = p->rings; r; r = r->next)
		if (r->indirect.ended) {
			reclaim_one(p, r);
			return true;
		}
	return false;
}

void indirect_drop(struct ring_state *r, const struct region *region)
{
	static const struct refusal gone = { .rule = TENT_RULE_INDIRECT_BUFFER };
	struct indirect *ind = &r->indirect;

	if (!ind->region || ind->region != region)
		return;
	forget_arrays(ind);
	if (r->intake.step != INTAKE_TAKE || r->intake.judge.batch != &ind->batch)
		return;
	r->intake.why = gone;
	r->intake.step = INTAKE_RELEASE;
}
