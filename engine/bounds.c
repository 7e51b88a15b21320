/* SPDX-License-Identifier: Apache-2.0 */
/* bounds.c - see bounds.h. */
#include <stdlib.h>
#include <string.h>

#include "engine/bounds.h"
#include "engine/sched.h"

#define RELEASES 64u		/* of a turn */
#define EXPIRIES 64u		/* of a tick and share */

/* ---- accounts ---------------------------------------------------------- */

struct bounds_account *bounds_account(struct bounds_account **list, const char *name,
				      uint32_t nr_pollers)
{
	struct bounds_account *a = *list;
	size_t size = sizeof(*a) + nr_pollers * sizeof(a->shares[0]);

	while (a && strcmp(a->name, name) != 0)
		a = a->next;
	if (a)
		return a;
	a = aligned_alloc(128, (size + 127) & ~(size_t)127);
	if (!a)
		return NULL;
	memset(a, 0, size);
	memcpy(a->name, name, strnlen(name, sizeof(a->name) - 1));
	a->nr = nr_pollers;
	for (uint32_t i = 0; i < nr_pollers; i++)
		a->shares[i].account = a;
	a->next = *list;
	*list = a;
	return a;
}

void bounds_close(struct bounds_account **list)
{
	struct bounds_account *a;

	while ((a = *list)) {
		*list = a->next;
		free(a);
	}
}

/* ---- counting ---------------------------------------------------------- */

/* What is in flight of an intent. */
struct load {
	uint64_t bytes, requests;
};

static struct load load_of(const struct bounds_account *a, uint8_t intent)
{
	struct load l = { 0, 0 };

	for (uint32_t i = 0; i < a->nr; i++) {
		l.bytes += load_relaxed(&a->shares[i].bytes[intent]);
		l.requests += load_relaxed(&a->shares[i].requests[intent]);
	}
	return l;
}

/* The rule that so much breaks; 0: none. */
static uint16_t rule_against(const struct qos_terms *terms, struct load l)
{
	if (terms->given & QOS_HAS_REQUESTS && l.requests > terms->max_inflight_requests)
		return TENT_RULE_INFLIGHT_REQUESTS;
	if (terms->given & QOS_HAS_BYTES && l.bytes > terms->max_inflight_bytes)
		return TENT_RULE_INFLIGHT_BYTES;
	return 0;
}

/* The rule that stands against one more; 0: there is room. */
static uint16_t full_rule(const struct bounds_account *a, const struct qos_terms *terms,
			  const struct transfer *t)
{
	struct load l = load_of(a, transfer_intent(t));

	l.requests++;
	if (__builtin_add_overflow(l.bytes, t->length, &l.bytes))
		l.bytes = UINT64_MAX;
	return rule_against(terms, l);
}

static void add_to(struct bounds_share *s, const struct transfer *t)
{
	stat_add(&s->bytes[transfer_intent(t)], t->length);
	level_add(&s->requests[transfer_intent(t)], 1);
}

static void take_off(struct bounds_share *s, const struct transfer *t)
{
	stat_add(&s->bytes[transfer_intent(t)], -t->length);
	level_add(&s->requests[transfer_intent(t)], -1u);
}

/* Counts it if there is room. 0, or the rule that stands against it. */
static uint16_t count(struct bounds_share *s, const struct qos_terms *terms, struct transfer *t)
{
	uint16_t rule = full_rule(s->account, terms, t);

	if (rule)
		return rule;
	add_to(s, t);
	if (s->account->nr > 1) {
		full_fence();	/* F7, pairs with itself in other pollers */
		rule = rule_against(terms, load_of(s->account, transfer_intent(t)));
	}
	if (rule)
		take_off(s, t);
	else
		t->flags |= TRANSFER_F_COUNTED;
	return rule;
}

void bounds_ended(struct transfer *t)
{
	take_off(t->ring->share, t);
	t->ring->nr_bounded--;
}

/* ---- holding ----------------------------------------------------------- */

static void hold(struct poller *p, struct bounds_share *s, struct transfer *t)
{
	t->state = TRANSFER_HELD;
	queue_push(&s->held[transfer_intent(t)][t->level], t);
	t->ring->nr_held++;
	stat_add(&p->stats.held, 1);
	stat_add(&t->ring->stats.held, 1);
	if (s->nr_held++)
		return;
	s->next = p->held;
	p->held = s;
	p->nr_linked++;
	p->nr_odd++;
}

static void forget_share(struct poller *p, struct bounds_share *s)
{
	struct bounds_share **link = &p->held;

	while (*link != s)
		link = &(*link)->next;
	*link = s->next;
	p->nr_linked--;
	p->nr_odd--;
}

static void take_held(struct poller *p, struct bounds_share *s, struct transfer *t)
{
	queue_remove(&s->held[transfer_intent(t)][t->level], t);
	t->ring->nr_held--;
	if (!--s->nr_held)
		forget_share(p, s);
}

void bounds_remove(struct poller *p, struct transfer *t)
{
	take_held(p, t->ring->share, t);
	t->ring->nr_bounded--;
}

/* Does one wait that goes before it? */
static bool waits_before(const struct bounds_share *s, const struct transfer *t)
{
	for (uint32_t level = 0; level <= t->level; level++)
		if (s->held[transfer_intent(t)][level].head)
			return true;
	return false;
}

static bool may_wait(const struct qos_terms *terms)
{
	return !(terms->given & QOS_HAS_ACTIONS) || terms->actions & 1u << QOS_DELAY;
}

/* What a contract says of it now; NULL: nothing bounds it. */
static const struct qos_terms *terms_of(const struct contract *c, const struct transfer *t)
{
	const struct qos_terms *terms = c && c->account ? &c->terms[transfer_intent(t)] : NULL;

	return terms && terms->given & (QOS_HAS_BYTES | QOS_HAS_REQUESTS) ? terms : NULL;
}

bool bounds_admit(struct poller *p, struct ring_state *r, struct transfer *t)
{
	/* A7, pairs with R7 in contracts.c */
	const struct contract *c = load_acquire(&r->space->contract);
	const struct qos_terms *terms = terms_of(c, t);
	bool waits;
	uint16_t rule;

	t->flags &= (uint16_t)~TRANSFER_F_BOUND;
	if (!terms)
		return true;
	if (!r->nr_bounded)	/* its tenant may be another one now */
		r->share = &c->account->shares[p->o.index];
	waits = waits_before(r->share, t);
	rule = waits ? full_rule(r->share->account, terms, t) : count(r->share, terms, t);
	if (rule && !may_wait(terms)) {
		complete_with(p, t, rule);
		return false;
	}
	r->nr_bounded++;
	if (rule || waits)
		hold(p, r->share, t);
	return !rule && !waits;
}

/* ---- letting go -------------------------------------------------------- */

/* Counted, if anything bounds it. */
static void begin(struct poller *p, struct bounds_share *s, struct transfer *t)
{
	take_held(p, s, t);
	if (!(t->flags & TRANSFER_F_COUNTED))
		t->ring->nr_bounded--;
	sched_enter(p, t->ring, t, ticks_now());
}

/* The head of a queue. False: there is no room for it, nor for those behind. */
static bool release_one(struct poller *p, struct bounds_share *s, struct transfer *t)
{
	/* A7, pairs with R7 in contracts.c */
	const struct contract *c = load_acquire(&t->ring->space->contract);
	const struct qos_terms *terms = terms_of(c, t);
	uint16_t rule = terms ? count(s, terms, t) : 0;

	if (!rule) {
		begin(p, s, t);
		return true;
	}
	if (t->length <= terms->max_inflight_bytes || !(terms->given & QOS_HAS_BYTES))
		return false;
	bounds_remove(p, t);	/* the bound was lowered: it would wait for ever */
	complete_with(p, t, rule);
	return true;
}

static uint32_t release_intent(struct poller *p, struct bounds_share *s, uint32_t intent,
			       uint32_t left)
{
	for (uint32_t level = 0; level < LEVELS; level++) {
		struct transfer *t;

		while (left && (t = s->held[intent][level].head)) {
			if (!release_one(p, s, t))
				return left;
			left--;
		}
	}
	return left;
}

void bounds_release(struct poller *p)
{
	struct bounds_share *next;
	uint32_t left = RELEASES;

	for (struct bounds_share *s = p->held; s && left; s = next) {
		next = s->next;		/* it may leave the list */
		for (uint32_t intent = 0; intent < INTENTS; intent++)
			left = release_intent(p, s, intent, left);
	}
}

static void expire_queue(struct poller *p, struct transfer_queue *q, uint64_t now)
{
	struct transfer *t = q->head, *next;

	for (uint32_t i = 0; t && i < EXPIRIES; i++, t = next) {
		next = t->next;
		if (!sched_is_expired(p, t, now))
			continue;
		bounds_remove(p, t);
		complete_with(p, t, TENT_RULE_TIMEOUT);
	}
}

void bounds_expire(struct poller *p, uint64_t now)
{
	struct bounds_share *next;

	for (struct bounds_share *s = p->held; s; s = next) {
		next = s->next;
		for (uint32_t intent = 0; intent < INTENTS; intent++)
			for (uint32_t level = 0; level < LEVELS; level++)
				expire_queue(p, &s->held[intent][level], now);
	}
}
