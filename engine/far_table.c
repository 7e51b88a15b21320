/* SPDX-License-Identifier: Apache-2.0 */
/*
 * far_table.c - what far segments have registered. A description comes in pages; when it
 * is whole, regions that did not change stay, so that what uses them goes on, and those
 * that vanished leave as near ones do: out of the table, then out of every poller.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "engine/device.h"
#include "engine/peers.h"
#include "engine/region_table.h"
#include "engine/wired.h"

#define DROPS_PER_ROUND 8u
#define ROW 4			/* members of a buffer in a page */

/* A region, and what the control thread alone knows of it. */
struct far_region {
	struct region region;		/* first */
	struct far_region *next;	/* of the doomed */
	struct far_segment *segment;
	char *keys;			/* as it was told of them, or NULL */
	uint16_t rule;			/* doomed: what it ends what uses it with */
};

struct far_description {
	uint64_t version, life;
	uint32_t total, nr;
	uint32_t handle;
	struct region rows[];		/* base, end, permission, location; wired: keys, a text */
};

/* ---- ends -------------------------------------------------------------- */

_Static_assert(sizeof(struct sockaddr_storage) == sizeof(((struct far_end *)0)->address),
	       "address of any family");

struct far_end *far_end_create(struct engine *e, const struct link *l)
{
	struct far_end *end = calloc(1, sizeof(*end));
	socklen_t size = sizeof(end->address);	/* of any family */

	if (!end)
		return NULL;
	end->own_epoch = e->epoch;
	end->epoch = l->epoch;
	end->token[0] = l->data_token[0];
	end->token[1] = l->data_token[1];
	end->prove = link_key(l, end->key);
	end->refs = 1;
	if (getpeername(l->fd, (struct sockaddr *)(void *)end->address, &size) == 0) {
		end->address_size = size;
		end->data_port = l->data_port;
	}
	far_end_open(e, end);
	if (l->wired)
		wired_far_open(e, end);
	return end;
}

/* ---- dropping ---------------------------------------------------------- */

void far_free_if_over(struct engine *e, struct far_segment *s)
{
	if (s->owned.refs || s->peer)
		return;
	far_refund(e, s);
	if (s->regions)
		return;
	region_table_publish(e, &s->owned.segment, region_table_empty());
	grace_free(e, s);
}

static void region_free(struct engine *e, struct far_region *r)
{
	struct far_segment *s = r->segment;

	wired_far_region_close(e, &r->region);
	far_end_put(e, (struct far_end *)(uintptr_t)r->region.far);
	free(r->keys);
	free(r);
	s->regions--;
}

static void region_release(struct engine *e, struct far_region *r)
{
	struct far_segment *s = r->segment;

	region_free(e, r);
	far_free_if_over(e, s);
}

static void drop_some(struct engine *e);

static void dropped(struct engine *e, void *context)
{
	struct peers *all = context;

	for (; all->dropping; all->dropping--) {
		struct far_region *r = all->doomed;

		all->doomed = r->next;
		region_release(e, r);
	}
	drop_some(e);
}

/* Doomed ones are appended at the head only while no round is out: see doom(). */
static void drop_some(struct engine *e)
{
	struct poller_command order = { .type = POLLER_DROP_REGION };
	struct peers *all = e->peers;

	if (all->dropping || !all->doomed)
		return;
	round_begin(all->round);
	for (struct far_region *r = all->doomed; r; r = r->next) {
		if (all->dropping == DROPS_PER_ROUND ||
		    !round_has_room(all->round, e->nr_pollers))
			break;
		order.region = &r->region;
		order.rule = r->rule;
		round_add_all(e, all->round, &order);
		all->dropping++;
	}
	round_send(e, all->round, dropped, all);
}

/* Behind those that a round is out for. */
static void doom(struct engine *e, struct region *r, uint16_t rule)
{
	struct far_region *f = (struct far_region *)r, **at = &e->peers->doomed;

	for (uint32_t i = 0; i < e->peers->dropping; i++)
		at = &(*at)->next;
	r->dropped = true;
	f->rule = rule;
	f->next = *at;
	*at = f;
}

void far_withdraw(struct engine *e, struct far_segment *s, uint16_t rule)
{
	struct region_table *old = s->owned.segment.table;

	for (uint32_t i = 0; i < old->nr; i++)
		doom(e, old->entries[i].region, rule);
	region_table_publish(e, &s->owned.segment, region_table_empty());
	far_pay_buffers(e, s, 0);
	drop_some(e);
}

void far_doomed_close(struct engine *e)
{
	while (e->peers->doomed) {
		struct far_region *r = e->peers->doomed;

		e->peers->doomed = r->next;
		region_free(e, r);
	}
}

/* ---- pages ------------------------------------------------------------- */

void far_draft_drop(struct far_segment *s)
{
	for (uint32_t i = 0; s->draft && i < s->draft->nr; i++)
		free(s->draft->rows[i].wired);
	free(s->draft);
	s->draft = NULL;
}

static bool read_location(const json_t *value, char location[64])
{
	const char *text = json_string_value(value);

	if (!text || strlen(text) >= 64)
		return false;
	for (const char *at = text; *at; at++)
		if (*at < 0x20 || *at > 0x7e)
			return false;
	strcpy(location, text);
	return true;
}

/* ["0xbase", "0xlength", permission, "location"]; they come sorted. */
static bool read_row(const json_t *row, const struct region *before, struct region *r)
{
	json_t *named = json_pack("{s:O,s:O}", "base", json_array_get(row, 0), "length",
				  json_array_get(row, 1));
	const json_t *permission = json_array_get(row, 2);
	json_int_t number = json_integer_value(permission);
	uint32_t gpu;
	uint64_t base, length;
	bool good = named && json_array_size(row) == ROW && frame_u64(named, "base", &base) &&
		    frame_u64(named, "length", &length) && length &&
		    !__builtin_add_overflow(base, length, &r->end) &&
		    json_is_integer(permission) && number >= TENT_PERM_LOCAL_READ_WRITE &&
		    number <= TENT_PERM_GLOBAL_READ_WRITE &&
		    read_location(json_array_get(row, 3), r->location);

	json_decref(named);
	if (!good)
		return false;
	r->base = base;
	r->permission = (uint8_t)number;
	r->is_gpu = device_location(r->location, &gpu);
	return !before || before->base < base || (before->base == base && before->end < r->end);
}

/* 0, or far_draft_take()'s error. */
static int draft_begin(struct engine *e, struct far_segment *s, const json_t *frame)
{
	uint64_t version, life;
	uint32_t total;

	far_draft_drop(s);
	if (!frame_u64(frame, "version", &version) || !frame_u64(frame, "life", &life) ||
	    !frame_uint(frame, "total", e->config.regions_max, &total))
		return -1;
	if (total > s->buffers && !far_pay_buffers(e, s, total))
		return -3;
	s->draft = calloc(1, sizeof(*s->draft) + (size_t)total * sizeof(s->draft->rows[0]));
	if (!s->draft)
		return -2;
	s->draft->total = total;
	s->draft->version = version;
	s->draft->life = life;
	if (!frame_uint(frame, "handle", GUEST_SEGMENTS - 1, &s->draft->handle))
		s->draft->handle = NO_HANDLE;
	return 0;
}

/* The keys of a row; -1: they are no text, -2: no memory. */
static int take_keys(struct region *row, const json_t *keys)
{
	const char *text = json_string_value(keys);

	if (!keys || (text && !*text))
		return 0;
	if (!text || strlen(text) >= WIRED_KEYS_SIZE)
		return -1;
	row->wired = strdup(text);
	return row->wired ? 0 : -2;
}

/* -1: one of them is no buffer, -2: no memory. keys: one for each, or NULL. */
static int take_rows(struct far_description *d, const json_t *rows, const json_t *keys)
{
	int rc;

	const json_t *row;
	size_t i;

	if (!json_is_array(rows) || json_array_size(rows) > d->total - d->nr)
		return -1;
	if (!json_array_size(rows) && d->nr < d->total)
		return -1;	/* a page without progress */
	json_array_foreach(rows, i, row) {
		if (!read_row(row, d->nr ? &d->rows[d->nr - 1] : NULL, &d->rows[d->nr]))
			return -1;
		rc = take_keys(&d->rows[d->nr++], json_array_get(keys, i));
		if (rc < 0)
			return rc;
	}
	return d->nr == d->total;
}

int far_draft_take(struct engine *e, struct far_segment *s, const json_t *frame, uint32_t *next)
{
	uint64_t version, life;
	uint32_t first, total;
	int rc;

	if (!frame_uint(frame, "first", UINT32_MAX, &first) ||
	    !frame_u64(frame, "version", &version) || !frame_u64(frame, "life", &life))
		return -1;
	rc = first == 0 ? draft_begin(e, s, frame) : 0;
	if (rc)
		return rc;
	if (!s->draft || first != s->draft->nr)
		return -1;
	*next = 0;
	if (version != s->draft->version || life != s->draft->life ||
	    !frame_uint(frame, "total", UINT32_MAX, &total) || total != s->draft->total)
		return 0;	/* it changed meanwhile: from the start */
	rc = take_rows(s->draft, json_object_get(frame, "buffers"),
		       json_object_get(frame, "keys"));
	*next = s->draft->nr;
	return rc;
}

/* ---- publishing -------------------------------------------------------- */

static struct region *region_create(struct engine *e, struct far_segment *s, struct region *row)
{
	struct far_region *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->region = *row;
	f->keys = row->wired;
	f->region.wired = row->wired = NULL;
	f->region.segment = &s->owned.segment;
	f->region.far = s->peer->end;
	f->region.far_handle = s->draft->handle;
	f->region.refs = 1;
	f->segment = s;
	s->peer->end->refs++;
	s->regions++;
	wired_far_region_open(e, &f->region, f->keys);
	return &f->region;
}

/* The same range again, registered anew, has other keys. */
static bool has_keys(const struct region *old, const char *keys)
{
	const char *known = ((const struct far_region *)old)->keys;

	return strcmp(known ? known : "", keys ? keys : "") == 0;
}

static bool is_same(const struct far_segment *s, const struct region *old,
		    const struct region *row)
{
	return old && has_keys(old, row->wired) && old->far == s->peer->end &&
	       old->far_handle == s->draft->handle && old->permission == row->permission &&
	       strcmp(old->location, row->location) == 0;
}

static bool is_new(const struct region_table *old, const struct region *r)
{
	return region_table_exact(old, r->base, r->end) != r;
}

static void forget_new(struct engine *e, const struct region_table *old,
		       struct region **regions, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++)
		if (is_new(old, regions[i]))
			region_free(e, (struct far_region *)regions[i]);
}

/* Old ones where nothing changed, else new ones. */
static bool choose_regions(struct engine *e, struct far_segment *s, struct region **regions)
{
	const struct region_table *old = s->owned.segment.table;

	for (uint32_t i = 0; i < s->draft->nr; i++) {
		struct region *row = &s->draft->rows[i];
		struct region *r = region_table_exact(old, row->base, row->end);

		regions[i] = is_same(s, r, row) ? r : region_create(e, s, row);
		if (!regions[i]) {
			forget_new(e, old, regions, i);
			return false;
		}
	}
	return true;
}

static void doom_left(struct engine *e, const struct region_table *old,
		      const struct region_table *new)
{
	for (uint32_t i = 0; i < old->nr; i++) {
		struct region *r = old->entries[i].region;

		if (region_table_exact(new, r->base, r->end) != r)
			doom(e, r, TENT_RULE_TARGET_GONE);
	}
}

bool far_publish(struct engine *e, struct far_segment *s)
{
	struct region **regions = calloc(s->draft->nr + 1, sizeof(*regions));
	struct region_table *old = s->owned.segment.table, *new = NULL;

	if (regions && choose_regions(e, s, regions)) {
		new = region_table_of(regions, s->draft->nr);
		if (!new)
			forget_new(e, old, regions, s->draft->nr);
	}
	free(regions);
	if (!new)
		return false;
	doom_left(e, old, new);
	region_table_publish(e, &s->owned.segment, new);
	far_pay_buffers(e, s, new->nr);
	drop_some(e);
	far_draft_drop(s);
	return true;
}
