/* SPDX-License-Identifier: Apache-2.0 */
/*
 * far.c - segments of other engines: who waits for one, what its engine says of it. A
 * client that opens one is answered when it is known or known to be missing; meanwhile
 * others are served.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/peers.h"
#include "engine/region_table.h"

/* ---- the list ---------------------------------------------------------- */

static struct far_segment *find(const struct engine_peer *p, const char *text, uint32_t uid)
{
	struct far_segment *s = p->segments;

	while (s && (s->owned.segment.tenant_uid != uid || strcmp(s->text, text) != 0))
		s = s->next;
	return s;
}

/* The one that a frame is about, or NULL. */
static struct far_segment *find_named(const struct link *l, const json_t *frame)
{
	const char *text = frame_text(frame, "segment", NAME_SIZE - 1);
	uint32_t uid;

	if (!text || !frame_uint(frame, "uid", UINT32_MAX, &uid))
		return NULL;
	return find(l->peer, text, uid);
}

static struct far_segment *create(struct engine_peer *p, const char *text, uint32_t uid)
{
	struct far_segment *s = strlen(text) < NAME_SIZE ? grace_alloc(sizeof(*s)) : NULL;

	if (!s)
		return NULL;
	s->owned.refs = 1;
	s->owned.segment = (struct segment){
		.table = region_table_empty(), .tenant_uid = uid, .is_far = true,
		.type = TENT_SEGMENT_MEMORY,
	};
	segment_name_print(&p->address, text, s->owned.segment.name,
			   sizeof(s->owned.segment.name));
	strcpy(s->text, text);
	s->peer = p;
	s->next = p->segments;
	p->segments = s;
	return s;
}

/* Gone: whoever has a handle on it keeps that, and it finds nothing. */
static void unlink_segment(struct engine *e, struct far_segment *s)
{
	struct far_segment **at = &s->peer->segments;

	while (*at != s)
		at = &(*at)->next;
	far_leave_peer(e, s);
	*at = s->next;
	s->peer = NULL;
	s->asked = false;
	far_draft_drop(s);
	store_relaxed(&s->owned.segment.lost, 0u);
	far_withdraw(e, s, TENT_RULE_TARGET_GONE);
	s->owned.refs--;
	far_free_if_over(e, s);
}

static void unlink_if_unused(struct engine *e, struct far_segment *s)
{
	if (s->peer && s->owned.refs == 1 && !s->askers)
		unlink_segment(e, s);
}

void far_put(struct engine *e, struct far_segment *s)
{
	s->owned.refs--;
	if (s->peer)
		unlink_if_unused(e, s);
	else
		far_free_if_over(e, s);
}

/* ---- who waits --------------------------------------------------------- */

static void push_asker(struct far_segment *s, struct client *c)
{
	c->busy = true;
	c->asks = s;
	c->asks_until_ns = clock_monotonic_ns() + OPEN_NS;
	c->next_asker = s->askers;
	s->askers = c;
}

static struct client *pop_asker(struct far_segment *s)
{
	struct client *c = s->askers;

	if (c) {
		s->askers = c->next_asker;
		c->asks = NULL;
	}
	return c;
}

void far_forget_asker(struct engine *e, struct client *c)
{
	struct far_segment *s = c->asks;
	struct client **at;

	if (!s)
		return;
	for (at = &s->askers; *at != c; at = &(*at)->next_asker)
		;
	*at = c->next_asker;
	c->asks = NULL;
	c->busy = false;
	unlink_if_unused(e, s);
}

/* rule: SEGMENT_UNKNOWN, SEGMENT_TENANT or MEM_LIMIT. */
static void refuse_one(struct engine *e, struct client *c, const char *name, uint16_t rule,
		       const char *why)
{
	if (rule == TENT_RULE_SEGMENT_TENANT)
		client_refuse(e, c, rule, c->peer.uid);
	else if (rule == TENT_RULE_MEM_LIMIT)
		client_refuse_text(e, c, rule, 0, "%s", why);
	else
		segment_refuse_unknown(e, c, name, why);
	client_idle(e, c);
}

static void refuse_askers(struct engine *e, struct far_segment *s, uint16_t rule,
			  const char *why)
{
	char name[TENT_CTL_NAME_SIZE];
	struct client *c;

	memcpy(name, s->owned.segment.name, sizeof(name));
	while ((c = pop_asker(s)))
		refuse_one(e, c, name, rule, why);
	unlink_if_unused(e, s);
}

static void answer_askers(struct engine *e, struct far_segment *s)
{
	struct client *c;

	while ((c = pop_asker(s))) {
		segment_open_found(e, c, &s->owned.segment);
		client_idle(e, c);
	}
	unlink_if_unused(e, s);
}

/* ---- asking ------------------------------------------------------------ */

/* May end the link, or refuse those who wait and free s. */
static void ask(struct engine *e, struct far_segment *s, uint32_t first)
{
	uint32_t uid = s->owned.segment.tenant_uid;

	if (!link_speaks_for(e, s->peer->link, uid)) {
		refuse_askers(e, s, TENT_RULE_SEGMENT_UNKNOWN,
			      "another user's program listens there");
		return;
	}
	s->asked = true;
	s->again = false;
	link_send(e, s->peer->link,
		  json_pack("{s:s,s:s,s:I,s:I}", "type", "describe", "segment", s->text, "uid",
			    (json_int_t)uid, "first", (json_int_t)first));
}

/* The client waits for it. False: it was refused, and waits for nothing. */
static bool wait_for(struct engine *e, struct client *c, struct engine_peer *p, const char *text)
{
	struct far_segment *s = find(p, text, c->peer.uid);

	if (!s) {
		s = create(p, text, c->peer.uid);
		if (!s) {
			segment_refuse_unknown(e, c, text, "there is no memory for it");
			return false;
		}
		if (!far_pay(e, c, p, s)) {
			unlink_segment(e, s);
			return false;
		}
	}
	push_asker(s, c);
	if (p->state == PEER_UP && !s->asked)
		ask(e, s, 0);
	else
		peer_call(e, p);
	return true;
}

void far_open(struct engine *e, struct client *c, const struct segment_name *n)
{
	struct engine_peer *p = peer_find(e, &n->engine);
	struct far_segment *s = p ? find(p, n->text, c->peer.uid) : NULL;

	if (!p) {
		segment_refuse_unknown(e, c, n->text, "there is no room for its engine");
	} else if (s && s->known && p->state == PEER_UP &&
		   !load_relaxed(&s->owned.segment.lost)) {
		segment_open_found(e, c, &s->owned.segment);
		unlink_if_unused(e, s);
	} else {
		wait_for(e, c, p, n->text);
	}
}

/* ---- answers ----------------------------------------------------------- */

/* Another owner has the name: a new segment, for those who wait, and no longer than they
 * would have. */
static void replace(struct engine *e, struct far_segment *s)
{
	struct engine_peer *p = s->peer;
	struct client *askers = s->askers, *c;
	char text[NAME_SIZE];

	strcpy(text, s->text);
	s->askers = NULL;
	unlink_segment(e, s);
	while ((c = askers)) {
		uint64_t until_ns = c->asks_until_ns;

		askers = c->next_asker;
		c->asks = NULL;
		if (wait_for(e, c, p, text))
			c->asks_until_ns = until_ns;
		else
			client_idle(e, c);
	}
}

/* Nobody gets it for lack of memory, our own or what its tenant may have; what was known of
 * it is not true any more. rc: far_draft_take()'s. */
static void withhold(struct engine *e, struct far_segment *s, int rc)
{
	far_draft_drop(s);
	if (s->known) {
		store_relaxed(&s->owned.segment.lost, 1u);
		far_withdraw(e, s, TENT_RULE_PEER_LOST);
	}
	if (rc == -3)
		refuse_askers(e, s, TENT_RULE_MEM_LIMIT, "its engine describes more buffers than "
			      "this user may have; allowed: limits/far_buffers_per_tenant");
	else
		refuse_askers(e, s, TENT_RULE_SEGMENT_UNKNOWN, "there is no memory for it");
}

static void described(struct engine *e, struct far_segment *s, uint64_t life)
{
	s->asked = false;
	if (s->known && life != s->owned.segment.epoch) {
		replace(e, s);
		return;
	}
	s->owned.segment.epoch = life;
	if (!far_publish(e, s)) {
		withhold(e, s, -2);
		return;
	}
	s->known = true;
	store_relaxed(&s->owned.segment.lost, 0u);
	if (s->again)
		ask(e, s, 0);
	answer_askers(e, s);
}

void far_take_segment(struct engine *e, struct link *l, const json_t *frame)
{
	struct far_segment *s = find_named(l, frame);
	uint64_t life;
	uint32_t next;
	int rc;

	if (!s || !s->asked)
		return;		/* nobody wants it any more */
	rc = frame_u64(frame, "life", &life) ? far_draft_take(e, s, frame, &next) : -1;
	if (rc > 0) {
		described(e, s, life);
	} else if (rc == 0) {
		ask(e, s, next);
	} else if (rc == -1) {
		link_end(e, l, "it described a segment wrongly");
	} else {
		s->asked = false;
		withhold(e, s, rc);
	}
}

void far_take_missing(struct engine *e, struct link *l, const json_t *frame)
{
	struct far_segment *s = find_named(l, frame);
	const char *why = frame_text(frame, "reason", 120);
	uint32_t rule;

	if (!s)
		return;
	if (!frame_uint(frame, "rule", UINT16_MAX, &rule) || rule != TENT_RULE_SEGMENT_TENANT)
		rule = TENT_RULE_SEGMENT_UNKNOWN;
	s->asked = false;
	s->owned.refs++;	/* ours, until we are through with it */
	refuse_askers(e, s, (uint16_t)rule, why ? why : "its engine does not have it");
	if (s->peer)
		unlink_segment(e, s);
	far_put(e, s);
}

void far_take_changed(struct engine *e, struct link *l, const json_t *frame)
{
	struct far_segment *s = find_named(l, frame);

	if (s && s->asked)
		s->again = true;
	else if (s)
		ask(e, s, 0);
}

/* ---- its engine -------------------------------------------------------- */

void far_peer_up(struct engine *e, struct engine_peer *p)
{
	for (struct far_segment *s = p->segments, *next; s && p->state == PEER_UP; s = next) {
		next = s->next;
		ask(e, s, 0);	/* may end the link, and with it this walk */
	}
}

void far_peer_down(struct engine *e, struct engine_peer *p, const char *why)
{
	for (struct far_segment *s = p->segments, *next; s; s = next) {
		next = s->next;
		s->asked = s->again = false;
		far_draft_drop(s);
		if (s->known && !load_relaxed(&s->owned.segment.lost)) {
			store_relaxed(&s->owned.segment.lost, 1u);
			far_withdraw(e, s, TENT_RULE_PEER_LOST);
		}
		refuse_askers(e, s, TENT_RULE_SEGMENT_UNKNOWN, why);
	}
}

static struct client *late_asker(struct far_segment *s, uint64_t now)
{
	struct client *c = s->askers;

	while (c && now < c->asks_until_ns)
		c = c->next_asker;
	return c;
}

void far_patrol(struct engine *e, struct engine_peer *p, uint64_t now)
{
	for (struct far_segment *s = p->segments, *next; s; s = next) {
		char name[TENT_CTL_NAME_SIZE];
		struct client *c;

		next = s->next;
		memcpy(name, s->owned.segment.name, sizeof(name));
		s->owned.refs++;
		while ((c = late_asker(s, now))) {
			far_forget_asker(e, c);
			c->busy = true;
			refuse_one(e, c, name, TENT_RULE_SEGMENT_UNKNOWN,
				   "its engine did not answer in time");
		}
		far_put(e, s);
	}
}
