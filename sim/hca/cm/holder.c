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

enum { MAX_EVENTS_A_RUN = 64, MAX_CALLERS = 256 };

enum source_kind { SOURCE_EVENTS, SOURCE_CALLS, SOURCE_TIMER };

struct channel;

struct source {
	struct source *next;
	enum source_kind kind;
	struct channel *channel;
	int fd;
};

struct channel {
	struct channel *next;
	struct cm_file *file;
	struct source events;
	struct source *callers;		/* a socket of each process that has the channel */
	uint32_t nr_callers;
};

struct cm_holder {
	struct cm *cm;
	int epoll_fd;
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

static int watch(struct cm_holder *h, struct source *s)
{
	struct epoll_event e = { .events = EPOLLIN, .data = { .ptr = s } };

	return epoll_ctl(h->epoll_fd, EPOLL_CTL_ADD, s->fd, &e) ? -errno : 0;
}

static void drop_caller(struct channel *c, struct source *s)
{
	struct source **link;

	for (link = &c->callers; *link != s; link = &(*link)->next)
		;
	*link = s->next;
	c->nr_callers--;
	close(s->fd);
	free(s);
}

/* Takes fd over. */
static int add_caller(struct cm_holder *h, struct channel *c, int fd)
{
	struct source *s = c->nr_callers < MAX_CALLERS ? calloc(1, sizeof(*s)) : NULL;
	int rc;

	if (!s) {
		close(fd);
		return -ENOMEM;
	}
	*s = (struct source){ .next = c->callers, .kind = SOURCE_CALLS, .channel = c, .fd = fd };
	c->callers = s;
	c->nr_callers++;
	rc = watch(h, s);
	if (rc)
		drop_caller(c, s);
	return rc;
}

static void free_channel(struct cm_holder *h, struct channel *c)
{
	struct channel **link;

	for (link = &h->channels; *link != c; link = &(*link)->next)
		;
	*link = c->next;
	if (c->file)
		cm_file_close(c->file);
	while (c->callers)
		drop_caller(c, c->callers);
	close(c->events.fd);
	free(c);
}

/* One byte at most lies there, so there is room. */
static void set_readable(struct cm_file *f)
{
	struct cm_holder *h = f->holder;
	struct channel *c = channel_of(h, f);

	if (c)
		(void)!send(c->events.fd, "e", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
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
	c->events = (struct source){ .kind = SOURCE_EVENTS, .channel = c, .fd = fds[0] };
	c->next = h->channels;
	h->channels = c;
	c->file = cm_file_create(h->cm, h, set_readable);
	rc = add_caller(h, c, fds[1]);
	if (!rc)
		rc = c->file ? watch(h, &c->events) : -ENOMEM;
	if (rc)
		free_channel(h, c);
	return rc;
}

/* The program sends nothing here: this is the end, or something to throw away. */
static void read_events_socket(struct cm_holder *h, struct channel *c)
{
	char junk[64];
	ssize_t n = recv(c->events.fd, junk, sizeof(junk), MSG_DONTWAIT);

	if (!n || (n < 0 && errno != EAGAIN && errno != EINTR))
		free_channel(h, c);
}

/* ---- calls ------------------------------------------------------------------------------ */

static bool is_sound(const struct cm_request *r, ssize_t n)
{
	return n >= (ssize_t)offsetof(struct cm_request, option) &&
	       r->option_bytes == (size_t)n - offsetof(struct cm_request, option);
}

static void run_call(struct cm_holder *h, const struct source *s, const struct cm_request *r)
{
	struct channel *c = s->channel;
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
	(void)!send(s->fd, &answer, sizeof(answer), MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* A packet, and the descriptor that came with it, or -1. */
static ssize_t receive(int fd, struct cm_request *r, int *passed)
{
	_Alignas(struct cmsghdr) uint8_t control[CMSG_LEN(sizeof(int))];
	struct iovec iov = { r, sizeof(*r) };
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(&m);

	*passed = -1;
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
	    c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(passed, CMSG_DATA(c), sizeof(int));
	return n;
}

static void read_call(struct cm_holder *h, struct source *s)
{
	struct cm_request request;
	int passed;
	ssize_t n = receive(s->fd, &request, &passed);

	if (n == CM_FRAME_JOIN_BYTES && passed >= 0) {
		add_caller(h, s->channel, passed);
		return;
	}
	if (passed >= 0)
		close(passed);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)			/* the channel itself may live on in a child */
		drop_caller(s->channel, s);
	else if (is_sound(&request, n))
		run_call(h, s, &request);
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
	timerfd_settime(h->timer.fd, 0, &t, NULL);
}

static void read_timer(struct cm_holder *h)
{
	uint64_t count;

	(void)!read(h->timer.fd, &count, sizeof(count));
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
	h->cm = cm_create(env);
	h->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	h->timer = (struct source){
		.kind = SOURCE_TIMER,
		.fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC),
	};
	rc = !h->cm ? -ENOMEM : h->epoll_fd < 0 || h->timer.fd < 0 ? -errno : 0;
	if (!rc)
		rc = watch(h, &h->timer);
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
	if (h->timer.fd >= 0)
		close(h->timer.fd);
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
			read_call(h, s);
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
