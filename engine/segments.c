/* SPDX-License-Identifier: Apache-2.0 */
/* segments.c - opening, closing, describing segments. */
#include <errno.h>
#include <string.h>

#include "engine/contracts.h"
#include "engine/files.h"
#include "engine/memory.h"
#include "engine/peers.h"
#include "engine/region_table.h"
#include "engine/segments.h"

/* ---- handles ----------------------------------------------------------- */

static struct handle_table *handles_alloc(uint32_t nr)
{
	struct handle_table *t = grace_alloc(sizeof(*t) +
					     (size_t)nr * sizeof(t->segments[0]));

	if (t)
		t->nr = nr;
	return t;
}

/* R7, pairs with A7 at intake. */
static void handles_publish(struct engine *e, struct client *c, struct handle_table *t)
{
	struct handle_table *old = c->space.handles;

	store_release(&c->space.handles, t);
	grace_free(e, old);
}

/* The same table with place for nr. NULL: no memory. */
static struct handle_table *handles_copy(const struct handle_table *t, uint32_t nr)
{
	struct handle_table *new = handles_alloc(nr);

	if (new)
		memcpy(new->segments, t->segments,
		       (nr < t->nr ? nr : t->nr) * sizeof(t->segments[0]));
	return new;
}

static struct segment *handle_find(const struct client *c, uint64_t id)
{
	const struct handle_table *t = c->space.handles;

	return id < t->nr ? t->segments[id] : NULL;
}

/* ---- life -------------------------------------------------------------- */

static void segment_put(struct engine *e, struct segment *s)
{
	struct owned_segment *o = (struct owned_segment *)s;

	if (s->is_far)
		far_put(e, far_of(s));
	else if (--o->refs == 0)
		grace_free(e, o);
}

bool segment_full_name(const struct engine *e, const char *text, char full[TENT_CTL_NAME_SIZE])
{
	return segment_name_print(&e->address, text, full, TENT_CTL_NAME_SIZE);
}

int segment_create(struct engine *e, struct client *c, const char *full)
{
	struct owned_segment *o = grace_alloc(sizeof(*o));
	struct handle_table *t = handles_alloc(1);

	if (!o || !t) {
		grace_discard(o);
		grace_discard(t);
		return -ENOMEM;
	}
	o->refs = 1;
	o->segment = (struct segment){
		.table = region_table_empty(), .epoch = e->epoch + ++e->last_segment,
		.tenant_uid = c->peer.uid, .type = TENT_SEGMENT_MEMORY, .owner = c,
	};
	memcpy(o->segment.name, full, strnlen(full, sizeof(o->segment.name) - 1));
	t->segments[0] = &o->segment;
	c->segment = &o->segment;
	handles_publish(e, c, t);
	return 0;
}

static void orphan(struct engine *e, struct client *c, struct segment *s)
{
	memory_doom_all(e, c, s);
	s->owner = NULL;
}

void segment_orphan(struct engine *e, struct client *c)
{
	const struct handle_table *t = c->space.handles;

	if (!c->segment)
		return;
	links_segment_gone(e, c->segment);
	orphan(e, c, c->segment);
	for (uint32_t i = 1; i < t->nr; i++) {
		if (t->segments[i] && t->segments[i]->type == TENT_SEGMENT_FILE)
			orphan(e, c, t->segments[i]);
	}
}

void segments_leave(struct engine *e, struct client *c)
{
	struct handle_table *t = c->space.handles;

	for (uint32_t i = 0; t && i < t->nr; i++) {
		if (t->segments[i])
			segment_put(e, t->segments[i]);
	}
	c->space.handles = NULL;
	c->segment = NULL;
	grace_free(e, t);
}

/* ---- SEGMENT_OPEN ------------------------------------------------------ */

static void reply_open(struct engine *e, struct client *c, const struct segment *s, uint64_t id)
{
	struct ctl_message m = { .nr_fds = 0 };
	struct tent_ctl_segment_open_reply *r = (void *)m.bytes;

	r->segment_id = id;
	r->epoch = s->epoch;
	r->type = s->type;
	client_reply(e, c, &m, sizeof(*r));
}

/* why: what is wrong with the name, or NULL. */
void segment_refuse_unknown(struct engine *e, struct client *c, const char *name,
			    const char *why)
{
	char printable[64];
	size_t i;

	for (i = 0; i + 1 < sizeof(printable) && name[i]; i++)
		printable[i] = name[i] >= ' ' && name[i] <= '~' ? name[i] : '?';
	printable[i] = '\0';
	client_refuse_text(e, c, TENT_RULE_SEGMENT_UNKNOWN, 0,
			   "segment is %s%s%s; allowed: a segment of this engine%s", printable,
			   why ? ": " : "", why ? why : "",
			   e->links.fd < 0 ? " (peers/enable is off)" :
			   ", or of a peer that answers");
}

/* Texts of this engine, alone or behind its address. NULL: it is no such segment. */
static struct name *find_here(struct engine *e, const struct segment_name *n)
{
	if (n->form == SEGMENT_ADDRESS && !engine_address_equal(&n->engine, &e->address))
		return NULL;
	return name_find(&e->names, n->text);
}

/* The same segment has one handle. */
void segment_open_found(struct engine *e, struct client *c, struct segment *s)
{
	const struct handle_table *t = c->space.handles;
	struct handle_table *new;
	uint32_t i;

	for (i = 0; i < t->nr; i++) {
		if (t->segments[i] == s) {
			reply_open(e, c, s, i);
			return;
		}
	}
	new = t->nr < HANDLES_MAX ? handles_copy(t, t->nr + 1) : NULL;
	if (!new) {
		client_refuse_text(e, c, TENT_RULE_MEM_LIMIT, t->nr,
				   "this client has opened %u segments; allowed: within the "
				   "engine's limits", t->nr);
		return;
	}
	new->segments[i] = s;
	((struct owned_segment *)s)->refs++;
	handles_publish(e, c, new);
	reply_open(e, c, s, i);
}

/* ---- files ------------------------------------------------------------- */

/* A file that it has open already, in the same way. */
static struct segment *file_find(const struct client *c, const struct file *f)
{
	const struct handle_table *t = c->space.handles;

	for (uint32_t i = 1; i < t->nr; i++) {
		struct segment *s = t->segments[i];
		const struct file *other;

		if (!s || s->type != TENT_SEGMENT_FILE)
			continue;
		other = s->table->entries[0].region->file;
		if (other->dev == f->dev && other->ino == f->ino &&
		    other->writable == f->writable)
			return s;
	}
	return NULL;
}

/* What the client says of its path is for people, who read it on a terminal. */
static void put_printable(char *to, const char *name)
{
	for (size_t i = 0; i + 1 < TENT_CTL_NAME_SIZE && name[i]; i++)
		to[i] = name[i] >= ' ' && name[i] <= '~' ? name[i] : '?';
}

/* A segment of one region, or NULL: the client was told why not. */
static struct segment *file_segment(struct engine *e, struct client *c,
				    struct file_offer *offer, const char *name)
{
	struct owned_segment *o = grace_alloc(sizeof(*o));
	struct segment *s = o ? &o->segment : NULL;
	struct region *region = s ? file_take(e, c, offer, s) : NULL;
	struct region_table *t = region ? region_table_with(region_table_empty(), region) :
					  NULL;

	if (region && !t)
		file_release(e, c, (struct owned_region *)region);
	if (!s || (region && !t))
		client_refuse(e, c, TENT_RULE_SYSTEM, ENOMEM);
	if (!t) {
		grace_discard(o);
		return NULL;
	}
	*s = (struct segment){
		.table = t, .epoch = e->epoch + ++e->last_segment,
		.tenant_uid = c->peer.uid, .type = TENT_SEGMENT_FILE, .owner = c,
	};
	put_printable(s->name, name);
	return s;
}

static void open_offer(struct engine *e, struct client *c, struct file_offer *offer,
		       const char *name)
{
	struct segment *s;

	if (offer->rule) {
		client_refuse_text(e, c, offer->rule, 0, "%s", offer->why);
		return;
	}
	if (c->space.handles->nr >= HANDLES_MAX) {
		client_refuse(e, c, TENT_RULE_MEM_LIMIT, HANDLES_MAX);
		return;
	}
	s = file_find(c, &offer->file);
	if (!s)
		s = file_segment(e, c, offer, name);
	if (s)
		segment_open_found(e, c, s);
}

/* What came from this process itself is judged here: it waits for itself only. */
static void open_file(struct engine *e, struct client *c, struct ctl_message *m,
		      const char *name)
{
	struct file_terms terms = file_terms_of(e, c);
	struct file_offer own;

	if (c->offer) {
		open_offer(e, c, c->offer, name);
		return;
	}
	file_offer_judge(&own, m->fds[0], &terms);
	open_offer(e, c, &own, name);
	file_offer_close(&own);
}

/* Of this engine, unless found is NULL. why: what is wrong with the name, or NULL. */
static void open_here(struct engine *e, struct client *c, const char *name,
		      const struct name *found, const char *why)
{
	if (!found || !found->segment)
		segment_refuse_unknown(e, c, name, why);
	else if (!contracts_may_open(e, found->segment, c->peer.uid, c->local))
		client_refuse(e, c, TENT_RULE_SEGMENT_TENANT, found->segment->tenant_uid);
	else
		segment_open_found(e, c, found->segment);
}

static bool is_elsewhere(const struct engine *e, const struct segment_name *n)
{
	return n->form == SEGMENT_ADDRESS && e->links.fd >= 0 &&
	       !engine_address_equal(&n->engine, &e->address);
}

void segment_open_at(struct engine *e, struct client *c, const char *name)
{
	struct segment_name n;
	const char *fault = segment_name_read(name, &n);

	if (!fault && is_elsewhere(e, &n))
		far_open(e, c, &n);
	else
		open_here(e, c, name, fault ? NULL : find_here(e, &n), fault);
}

void segment_open(struct engine *e, struct client *c, struct ctl_message *m)
{
	const char *name = ((const struct tent_ctl_segment_open *)m->bytes)->name;
	struct segment_name n;
	const char *fault = segment_name_read(name, &n);
	const struct name *found = fault ? NULL : find_here(e, &n);
	bool is_file = n.form == SEGMENT_FILE;

	if (m->nr_fds != is_file)
		client_refuse_text(e, c, TENT_RULE_CTL_MESSAGE, (uint64_t)m->nr_fds,
				   "%d descriptors came with this name; allowed: an open file "
				   "with file://, none with others", m->nr_fds);
	else if (n.form == SEGMENT_OWN)
		segment_open_found(e, c, c->segment);
	else if (is_file)
		open_file(e, c, m, name);
	else if (!fault && is_elsewhere(e, &n))
		far_open(e, c, &n);
	else if ((!found || !found->segment) && e->directory && n.form == SEGMENT_TEXT &&
		 name_is_plain(name))
		directory_ask(e, c, name);
	else
		open_here(e, c, name, found, fault);
}

/* ---- SEGMENT_CLOSE, SEGMENT_INFO --------------------------------------- */

/* Whoever names it is refused by now, and for that: its regions go only after no poller
 * can find them by this handle, or what is judged meanwhile would miss them. */
static void handle_closed(struct engine *e, void *client)
{
	struct client *c = client;
	struct segment *s = c->segment_pending;

	c->segment_pending = NULL;
	if (s->type == TENT_SEGMENT_FILE) {	/* nobody else has a handle on it */
		orphan(e, c, s);
		segment_put(e, s);
		memory_drop_and_reply(e, c);
		return;
	}
	segment_put(e, s);
	client_reply_plain(e, c);
	client_idle(e, c);
}

void segment_close(struct engine *e, struct client *c, struct ctl_message *m)
{
	uint64_t id = ((const struct tent_ctl_id *)m->bytes)->id;
	struct segment *s = handle_find(c, id);
	struct handle_table *new;

	if (id == 0) {
		client_reply_plain(e, c);
		return;
	}
	if (!s) {
		client_refuse(e, c, TENT_RULE_SEGMENT, id);
		return;
	}
	notices_serve_client(e, c);
	new = handles_copy(c->space.handles, c->space.handles->nr);
	if (!new) {
		client_refuse(e, c, TENT_RULE_SYSTEM, ENOMEM);
		return;
	}
	new->segments[id] = NULL;
	handles_publish(e, c, new);
	c->segment_pending = s;
	round_fill_grace(e, c->round);
	client_await(e, c, handle_closed);
}

/* Those that others may know of, from the first wanted on. */
static void list_buffers(const struct region_table *t, uint32_t first,
			 struct tent_ctl_segment_info_reply *r)
{
	for (uint32_t i = 0; i < t->nr; i++) {
		const struct region *region = t->entries[i].region;
		struct tent_ctl_buffer *b = &r->buffers[r->count];

		if (region->internal)
			continue;
		if (r->total++ < first || r->count == TENT_CTL_BUFFERS_PER_REPLY)
			continue;
		b->base = region->base;
		b->length = region->file ? file_length(region->file) :
					   region->end - region->base;
		memcpy(b->location, region->location, sizeof(b->location));
		r->count++;
	}
}

void segment_info(struct engine *e, struct client *c, struct ctl_message *m)
{
	const struct tent_ctl_segment_info *q = (const void *)m->bytes;
	const struct segment *s = handle_find(c, q->segment_id);
	struct ctl_message reply = { .nr_fds = 0 };
	struct tent_ctl_segment_info_reply *r = (void *)reply.bytes;

	if (q->resv0) {
		client_refuse(e, c, TENT_RULE_CTL_MESSAGE, q->resv0);
	} else if (!s) {
		client_refuse(e, c, TENT_RULE_SEGMENT, q->segment_id);
	} else if (load_relaxed(&s->lost)) {
		client_refuse(e, c, TENT_RULE_TARGET_PEER, q->segment_id);
	} else if (s->is_far ? !far_of((struct segment *)(uintptr_t)s)->peer : !s->owner) {
		client_refuse(e, c, TENT_RULE_TARGET_GONE, q->segment_id);
	} else {
		r->type = s->type;
		list_buffers(s->table, q->first, r);
		client_reply(e, c, &reply, sizeof(*r));
	}
}
