/* SPDX-License-Identifier: Apache-2.0 */
/* inbox.c - what a client was sent and has not taken, see inbox.h. */
#include <errno.h>
#include <string.h>

#include "engine/client.h"

static struct tent_inbox *head_of(const struct inbox *b)
{
	return b->mem.addr;
}

/* ---- memory -------------------------------------------------------------- */

static bool charge(struct engine *e, struct client *c)
{
	if (!client_charge(e, c, RESOURCE_FDS, 1))
		return false;
	if (client_charge(e, c, RESOURCE_MAPS, 1)) {
		c->fds++;	/* goes back with the client */
		return true;
	}
	client_refund(e, c, RESOURCE_FDS, 1);
	return false;
}

/* 0 or -errno. */
static int make(struct engine *e, struct client *c)
{
	size_t size = sizeof(struct tent_inbox) + TENT_INBOX_DATA_SIZE;
	int rc;

	if (c->inbox.mem.addr)
		return 0;
	if (c->allocated > e->config.memory_max || !charge(e, c))
		return -ENOBUFS;
	rc = shared_mem_create(&c->inbox.mem, "tent-inbox", size, true);
	if (rc == 0) {
		c->allocated += c->inbox.mem.size;
		return 0;
	}
	c->inbox.mem = (struct shared_mem){ .fd = -1 };
	client_refund(e, c, RESOURCE_FDS, 1);
	client_refund(e, c, RESOURCE_MAPS, 1);
	c->fds--;
	return rc;
}

void inbox_close(struct engine *e, struct client *c)
{
	if (!c->inbox.mem.addr)
		return;
	c->allocated -= c->inbox.mem.size;
	client_refund(e, c, RESOURCE_MAPS, 1);
	shared_mem_destroy(&c->inbox.mem);
	c->inbox.mem = (struct shared_mem){ .fd = -1 };
}

/* ---- in ------------------------------------------------------------------ */

static uint8_t *data_at(const struct inbox *b, uint64_t position)
{
	return (uint8_t *)(head_of(b) + 1) + position % TENT_INBOX_DATA_SIZE;
}

/* Where a record of size bytes goes: a record is in one piece. */
static uint64_t place(const struct inbox *b, uint64_t size)
{
	uint64_t left = TENT_INBOX_DATA_SIZE - b->arrived % TENT_INBOX_DATA_SIZE;

	return left < size ? b->arrived + left : b->arrived;
}

static void write_text(uint8_t *to, const char *text, uint32_t length)
{
	memcpy(to, text, length);
	to[length] = '\0';
}

static void write_record(struct inbox *b, uint64_t at, const struct tent_notify *lengths,
			 const char *name, const char *message)
{
	static const struct tent_notify skip = { .name_length = TENT_INBOX_SKIP };
	uint8_t *to = data_at(b, at);

	if (at != b->arrived)
		memcpy(data_at(b, b->arrived), &skip, sizeof(skip));
	memcpy(to, lengths, sizeof(*lengths));
	to += sizeof(*lengths);
	write_text(to, name, lengths->name_length);
	write_text(to + lengths->name_length + 1, message, lengths->message_length);
}

static uint16_t refuse(struct inbox *b)
{
	b->refused++;
	if (head_of(b))
		store_relaxed(&head_of(b)->refused, b->refused);
	return TENT_RULE_NOTIFY_ROOM;
}

uint16_t inbox_put(struct engine *e, struct client *c, const char *name, uint32_t name_length,
		   const char *message, uint32_t message_length)
{
	const struct tent_notify lengths = { name_length, message_length };
	uint64_t size = sizeof(lengths) + (uint64_t)name_length + 1 + message_length + 1;
	struct inbox *b = &c->inbox;
	uint64_t at;

	if (c->ending)
		return TENT_RULE_TARGET_GONE;
	if (make(e, c) < 0)
		return refuse(b);
	size = (size + 7) & ~7ull;
	at = place(b, size);
	if (at + size - b->taken > TENT_INBOX_DATA_SIZE)
		return refuse(b);
	write_record(b, at, &lengths, name, message);
	b->arrived = at + size;
	/* R18, pairs with A18 in take_all(): the record, and the data it tells of. */
	store_release(&head_of(b)->arrived, b->arrived);
	return 0;
}

/* ---- control messages ------------------------------------------------------ */

void inbox_open(struct engine *e, struct client *c, struct ctl_message *m)
{
	struct ctl_message reply = { .nr_fds = 1 };
	struct tent_ctl_inbox_open_reply *r = (void *)reply.bytes;
	int rc;

	(void)m;
	if (!client_may_reply(e, c, 1))
		return;
	rc = make(e, c);
	if (rc == -ENOBUFS) {
		client_refuse(e, c, TENT_RULE_MEM_LIMIT, c->allocated);
		return;
	}
	if (rc < 0) {
		client_refuse(e, c, TENT_RULE_SYSTEM, (uint64_t)-rc);
		return;
	}
	reply.fds[0] = c->inbox.mem.fd;
	r->taken = c->inbox.taken;
	r->data_size = TENT_INBOX_DATA_SIZE;
	client_reply(e, c, &reply, sizeof(*r));
}

void inbox_taken(struct engine *e, struct client *c, struct ctl_message *m)
{
	uint64_t position = ((const struct tent_ctl_id *)m->bytes)->id;
	struct inbox *b = &c->inbox;

	/* Both differences are small: positions only grow. */
	if (position % 8 || position - b->taken > b->arrived - b->taken) {
		client_refuse_text(e, c, TENT_RULE_CTL_MESSAGE, position,
				   "position is %llu; allowed: multiples of 8 from %llu to %llu, "
				   "where notifications that were sent begin or end",
				   (unsigned long long)position, (unsigned long long)b->taken,
				   (unsigned long long)b->arrived);
		return;
	}
	b->taken = position;
	client_reply_plain(e, c);
}
