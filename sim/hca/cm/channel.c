/* SPDX-License-Identifier: Apache-2.0 */
/*
 * channel.c - the process's end of an event channel: carries commands to the holder, and
 * replies to where the program wants them. The program's pointers are not trusted: the
 * kernel copies, so that a bad one is -EFAULT.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdma/rdma_user_cm.h>

#include "sim/hca/cm/cm.h"
#include "sim/hca/cm/frame.h"
#include "sim/hca/mem/user.h"

struct cm_channel {
	/* From a request until its reply's byte is taken: whoever finds the byte then knows
	 * that an event waits. */
	pthread_mutex_t lock;
	int fd, calls_fd;
	bool is_inherited;		/* calls_fd is the parent's */
	uint64_t cookie;
};

/* ---- opening ----------------------------------------------------------------------------- */

static int cookie_of(int fd, uint64_t *cookie)
{
	socklen_t n = sizeof(*cookie);

	return getsockopt(fd, SOL_SOCKET, SO_COOKIE, cookie, &n) ? -errno : 0;
}

int cm_channel_open(struct cm_channel **out, int holder_fds[2])
{
	struct cm_channel *c = calloc(1, sizeof(*c));
	int events[2], calls[2], rc;

	if (!c)
		return -ENOMEM;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, events))
		goto free_channel;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, calls))
		goto close_events;
	if (cookie_of(events[0], &c->cookie))
		goto close_calls;
	pthread_mutex_init(&c->lock, NULL);
	c->fd = events[0];
	c->calls_fd = calls[0];
	holder_fds[0] = events[1];
	holder_fds[1] = calls[1];
	*out = c;
	return 0;

close_calls:
	rc = errno;
	close(calls[0]);
	close(calls[1]);
	errno = rc;
close_events:
	rc = errno;
	close(events[0]);
	close(events[1]);
	errno = rc;
free_channel:
	rc = -errno;
	free(c);
	return rc;
}

int cm_channel_fd(const struct cm_channel *c)
{
	return c->fd;
}

void cm_channel_close(struct cm_channel *c)
{
	close(c->calls_fd);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

/* ---- after a fork ----------------------------------------------------------------------- */

void cm_channel_inherit(struct cm_channel *c)
{
	/* Whoever held it is in the parent. */
	pthread_mutex_init(&c->lock, NULL);
	c->is_inherited = true;
}

static int send_socket(int to, int fd)
{
	_Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct cmsghdr *h = (struct cmsghdr *)control;
	char byte[CM_FRAME_JOIN_BYTES] = { 0 };
	struct iovec iov = { byte, sizeof(byte) };
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	ssize_t n;

	*h = (struct cmsghdr){ .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS,
			       .cmsg_len = CMSG_LEN(sizeof(fd)) };
	memcpy(CMSG_DATA(h), &fd, sizeof(fd));
	do {
		n = sendmsg(to, &m, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n == sizeof(byte) ? 0 : -EIO;
}

/* On one socket, parent and child would take each other's answers. */
static int leave_the_parent(struct cm_channel *c)
{
	int calls[2], rc;

	if (!c->is_inherited)
		return 0;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, calls))
		return -errno;
	rc = send_socket(c->calls_fd, calls[1]);
	close(calls[1]);
	if (rc) {
		close(calls[0]);
		return rc;
	}
	close(c->calls_fd);
	c->calls_fd = calls[0];
	c->is_inherited = false;
	return 0;
}

/* ---- calls ---------------------------------------------------------------------------------- */

static int exchange(int fd, const struct cm_request *r, struct cm_answer *a)
{
	size_t bytes = offsetof(struct cm_request, option) + r->option_bytes;
	ssize_t n;

	do {
		n = send(fd, r, bytes, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n != (ssize_t)bytes)
		return -EIO;		/* the holder is gone, and the device with it */
	do {
		n = recv(fd, a, sizeof(*a), 0);
	} while (n < 0 && errno == EINTR);
	return n == sizeof(*a) && a->reply_bytes <= sizeof(a->reply) ? 0 : -EIO;
}

static void take_byte(int fd)
{
	char byte;

	(void)!recv(fd, &byte, 1, MSG_DONTWAIT);
}

/* A thread that is cancelled may end where it waits for an event, not here. */
static int call(struct cm_channel *c, int fd, int old_fd, const struct cm_request *r,
		struct cm_answer *a)
{
	int cancel_state, rc;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	pthread_mutex_lock(&c->lock);
	rc = leave_the_parent(c);
	if (!rc)
		rc = exchange(c->calls_fd, r, a);
	if (!rc && a->flags & CM_ANSWER_DRAINED)
		take_byte(fd);
	if (!rc && a->flags & CM_ANSWER_OLD_DRAINED)
		take_byte(old_fd);
	pthread_mutex_unlock(&c->lock);
	pthread_setcancelstate(cancel_state, NULL);
	return rc ? rc : a->result;
}

/* 0: there is a byte. It is put into the caller's frame: that of a thread which is cancelled
 * here is jumped over, and asan would take what is in it for still alive. */
static int peek(int fd, int flags, char *byte)
{
	ssize_t n = recv(fd, byte, 1, MSG_PEEK | flags);

	return n > 0 ? 0 : n == 0 ? -EIO : -errno;
}

static void close_file(void *file)
{
	close(*(int *)file);
}

/* Until an event comes, or a signal. In the kernel the call itself keeps the file, when
 * another thread closes fd meanwhile: so here too. */
static int wait_for_event(struct cm_channel *c, int fd, const struct cm_request *r,
			  struct cm_answer *a)
{
	int file = fcntl(fd, F_DUPFD_CLOEXEC, 3), rc;
	char byte;

	if (file < 0)
		return -errno;
	pthread_cleanup_push(close_file, &file);
	do {
		rc = peek(file, 0, &byte);
		if (!rc)
			rc = call(c, file, -1, r, a);
	} while (rc == -EAGAIN);
	pthread_cleanup_pop(true);
	return rc;
}

/* Programs poll by asking, so the answer that none waits must cost no more than system
 * calls: the holder is asked only when there is one, or the command is wrong anyway. It
 * has none when another thread was faster, which then takes the byte. */
static int get_event(struct cm_channel *c, int fd, const struct cm_request *r,
		     struct cm_answer *a)
{
	bool is_sound = r->in_bytes >= sizeof(struct rdma_ucm_get_event) &&
			r->out_bytes >= offsetof(struct rdma_ucm_event_resp, reserved);
	char byte;
	int rc = is_sound ? peek(fd, MSG_DONTWAIT, &byte) : 0, flags;

	if (!rc)
		rc = call(c, fd, -1, r, a);
	if (rc != -EAGAIN)
		return rc;
	flags = fcntl(fd, F_GETFL);
	if (flags < 0)
		return -errno;
	return flags & O_NONBLOCK ? rc : wait_for_event(c, fd, r, a);
}

static int add_option(struct cm_request *r)
{
	struct rdma_ucm_set_option cmd;

	memcpy(&cmd, r->in, sizeof(cmd));
	if (cmd.optlen > sizeof(r->option))
		return -EINVAL;
	r->option_bytes = cmd.optlen;
	return user_read(r->option, cmd.optval, cmd.optlen);
}

static int add_old_channel(struct cm_request *r, int *old_fd)
{
	struct rdma_ucm_migrate_id cmd;

	memcpy(&cmd, r->in, sizeof(cmd));
	*old_fd = (int)cmd.fd;
	if (fcntl(*old_fd, F_GETFL) < 0)
		return -ENOENT;
	return cookie_of(*old_fd, &r->old_cookie) ? -EINVAL : 0;
}

static int fill_request(struct cm_request *r, const void *command, size_t n, int *old_fd)
{
	struct rdma_ucm_cmd_hdr hdr;
	int rc;

	if (n < sizeof(hdr))
		return -EINVAL;
	rc = user_read(&hdr, (uintptr_t)command, sizeof(hdr));
	if (rc)
		return rc;
	if (hdr.in + sizeof(hdr) > n)
		return -EINVAL;
	r->command = hdr.cmd;
	r->in_bytes = hdr.in < sizeof(r->in) ? hdr.in : (uint16_t)sizeof(r->in);
	r->out_bytes = hdr.out;
	rc = user_read(r->in, (uintptr_t)command + sizeof(hdr), r->in_bytes);
	if (!rc && hdr.cmd == RDMA_USER_CM_CMD_SET_OPTION)
		rc = add_option(r);
	if (!rc && hdr.cmd == RDMA_USER_CM_CMD_MIGRATE_ID)
		rc = add_old_channel(r, old_fd);
	return rc;
}

bool cm_channel_asks_for_event(const void *command, size_t n)
{
	struct rdma_ucm_cmd_hdr hdr;

	return n >= sizeof(hdr) && !user_read(&hdr, (uintptr_t)command, sizeof(hdr)) &&
	       hdr.cmd == RDMA_USER_CM_CMD_GET_EVENT;
}

ssize_t cm_channel_write(struct cm_channel *c, int fd, const void *command, size_t n)
{
	struct cm_request r = { .cookie = c->cookie };
	struct cm_answer a;
	int old_fd = -1, rc;

	rc = fill_request(&r, command, n, &old_fd);
	if (rc)
		return rc;
	rc = r.command == RDMA_USER_CM_CMD_GET_EVENT ? get_event(c, fd, &r, &a)
						    : call(c, fd, old_fd, &r, &a);
	if (!rc && a.reply_bytes)
		rc = user_write(a.response, a.reply, a.reply_bytes);
	return rc ? rc : (ssize_t)n;
}
