/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notices_link.c - notifications to other engines, and from them. Each is one frame and
 * one answer. A few are on their way to an engine at a time, so that a flood of them does
 * not fill its link; the others wait, and no user has many of those.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/peers.h"
#include "engine/ring_state.h"

struct far_notice {
	struct far_notice *next;
	struct notice *alone;		/* waits for the answer; or NULL */
	uint64_t id, life;		/* life: of the segment that was meant */
	uint64_t since_ns;
	uint32_t uid, name_length, message_length;
	char segment[NAME_SIZE];	/* as its engine calls it */
	char texts[];			/* the name, then the message */
};

/* ---- texts ----------------------------------------------------------------- */

/* Bytes, of which no text in a frame may have any: as hex digits. */
static json_t *hex_of(const char *bytes, uint32_t length)
{
	static const char digits[] = "0123456789abcdef";
	char text[2 * TENT_NOTIFY_MESSAGE_MAX + 1];

	for (uint32_t i = 0; i < length; i++) {
		text[2 * i] = digits[(uint8_t)bytes[i] >> 4];
		text[2 * i + 1] = digits[bytes[i] & 15];
	}
	return json_stringn(text, 2 * (size_t)length);
}

static int digit_of(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Into at most max bytes and a NUL; their length, or -1: it is no such text. */
static int read_hex(const json_t *frame, const char *name, char *to, uint32_t max)
{
	const char *text = frame_text(frame, name, 2 * (size_t)max);
	size_t length = text ? strlen(text) : 1;

	if (length % 2)
		return -1;
	for (size_t i = 0; i < length / 2; i++) {
		int high = digit_of(text[2 * i]), low = digit_of(text[2 * i + 1]);

		if (high < 0 || low < 0 || !(high | low))
			return -1;	/* a NUL, too */
		to[i] = (char)(high << 4 | low);
	}
	to[length / 2] = '\0';
	return (int)(length / 2);
}

/* ---- there ------------------------------------------------------------------ */

static void end(struct engine *e, struct far_notice *f, uint16_t rule)
{
	if (rule)
		e->notices.refused++;
	else
		e->notices.sent++;
	if (f->alone)
		notice_return(f->alone, rule);
	free(f);
}

static void push(struct far_notice **list, struct far_notice *f)
{
	while (*list)
		list = &(*list)->next;
	f->next = NULL;
	*list = f;
}

static json_t *frame_of(const struct far_notice *f)
{
	json_t *frame = json_pack("{s:s,s:s,s:I,s:o,s:o}", "type", "notify", "segment",
				  f->segment, "uid", (json_int_t)f->uid, "life",
				  frame_hex(f->life), "id", frame_hex(f->id));

	json_object_set_new(frame, "name", hex_of(f->texts, f->name_length));
	json_object_set_new(frame, "message", hex_of(f->texts + f->name_length,
						     f->message_length));
	return frame;
}

/* May end the link, and with it everything that is on its way. */
static void flush(struct engine *e, struct engine_peer *p)
{
	struct far_notice *f;

	while (p->state == PEER_UP && p->notices.nr_out < FAR_NOTICES_OUT &&
	       (f = p->notices.waiting)) {
		p->notices.waiting = f->next;
		f->id = ++p->notices.last_id;
		push(&p->notices.out, f);
		p->notices.nr_out++;
		link_send(e, p->link, frame_of(f));
	}
}

static bool is_full(const struct far_notices *all, uint32_t uid)
{
	uint32_t nr = 0;

	for (const struct far_notice *f = all->out; f; f = f->next)
		nr += f->uid == uid;
	for (const struct far_notice *f = all->waiting; f; f = f->next)
		nr += f->uid == uid;
	return nr >= FAR_NOTICES_PER_TENANT;
}

static struct far_notice *create(const struct far_segment *s, struct notice *n)
{
	struct far_notice *f = malloc(sizeof(*f) + n->name_length + n->message_length);

	if (!f)
		return NULL;
	*f = (struct far_notice){
		.alone = n->alone ? n : NULL, .life = s->owned.segment.epoch,
		.since_ns = clock_monotonic_ns(), .uid = s->owned.segment.tenant_uid,
		.name_length = n->name_length, .message_length = n->message_length,
	};
	strcpy(f->segment, s->text);
	memcpy(f->texts, n->name, n->name_length);
	memcpy(f->texts + n->name_length, n->message, n->message_length);
	return f;
}

uint16_t far_notice_send(struct engine *e, struct far_segment *s, struct notice *n)
{
	struct engine_peer *p = s->peer;
	struct far_notice *f;

	if (!p)
		return TENT_RULE_TARGET_GONE;
	if (p->state != PEER_UP || load_relaxed(&s->owned.segment.lost))
		return TENT_RULE_PEER_LOST;
	if (!p->link->takes_notices)
		return TENT_RULE_NOT_BUILT;
	f = is_full(&p->notices, s->owned.segment.tenant_uid) ? NULL : create(s, n);
	if (!f)
		return TENT_RULE_NOTIFY_ROOM;
	push(&p->notices.waiting, f);
	flush(e, p);
	return 0;
}

/* What the other side may say of one. */
static uint16_t answer_rule(uint32_t rule)
{
	return rule == 0 || rule == TENT_RULE_NOTIFY_ROOM || rule == TENT_RULE_SEGMENT_TENANT ?
	       (uint16_t)rule : TENT_RULE_TARGET_GONE;
}

/* An answer may be too late: then nobody waits for it. */
void far_take_notified(struct engine *e, struct link *l, const json_t *frame)
{
	struct engine_peer *p = l->peer;
	struct far_notice **at = &p->notices.out, *f;
	uint32_t rule;
	uint64_t id;

	if (!frame_u64(frame, "id", &id) || !frame_uint(frame, "rule", UINT16_MAX, &rule) ||
	    id > p->notices.last_id) {
		link_end(e, l, "it answered a notification wrongly");
		return;
	}
	while (*at && (*at)->id != id)
		at = &(*at)->next;
	f = *at;
	if (!f)
		return;
	*at = f->next;
	p->notices.nr_out--;
	end(e, f, answer_rule(rule));
	flush(e, p);
}

static void end_all(struct engine *e, struct far_notice **list, uint16_t rule)
{
	struct far_notice *f;

	while ((f = *list)) {
		*list = f->next;
		end(e, f, rule);
	}
}

void far_notices_drop(struct engine *e, struct engine_peer *p)
{
	p->notices.nr_out = 0;
	end_all(e, &p->notices.out, TENT_RULE_PEER_LOST);
	end_all(e, &p->notices.waiting, TENT_RULE_PEER_LOST);
}

static void abandon(struct far_notice *list, const struct client *c)
{
	for (struct far_notice *f = list; f; f = f->next) {
		if (!f->alone || notice_sender(f->alone) != c)
			continue;
		notice_return(f->alone, c->end_rule);
		f->alone = NULL;
	}
}

void far_notices_abandon(struct engine *e, struct client *c)
{
	for (struct engine_peer *p = e->peers->list; p; p = p->next) {
		abandon(p->notices.out, c);
		abandon(p->notices.waiting, c);
	}
}

/* Those that have been here for the time that any request has. How many. */
static uint32_t end_late(struct engine *e, struct far_notice **at, uint64_t now)
{
	uint32_t nr = 0;

	while (*at) {
		struct far_notice *f = *at;

		if (now - f->since_ns < e->config.request_timeout_ns) {
			at = &f->next;
			continue;
		}
		*at = f->next;
		end(e, f, TENT_RULE_TIMEOUT);
		nr++;
	}
	return nr;
}

void far_notices_patrol(struct engine *e, struct engine_peer *p, uint64_t now)
{
	if (!e->config.request_timeout_ns)
		return;
	p->notices.nr_out -= end_late(e, &p->notices.out, now);
	end_late(e, &p->notices.waiting, now);
	flush(e, p);
}

/* ---- here ------------------------------------------------------------------- */

/* Who sends is a tenant like any other, and means one life of the segment. */
static uint16_t deliver(struct engine *e, const struct link *l, const json_t *frame,
			uint32_t uid, uint64_t life)
{
	const char *text = frame_text(frame, "segment", NAME_SIZE - 1);
	const struct name *found = name_find(&e->names, text);
	const struct segment *s = found ? found->segment : NULL;
	char name[TENT_NOTIFY_NAME_MAX + 1], message[TENT_NOTIFY_MESSAGE_MAX + 1];
	int name_length = read_hex(frame, "name", name, TENT_NOTIFY_NAME_MAX);
	int message_length = read_hex(frame, "message", message, TENT_NOTIFY_MESSAGE_MAX);

	if (!link_speaks_for(e, l, uid) || (s && s->tenant_uid != uid))
		return TENT_RULE_SEGMENT_TENANT;
	if (!s || s->epoch != life)
		return TENT_RULE_TARGET_GONE;
	return notice_deliver(e, s, name, (uint32_t)name_length, message,
			      (uint32_t)message_length);
}

static bool is_whole(const json_t *frame)
{
	char text[TENT_NOTIFY_MESSAGE_MAX + 1];

	return frame_text(frame, "segment", NAME_SIZE - 1) &&
	       read_hex(frame, "name", text, TENT_NOTIFY_NAME_MAX) >= 0 &&
	       read_hex(frame, "message", text, TENT_NOTIFY_MESSAGE_MAX) >= 0;
}

void link_take_notify(struct engine *e, struct link *l, const json_t *frame)
{
	uint64_t id, life;
	uint32_t uid;
	uint16_t rule;

	if (!is_whole(frame) || !frame_u64(frame, "id", &id) ||
	    !frame_u64(frame, "life", &life) || !frame_uint(frame, "uid", UINT32_MAX, &uid)) {
		link_refuse(e, l, "notify needs segment, uid, life, id, and name and message of "
				  "up to 255 and 4095 bytes, as hex digits");
		return;
	}
	rule = deliver(e, l, frame, uid, life);
	e->notices.refused += rule != 0;
	link_send(e, l, json_pack("{s:s,s:o,s:i}", "type", "notified", "id", frame_hex(id),
				  "rule", (int)rule));
}
