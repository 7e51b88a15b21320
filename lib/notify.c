/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notify.c - notifications: their texts on the way to the engine, and those that came.
 *
 * The engine reads a text where it lies, so it has to lie in memory that both see. That
 * is registered with the engine, which takes a control call, so it is kept for the next
 * one until the engine is destroyed.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <tent/notify.h>

#include "lib/lib.h"
#include "ring/rules.h"

#define MEMORY_SIZE (sizeof(struct tent_notify) + TENT_NOTIFY_NAME_MAX + TENT_NOTIFY_MESSAGE_MAX)

/* ---- texts ------------------------------------------------------------------ */

static int check_text(const char *text, size_t max, uint32_t rule)
{
	size_t length = text ? strlen(text) : 0;

	if (!text)
		return lib_fail_null(tent_rule_field(rule));
	if (length <= max)
		return 0;
	return lib_fail_text(tent_rule_error(rule), rule, tent_rule_field(rule),
			     "%s has %zu bytes; allowed: up to %zu", tent_rule_field(rule), length,
			     max);
}

int lib_check_texts(const char *name, const char *message)
{
	int rc = check_text(name, TENT_NOTIFY_NAME_MAX, TENT_RULE_NOTIFY_NAME);

	return rc ? rc : check_text(message, TENT_NOTIFY_MESSAGE_MAX, TENT_RULE_NOTIFY_MESSAGE);
}

static struct lib_texts *spare_take(struct lib_engine *e)
{
	struct lib_texts *t;

	lib_pool_lock();
	t = e->spare_texts;
	if (t)
		e->spare_texts = t->next;
	lib_pool_unlock();
	return t;
}

static struct lib_texts *texts_new(struct lib_engine *e)
{
	struct lib_texts *t = calloc(1, sizeof(*t));
	void *memory;

	if (!t) {
		lib_fail_memory();
		return NULL;
	}
	if (tent_client_alloc(e->client, MEMORY_SIZE, "*", &memory)) {
		lib_fail_client();
		free(t);
		return NULL;
	}
	if (tent_client_register(e->client, memory, MEMORY_SIZE, TENT_PERM_LOCAL_READ_WRITE, NULL,
				 1)) {
		lib_fail_client();
		tent_client_free(e->client, memory);
		free(t);
		return NULL;
	}
	t->memory = memory;
	return t;
}

struct lib_texts *lib_texts_get(struct lib_engine *e, const char *name, const char *message)
{
	struct lib_texts *t = spare_take(e);
	char *to;

	if (!t)
		t = texts_new(e);
	if (!t)
		return NULL;
	t->memory->name_length = (uint32_t)strlen(name);
	t->memory->message_length = (uint32_t)strlen(message);
	to = (char *)(t->memory + 1);
	memcpy(to, name, t->memory->name_length);
	memcpy(to + t->memory->name_length, message, t->memory->message_length);
	return t;
}

void lib_texts_put(struct lib_engine *e, struct lib_texts *t)
{
	if (!t)
		return;
	lib_pool_lock();
	t->next = e->spare_texts;
	e->spare_texts = t;
	lib_pool_unlock();
}

void lib_texts_forget(struct lib_engine *e)
{
	while (e->spare_texts) {
		struct lib_texts *t = e->spare_texts;

		e->spare_texts = t->next;
		free(t);
	}
}

int lib_check_notifies(const struct lib_ring *r)
{
	if (tent_ring_header(r->tent)->abi_minor >= 1)
		return 0;
	return lib_fail_text(TENT_ERR_UNSUPPORTED, TENT_RULE_NOT_BUILT, "call",
			     "the engine is of a version without notifications");
}

/* ---- one alone --------------------------------------------------------------- */

static int fail_sent(uint32_t rule, uint64_t handle)
{
	return lib_fail_text(tent_rule_error(rule), rule, tent_rule_field(rule),
			     "the notification to segment %llu ended with %s; needed: %s",
			     (unsigned long long)handle, tent_rule_name(rule), rule_allowed(rule));
}

static int fail_refused(const struct lib_ring *r)
{
	return lib_fail(r->verdict.rule, r->verdict.value);
}

/* Under the ring's lock. ended: the rule of a ring that broke. */
static int send_locked(struct lib_ring *r, uint64_t handle, const struct lib_texts *t,
		       uint32_t *ended)
{
	struct tent_slot *slot;
	uint32_t position;

	*ended = lib_ring_make_room(r, 1);
	if (*ended)
		return fail_sent(*ended, handle);
	slot = tent_ring_slot(r->tent, 0);
	memset(&slot->request, 0, sizeof(*slot) - offsetof(struct tent_slot, request));
	slot->request.target_id = handle;
	slot->notify = (uintptr_t)t->memory;
	slot->user_data = LIB_DATA_NOTIFY;
	r->verdict.rejected = false;
	r->sent.ended = false;
	position = tent_ring_publish(r->tent, 1, TENT_OP_NOTIFY, 0);
	*ended = lib_ring_await(r, position);
	if (r->verdict.rejected)
		return fail_refused(r);
	if (!*ended)
		*ended = lib_ring_await_sent(r);
	if (*ended)
		return fail_sent(*ended, handle);
	return r->sent.rule ? fail_sent(r->sent.rule, handle) : 0;
}

/* On the thread's own ring. One that broke is replaced by the next call. */
static int send_one(struct lib_engine *e, uint64_t handle, const struct lib_texts *t)
{
	struct lib_ring *r = lib_ring_mine(e);
	uint32_t ended = 0;
	int rc;

	if (!r)
		return lib_last_error()->error;
	lib_lock(&r->lock);
	if (!r->tent)
		rc = lib_fail(TENT_RULE_RING_CLOSED, 0);
	else
		rc = lib_check_notifies(r);
	if (!rc)
		rc = send_locked(r, handle, t, &ended);
	if (ended)
		lib_ring_lost(r, ended);
	if (r->tent)
		lib_ring_rearm(r, NULL);
	lib_unlock(&r->lock);
	return rc;
}

int lib_send_notification(struct lib_engine *e, uint64_t handle, const char *name,
			  const char *message)
{
	struct lib_texts *t;
	int rc = lib_check_texts(name, message);

	if (rc)
		return rc;
	t = lib_texts_get(e, name, message);
	if (!t)
		return lib_last_error()->error;
	rc = send_one(e, handle, t);
	lib_texts_put(e, t);
	return rc;
}

/* ---- those that came ----------------------------------------------------------- */

struct received {
	struct tent_notifi_info info;
	size_t room;
	bool no_memory;
};

static bool grow(struct received *r)
{
	size_t room = r->room ? 2 * r->room : 16;
	struct tent_notifi_record *records;

	if ((size_t)r->info.num_records < r->room)
		return true;
	records = r->info.num_records == INT_MAX ? NULL :
		  realloc(r->info.records, room * sizeof(*records));
	if (!records) {
		r->no_memory = true;
		return false;
	}
	r->info.records = records;
	r->room = room;
	return true;
}

/* Whole ones: their lengths are bounded where they are sent. */
static int keep(void *context, const char *name, uint32_t name_length, const char *message,
		uint32_t message_length)
{
	struct received *r = context;
	struct tent_notifi_record *record;

	if (name_length >= sizeof(record->name) || message_length >= sizeof(record->msg) ||
	    !grow(r))
		return 1;
	record = &r->info.records[r->info.num_records++];
	record->handle = TENT_LOCAL_SEGMENT;
	memcpy(record->name, name, name_length + 1);
	memcpy(record->msg, message, message_length + 1);
	return 0;
}

int lib_receive_notifications(struct lib_engine *e, struct tent_notifi_info *info)
{
	struct received r = { .room = 0 };
	int rc;

	lib_drive(e);
	rc = tent_client_take_notifs(e->client, keep, &r);
	*info = r.info;
	if (rc < 0)
		return lib_fail_client();
	return !rc && r.no_memory ? lib_fail_memory() : 0;
}
