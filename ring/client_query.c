/* SPDX-License-Identifier: Apache-2.0 */
/* client_query.c - asks the engine for JSON: what it holds, what it would do. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>

#include "ring/client.h"
#include "ring/entry.h"

#define TEXT_MAX (1u << 30)

static int take_text(struct ctl_message *m, char **json)
{
	const struct tent_ctl_query_reply *r = (const void *)m->bytes;
	char *text;
	int rc;

	if (r->length > TEXT_MAX)
		return client_fail(TENT_RULE_CTL_MESSAGE, (int64_t)r->length);
	text = malloc((size_t)r->length + 1);
	if (!text)
		return client_fail_system("malloc of a query's text", -ENOMEM);
	text[r->length] = '\0';
	rc = memfd_read(m->fds[0], text, (size_t)r->length, 0);
	if (rc < 0) {
		free(text);
		return client_fail_system("reading a query's text", rc);
	}
	*json = text;
	return 0;
}

static int query(struct tent_client *c, struct ctl_message *m, uint32_t what, uint32_t count,
		 char **json)
{
	struct tent_ctl_query *q = (void *)m->bytes;
	int rc;

	q->what = what;
	q->count = count;
	rc = client_call(c, m, TENT_CTL_QUERY, sizeof(*q),
			 sizeof(struct tent_ctl_query_reply), 1);
	if (rc)
		return rc;
	rc = take_text(m, json);
	ctl_close_fds(m);
	return rc;
}

int tent_client_query(struct tent_client *client, uint32_t what, char **json)
{
	struct ctl_message m = { .nr_fds = 0 };

	if (!json)
		return client_fail_null("json");
	return query(client, &m, what, 0, json);
}

/* The entries as slots, then their cells: what a ring would carry. */
static void fill_slots(void *memory, const uint8_t *entries, size_t count, size_t stride)
{
	struct tent_slot *slots = memory;
	char *cells = (char *)(slots + count);

	for (size_t i = 0; i < count; i++)
		entry_load(&slots[i], cells + i * TENT_CELL_SIZE, entries + i * stride,
			   stride);
}

static int make_slots(struct shared_mem *m, const void *entries, size_t count, size_t stride)
{
	size_t size = count * (sizeof(struct tent_slot) + TENT_CELL_SIZE);
	int rc = shared_mem_create(m, "tent-explain", size ? size : 1, false);

	if (rc < 0)
		return client_fail_system("memory for explain", rc);
	fill_slots(m->addr, entries, count, stride);
	return 0;
}

int tent_client_explain(struct tent_client *client, const void *entries, size_t count,
			size_t entry_stride, char **json)
{
	struct ctl_message m = { .nr_fds = 1 };
	struct shared_mem slots;
	int rc = client_check_process(client);

	if (rc == 0)
		rc = client_check_entries(entries, count, entry_stride);
	if (rc == 0 && !json)
		rc = client_fail_null("json");
	if (rc == 0 && count > TENT_EXPLAIN_MAX)
		rc = client_fail_text(TENT_RULE_BATCH_FULL,
				      "count is %zu; allowed: up to %u entries a query", count,
				      TENT_EXPLAIN_MAX);
	if (rc == 0)
		rc = make_slots(&slots, entries, count, entry_stride);
	if (rc)
		return rc;
	m.fds[0] = slots.fd;
	rc = query(client, &m, TENT_QUERY_EXPLAIN, (uint32_t)count, json);
	shared_mem_destroy(&slots);
	return rc;
}
