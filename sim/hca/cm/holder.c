/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holder.c - the connection manager's sockets and its timer, behind one epoll descriptor.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "sim/hca/cm/core.h"

enum { MAX_EVENTS_A_RUN = 64 };

enum source_kind { SOURCE_EVENTS, SOURCE_CALLS, SOURCE_TIMER };

struct channel;

struct source {
	enum source_kind kind;
	struct channel *channel;
};

struct channel {
	struct channel *next;
	struct cm_file *file;
	int events_fd, calls_fd;
	struct source events, calls;
};

struct cm_holder {
	struct cm *cm;
	int epoll_fd, timer_fd;
	uint64_t armed_ns;		/* what the timer is set to; UINT64_MAX: off */
	struct source timer;
	struct channel *channels;
	struct cm_call call;		/* too big for the stack, and only one at a time */
};

/* ---- channels ----------------------------------------------------------------------- */

static struct channel *channel_of(struct cm_holder *h, const struct cm_file *f)
{
	struct channel *c = h->channels;

	while (c && c->file != f)
		c = c->next;
	return c;
}

static int watch(struct cm_holder *h, int fd, struct source *s)
{
	struct epoll_event e = { .events = EPOLLIN, .data = { .ptr = s } };

	return epoll_ctl(h->epoll_fd, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

static void free_channel(struct cm_holder *h, struct channel *c)
{
	struct channel **link;

	for (link = &h->channels; *link != c; link = &(*link)->next)
		;
	*link = c->next;
	if (c->file)
		cm_file_close(c->file);
	close(c->events_fd);
	close(c->calls_fd);
	free(c);
}

/* One byte at most lies there, so there is room. */
static void set_readable(struct cm_file *f)
{
	struct cm_holder *h = f->holder;
	struct channel *c = channel_of(h, f);

	if (c)
		(void)!send(c->events_fd, "e", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

int cm_holder_channel(struct cm_holder *h, const int fds[2])
{
	struct channel *c = calloc(1, sizeof(*c));
	int rc;

	if (!c) {
		close(fds[0]);
		close(fds[1]);
		return -ENOMEM;
	}
	c->events_fd = fds[0];
	c->calls_fd = fds[1];
	c->events = (struct source){ SOURCE_EVENTS, c };
	c->calls = (struct source){ SOURCE_CALLS, c };
	c->next = h->channels;
	h->channels = c;
	c->file = cm_file_create(h->cm, h, set_readable);
	rc = c->file ? watch(h, c->events_fd, &c->events) : -ENOMEM;
	if (!rc)
		rc = watch(h, c->calls_fd, &c->calls);
	if (rc)
		free_channel(h, c);
	return rc;
}

/* The program sends nothing here: this is the end, or something to throw away. */
static void read_events_socket(struct cm_holder *h, struct channel *c)
{
	char junk[64];
	ssize_t n = recv(c->events_fd, junk, sizeof(junk), MSG_DONTWAIT);

	if (!n || (n < 0 && errno != EAGAIN && errno != EINTR))
		free_channel(h, c);
}

/* ---- calls ------------------------------------------------------------------------------ */

static bool is_sound(const struct cm_request *r, ssize_t n)
{
	return n >= (ssize_t)offsetof(struct cm_request, option) &&
	       r->option_bytes == (size_t)n - offsetof(struct cm_request, option);
}

static void run_call(struct cm_holder *h, struct channel *c, const struct cm_request *r)
{
	struct cm_answer answer = { .flags = 0 };
	struct cm_call *call = &h->call;

	memset(call, 0, sizeof(*call));
	c->file->cookie = r->cookie;
	call->file = c->file;
	call->command = r->command;
	call->in_bytes = r->in_bytes;
	call->out_bytes = r->out_bytes;
	call->cookie = r->old_cookie;
	call->option_bytes = r->option_bytes;
	memcpy(call->in, r->in, sizeof(call->in));
	memcpy(call->option, r->option, r->option_bytes);
	answer.result = cm_command(call);
	answer.flags = (call->drained ? CM_ANSWER_DRAINED : 0) |
		       (call->old_drained ? CM_ANSWER_OLD_DRAINED : 0);
	answer.response = call->response;
	answer.reply_bytes = answer.result ? 0 : call->reply_bytes;
	memcpy(answer.reply, call->reply, answer.reply_bytes);
	(void)!send(c->calls_fd, &answer, sizeof(answer), MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void read_call(struct cm_holder *h, struct channel *c)
{
	struct cm_request request;
	ssize_t n = recv(c->calls_fd, &request, sizeof(request), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)			/* the channel itself may live on in a child */
		epoll_ctl(h->epoll_fd, EPOLL_CTL_DEL, c->calls_fd, NULL);
	else if (is_sound(&request, n))
		run_call(h, c, &request);
}

/* ---- time ---------------------------------------------------------------------------------- */

static void arm_timer(struct cm_holder *h)
{
	uint64_t due = cm_timers(h->cm), now = h->cm->env.now_ns(h->cm->env.ctx);
	uint64_t wait = due > now ? due - now : 1;
	struct itimerspec t = { .it_value = { .tv_sec = 0 } };

	if (due == h->armed_ns)
		return;
	h->armed_ns = due;
	if (due != UINT64_MAX) {
		t.it_value.tv_sec = (time_t)(wait / 1000000000);
		t.it_value.tv_nsec = (long)(wait % 1000000000);
	}
	timerfd_settime(h->timer_fd, 0, &t, NULL);
}

static void read_timer(struct cm_holder *h)
{
	uint64_t count;

	(void)!read(h->timer_fd, &count, sizeof(count));
	h->armed_ns = UINT64_MAX;
}

/* ---- all of it ------------------------------------------------------------------------------- */

int cm_holder_create(struct cm_holder **out, const struct cm_env *env)
{
	struct cm_holder *h = calloc(1, sizeof(*h));
	int rc;

	if (!h)
		return -ENOMEM;
	h->armed_ns = UINT64_MAX;
	h->timer.kind = SOURCE_TIMER;
	h->cm = cm_create(env);
	h->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	h->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	rc = !h->cm ? -ENOMEM : h->epoll_fd < 0 || h->timer_fd < 0 ? -errno : 0;
	if (!rc)
		rc = watch(h, h->timer_fd, &h->timer);
	if (rc) {
		cm_holder_destroy(h);
		return rc;
	}
	*out = h;
	return 0;
}

void cm_holder_destroy(struct cm_holder *h)
{
	while (h->channels)
		free_channel(h, h->channels);
	if (h->cm)
		cm_destroy(h->cm);
	if (h->epoll_fd >= 0)
		close(h->epoll_fd);
	if (h->timer_fd >= 0)
		close(h->timer_fd);
	free(h);
}

int cm_holder_fd(const struct cm_holder *h)
{
	return h->epoll_fd;
}

/* One at a time: a channel that ends must not be in a list of what is to be read. */
void cm_holder_run(struct cm_holder *h)
{
	struct epoll_event e;
	struct source *s;
	int i;

	for (i = 0; i < MAX_EVENTS_A_RUN && epoll_wait(h->epoll_fd, &e, 1, 0) == 1; i++) {
		s = e.data.ptr;
		if (s->kind == SOURCE_TIMER)
			read_timer(h);
		else if (s->kind == SOURCE_CALLS)
			read_call(h, s->channel);
		else
			read_events_socket(h, s->channel);
	}
	arm_timer(h);
}

void cm_holder_packet(struct cm_holder *h, uint32_t device, const struct hca_packet *p)
{
	cm_receive(h->cm, device, p);
	arm_timer(h);
}

void cm_holder_removed(struct cm_holder *h, uint32_t device)
{
	cm_device_removed(h->cm, device);
}
