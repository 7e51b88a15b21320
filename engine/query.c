/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query.c - who is attached, and what can be opened. The text travels in a memfd that
 * nobody can change any more. Field names are what tentctl --json prints: documented in
 * tentctl(1), and only added to.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "engine/contract.h"
#include "engine/memory.h"
#include "engine/query.h"
#include "engine/reload.h"
#include "engine/segments.h"
#include "engine/stats.h"

json_t *hex_json(uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "0x%" PRIx64, value);
	return json_string(text);
}

json_t *stats_json(const struct poller_stats *s)
{
	return json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,"
			 "s:I,s:I,s:I,s:I,s:I,s:I,s:i}",
		"batches", (json_int_t)s->batches,
		"rejected_batches", (json_int_t)s->rejected_batches,
		"requests", (json_int_t)s->requests,
		"completed", (json_int_t)s->completed,
		"failed", (json_int_t)s->failed,
		"canceled", (json_int_t)s->canceled,
		"timed_out", (json_int_t)s->timed_out,
		"read_bytes", (json_int_t)s->read_bytes,
		"written_bytes", (json_int_t)s->written_bytes,
		"downgrades_intent", (json_int_t)s->downgrades_intent,
		"downgrades_priority", (json_int_t)s->downgrades_priority,
		"downgrades_policy", (json_int_t)s->downgrades_policy,
		"tails_ignored", (json_int_t)s->tails_ignored,
		"deadlines_met", (json_int_t)s->deadlines_met,
		"deadlines_missed", (json_int_t)s->deadlines_missed,
		"deadlines_infeasible", (json_int_t)s->deadlines_infeasible,
		"promotions", (json_int_t)s->promotions,
		"held", (json_int_t)s->held,
		"failovers", (json_int_t)s->failovers,
		"path_pauses", (json_int_t)s->pauses,
		"turns", (json_int_t)s->turns,
		"sleeps", (json_int_t)s->sleeps,
		"in_flight", (int)s->in_flight);
}

/* ---- answers ----------------------------------------------------------- */

static int write_all(int fd, const char *text, size_t length)
{
	while (length) {
		ssize_t n = write(fd, text, length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		text += n;
		length -= (size_t)n;
	}
	return 0;
}

static int text_memfd(const char *text, size_t length)
{
	int fd = memfd_create("tent-query", MFD_CLOEXEC | MFD_ALLOW_SEALING), rc;

	if (fd < 0)
		return -errno;
	rc = write_all(fd, text, length);
	if (rc == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE |
			     F_SEAL_SEAL) < 0)
		rc = -errno;
	if (rc == 0)
		return fd;
	close(fd);
	return rc;
}

void client_reply_text(struct engine *e, struct client *c, char *text)
{
	struct ctl_message m = { .nr_fds = 1 };
	struct tent_ctl_query_reply *r = (void *)m.bytes;
	size_t length = text ? strlen(text) : 0;

	if (!client_may_reply(e, c, 1)) {
		free(text);
		return;
	}
	m.fds[0] = text ? text_memfd(text, length) : -ENOMEM;
	free(text);
	if (m.fds[0] < 0) {
		client_refuse_text(e, c, TENT_RULE_SYSTEM, (uint64_t)-m.fds[0],
				   "no memory for the answer: %s", strerror(-m.fds[0]));
		return;
	}
	r->length = length;
	client_reply(e, c, &m, sizeof(*r));
	ctl_close_fds(&m);
}

void client_reply_json(struct engine *e, struct client *c, json_t *value)
{
	char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;

	json_decref(value);
	client_reply_text(e, c, text);
}

/* ---- clients ----------------------------------------------------------- */

static struct poller_stats client_sums(const struct client *c)
{
	struct poller_stats sum = c->closed, s;

	for (const struct client_ring *r = c->rings; r; r = r->next) {
		ring_stats_read(r->state, &s);
		stats_add(&sum, &s);
		sum.in_flight += s.in_flight;
	}
	return sum;
}

static uint32_t region_count(const struct client *c)
{
	return c->segment ? c->segment->table->nr : 0;
}

static json_t *client_json(const struct client *c)
{
	struct poller_stats sum = client_sums(c);

	return json_pack("{s:i,s:i,s:i,s:s,s:s,s:i,s:i,s:I,s:b,s:b,s:b,s:I,s:I,s:I,s:I,s:I,s:i,"
			 "s:I,s:I}",
		"id", (int)c->id,
		"uid", (int)c->peer.uid,
		"pid", (int)c->peer.pid,
		"kind", c->ending ? "ending" : !c->said_hello ? "silent" :
			c->observer ? "observer" : c->local ? "in_process" : "process",
		"segment", c->segment ? c->segment->name : "",
		"rings", (int)c->nr_rings,
		"regions", (int)region_count(c),
		"allocated_bytes", (json_int_t)c->allocated,
		"compat", c->space.contract ? c->space.contract->compat : c->space.compat,
		"deadlines_refused", c->space.deadlines_refused,
		"private_memory", c->local || c->owner || c->peer.mem_fd >= 0,
		"requests", (json_int_t)sum.requests,
		"rejected_batches", (json_int_t)sum.rejected_batches,
		"completed", (json_int_t)sum.completed,
		"failed", (json_int_t)(sum.failed + sum.canceled + sum.timed_out),
		"bytes", (json_int_t)(sum.read_bytes + sum.written_bytes),
		"in_flight", (int)sum.in_flight,
		"deadlines_met", (json_int_t)sum.deadlines_met,
		"deadlines_missed", (json_int_t)sum.deadlines_missed);
}

/* The observer that asks is not one of those it asks about. */
static json_t *clients_json(const struct engine *e, const struct client *asks)
{
	json_t *list = json_array();

	for (const struct client *c = e->clients; c; c = c->next) {
		if (!c->own && (c != asks || !c->observer))
			json_array_append_new(list, client_json(c));
	}
	return json_pack("{s:o}", "clients", list);
}

/* ---- segments ---------------------------------------------------------- */

static uint64_t table_bytes(const struct region_table *t, bool (*counts)(const struct region *))
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < t->nr; i++) {
		if (counts(t->entries[i].region))
			sum += t->entries[i].end - t->entries[i].base;
	}
	return sum;
}

static bool is_shared(const struct region *r)
{
	return r->addr;
}

static bool is_private(const struct region *r)
{
	return !r->addr && !r->file && !r->device;
}

/* What its shared memory lies on: "huge", "base", the error that ruled huge pages out
 * for a part of it that wanted some, or "" where it has none of ours. */
static const char *pages_of(const struct region_table *t)
{
	const char *worst = "";

	for (uint32_t i = 0; i < t->nr; i++) {
		const struct buffer *b = t->entries[i].region->backing;

		if (b && b->mem.page_reason)
			return page_reason(b->mem.page_reason);
		if (b && b->mem.page_kind == TENT_PAGE_BASE)
			worst = "base";
		else if (b && !*worst)
			worst = "huge";
	}
	return worst;
}

static json_t *name_json(const struct engine *e, const struct name *n)
{
	const struct segment *s = n->segment;
	char full[TENT_CTL_NAME_SIZE];

	segment_full_name(e, n->text, full);
	return json_pack("{s:s,s:i,s:b,s:i,s:o,s:i,s:I,s:I,s:s,s:s}",
		"segment", full,
		"uid", (int)n->tenant->uid,
		"alive", s != NULL,
		"client", s && s->owner ? (int)s->owner->id : 0,
		"epoch", hex_json(s ? s->epoch : 0),
		"buffers", s ? (int)s->table->nr : 0,
		"shared_bytes", (json_int_t)(s ? table_bytes(s->table, is_shared) : 0),
		"private_bytes", (json_int_t)(s ? table_bytes(s->table, is_private) : 0),
		"pages", s ? pages_of(s->table) : "",
		"type", "memory");
}

static json_t *file_json(const struct client *c, const struct segment *s)
{
	const struct file *f = s->table->entries[0].region->file;

	return json_pack("{s:s,s:i,s:b,s:i,s:o,s:i,s:I,s:I,s:s,s:s,s:i,s:i,s:I,s:s,s:b}",
		"segment", s->name,
		"uid", (int)s->tenant_uid,
		"alive", true,
		"client", (int)c->id,
		"epoch", hex_json(s->epoch),
		"buffers", 1,
		"shared_bytes", (json_int_t)0,
		"private_bytes", (json_int_t)0,
		"pages", "",
		"type", "file",
		"device_major", (int)major(f->dev),
		"device_minor", (int)minor(f->dev),
		"inode", (json_int_t)f->ino,
		"access", f->writable ? "read_write" : "read_only",
		"direct", f->direct_fd >= 0);
}

/* What a client has open, as long as it is not about to end. */
static void add_files(json_t *list, const struct client *c)
{
	const struct handle_table *t = c->space.handles;

	for (uint32_t i = 1; t && i < t->nr; i++) {
		const struct segment *s = t->segments[i];

		if (s && s->type == TENT_SEGMENT_FILE && s->owner)
			json_array_append_new(list, file_json(c, s));
	}
}

static json_t *segments_json(const struct engine *e)
{
	json_t *list = json_array();

	for (const struct client *c = e->clients; c; c = c->next)
		add_files(list, c);

	for (uint32_t i = 0; i < NAMES_BUCKETS; i++) {
		for (const struct name *n = e->names.buckets[i]; n; n = n->next)
			json_array_append_new(list, name_json(e, n));
	}
	far_segments_json(e, list);
	return json_pack("{s:o}", "segments", list);
}

/* ---- QUERY ------------------------------------------------------------- */

static bool may_look(const struct engine *e, const struct client *c)
{
	return c->peer.uid == e->uid || c->peer.uid == 0;
}

void client_query(struct engine *e, struct client *c, struct ctl_message *m)
{
	const struct tent_ctl_query *q = (const void *)m->bytes;
	bool explain = q->what == TENT_QUERY_EXPLAIN;

	if (q->what < TENT_QUERY_CLIENTS || q->what > TENT_QUERY_NICS ||
	    m->nr_fds != explain || (!explain && q->count)) {
		client_refuse_text(e, c, TENT_RULE_CTL_MESSAGE, q->what,
				   "query %u is none, or has too much or too little with it",
				   q->what);
	} else if (explain) {
		client_explain(e, c, m);
	} else if (!may_look(e, c)) {
		client_refuse(e, c, TENT_RULE_CTL_DENIED, c->peer.uid);
	} else if (q->what == TENT_QUERY_RELOAD) {
		client_ask_reload(e, c);
	} else if (q->what == TENT_QUERY_NICS) {
		client_ask_nics(e, c);
	} else {
		client_reply_json(e, c, q->what == TENT_QUERY_CLIENTS ? clients_json(e, c) :
				  q->what == TENT_QUERY_SEGMENTS ? segments_json(e) :
				  q->what == TENT_QUERY_PEERS ? peers_json(e) :
				  q->what == TENT_QUERY_METRICS ? metrics_json(e, c) :
				  engine_json(e, c));
	}
}
