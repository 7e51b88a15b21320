/* SPDX-License-Identifier: Apache-2.0 */
/* door_lib.c - the C API: in-process, on the caller's core, or through tentd, as
 * TENT_ENGINE says. Files of the older API go through that. With --notify every batch has
 * a notification: what becomes of it is the same. */
#include <stdlib.h>
#include <string.h>
#include <tent/transfer_engine.h>

#include "tests/vectors/door.h"

static tent_engine_t engine;
static void *memory;
static bool notifies;

static tent_error_info_t last_error(void)
{
	tent_error_info_t info = { .size = sizeof(info) };

	tent_last_error(&info);
	return info;
}

static void need(int rc, const char *what)
{
	if (rc)
		door_die(what, last_error().message);
}

static void open_lib(struct door_places *p, bool peer)
{
	engine = tent_create_engine();
	need(!tent_available(engine), "engine");
	need(tent_allocate_memory(engine, &memory, 2 * DOOR_SIZE, "*"), "memory");
	p->a = (uintptr_t)memory;
	p->b = p->a + DOOR_SIZE;
	need(tent_register_memory(engine, (void *)(uintptr_t)p->a, DOOR_SIZE), "a");
	need(tent_register_memory(engine, (void *)(uintptr_t)p->b, DOOR_SIZE), "b");
	if (door_file_segment())
		need(tent_open_segment(engine, &p->file, door_file_segment()), "file");
	if (peer)
		need(tent_open_segment(engine, &p->peer, door_peer_segment(p)), "peer");
}

static void close_lib(void)
{
	tent_destroy_engine(engine);
}

static int submit_notif(const struct door_batch *b, tent_batch_id_t batch)
{
	if (b->legacy)
		return tent_submit_notif(engine, batch, (tent_request_t *)b->entries, b->count,
					 "row", "");
	return tent_submit_requests_notif(engine, batch, b->entries, b->count, b->stride,
					  b->schema, "row", "");
}

static int submit(const struct door_batch *b, tent_batch_id_t batch)
{
	if (notifies)
		return submit_notif(b, batch);
	if (b->legacy)
		return tent_submit(engine, batch, (tent_request_t *)b->entries, b->count);
	return tent_submit_requests(engine, batch, b->entries, b->count, b->stride, b->schema);
}

static json_t *ends_of(const struct door_batch *b, tent_batch_id_t batch)
{
	tent_status_t s = { TENT_STATUS_PENDING, 0 };
	json_t *list = json_array();

	while (s.status < TENT_STATUS_INVALID)
		need(tent_overall_status(engine, batch, &s), "status");
	for (size_t i = 0; i < b->count; i++) {
		tent_error_info_t info = { .size = sizeof(info) };

		need(tent_task_status(engine, batch, i, &s), "task");
		need(tent_task_error(engine, batch, i, &info), "task");
		json_array_append_new(list, door_end(s.status, info.error, info.field,
						     info.flags));
	}
	return list;
}

/* Without an engine, in the mode that this one is in. */
static int normalize(const struct door_batch *b, size_t i, bool compat,
		     struct tent_normalized *n)
{
	n->size = sizeof(*n);
	return tent_normalize_request(b->entries + i * b->stride, b->stride, b->schema,
				      compat ? TENT_VALIDATION_COMPAT : TENT_VALIDATION_STRICT,
				      n);
}

/* What was refused for what the entry says of itself, normalizing refuses too. Explain
 * has no batch that could be full. */
static json_t *refused(const struct door_batch *b, const json_t *explain)
{
	const tent_error_info_t why = last_error();
	json_t *answer = door_refused(why.error, why.field, why.index), *differs;
	struct tent_normalized n;

	if (!explain || why.error == TENT_ERR_CAPACITY)
		return answer;
	differs = door_explain_differs(explain, why.error, why.field, why.index);
	if (differs)
		json_object_set_new(answer, "differs", differs);
	if (normalize(b, why.index, door_is_compat(explain), &n) && last_error().error != why.error)
		json_object_set_new(answer, "normalize says", json_string(last_error().message));
	return answer;
}

static json_t *accepted(const struct door_batch *b, const json_t *explain, json_t *ended)
{
	json_t *normalized = json_array(), *differs, *answer;

	for (size_t i = 0; explain && i < b->count; i++) {
		struct tent_normalized n;

		need(normalize(b, i, door_is_compat(explain), &n), "normalize");
		json_array_append_new(normalized, door_normalized(b, i, &n));
	}
	differs = explain ? door_explain_differs(explain, 0, "", 0) : NULL;
	answer = door_accepted(b, explain, normalized, ended);
	if (differs)
		json_object_set_new(answer, "differs", differs);
	return answer;
}

/* NULL: the call itself is refused, or the older API has no such call. */
static json_t *explain_of(const struct door_batch *b)
{
	json_t *explain;
	char *text;

	if (b->legacy || tent_explain_requests(engine, b->entries, b->count, b->stride, b->schema,
					       &text))
		return NULL;
	explain = json_loads(text, 0, NULL);
	free(text);
	return explain;
}

/* Nobody waits for them: their room is for the next ones. */
static void take_notifications(void)
{
	tent_notifi_info got = { 0 };

	need(tent_recv_notifs(engine, &got), "notifications");
	tent_free_notifs(&got);
}

static json_t *ask_lib(const struct door_batch *b)
{
	json_t *explain = explain_of(b), *answer;
	tent_batch_id_t batch = tent_allocate_batch(engine, 64);
	int rc = submit(b, batch);

	answer = rc ? refused(b, explain) : accepted(b, explain, ends_of(b, batch));
	tent_free_batch(engine, batch);
	json_decref(explain);
	if (notifies)
		take_notifications();
	return answer;
}

int main(int argc, char **argv)
{
	static const struct door lib = { open_lib, ask_lib, close_lib };

	notifies = argc > 1 && strcmp(argv[1], "--notify") == 0;
	return door_main(argc - notifies, argv + notifies, &lib);
}
