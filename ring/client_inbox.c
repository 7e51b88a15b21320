/* SPDX-License-Identifier: Apache-2.0 */
/* client_inbox.c - takes the notifications that this client was sent. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include "ring/client.h"
#include "ring/order.h"

static const struct tent_inbox *inbox_of(const struct tent_client *c)
{
	return c->inbox.mem.addr;
}

static int map_inbox(struct tent_client *c, struct ctl_message *m)
{
	const struct tent_ctl_inbox_open_reply *r = (const void *)m->bytes;
	int rc = -EINVAL;

	if (r->data_size >= 8 && !(r->data_size & (r->data_size - 1)))
		rc = shared_mem_map(&c->inbox.mem, m->fds[0],
				    sizeof(struct tent_inbox) + r->data_size, false, SEALS_SIZE);
	ctl_close_fds(m);
	c->inbox.mem.fd = -1;
	if (rc)
		return client_fail_system("the engine's memory was refused", rc);
	c->inbox.data_size = r->data_size;
	c->inbox.taken = r->taken;
	return 0;
}

static int open_inbox(struct tent_client *c)
{
	struct ctl_message m = { .nr_fds = 0 };
	int rc = client_call(c, &m, TENT_CTL_INBOX_OPEN, sizeof(struct tent_ctl_head),
			     sizeof(struct tent_ctl_inbox_open_reply), 1);

	return rc ? rc : map_inbox(c, &m);
}

static uint64_t record_size(const struct tent_notify *n)
{
	return (sizeof(*n) + (uint64_t)n->name_length + 1 + n->message_length + 1 + 7) & ~7ull;
}

/* Whole, and with texts that end where their lengths say? */
static bool is_sound(const struct tent_notify *n, uint64_t room)
{
	const char *text = (const char *)(n + 1);

	return n->name_length <= TENT_NOTIFY_NAME_MAX &&
	       n->message_length <= TENT_NOTIFY_MESSAGE_MAX && record_size(n) <= room &&
	       !text[n->name_length] && !text[n->name_length + 1 + n->message_length];
}

static uint64_t lower(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The one at *position, and on to the next. 1: it was taken; 0: it stays. */
static int take_one(struct tent_client *c, uint64_t *position, uint64_t arrived,
		    int (*take)(void *context, const char *name, uint32_t name_length,
				const char *message, uint32_t message_length),
		    void *context)
{
	uint64_t at = *position & (c->inbox.data_size - 1);
	uint64_t room = lower(arrived - *position, c->inbox.data_size - at);
	const struct tent_notify *n = (const void *)((const uint8_t *)(inbox_of(c) + 1) + at);
	const char *text = (const char *)(n + 1);

	if (at && room >= sizeof(*n) && n->name_length == TENT_INBOX_SKIP) {
		*position += c->inbox.data_size - at;
		return take_one(c, position, arrived, take, context);
	}
	if (at % 8 || room < sizeof(*n) || !is_sound(n, room))
		return client_fail_text(TENT_RULE_CTL_MESSAGE, "the engine's notification at "
					"%llu is not whole; allowed: one that ends where its "
					"lengths say", (unsigned long long)*position);
	if (take(context, text, n->name_length, text + n->name_length + 1, n->message_length))
		return 0;
	*position += record_size(n);
	return 1;
}

/* What was taken is gone here, whether or not the engine lives to hear of it. */
static int take_all(struct tent_client *c,
		    int (*take)(void *context, const char *name, uint32_t name_length,
				const char *message, uint32_t message_length),
		    void *context)
{
	/* A18, pairs with R18 in inbox_put(). */
	uint64_t arrived = load_acquire(&inbox_of(c)->arrived), position = c->inbox.taken;
	int nr = 0, rc = 1;

	while (position != arrived && rc > 0) {
		rc = take_one(c, &position, arrived, take, context);
		nr += rc > 0;
	}
	if (position != c->inbox.taken) {
		c->inbox.taken = position;
		client_call_id(c, TENT_CTL_INBOX_TAKEN, position);
	}
	return nr || rc > 0 ? nr : rc;
}

int tent_client_take_notifs(struct tent_client *client,
			    int (*take)(void *context, const char *name, uint32_t name_length,
					const char *message, uint32_t message_length),
			    void *context)
{
	int rc = client_check_process(client);

	if (rc)
		return rc;
	if (!take)
		return client_fail(TENT_RULE_ARG_NULL, 0);
	pthread_mutex_lock(&client->inbox.lock);
	if (!inbox_of(client))
		rc = open_inbox(client);
	if (!rc)
		rc = take_all(client, take, context);
	pthread_mutex_unlock(&client->inbox.lock);
	return rc;
}
