/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.c - a client's messages and its end. Whatever arrives is checked here against
 * one table (size, descriptors, text) before anybody looks into it.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/client.h"
#include "engine/errand.h"
#include "engine/memory.h"
#include "engine/peers.h"
#include "engine/segments.h"

/* ---- answers ----------------------------------------------------------- */

static int send_charged(struct client *c, struct ctl_message *m)
{
	uint64_t before = clock_thread_cpu_ns();
	int rc = ctl_send(c->sock, m, MSG_DONTWAIT);

	client_pays(c, clock_thread_cpu_ns() - before);
	return rc;
}

static int receive_charged(struct client *c, struct ctl_message *m)
{
	uint64_t before = clock_thread_cpu_ns();
	int rc = ctl_recv(c->sock, m, MSG_DONTWAIT);

	client_pays(c, clock_thread_cpu_ns() - before);
	return rc;
}

static void send_reply(struct engine *e, struct client *c, struct ctl_message *m, size_t size)
{
	m->head = (struct tent_ctl_head){
		.size = (uint32_t)size, .type = c->request.type | TENT_CTL_REPLY,
		.cookie = c->request.cookie,
	};
	/* One that does not read its answers is not waited for. */
	if (send_charged(c, m) < 0)
		client_end(e, c, TENT_RULE_RING_CLOSED);
}

void client_reply(struct engine *e, struct client *c, struct ctl_message *m, size_t size)
{
	struct tent_ctl_plain_reply *r = (void *)m->bytes;

	r->status = (struct tent_ctl_status){ .error = TENT_OK };
	send_reply(e, c, m, size);
}

void client_reply_plain(struct engine *e, struct client *c)
{
	struct ctl_message m = { .nr_fds = 0 };

	client_reply(e, c, &m, sizeof(struct tent_ctl_plain_reply));
}

static void refuse(struct engine *e, struct client *c, uint16_t rule, uint64_t value,
		   const char *text)
{
	struct ctl_message m = { .nr_fds = 0 };
	struct tent_ctl_plain_reply *r = (void *)m.bytes;

	r->status.error = tent_rule_error(rule);
	r->status.rule = rule;
	r->status.value = value;
	snprintf(r->status.message, sizeof(r->status.message), "%s", text);
	send_reply(e, c, &m, sizeof(*r));
}

void client_refuse(struct engine *e, struct client *c, uint16_t rule, uint64_t value)
{
	char text[sizeof(((struct tent_ctl_status *)0)->message)];

	tent_rule_describe(rule, (int64_t)value, text, sizeof(text));
	refuse(e, c, rule, value, text);
}

void client_refuse_text(struct engine *e, struct client *c, uint16_t rule, uint64_t value,
			const char *format, ...)
{
	char text[sizeof(((struct tent_ctl_status *)0)->message)];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	refuse(e, c, rule, value, text);
}

static void end_over(struct engine *e, struct client *c);
static bool client_take_place(struct engine *e, struct client *c);

/* ---- messages ---------------------------------------------------------- */

#define TEXT_AT(type, field) offsetof(type, field), sizeof(((type *)0)->field)
#define FDS_ANY -1	/* the handler knows */

struct message_form {
	uint32_t size;
	int nr_fds;
	bool owners_only;	/* not for observers */
	size_t text, text_size;	/* a field that must hold a NUL */
	void (*serve)(struct engine *e, struct client *c, struct ctl_message *m);
};

static const struct message_form forms[] = {
	[TENT_CTL_HELLO] = { sizeof(struct tent_ctl_hello), 0, false,
		TEXT_AT(struct tent_ctl_hello, name), client_hello },
	[TENT_CTL_RING_OPEN] = { sizeof(struct tent_ctl_ring_open), 0, true, 0, 0,
		client_ring_open },
	[TENT_CTL_RING_CLOSE] = { sizeof(struct tent_ctl_id), 0, true, 0, 0,
		client_ring_close },
	[TENT_CTL_MEM_ALLOC] = { sizeof(struct tent_ctl_mem_alloc), 0, true,
		TEXT_AT(struct tent_ctl_mem_alloc, location), memory_alloc },
	[TENT_CTL_MEM_FREE] = { sizeof(struct tent_ctl_id), 0, true, 0, 0, memory_free },
	[TENT_CTL_MEM_REGISTER] = { sizeof(struct tent_ctl_mem_register), FDS_ANY, true,
		TEXT_AT(struct tent_ctl_mem_register, location), memory_register },
	[TENT_CTL_MEM_UNREGISTER] = { sizeof(struct tent_ctl_mem_unregister), 0, true, 0, 0,
		memory_unregister },
	[TENT_CTL_SEGMENT_OPEN] = { sizeof(struct tent_ctl_segment_open), FDS_ANY, true,
		TEXT_AT(struct tent_ctl_segment_open, name), segment_open },
	[TENT_CTL_SEGMENT_CLOSE] = { sizeof(struct tent_ctl_id), 0, true, 0, 0,
		segment_close },
	[TENT_CTL_SEGMENT_INFO] = { sizeof(struct tent_ctl_segment_info), 0, true, 0, 0,
		segment_info },
	[TENT_CTL_INBOX_OPEN] = { sizeof(struct tent_ctl_head), 0, true, 0, 0, inbox_open },
	[TENT_CTL_INBOX_TAKEN] = { sizeof(struct tent_ctl_id), 0, true, 0, 0, inbox_taken },
	[TENT_CTL_QUERY] = { sizeof(struct tent_ctl_query), FDS_ANY, false, 0, 0,
		client_query },
};

static const struct message_form *form_of(const struct ctl_message *m)
{
	uint16_t type = m->head.type;

	return type < sizeof(forms) / sizeof(forms[0]) && forms[type].serve ? &forms[type] :
									      NULL;
}

/* What is wrong with it, as a sentence, or NULL. */
static const char *find_fault(const struct client *c, const struct ctl_message *m)
{
	const struct message_form *f = form_of(m);

	if (!f)
		return "message has a type that no version of this protocol knows";
	if (m->head.size != f->size)
		return "message is not as long as its type";
	if (f->nr_fds != FDS_ANY && m->nr_fds != f->nr_fds)
		return "message carries descriptors that its type does not take";
	if (f->text_size && !memchr(m->bytes + f->text, '\0', f->text_size))
		return "message has a text that does not end inside its field";
	if (!c->said_hello && m->head.type != TENT_CTL_HELLO)
		return "message comes before HELLO";
	if (f->owners_only && c->observer)
		return "message is not for observers: they own no segment";
	return NULL;
}

static void serve(struct engine *e, struct client *c, struct ctl_message *m)
{
	const char *fault = find_fault(c, m);

	c->request = m->head;
	if (c->refused && client_take_place(e, c)) {	/* somebody left meanwhile */
		c->refused = false;
		e->nr_refused--;
	}
	if (c->refused) {
		client_refuse(e, c, TENT_RULE_CLIENT_LIMIT, e->nr_clients);
		client_end(e, c, TENT_RULE_RING_CLOSED);
	} else if (fault) {
		client_refuse_text(e, c, TENT_RULE_CTL_MESSAGE, m->head.type, "%s", fault);
	} else {
		form_of(m)->serve(e, c, m);
	}
}

void client_received(struct engine *e, struct client *c, int rc, struct ctl_message *m)
{
	if (c->ending)
		return;
	if (rc == 0)
		serve(e, c, m);
	else if (rc != -EAGAIN)
		client_end(e, c, TENT_RULE_RING_CLOSED);
}

void client_go_on(struct engine *e, struct client *c)
{
	c->errand = NULL;
	if (c->over)
		end_over(e, c);
	else if (!c->busy)
		client_listen(e, c);
}

void client_identified(struct engine *e, struct client *c, struct errand *errand)
{
	if (c->ending) {
		peer_close(&errand->peer);
	} else if (errand->rc < 0) {	/* it is gone: nobody to answer */
		client_end(e, c, TENT_RULE_RING_CLOSED);
	} else {
		c->peer = errand->peer;
		c->identified = true;
		client_watch_death(e, c);
		client_welcome(e, c, (const void *)errand->message.bytes);
	}
}

/* The socket is readable, or its other end closed. This process trusts itself. */
static void client_ready(struct engine *e, struct event_source *s)
{
	struct client *c = (struct client *)s;	/* its first member */
	enum errand_peek next = c->local ? PEEK_PLAIN : errand_peek(c->sock);
	struct ctl_message m = { .nr_fds = 0 };
	int rc = 0;

	if (next == PEEK_LOADED)
		rc = errand_receive(e, c);
	else if (next == PEEK_PLAIN)
		client_received(e, c, receive_charged(c, &m), &m);
	ctl_close_fds(&m);	/* those that nobody took */
	if (rc < 0 || next == PEEK_END)
		client_end(e, c, TENT_RULE_RING_CLOSED);
	if (!c->busy && !c->errand)
		client_listen(e, c);
}

void client_await(struct engine *e, struct client *c,
		  void (*done)(struct engine *e, void *client))
{
	c->busy = true;
	round_send(e, c->round, done, c);
}

/* ---- the end ----------------------------------------------------------- */

void client_closed(struct engine *e, struct client *c)
{
	client_refund(e, c, RESOURCE_FDS, c->fds + c->in_flight);
	*c->at = c->next;
	if (c->next)
		c->next->at = c->at;
	if (c->refused) {
		e->nr_refused--;
	} else if (!c->own) {
		e->nr_clients--;
		c->tenant->nr_clients--;
	}
	c->tenant->refs--;
	tenant_tidy(&e->tenants, c->tenant);
	e->clients_ended++;
	c->next = e->dead;
	e->dead = c;
}

/*
 * Nothing of it is touched any more. The socket closes last: whoever half-closed his
 * end and waits for ours may now free his memory. What it sent and nobody received goes
 * with the socket, and that may block; its place among the clients stays taken as long.
 */
static void end_over(struct engine *e, struct client *c)
{
	c->over = true;
	if (c->errand)
		return;		/* it still receives or identifies: comes back here */
	segments_leave(e, c);
	inbox_close(e, c);
	peer_close(&c->peer);
	if (client_linger(e, c))
		return;		/* the same */
	if (c->local || errand_seal(c->sock)) {
		close(c->sock);
	} else {
		if (!e->stopping && errand_close(e, c) == 0)
			return;
		errand_close_stray(c->sock);
	}
	client_closed(e, c);
}

void client_abandon_errand(struct engine *e, struct client *c)
{
	bool closes = c->errand && c->errand->kind == ERRAND_CLOSE;

	if (!c->errand || !errand_abandon(c->errand))
		return;		/* none, or it is about to arrive */
	if (closes)
		client_closed(e, c);
	else
		client_go_on(e, c);
}

void client_look_again(struct engine *e, struct client *c)
{
	client_wake_up(e, c);
	if (c->lingers)
		end_over(e, c);
}

static void end_memory(struct engine *e, struct client *c)
{
	memory_end(e, c, end_over);
}

/* From here on nobody finds its memory; its rings go first, then its regions. One that
 * never said who it is has none of these, and makes room at once. */
static void end_begin(struct engine *e, struct client *c)
{
	c->busy = true;
	if (!c->segment) {
		end_over(e, c);
		return;
	}
	segment_orphan(e, c);
	if (c->name) {
		directory_withdraw(e, c->name->text);
		name_release(&e->names, c->name);
	}
	c->name = NULL;
	client_rings_end(e, c, end_memory);
}

void client_end(struct engine *e, struct client *c, uint16_t rule)
{
	if (c->ending)
		return;
	notices_serve_client(e, c);
	c->ending = true;
	c->end_rule = rule;
	far_notices_abandon(e, c);
	client_rest_ends(e, c);
	control_unwatch(e, &c->socket);
	control_unwatch(e, &c->death);
	far_forget_asker(e, c);
	directory_forget(c);
	if (!c->busy)
		end_begin(e, c);
}

void client_idle(struct engine *e, struct client *c)
{
	c->busy = false;
	if (c->ending)
		end_begin(e, c);
	else if (!c->errand)
		client_listen(e, c);
}

void clients_bury(struct engine *e)
{
	while (e->dead) {
		struct client *c = e->dead;

		e->dead = c->next;
		free(c->round);
		free(c);
	}
}

/* ---- charges ----------------------------------------------------------- */

/* What this process does to itself is its own affair. */
bool client_charge(struct engine *e, struct client *c, enum resource r, uint32_t n)
{
	return c->local || tenant_charge(&e->tenants, c->tenant, r, n);
}

void client_refund(struct engine *e, struct client *c, enum resource r, uint32_t n)
{
	if (!c->local && c->tenant)
		tenant_refund(&e->tenants, c->tenant, r, n);
}

/* ---- the beginning ----------------------------------------------------- */

static void client_died(struct engine *e, struct event_source *s)
{
	struct client *c = (struct client *)((char *)s - offsetof(struct client, death));

	client_end(e, c, TENT_RULE_RING_CLOSED);
}

void client_watch_death(struct engine *e, struct client *c)
{
	if (c->peer.pidfd >= 0)
		control_watch(e, &c->death, c->peer.pidfd, client_died);
}

/* Takes a place among the clients, if there is one. */
static bool client_take_place(struct engine *e, struct client *c)
{
	if (c->own)
		return true;
	if (e->nr_clients >= e->config.clients_max)
		return false;
	if (!c->local) {
		if (c->tenant->nr_clients >= e->config.clients_per_tenant_max ||
		    !tenant_charge(&e->tenants, c->tenant, RESOURCE_FDS, 1))
			return false;
		c->fds = 1;
	}
	e->nr_clients++;
	c->tenant->nr_clients++;
	return true;
}

static void evict_refused(struct engine *e)
{
	struct client *oldest = NULL;

	for (struct client *c = e->clients; c; c = c->next) {
		if (c->refused && !c->ending)
			oldest = c;
	}
	if (oldest)
		client_end(e, oldest, TENT_RULE_RING_CLOSED);
}

/* Over a limit: a few may stay until they said HELLO and heard why. */
static void client_admit(struct engine *e, struct client *c)
{
	c->refused = !client_take_place(e, c);
	if (c->refused) {
		if (e->nr_refused >= CLIENTS_REFUSED_MAX)
			evict_refused(e);
		e->nr_refused++;
	}
	c->next = e->clients;
	c->at = &e->clients;
	if (c->next)
		c->next->at = &c->next;
	e->clients = c;
	c->id = ++e->last_client_id;
}

static struct client *client_create(struct engine *e, int sock, bool local)
{
	struct client *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->sock = sock;
	c->socket.fd = c->death.fd = c->inbox.mem.fd = -1;
	c->local = local;
	c->own = local && e->config.daemon;
	c->round = round_create(e, CLIENT_ROUND);
	if (c->round && peer_read(sock, &c->peer) == 0)
		c->tenant = tenant_find(&e->tenants, c->peer.uid);
	if (c->tenant) {
		c->tenant->refs++;
		return c;
	}
	free(c->round);
	free(c);
	return NULL;
}

void client_adopt(struct engine *e, int sock, bool local)
{
	struct client *c = client_create(e, sock, local);

	if (!c) {
		close(sock);
		return;
	}
	client_admit(e, c);
	if (control_watch(e, &c->socket, sock, client_ready) < 0)
		client_end(e, c, TENT_RULE_RING_CLOSED);
}
