/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link_serve.c - our segments, as engines on other hosts ask for them. Who asks for one
 * follows it: he is told once that it changed, and again only after he has asked again,
 * so that news never pile up.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/contracts.h"
#include "engine/control.h"
#include "engine/peers.h"
#include "engine/wired.h"

#define FOLLOWS_MAX 256u	/* segments that one link follows */
#define BUFFERS_PER_FRAME 256u
#define KEYS_PER_FRAME 24576u	/* bytes of them, and a little more */

struct follow {
	struct follow *next;
	struct segment *segment;
	uint32_t uid;		/* for whom */
	uint32_t handle;	/* what its requests call it, or NO_HANDLE */
	bool told;
	char text[NAME_SIZE];
};

/* ---- following --------------------------------------------------------- */

static void unfollow(struct link *l, struct follow **at)
{
	struct follow *f = *at;

	*at = f->next;
	guest_expel(l->guest, f->handle);
	f->segment->followers--;
	free(f);
}

void link_unfollow_all(struct link *l)
{
	while (l->follows)
		unfollow(l, &l->follows);
	l->nr_follows = 0;
}

static struct follow *follow(struct link *l, struct segment *s, const char *text,
			     uint32_t uid)
{
	struct follow *f = l->follows;

	while (f && (f->segment != s || f->uid != uid))
		f = f->next;
	if (f) {
		f->told = false;
		return f;
	}
	f = l->nr_follows < FOLLOWS_MAX ? calloc(1, sizeof(*f)) : NULL;
	if (!f)
		return NULL;
	f->segment = s;
	f->handle = guest_admit(l->guest, s);
	f->uid = uid;
	strcpy(f->text, text);
	f->next = l->follows;
	l->follows = f;
	l->nr_follows++;
	s->followers++;
	return f;
}

static json_t *about(const char *type, const char *text, uint32_t uid)
{
	return json_pack("{s:s,s:s,s:I}", "type", type, "segment", text, "uid",
			 (json_int_t)uid);
}

void links_segment_changed(struct engine *e, struct segment *s)
{
	struct link *next;

	for (struct link *l = s->followers ? e->links.list : NULL; l; l = next) {
		next = l->next;
		for (struct follow *f = l->follows; f && !l->over; f = f->next) {
			if (f->segment != s || f->told)
				continue;
			f->told = true;
			link_send(e, l, about("changed", f->text, f->uid));
			if (l->over)
				break;	/* and f with it */
		}
	}
}

static void send_missing(struct engine *e, struct link *l, const char *text, uint32_t uid,
			 uint16_t rule, const char *why)
{
	json_t *frame = about("missing", text, uid);

	json_object_set_new(frame, "rule", json_integer(rule));
	json_object_set_new(frame, "reason", json_string(why));
	link_send(e, l, frame);
}

void links_segment_gone(struct engine *e, struct segment *s)
{
	struct link *next;

	for (struct link *l = s->followers ? e->links.list : NULL; l; l = next) {
		next = l->next;
		for (struct follow **at = &l->follows; *at; ) {
			struct follow gone = **at;

			if (gone.segment != s) {
				at = &(*at)->next;
				continue;
			}
			unfollow(l, at);
			l->nr_follows--;
			send_missing(e, l, gone.text, gone.uid, TENT_RULE_SEGMENT_UNKNOWN,
				     "its owner ended");
			if (l->over)
				break;
		}
	}
}

/* ---- describing -------------------------------------------------------- */

static json_t *row_of(const struct region *r)
{
	return json_pack("[o,o,i,s]", frame_hex(r->base), frame_hex(r->end - r->base),
			 r->permission, r->location);
}

static size_t add_keys(const struct engine *e, const struct region *r, json_t *keys)
{
	json_t *text = wired_keys(e, r);
	size_t length = json_string_length(text);

	json_array_append_new(keys, text);
	return length;
}

/* Those that others may know of: a page of them from the first wanted on. */
static json_t *rows_of(const struct engine *e, const struct region_table *t, uint32_t first,
		       uint32_t *total, json_t *keys)
{
	json_t *rows = json_array();
	size_t used = 0;

	*total = 0;
	for (uint32_t i = 0; i < t->nr; i++) {
		const struct region *r = t->entries[i].region;

		if (r->internal)
			continue;
		if ((*total)++ < first || json_array_size(rows) == BUFFERS_PER_FRAME ||
		    used >= KEYS_PER_FRAME)
			continue;
		json_array_append_new(rows, row_of(r));
		used += add_keys(e, r, keys);
	}
	return rows;
}

static void send_page(struct engine *e, struct link *l, const struct follow *f,
		      uint32_t first)
{
	json_t *frame = about("segment", f->text, f->uid), *keys = json_array(), *rows;
	const struct segment *s = f->segment;
	uint32_t total;

	rows = rows_of(e, s->table, first, &total, keys);
	json_object_set_new(frame, "life", frame_hex(s->epoch));
	json_object_set_new(frame, "version", frame_hex(s->version));
	json_object_set_new(frame, "first", json_integer(first));
	json_object_set_new(frame, "total", json_integer(total));
	if (f->handle != NO_HANDLE)
		json_object_set_new(frame, "handle", json_integer(f->handle));
	json_object_set_new(frame, "buffers", rows);
	if (l->wired && s->tenant_uid == f->uid) /* whom it is shared with has another domain */
		json_object_set(frame, "keys", keys);
	json_decref(keys);
	link_send(e, l, frame);
}

/* Who asks is a tenant like any other. */
void link_take_describe(struct engine *e, struct link *l, const json_t *frame)
{
	const char *text = frame_text(frame, "segment", NAME_SIZE - 1);
	uint32_t uid, first;
	struct follow *f;
	struct name *name;
	struct segment *s;

	if (!text || !frame_uint(frame, "uid", UINT32_MAX, &uid) ||
	    !frame_uint(frame, "first", UINT32_MAX, &first)) {
		link_refuse(e, l, "describe needs segment, uid and first");
		return;
	}
	name = name_find(&e->names, text);
	s = name ? name->segment : NULL;
	if (!link_speaks_for(e, l, uid))
		send_missing(e, l, text, uid, TENT_RULE_SEGMENT_TENANT,
			     "the engine that asks is another user's");
	else if (!s)
		send_missing(e, l, text, uid, TENT_RULE_SEGMENT_UNKNOWN,
			     "its engine has no such segment");
	else if (!contracts_may_open(e, s, uid, false))
		send_missing(e, l, text, uid, TENT_RULE_SEGMENT_TENANT,
			     "it is another user's");
	else if (!(f = follow(l, s, text, uid)))
		send_missing(e, l, text, uid, TENT_RULE_SEGMENT_UNKNOWN,
			     "its engine tells of no more segments");
	else
		send_page(e, l, f, first);
}
