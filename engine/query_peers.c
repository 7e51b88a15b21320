/* SPDX-License-Identifier: Apache-2.0 */
/* query_peers.c - engines that this one calls, and those that call it: TENT_QUERY_PEERS. */
#include "engine/peers.h"
#include "engine/query.h"

static const char *state_name(const struct engine_peer *p)
{
	static const char *const names[] = {
		[PEER_IDLE] = "idle", [PEER_LOOKUP] = "lookup", [PEER_CALLING] = "calling",
		[PEER_UP] = "up",
	};

	return p->state == PEER_IDLE && p->failures ? "down" : names[p->state];
}

static json_t *peer_json(const struct engine_peer *p)
{
	uint32_t segments = 0, buffers = 0;

	for (const struct far_segment *s = p->segments; s; s = s->next) {
		segments++;
		buffers += s->owned.segment.table->nr;
	}
	return json_pack("{s:s,s:s,s:o,s:i,s:i,s:I,s:I,s:s}",
		"peer", p->name,
		"state", state_name(p),
		"epoch", hex_json(p->epoch),
		"segments", (int)segments,
		"buffers", (int)buffers,
		"calls", (json_int_t)p->calls,
		"losses", (json_int_t)p->losses,
		"fault", p->fault);
}

static uint64_t table_bytes(const struct region_table *t)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < t->nr; i++)
		sum += t->entries[i].end - t->entries[i].base;
	return sum;
}

static json_t *far_json(const struct engine_peer *p, const struct far_segment *f)
{
	const struct segment *s = &f->owned.segment;

	return json_pack("{s:s,s:i,s:b,s:i,s:o,s:i,s:I,s:I,s:s,s:s,s:I,s:s,s:i}",
		"segment", s->name,
		"uid", (int)s->tenant_uid,
		"alive", f->known && !load_relaxed(&s->lost),
		"client", 0,
		"epoch", hex_json(s->epoch),
		"buffers", (int)s->table->nr,
		"shared_bytes", (json_int_t)0,
		"private_bytes", (json_int_t)0,
		"pages", "",
		"type", "far",
		"far_bytes", (json_int_t)table_bytes(s->table),
		"peer_state", state_name(p),
		"handles", (int)f->owned.refs - 1);
}

void far_segments_json(const struct engine *e, json_t *list)
{
	for (const struct engine_peer *p = e->peers->list; p; p = p->next)
		for (const struct far_segment *s = p->segments; s; s = s->next)
			json_array_append_new(list, far_json(p, s));
}

/* Where the kernel told, or the other end proved, who is there. */
static json_t *user_json(const struct engine *e, const struct link *l)
{
	if (e->links.tls)
		return json_string("secret");
	if (l->owner == OWNER_KNOWN)
		return json_integer(l->uid);
	return json_string(l->owner == OWNER_HIDDEN ? "hidden" : "elsewhere");
}

static json_t *caller_json(const struct engine *e, const struct link *l, uint64_t now)
{
	return json_pack("{s:s,s:s,s:o,s:s,s:o,s:i,s:I}",
		"from", l->from,
		"name", l->name,
		"user", user_json(e, l),
		"state", l->state == LINK_UP ? "up" : "hello",
		"epoch", hex_json(l->epoch),
		"follows", (int)l->nr_follows,
		"silent_ms", (json_int_t)((now - l->heard_ns) / 1000000));
}

json_t *peers_json(const struct engine *e)
{
	json_t *peers = json_array(), *callers = json_array();
	uint64_t now = clock_monotonic_ns();
	char name[ADDRESS_SIZE];

	engine_address_print(&e->address, name);
	for (const struct engine_peer *p = e->peers->list; p; p = p->next)
		json_array_append_new(peers, peer_json(p));
	for (const struct link *l = e->links.list; l; l = l->next)
		if (!l->peer)
			json_array_append_new(callers, caller_json(e, l, now));
	return json_pack("{s:s,s:I,s:I,s:s,s:o,s:o,s:o}",
		"listens", e->links.fd < 0 ? "" : name,
		"accepted", (json_int_t)e->links.accepted,
		"refused", (json_int_t)e->links.refused,
		"last_fault", e->links.last_fault,
		"directory", directory_json(e), "peers", peers, "callers", callers);
}
