/* SPDX-License-Identifier: Apache-2.0 */
/*
 * calls.c - libc's functions that take a descriptor. Each first asks whether the
 * descriptor is a card's at all.
 */
#undef _FORTIFY_SOURCE
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/netlink.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sim/hca/front/descriptor.h"
#include "sim/hca/front/interpose.h"

ssize_t __read_chk(int fd, void *to, size_t n, size_t room);
void __chk_fail(void) __attribute__((noreturn));

static int fail(int error)
{
	errno = error;
	return -1;
}

/* ---- ioctl ------------------------------------------------------------------- */

static int device_ioctl(struct card_file *f, unsigned long request, void *argument)
{
	int rc;

	if (process_is_ours())
		thread_poll_doorbells();
	card_lock();
	rc = f->uverbs ? uverbs_ioctl(f->uverbs, request, (uintptr_t)argument) : -EIO;
	if (f->uverbs)
		card_settle(f->card);
	card_unlock();
	return rc ? fail(-rc) : 0;
}

INTERPOSE int ioctl(int fd, unsigned long request, ...)
{
	struct descriptor *d = descriptor_get(fd);
	va_list args;
	void *argument;
	int rc;

	va_start(args, request);
	argument = va_arg(args, void *);
	va_end(args);
	if (!d)
		return NEXT(ioctl)(fd, request, argument);
	if (d->kind == DESCRIPTOR_DEVICE)
		rc = device_ioctl(&d->device, request, argument);
	else
		rc = NEXT(ioctl)(fd, request, argument);
	descriptor_put(d);
	return rc;
}

/* A thread may be cancelled while it waits. */
static void put(void *descriptor)
{
	descriptor_put(descriptor);
}

/* ---- read and write ------------------------------------------------------------ */

/* The eventfd below does the waiting: it minds O_NONBLOCK, and which signals restart a
 * read, as the kernel does for the real files. */
static ssize_t read_event(struct descriptor *d, int fd, void *to, size_t n)
{
	uint64_t count;
	int rc;

	if (d->is_inherited)
		return fail(EIO);
	do {
		if (NEXT(read)(fd, &count, sizeof(count)) < 0)
			return -1;
		card_lock();
		rc = event_queue_take(d->events, to, n);
		card_unlock();
	} while (rc == -EAGAIN);
	return rc < 0 ? fail(-rc) : rc;
}

static ssize_t write_cm(struct descriptor *d, int fd, const void *command, size_t n)
{
	ssize_t rc;

	if (!cm_channel_asks_for_event(command, n)) {
		card_send_first();
		return cm_channel_write(d->cm, fd, command, n);
	}
	rc = cm_channel_write(d->cm, fd, command, n);
	if (rc > 0)
		card_receive_first();
	return rc;
}

INTERPOSE ssize_t read(int fd, void *to, size_t n)
{
	struct descriptor *d = descriptor_get(fd);
	ssize_t rc;

	if (!d)
		return NEXT(read)(fd, to, n);
	pthread_cleanup_push(put, d);
	if (d->kind == DESCRIPTOR_EVENTS)
		rc = read_event(d, fd, to, n);
	else
		rc = fail(EINVAL);	/* neither node has a read */
	pthread_cleanup_pop(true);
	return rc;
}

INTERPOSE ssize_t __read_chk(int fd, void *to, size_t n, size_t room)
{
	if (n > room)
		__chk_fail();
	return read(fd, to, n);
}

INTERPOSE ssize_t write(int fd, const void *from, size_t n)
{
	struct descriptor *d = descriptor_get(fd);
	ssize_t rc = -EINVAL;		/* commands come by ioctl(), events are read */

	if (!d)
		return NEXT(write)(fd, from, n);
	pthread_cleanup_push(put, d);
	if (d->kind == DESCRIPTOR_CM)
		rc = write_cm(d, fd, from, n);
	pthread_cleanup_pop(true);
	return rc < 0 ? fail((int)-rc) : rc;
}

/* ---- close and dup --------------------------------------------------------------- */

/* What the device itself needs is not the program's to close. */
static bool is_internal(int fd)
{
	return process.host && fd >= 0 &&
	       (fd == process.kick_fd || fd == host_fd(process.host) ||
		fd == host_udp_fd(process.host)) && process_is_ours();
}

INTERPOSE int close(int fd)
{
	if (is_internal(fd))
		return fail(EBADF);
	descriptor_forget(fd);
	return NEXT(close)(fd);
}

INTERPOSE int close_range(unsigned first, unsigned last, int flags)
{
	if (flags & CLOSE_RANGE_CLOEXEC || !process_is_ours())
		return NEXT(close_range)(first, last, flags);
	for (unsigned fd = first; fd <= last && fd < DESCRIPTOR_MAX; fd++)
		if (is_internal((int)fd))
			return fail(EBUSY);
		else
			descriptor_forget((int)fd);
	return NEXT(close_range)(first, last, flags);
}

static int copied(int from, int to)
{
	if (to < 0)
		return to;
	descriptor_forget(to);		/* closed behind our back, as by fclose() */
	descriptor_copy(from, to);
	return to;
}

INTERPOSE int dup(int fd)
{
	return copied(fd, NEXT(dup)(fd));
}

/* dup2() to itself does nothing; else the target is closed first. */
static bool prepare_target(int fd, int to)
{
	if (is_internal(to))
		return false;
	if (fd != to)
		descriptor_forget(to);
	return true;
}

INTERPOSE int dup2(int fd, int to)
{
	if (!prepare_target(fd, to))
		return fail(EBUSY);
	return fd == to ? NEXT(dup2)(fd, to) : copied(fd, NEXT(dup2)(fd, to));
}

INTERPOSE int dup3(int fd, int to, int flags)
{
	if (!prepare_target(fd, to))
		return fail(EBUSY);
	return copied(fd, NEXT(dup3)(fd, to, flags));
}

static int fcntl_any(int fd, int command, void *argument)
{
	int rc = NEXT(fcntl)(fd, command, argument);

	return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? copied(fd, rc) : rc;
}

#define LAST_ARGUMENT(command)						\
	({								\
		va_list args_;						\
		void *argument_;					\
		va_start(args_, command);				\
		argument_ = va_arg(args_, void *);			\
		va_end(args_);						\
		argument_;						\
	})

INTERPOSE int fcntl(int fd, int command, ...)
{
	return fcntl_any(fd, command, LAST_ARGUMENT(command));
}

INTERPOSE int fcntl64(int fd, int command, ...)
{
	return fcntl_any(fd, command, LAST_ARGUMENT(command));
}

/* ---- socket ------------------------------------------------------------------------ */

/* The kernel's own RDMA netlink knows nothing of our devices; without it libibverbs looks
 * into sysfs. */
INTERPOSE int socket(int domain, int type, int protocol)
{
	if (domain == AF_NETLINK && protocol == NETLINK_RDMA && path_has_tree())
		return fail(EPROTONOSUPPORT);
	return copied(-1, NEXT(socket)(domain, type, protocol));
}
