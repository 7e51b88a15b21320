/* SPDX-License-Identifier: Apache-2.0 */
/* notice.c - notifications as a poller has them, see notice.h. */
#include <string.h>

#include "engine/complete.h"
#include "engine/intake.h"
#include "engine/notice.h"
#include "ring/wake.h"

bool notice_must_wait(const struct ring_state *r)
{
	return !r->free_notices && r->nr_notices == NOTICES_PER_RING;
}

/* Memory that nobody used yet is not touched before it has to be. */
static struct notice *notice_get(struct ring_state *r)
{
	struct notice *n = r->free_notices;

	if (n)
		r->free_notices = n->next;
	else
		n = &r->notices[r->nr_notices++];
	n->ring = r;
	n->nr_targets = 0;
	n->alone = false;
	return n;
}

void notice_drop(struct ring_state *r, struct notice *n)
{
	if (!n)
		return;
	n->next = r->free_notices;
	r->free_notices = n;
}

/* ---- from a slot --------------------------------------------------------- */

#define REFUSAL(name, v) ((struct refusal){ .rule = TENT_RULE_##name, .value = (int64_t)(v) })

/* Where this process sees [address, address + size) of the client's memory, or NULL. */
static const uint8_t *find(const struct ring_state *r, uint64_t address, uint64_t size)
{
	const struct handle_table *h = load_acquire(&r->space->handles); /* A7 */
	const struct region *g;

	if (address > UINT64_MAX - size)
		return NULL;
	g = region_find(segment_table(h->segments[0]), address, size);
	return g && g->shareable && g->addr ? g->addr + (address - g->base) : NULL;
}

/* A text ends where its length says: a zero byte in it would cut it where it is read. */
static bool take_text(char *to, const uint8_t *from, uint32_t length)
{
	const volatile uint8_t *byte = from;

	for (uint32_t i = 0; i < length; i++)
		to[i] = (char)byte[i];
	to[length] = '\0';
	return !memchr(to, '\0', length);
}

static struct refusal take_texts(const struct ring_state *r, struct notice *n, uint64_t address)
{
	const uint8_t *at = find(r, address, sizeof(struct tent_notify));
	struct tent_notify lengths;
	uint64_t word;

	if (!at || (uintptr_t)at % 8)
		return REFUSAL(NOTIFY_TEXT, address);
	word = *(const volatile uint64_t *)(const void *)at;
	memcpy(&lengths, &word, sizeof(lengths));
	if (lengths.name_length > TENT_NOTIFY_NAME_MAX)
		return REFUSAL(NOTIFY_NAME, lengths.name_length);
	if (lengths.message_length > TENT_NOTIFY_MESSAGE_MAX)
		return REFUSAL(NOTIFY_MESSAGE, lengths.message_length);
	at = find(r, address, sizeof(lengths) + lengths.name_length + lengths.message_length);
	if (!at)
		return REFUSAL(NOTIFY_TEXT, address);
	at += sizeof(lengths);
	if (!take_text(n->name, at, lengths.name_length))
		return REFUSAL(NOTIFY_NAME, lengths.name_length);
	if (!take_text(n->message, at + lengths.name_length, lengths.message_length))
		return REFUSAL(NOTIFY_MESSAGE, lengths.message_length);
	n->name_length = lengths.name_length;
	n->message_length = lengths.message_length;
	return (struct refusal){ 0 };
}

void notice_take(struct ring_state *r, struct tent_slot *s, struct refusal *why)
{
	struct notice *n = notice_get(r);

	*why = take_texts(r, n, s->notify);
	s->notify = 0;
	if (why->rule)
		notice_drop(r, n);
	else
		r->notice = n;
}

/* ---- whom it goes to ------------------------------------------------------ */

static bool add_target(struct notice *n, uint32_t handle)
{
	uint32_t i = n->nr_targets;

	while (i > 0 && n->targets[i - 1] != handle)
		i--;
	if (i > 0)
		return true;
	if (n->nr_targets == TENT_NOTIFY_TARGETS_MAX)
		return false;
	n->targets[n->nr_targets++] = handle;
	return true;
}

/* What failed already has no target, and nobody is notified of its batch. */
void notice_cover(struct ring_state *r, const struct tent_slot *slots,
		  struct transfer *const *records, uint32_t n, struct refusal *why)
{
	struct notice *notice = r->notice;

	if (!notice)
		return;
	for (uint32_t i = 0; i < n; i++) {
		if (records[i]->status == TENT_STATUS_FAILED ||
		    add_target(notice, (uint32_t)slots[i].request.target_id))
			continue;
		*why = REFUSAL(NOTIFY_TARGETS, TENT_NOTIFY_TARGETS_MAX + 1);
		why->index = r->intake.taken + i;
		return;
	}
}

/* ---- to the control thread and back ------------------------------------------ */

void notice_hand_over(struct poller *p, struct notice *n)
{
	struct notice *head = load_relaxed(&p->notices);

	n->ring->notices_out++;
	do {
		n->next = head;
	} while (!compare_exchange(&p->notices, &head, n)); /* R17, pairs with A17 */
	if (!head && p->o.answer_fd >= 0)
		wake_event_signal(p->o.answer_fd);
}

struct notice *notices_take(struct poller *p)
{
	struct notice *list = NULL, *next, *n;

	if (!load_relaxed(&p->notices))
		return NULL;
	for (n = exchange(&p->notices, NULL); n; n = next) { /* A17, pairs with R17 */
		next = n->next;
		n->next = list;
		list = n;
	}
	return list;
}

void notice_back(struct poller *p, struct notice *n)
{
	struct ring_state *r = n->ring;

	if (n->alone)
		complete_notice(p, r, n);
	r->notices_out--;
	notice_drop(r, n);
}

/* ---- op NOTIFY ------------------------------------------------------------ */

static struct refusal target_refusal(const struct ring_state *r, uint64_t id)
{
	const struct handle_table *h = load_acquire(&r->space->handles); /* A7 */

	if (id >= h->nr || !h->segments[id])
		return REFUSAL(SEGMENT, id);
	if (load_relaxed(&h->segments[id]->lost))
		return REFUSAL(TARGET_PEER, id);
	return (struct refusal){ 0 };
}

/* Nothing but the target, and the address that notice_take() took out. */
static struct refusal area_refusal(const struct tent_slot *s)
{
	static const struct tent_slot nothing;
	struct tent_slot copy = *s;

	copy.request.target_id = 0;
	if (!s->resv0 && memcmp(&copy.request, &nothing.request,
				sizeof(copy) - offsetof(struct tent_slot, request)) == 0)
		return (struct refusal){ 0 };
	return REFUSAL(SLOT_RESV, s->resv0);
}

void notice_begin(struct poller *p, struct ring_state *r, struct tent_slot *s)
{
	struct intake *in = &r->intake;
	struct notice *n = r->notice;

	in->why = area_refusal(s);
	if (!in->why.rule)
		in->why = target_refusal(r, s->request.target_id);
	if (in->why.rule) {
		in->step = INTAKE_RELEASE;
		return;
	}
	r->notice = NULL;
	n->alone = true;
	n->user_data = in->user_data;
	n->seen_ticks = in->judge.seen_ticks;
	add_target(n, (uint32_t)s->request.target_id);
	intake_accept(p, r);
	notice_hand_over(p, n);
}
