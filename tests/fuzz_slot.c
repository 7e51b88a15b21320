/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_slot.c - any array of entries, from the caller's memory to the verdict, against
 * a second judge that is written the slow way: one stage after the other over the
 * caller's own entries. Both have to name the same entry and the same rule, or to find
 * nothing and the same downgrades. asan sees to it that no entry is read too far: the
 * array is exactly as long as it is said to be.
 *
 * Input: one byte of mode, then per entry a count of edits and the edits. An edit names
 * a field of an entry that was valid and what to put there.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tent/tentring.h>

#include "engine/engine.h"
#include "ring/clock.h"

#define ENTRIES 8u
#define MEMORY 65536u
#define REGION 4096u
#define REGIONS 3u
#define YEAR_NS (365ull * 24 * 3600 * 1000000000)
#define MARGIN_NS 10000000000ull	/* too near the horizon to tell */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct side {
	struct tent_client *client;
	struct tent_ring *ring;
	uint8_t *memory;
};

/* One engine in strict mode, one in compat. */
static struct world {
	struct engine *engine;
	struct side own, peer;
	tent_segment_id_t peer_id;
	bool compat;
} worlds[2];

struct verdict {
	uint16_t rule;
	uint32_t index;
	uint16_t downgrades[ENTRIES];
};

static void need(bool ok)
{
	if (!ok)
		abort();
}

/* ---- the worlds --------------------------------------------------------------- */

static uint64_t region_base(const struct side *s, uint32_t i)
{
	return (uintptr_t)s->memory + 2ull * REGION * i;
}

/* Region i has permission i: others may not touch it, may read it, may write it. */
static void open_side(struct world *w, struct side *s, const char *name)
{
	void *memory;

	need(!tent_client_attach_fd(engine_attach_local(w->engine), name, &s->client));
	need(!tent_client_alloc(s->client, MEMORY, "*", &memory));
	s->memory = memory;
	for (uint32_t i = 0; i < REGIONS; i++)
		need(!tent_client_register(s->client, (void *)(uintptr_t)region_base(s, i), REGION,
					   (int)i, NULL, 0));
	need(!tent_ring_open(s->client, ENTRIES, ENTRIES, &s->ring));
}

static void start(struct world *w, bool compat)
{
	static const struct backend *const backends[] = { &null_backend, NULL };
	struct engine_config config;
	char error[256];

	engine_config_default(&config);
	config.caller_mode = true;
	config.null_enable = true;
	config.shm_enable = false;
	config.compat = w->compat = compat;
	need(!engine_create(&w->engine, &config, backends, error, sizeof(error)));
	open_side(w, &w->own, "own");
	open_side(w, &w->peer, "peer");
	need(!tent_client_open_segment(w->own.client, tent_client_segment(w->peer.client),
				       &w->peer_id));
}

/* ---- the second judge ----------------------------------------------------------- */

/* A field of the caller's entry, or its default where struct_size ends before. */
static uint64_t field(const uint8_t *entry, uint32_t offset, uint32_t size)
{
	uint32_t struct_size;
	uint64_t value = 0;

	memcpy(&struct_size, entry, sizeof(struct_size));
	if (offset + size <= struct_size)
		memcpy(&value, entry + offset, size);
	return value;
}

static uint16_t ref_layout(const struct world *w, const uint8_t *e, size_t stride)
{
	static const uint32_t ends[] = { 48, 52, 56, 64, 72, 76, 80, 88 };
	uint32_t size = (uint32_t)field(e, 0, 4), schema;
	bool good = false;

	memcpy(&size, e, sizeof(size));
	memcpy(&schema, e + 4, sizeof(schema));
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		good |= size == ends[i];
	good |= size > 88 && size <= 4096 && size % 4 == 0;
	if (!good || size > stride)
		return TENT_RULE_STRUCT_SIZE;
	if (schema != 1)
		return TENT_RULE_SCHEMA;
	for (uint32_t i = 88; i < size && !w->compat; i++) {
		if (e[i])
			return TENT_RULE_TAIL;
	}
	return 0;
}

static uint16_t ref_policy_text(const char *name)
{
	size_t length = strlen(name);

	if (!length || length > 63)
		return TENT_RULE_POLICY_LENGTH;
	for (size_t i = 0; i < length; i++) {
		if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:/-",
			    name[i]))
			return TENT_RULE_POLICY_CHARS;
	}
	return 0;
}

static uint16_t ref_fields(const struct world *w, const uint8_t *e)
{
	int32_t intent = (int32_t)field(e, 48, 4), priority = (int32_t)field(e, 52, 4);
	const char *name = (const char *)(uintptr_t)field(e, 64, 8);
	int32_t hint = (int32_t)field(e, 72, 4);

	if (field(e, 8, 4) > 1)
		return TENT_RULE_OPCODE;
	if (field(e, 12, 4))
		return TENT_RULE_RESV0;
	if (intent == 6)
		return TENT_RULE_INTENT_STAGING;
	if (!w->compat && (intent < 0 || intent > 5))
		return TENT_RULE_INTENT;
	if (!w->compat && (priority < 0 || priority > 3))
		return TENT_RULE_PRIORITY;
	if (field(e, 56, 8) > clock_monotonic_ns() + YEAR_NS)
		return TENT_RULE_DEADLINE_FAR;
	if (name && ref_policy_text(name))
		return ref_policy_text(name);
	if (hint < 0 || hint > 12)
		return TENT_RULE_TRANSPORT;
	if (field(e, 76, 4))
		return TENT_RULE_RESERVED0;
	return field(e, 80, 8) ? TENT_RULE_FLAGS : 0;
}

/* Which region holds the range, or REGIONS. */
static uint32_t ref_region(const struct side *s, uint64_t addr, uint64_t length)
{
	for (uint32_t i = 0; i < REGIONS; i++) {
		uint64_t base = region_base(s, i);

		if (addr >= base && addr <= base + REGION && length <= base + REGION - addr)
			return i;
	}
	return REGIONS;
}

static uint16_t ref_address(const struct world *w, const uint8_t *e)
{
	uint64_t id = field(e, 24, 8), source = field(e, 16, 8), target = field(e, 32, 8);
	uint64_t length = field(e, 40, 8), end;
	bool foreign = id == w->peer_id;
	uint32_t region;

	if (id && !foreign)
		return TENT_RULE_SEGMENT;
	if (__builtin_add_overflow(source, length, &end))
		return TENT_RULE_SOURCE_RANGE;
	if (ref_region(&w->own, source, length) == REGIONS)
		return TENT_RULE_SOURCE_UNREGISTERED;
	if (__builtin_add_overflow(target, length, &end))
		return TENT_RULE_TARGET_RANGE;
	region = ref_region(foreign ? &w->peer : &w->own, target, length);
	if (region == REGIONS)
		return TENT_RULE_TARGET_UNREGISTERED;
	if (foreign && (region == TENT_PERM_LOCAL_READ_WRITE ||
			(region == TENT_PERM_GLOBAL_READ_ONLY && field(e, 8, 4))))
		return TENT_RULE_TARGET_PERMISSION;
	return 0;
}

static uint16_t ref_policy(const struct world *w, const uint8_t *e)
{
	uint64_t hint = field(e, 72, 4);

	if (!w->compat && field(e, 64, 8))
		return TENT_RULE_POLICY_UNKNOWN;
	return hint && hint != null_backend.transport ? TENT_RULE_TRANSPORT_BUILD : 0;
}

static uint16_t ref_stage(const struct world *w, int stage, const uint8_t *e, size_t stride)
{
	switch (stage) {
	case 0:
		return ref_layout(w, e, stride);
	case 1:
		return ref_fields(w, e);
	case 2:
		return ref_address(w, e);
	default:
		return ref_policy(w, e);
	}
}

static uint16_t ref_downgrades(const uint8_t *e)
{
	int32_t intent = (int32_t)field(e, 48, 4), priority = (int32_t)field(e, 52, 4);
	uint32_t size = (uint32_t)field(e, 0, 4);
	uint16_t flags = 0;

	if (intent < 0 || intent > 5)
		flags |= TENT_CQE_F_INTENT_DOWNGRADED;
	if (priority < 0 || priority > 3)
		flags |= TENT_CQE_F_PRIORITY_DOWNGRADED;
	if (field(e, 64, 8))
		flags |= TENT_CQE_F_POLICY_DOWNGRADED;
	for (uint32_t i = 88; i < size; i++) {
		if (e[i])
			flags |= TENT_CQE_F_TAIL_IGNORED;
	}
	return flags;
}

static struct verdict ref_judge(const struct world *w, const uint8_t *entries, uint32_t count,
				size_t stride)
{
	struct verdict v = { 0 };

	for (int stage = 0; stage < 4; stage++) {
		for (v.index = 0; v.index < count; v.index++) {
			v.rule = ref_stage(w, stage, entries + v.index * stride, stride);
			if (v.rule)
				return v;
		}
	}
	for (uint32_t i = 0; i < count; i++)
		v.downgrades[i] = ref_downgrades(entries + i * stride);
	return v;
}

/* ---- input ---------------------------------------------------------------------- */

struct input {
	const uint8_t *data;
	size_t size;
};

static uint64_t take(struct input *in, size_t bytes)
{
	uint64_t value = 0;

	bytes = bytes < in->size ? bytes : in->size;
	memcpy(&value, in->data, bytes);
	in->data += bytes;
	in->size -= bytes;
	return value;
}

static char names[4][80];	/* what policy_name may point to */

/* The value of an edit: raw, small, or near something that means something. */
static uint64_t take_value(struct input *in, const struct world *w)
{
	static uint32_t next_name;
	char *name;

	switch (take(in, 1) % 8) {
	case 0:
		return take(in, 8);
	case 1:
		return take(in, 1);
	case 2:
		return (uint64_t)(int64_t)(int8_t)take(in, 1);
	case 3:
		return (uintptr_t)w->own.memory + take(in, 2);
	case 4:
		return (uintptr_t)w->peer.memory + take(in, 2);
	case 5:
		return w->peer_id;
	case 6:	/* an hour steps away from the horizon */
		return clock_monotonic_ns() + YEAR_NS +
		       (uint64_t)((int64_t)(int8_t)take(in, 1) * 3600000000000);
	default:
		name = names[next_name++ % 4];
		memset(name, 'n', sizeof(names[0]));
		name[take(in, 1) % sizeof(names[0])] = '\0';
		name[take(in, 1) % 8] = (char)take(in, 1);
		name[sizeof(names[0]) - 1] = '\0';
		return (uintptr_t)name;
	}
}

static void edit(struct input *in, const struct world *w, uint8_t *e, size_t stride)
{
	static const struct { uint8_t offset, size; } fields[] = {
		{ 0, 4 }, { 4, 4 }, { 8, 4 }, { 12, 4 }, { 16, 8 }, { 24, 8 }, { 32, 8 },
		{ 40, 8 }, { 48, 4 }, { 52, 4 }, { 56, 8 }, { 64, 8 }, { 72, 4 }, { 76, 4 },
		{ 80, 8 }, { 88, 1 },
	};
	uint32_t f = (uint32_t)take(in, 1) % 16;
	size_t offset = fields[f].offset, size = fields[f].size;
	uint64_t value = take_value(in, w);

	if (f == 15)
		offset += take(in, 2) % 512;
	if (f == 11 && value - (uintptr_t)names >= sizeof(names))
		value = 0;	/* a wild policy pointer is the caller's own crash */
	if (offset + size <= stride)
		memcpy(e + offset, &value, size);
}

static void make_entry(struct input *in, const struct world *w, uint8_t *e, size_t stride)
{
	struct tent_request_v1 r = {
		.struct_size = stride < sizeof(r) ? TENT_REQUEST_V1_MIN_SIZE : sizeof(r),
		.schema_version = 1, .opcode = (int32_t)(take(in, 1) & 1),
		.source = (void *)(uintptr_t)region_base(&w->own, 0),
		.target_offset = region_base(&w->own, 2), .length = 64,
	};
	uint32_t edits = (uint32_t)take(in, 1) % 5;

	memset(e, 0, stride);
	memcpy(e, &r, stride < sizeof(r) ? stride : sizeof(r));
	while (edits--)
		edit(in, w, e, stride);
}

/* ---- both judges ------------------------------------------------------------------ */

static bool is_near_horizon(const uint8_t *e, size_t stride)
{
	uint64_t deadline, horizon = clock_monotonic_ns() + YEAR_NS;

	if (stride < 64)
		return false;
	memcpy(&deadline, e + 56, sizeof(deadline));
	return deadline + MARGIN_NS > horizon && deadline < horizon + MARGIN_NS;
}

static void reap(struct world *w, const struct verdict *want, const uint8_t *entries,
		 uint32_t count, size_t stride)
{
	struct tent_completion c;

	for (uint32_t i = 0; i < (want->rule ? 1 : count); i++) {
		while (!tent_ring_poll(w->own.ring, &c, 1))
			engine_drive(w->engine);
		need(c.rule == want->rule);
		if (want->rule) {
			need(c.flags & TENT_CQE_F_REJECTED && c.index == want->index);
			need(c.credits == count && c.error == tent_rule_error(c.rule));
			continue;
		}
		need(c.index < count && c.user_data == 100 + c.index && c.credits == 1);
		need(c.status == TENT_STATUS_COMPLETED);
		need(c.bytes == field(entries + c.index * stride, 40, 8));
		need((c.flags & TENT_CQE_F_DOWNGRADES) == want->downgrades[c.index]);
	}
	need(!tent_ring_poll(w->own.ring, &c, 1));
	need(tent_ring_room(w->own.ring) == ENTRIES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const size_t strides[] = { 88, 88, 48, 56, 96, 128, 360, 4096 };
	struct input in = { data, size };
	uint8_t mode = (uint8_t)take(&in, 1);
	struct world *w = &worlds[mode & 1];
	size_t stride = strides[mode >> 1 & 7];
	uint32_t count = (mode >> 4) % ENTRIES + 1;
	uint8_t *entries = malloc(count * stride);
	struct verdict want;
	bool unclear = false;

	if (!w->engine)
		start(w, mode & 1);
	need(entries != NULL);
	for (uint32_t i = 0; i < count; i++) {
		make_entry(&in, w, entries + i * stride, stride);
		unclear |= is_near_horizon(entries + i * stride, stride);
	}
	if (!unclear) {
		want = ref_judge(w, entries, count, stride);
		need(!tent_ring_submit(w->own.ring, entries, count, stride, 100, 0));
		reap(w, &want, entries, count, stride);
	}
	free(entries);
	return 0;
}
