/* SPDX-License-Identifier: Apache-2.0 */
/* door.c - see door.h. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <tent/transfer_engine.h>

#include "tests/vectors/door.h"

struct door_places door_places;

void door_die(const char *what, const char *why)
{
	fprintf(stderr, "door: %s: %s\n", what, why);
	exit(1);
}

/* ---- words --------------------------------------------------------------- */

#define NAMES(...) ((const char *const[]){ __VA_ARGS__, NULL })

static const char *word(const char *const *names, int64_t value)
{
	while (value > 0 && *names) {
		names++;
		value--;
	}
	return value == 0 && *names ? *names : "?";
}

static const char *category(int error)
{
	return word(NAMES("OK", "ARGUMENTS", "SCHEMA", "LAYOUT", "ENUM", "FLAGS",
			  "POLICY_UNKNOWN", "POLICY_DENIED", "DEADLINE", "UNSUPPORTED",
			  "ADDRESS", "TRANSPORT", "CAPACITY", "STALE_HANDLE",
			  "PEER_UNREACHABLE", "ENGINE_LOST", "RUNTIME", "CANCELED", "TIMEOUT",
			  "OWNER_GONE", "PROTOCOL", "CONFIG"), -(int64_t)error);
}

static const char *state(int status)
{
	return word(NAMES("waiting", "pending", "invalid", "canceled", "completed", "timeout",
			  "failed"), status);
}

static const char *intent(int value)
{
	return word(NAMES("unspec", "foreground_get", "background_prefetch", "migration",
			  "checkpoint", "weight_loading", "staging_internal"), value);
}

static const char *transport(int value)
{
	return word(NAMES("unspec", "rdma", "mnnvl", "shm", "nvlink", "gds", "io_uring", "tcp",
			  "ascend", "sunrise_link", "tpu", "ub", "mpcomm"), value);
}

static json_t *flag_list(uint32_t flags)
{
	const char *const *names = NAMES("REJECTED", "BATCH", "INTENT_DOWNGRADED",
					 "PRIORITY_DOWNGRADED", "POLICY_DOWNGRADED",
					 "TAIL_IGNORED", "DEADLINE_MISSED",
					 "TARGET_UNFENCED");
	json_t *list = json_array();

	for (int i = 0; i < 8; i++)
		if (flags & 1u << i)
			json_array_append_new(list, json_string(names[i]));
	return list;
}

/* ---- rows ---------------------------------------------------------------- */

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t place(const struct door_batch *b, const char *name)
{
	const struct {
		const char *name;
		uint64_t value;
	} places[] = {
		{ "a", door_places.a }, { "b", door_places.b }, { "stray", door_places.stray },
		{ "file", door_places.file }, { "peer", door_places.peer },
		{ "peer_read", door_places.peer_read }, { "peer_write", door_places.peer_write },
		{ "peer_own", door_places.peer_own }, { "top", 0 }, { "now", b->now_ns },
		{ "wall", clock_ns(CLOCK_REALTIME) },
	};

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (strcmp(places[i].name, name) == 0)
			return places[i].value;
	door_die(name, "no such place");
}

uint64_t door_number(const struct door_batch *b, const json_t *token)
{
	char name[32];
	const char *text;
	size_t length;

	if (json_is_integer(token))
		return (uint64_t)json_integer_value(token);
	text = json_string_value(token);
	if (!text)
		door_die("a row", "has a number that is neither a number nor a text");
	length = strcspn(text, "+-");
	snprintf(name, sizeof(name), "%.*s", (int)length, text);
	return place(b, name) + (uint64_t)strtoll(text + length, NULL, 10);
}

const json_t *door_entry(const struct door_batch *b, size_t i)
{
	const json_t *one = json_object_get(b->row, "entry");

	return one ? one : json_array_get(json_object_get(b->row, "entries"), i);
}

/* The number of this name in object, or the default. */
static uint64_t number(const struct door_batch *b, const json_t *object, const char *name,
		       uint64_t otherwise)
{
	const json_t *token = json_object_get(object, name);

	return token ? door_number(b, token) : otherwise;
}

/* ---- requests ------------------------------------------------------------ */

tent_request_v1_t door_request(const struct door_batch *b, const json_t *e)
{
	return (tent_request_v1_t){
		.struct_size = (uint32_t)number(b, e, "struct_size", TENT_REQUEST_V1_SIZE),
		.schema_version = (uint32_t)number(b, e, "schema_version", 1),
		.opcode = (int32_t)number(b, e, "opcode", TENT_OPCODE_WRITE),
		.resv0 = (uint32_t)number(b, e, "resv0", 0),
		.source = (void *)(uintptr_t)number(b, e, "source", door_places.a),
		.target_id = number(b, e, "target_id", TENT_LOCAL_SEGMENT),
		.target_offset = number(b, e, "target_offset", door_places.b),
		.length = number(b, e, "length", DOOR_LENGTH),
		.intent_type = (int32_t)number(b, e, "intent_type", 0),
		.requested_priority = (int32_t)number(b, e, "requested_priority", 0),
		.deadline_ns = number(b, e, "deadline_ns", 0),
		.policy_name = json_string_value(json_object_get(e, "policy_name")),
		.transport_hint = (int32_t)number(b, e, "transport_hint", 0),
		.reserved0 = (uint32_t)number(b, e, "reserved0", 0),
		.flags = number(b, e, "flags", 0),
	};
}

static tent_request_t legacy_of(const struct door_batch *b, const json_t *e)
{
	return (tent_request_t){
		.opcode = (int)number(b, e, "opcode", TENT_OPCODE_WRITE),
		.source = (void *)(uintptr_t)number(b, e, "source", door_places.a),
		.target_id = number(b, e, "target_id", TENT_LOCAL_SEGMENT),
		.target_offset = number(b, e, "target_offset", door_places.b),
		.length = number(b, e, "length", DOOR_LENGTH),
		.priority = (int)number(b, e, "priority", 0),
		.transport_hint = (int)number(b, e, "transport_hint", 0),
	};
}

static size_t smaller(size_t x, size_t y)
{
	return x < y ? x : y;
}

/* "tail": the byte at this offset is not zero. */
static void write_entry(const struct door_batch *b, size_t i, unsigned char *to, size_t room)
{
	const json_t *e = door_entry(b, i);
	uint64_t tail = number(b, e, "tail", 0);

	if (b->legacy) {
		tent_request_t r = legacy_of(b, e);

		memcpy(to, &r, smaller(sizeof(r), room));
	} else {
		tent_request_v1_t r = door_request(b, e);

		memcpy(to, &r, smaller(sizeof(r), room));
	}
	if (tail)
		to[tail] = 1;
}

/* What the call itself says stands in the row: count, stride, schema, shift (bytes from
 * where it should be), null. Arguments that no array could have are only told. */
static void batch_open(struct door_batch *b, const json_t *row, bool legacy)
{
	const size_t most = 8192;
	size_t written = json_object_get(row, "entry") ? 1 :
			 json_array_size(json_object_get(row, "entries"));
	size_t shift, room;

	*b = (struct door_batch){ .row = row, .legacy = legacy,
				  .now_ns = clock_ns(CLOCK_MONOTONIC) };
	b->count = number(b, row, "count", written);
	b->stride = number(b, row, "stride", legacy ? sizeof(tent_request_t) :
						      sizeof(tent_request_v1_t));
	b->schema = (uint32_t)number(b, row, "schema", TENT_REQUEST_SCHEMA_V1);
	shift = number(b, row, "shift", 0);
	room = smaller(b->stride, most);
	b->block = aligned_alloc(64, (written + 2) * most);
	memset(b->block, 0, (written + 2) * most);
	b->entries = json_is_true(json_object_get(row, "null")) ? NULL : b->block + shift;
	for (size_t i = 0; b->entries && i < written; i++)
		write_entry(b, i, b->entries + i * room, room > 0 ? room : most);
}

/* ---- answers ------------------------------------------------------------- */

json_t *door_refused(int error, const char *field, uint32_t index)
{
	return json_pack("{s:{s:s,s:s,s:i}}", "refused", "category", category(error), "field",
			 field, "index", (int)index);
}

json_t *door_end(int status, int error, const char *field, uint32_t flags)
{
	json_t *end = json_pack("{s:s,s:o}", "ended", state(status), "flags", flag_list(flags));

	if (error)
		json_object_set_new(end, "error", json_pack("{s:s,s:s}", "category",
							    category(error), "field", field));
	return end;
}

/* A time stands in the row by its word, and so it does in the answer. */
static json_t *told_deadline(const struct door_batch *b, size_t i, uint64_t deadline_ns)
{
	json_t *token = json_object_get(door_entry(b, i), "deadline_ns");

	if (deadline_ns && token && door_number(b, token) == deadline_ns)
		return json_incref(token);
	return json_integer((json_int_t)deadline_ns);
}

json_t *door_normalized(const struct door_batch *b, size_t i, const struct tent_normalized *n)
{
	return json_pack("{s:s,s:s,s:s,s:o,s:o,s:s}",
		"opcode", word(NAMES("read", "write"), n->opcode),
		"intent_type", intent(n->intent_type),
		"requested_priority", word(NAMES("unspec", "high", "medium", "low"),
					   n->requested_priority),
		"deadline_ns", told_deadline(b, i, n->deadline_ns),
		"policy_name", *n->policy_name ? json_string(n->policy_name) : json_null(),
		"transport_hint", transport(n->transport_hint));
}

static json_t *explained_normalized(const struct door_batch *b, size_t i, const json_t *entry)
{
	json_t *n = json_deep_copy(json_object_get(entry, "normalized"));
	json_int_t deadline_ns = json_integer_value(json_object_get(n, "deadline_ns"));

	json_object_set_new(n, "deadline_ns", told_deadline(b, i, (uint64_t)deadline_ns));
	return n;
}

/* The policy that is in effect, what was downgraded on the way, and the plan. */
static json_t *explained_effective(const json_t *entry)
{
	json_t *effective = json_deep_copy(json_object_get(entry, "effective"));
	json_t *rules = json_array(), *downgrade;
	size_t i;

	json_array_foreach(json_object_get(entry, "downgrades"), i, downgrade)
		json_array_append(rules, json_object_get(downgrade, "rule"));
	json_object_set_new(effective, "downgrades", rules);
	json_object_set(effective, "transport", json_object_get(
		json_object_get(entry, "plan"), "transport"));
	json_object_set(effective, "deadline", json_object_get(
		json_object_get(entry, "deadline"), "state"));
	return effective;
}

json_t *door_accepted(const struct door_batch *b, const json_t *explain, json_t *normalized,
		      json_t *ended)
{
	json_t *list = json_array();

	for (size_t i = 0; i < b->count; i++) {
		const json_t *e = json_array_get(json_object_get(explain, "entries"), i);
		json_t *answer = json_copy(json_array_get(ended, i));

		if (e) {
			json_object_set_new(answer, "normalized", normalized ?
				json_incref(json_array_get(normalized, i)) :
				explained_normalized(b, i, e));
			json_object_set_new(answer, "effective", explained_effective(e));
		}
		json_array_append_new(list, answer);
	}
	json_decref(normalized);
	json_decref(ended);
	return json_pack("{s:o}", "entries", list);
}

json_t *door_explain_differs(const json_t *explain, int error, const char *field,
			     uint32_t index)
{
	const json_t *refusal = json_object_get(explain, "refusal");
	json_int_t said = json_integer_value(json_object_get(refusal, "category"));
	const char *where = json_string_value(json_object_get(refusal, "field"));
	json_int_t at = json_integer_value(json_object_get(refusal, "index"));

	if (said == error && (!error || (!strcmp(where, field) && at == index)))
		return NULL;
	return json_pack("{s:s,s:s,s:i}", "explain says", category((int)said), "field",
			 where ? where : "", "index", (int)at);
}

bool door_is_compat(const json_t *explain)
{
	return strcmp(json_string_value(json_object_get(explain, "validation")), "compat") == 0;
}

/* ---- the program --------------------------------------------------------- */

const char *door_file_segment(void)
{
	return getenv("TENT_VECTORS_FILE");
}

const char *door_peer_segment(struct door_places *places)
{
	static char name[256];
	const char *text = getenv("TENT_VECTORS_PEER");

	if (!text || sscanf(text, "%255s %" SCNu64 " %" SCNu64 " %" SCNu64, name,
			    &places->peer_read, &places->peer_write, &places->peer_own) != 4)
		door_die("TENT_VECTORS_PEER", "no name and three addresses");
	return name;
}

static void print(const json_t *row, json_t *answer)
{
	char *text;

	json_object_set(answer, "row", json_object_get(row, "row"));
	text = json_dumps(answer, JSON_COMPACT | JSON_SORT_KEYS);
	puts(text);
	fflush(stdout);
	free(text);
	json_decref(answer);
}

int door_main(int argc, char **argv, const struct door *d)
{
	json_error_t error;
	json_t *file = argc == 2 ? json_load_file(argv[1], 0, &error) : NULL, *row;
	bool legacy = json_is_true(json_object_get(file, "legacy"));
	size_t i;

	if (!file)
		door_die(argc == 2 ? argv[1] : "usage", argc == 2 ? error.text : "DOOR FILE");
	door_places.stray = (uintptr_t)mmap(NULL, DOOR_SIZE, PROT_READ | PROT_WRITE,
					    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	d->open(&door_places, json_is_true(json_object_get(file, "peer")));
	json_array_foreach(json_object_get(file, "rows"), i, row) {
		struct door_batch b;

		batch_open(&b, row, legacy);
		print(row, d->ask(&b));
		free(b.block);
	}
	d->close();
	json_decref(file);
	return 0;
}
