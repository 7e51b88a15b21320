/* SPDX-License-Identifier: Apache-2.0 */
/*
 * door_ring.c - a ring of one's own: libtentring and nothing else of tent, through tentd.
 * With --neighbour it is the other program instead, whose segment rows aim at: it says
 * where its memory is, and stays until its input ends.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tent/tentring.h>

#include "tests/vectors/door.h"

static struct tent_client *client;
static struct tent_ring *ring;

static struct tent_error_info last_error(void)
{
	struct tent_error_info info = { .size = sizeof(info) };

	tent_client_error(&info);
	return info;
}

static void need(int rc, const char *what)
{
	if (rc)
		door_die(what, last_error().message);
}

/* TENT_ENGINE is unix:/path. */
static void attach(void)
{
	const char *engine = getenv("TENT_ENGINE");

	need(tent_client_attach(engine + strlen("unix:"), NULL, &client), engine);
}

static uint64_t memory(size_t size, int permission)
{
	void *addr;

	need(tent_client_alloc(client, size, NULL, &addr), "memory");
	need(tent_client_register(client, addr, size, permission, NULL, 0), "memory");
	return (uintptr_t)addr;
}

static void open_ring(struct door_places *p, bool peer)
{
	void *addr;

	attach();
	need(tent_client_alloc(client, 2 * DOOR_SIZE, NULL, &addr), "memory");
	p->a = (uintptr_t)addr;
	p->b = p->a + DOOR_SIZE;
	for (int i = 0; i < 2; i++)
		need(tent_client_register(client, (char *)addr + i * DOOR_SIZE, DOOR_SIZE,
					  TENT_PERM_GLOBAL_READ_WRITE, NULL, 0), "memory");
	if (door_file_segment())
		need(tent_client_open_segment(client, door_file_segment(), &p->file), "file");
	if (peer)
		need(tent_client_open_segment(client, door_peer_segment(p), &p->peer), "peer");
	need(tent_ring_open(client, 64, 64, &ring), "ring");
}

static void close_ring(void)
{
	tent_client_detach(client);
}

/* The next completion. */
static struct tent_completion reap(void)
{
	struct tent_completion c;

	while (!tent_ring_poll(ring, &c, 1))
		need(tent_ring_wait(ring, UINT64_MAX), "ring");
	return c;
}

static json_t *ends_from(const struct door_batch *b, struct tent_completion c)
{
	struct tent_completion ended[64];
	json_t *list = json_array();

	for (size_t n = 0; n < b->count; n++) {
		if (n)
			c = reap();
		ended[c.user_data] = c;
	}
	for (size_t i = 0; i < b->count; i++)
		json_array_append_new(list, door_end(ended[i].status, ended[i].error,
						     ended[i].rule ?
						     tent_rule_field(ended[i].rule) : "",
						     ended[i].flags));
	return list;
}

static json_t *differing(json_t *answer, json_t *differs)
{
	if (differs)
		json_object_set_new(answer, "differs", differs);
	return answer;
}

static json_t *explain_of(const struct door_batch *b)
{
	json_t *explain;
	char *text;

	if (b->legacy || tent_client_explain(client, b->entries, b->count, b->stride, &text))
		return NULL;
	explain = json_loads(text, 0, NULL);
	free(text);
	return explain;
}

static json_t *judged(const struct door_batch *b, const json_t *explain)
{
	struct tent_completion c = { 0 };

	if (!b->count)
		return door_accepted(b, explain, NULL, json_array());
	c = reap();
	if (c.flags & TENT_CQE_F_REJECTED)
		return differing(door_refused(c.error, tent_rule_field(c.rule), c.index),
				 explain ? door_explain_differs(explain, c.error,
								tent_rule_field(c.rule),
								c.index) : NULL);
	return differing(door_accepted(b, explain, NULL, ends_from(b, c)),
			 explain ? door_explain_differs(explain, 0, "", 0) : NULL);
}

/* The older entries as the slots of such a batch have them: priority counts from HIGH. */
static int submit_legacy(const struct door_batch *b)
{
	tent_request_v1_t r[64];

	for (size_t i = 0; i < b->count; i++) {
		const json_t *e = door_entry(b, i);
		const json_t *priority = json_object_get(e, "priority");

		r[i] = door_request(b, e);
		r[i].requested_priority = priority ? (int32_t)door_number(b, priority) : 0;
	}
	return tent_ring_submit(ring, r, b->count, sizeof(r[0]), 0, TENT_SLOT_F_LEGACY);
}

static json_t *ask_ring(const struct door_batch *b)
{
	json_t *explain = explain_of(b), *answer;
	int rc = b->legacy ? submit_legacy(b) :
		 tent_ring_submit(ring, b->entries, b->count, b->stride, 0, 0);

	if (rc)
		answer = door_refused(last_error().error, last_error().field, 0);
	else
		answer = judged(b, explain);
	json_decref(explain);
	return answer;
}

static int be_neighbour(void)
{
	uint64_t reads, writes, own;

	attach();
	reads = memory(DOOR_SIZE, TENT_PERM_GLOBAL_READ_ONLY);
	writes = memory(DOOR_SIZE, TENT_PERM_GLOBAL_READ_WRITE);
	own = memory(DOOR_SIZE, TENT_PERM_LOCAL_READ_WRITE);
	printf("%s %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", tent_client_segment(client), reads,
	       writes, own);
	fflush(stdout);
	while (getchar() != EOF)
		;
	tent_client_detach(client);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct door own = { open_ring, ask_ring, close_ring };

	if (argc == 2 && strcmp(argv[1], "--neighbour") == 0)
		return be_neighbour();
	return door_main(argc, argv, &own);
}
