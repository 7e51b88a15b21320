/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_call.c - one control request and its reply. The reply is judged here:
 * whoever asked may rely on its size, its descriptors and that it answers him.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ring/client.h"

int client_check_process(const struct tent_client *c)
{
	if (!c)
		return client_fail_null("client");
	if (c->pid != getpid())
		return client_fail_text(TENT_RULE_ENGINE_STALE,
					"this client was attached by process %d, not by %d; "
					"allowed: a live engine of this process",
					(int)c->pid, (int)getpid());
	return 0;
}

/* A poll without a timeout, but never a hang: the engine answers, closes or dies. */
static int await_reply(const struct tent_client *c)
{
	struct pollfd p[2] = {
		{ .fd = c->fd, .events = POLLIN },
		{ .fd = c->pidfd, .events = POLLIN },	/* -1: poll skips it */
	};

	while (poll(p, 2, -1) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return p[0].revents ? 0 : -EPIPE;
}

static int exchange_messages(struct tent_client *c, struct ctl_message *m)
{
	int rc = ctl_send(c->fd, m, 0);

	m->nr_fds = 0;
	if (rc == 0)
		rc = await_reply(c);
	return rc ? rc : ctl_recv(c->fd, m, 0);
}

/* Nothing on this connection can be trusted any more; the engine frees its side. */
static int break_off(struct tent_client *c, struct ctl_message *m)
{
	ctl_close_fds(m);
	c->broken = true;
	shutdown(c->fd, SHUT_RDWR);
	return client_fail_text(TENT_RULE_CTL_MESSAGE,
				"the engine's reply does not fit the request; "
				"allowed: a known message of the right size");
}

static int fail_exchange(struct tent_client *c, struct ctl_message *m, int rc)
{
	if (rc == -EPIPE || rc == -ECONNRESET || rc == -ENOTCONN)
		return client_fail_text(TENT_RULE_ENGINE_LOST,
					"the engine closed the connection; allowed: alive");
	if (rc == -EBADMSG)
		return break_off(c, m);
	return client_fail_system("control message", rc);
}

static bool is_error(int32_t error)
{
	return error >= TENT_ERR_CONFIG && error < 0;
}

/* A failed reply ends after its status; a good one is as long as its struct. */
static int judge_reply(struct tent_client *c, struct ctl_message *m, uint16_t type,
		       size_t reply_size, int reply_fds)
{
	const struct tent_ctl_plain_reply *r = (const void *)m->bytes;

	if (m->head.size < sizeof(*r) || m->head.cookie != c->cookie ||
	    m->head.type != (type | TENT_CTL_REPLY))
		return break_off(c, m);
	if (r->status.error) {
		if (!is_error(r->status.error) || m->nr_fds)
			return break_off(c, m);
		return client_fail_status(&r->status);
	}
	if (m->head.size != reply_size || m->nr_fds != reply_fds)
		return break_off(c, m);
	return 0;
}

static int call_locked(struct tent_client *c, struct ctl_message *m, uint16_t type,
		       size_t size, size_t reply_size, int reply_fds)
{
	int rc;

	if (c->broken)
		return client_fail_text(TENT_RULE_ENGINE_STALE,
					"the connection was given up after a broken reply; "
					"allowed: a live engine of this process");
	m->head = (struct tent_ctl_head){
		.size = (uint32_t)size, .type = type, .cookie = ++c->cookie,
	};
	rc = exchange_messages(c, m);
	if (rc)
		return fail_exchange(c, m, rc);
	return judge_reply(c, m, type, reply_size, reply_fds);
}

int client_call(struct tent_client *c, struct ctl_message *m, uint16_t type, size_t size,
		size_t reply_size, int reply_fds)
{
	int rc = client_check_process(c);

	if (rc)
		return rc;
	pthread_mutex_lock(&c->lock);
	rc = call_locked(c, m, type, size, reply_size, reply_fds);
	pthread_mutex_unlock(&c->lock);
	return rc;
}

int client_call_id(struct tent_client *c, uint16_t type, uint64_t id)
{
	struct ctl_message m = { .nr_fds = 0 };

	((struct tent_ctl_id *)m.bytes)->id = id;
	return client_call(c, &m, type, sizeof(struct tent_ctl_id),
			   sizeof(struct tent_ctl_plain_reply), 0);
}

int client_copy_text(char *to, size_t size, const char *text, uint32_t rule)
{
	size_t length = strnlen(text, size);

	if (length == size)
		return client_fail_text(rule, "%s is longer than %zu bytes",
					tent_rule_field(rule), size - 1);
	memcpy(to, text, length);
	to[length] = '\0';
	return 0;
}
