/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch.c - the events of a userfaultfd. Ranges are registered for write protection, which
 * is never applied: so there are events, and no page fault is any other than before.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/ioctl.h>

#include "sim/hca/mem/sys.h"
#include "sim/hca/mem/umem_list.h"
#include "sim/hca/mem/watch.h"

#define FEATURES (UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMOVE | \
		  UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_PAGEFAULT_FLAG_WP | \
		  UFFD_FEATURE_WP_HUGETLBFS_SHMEM)
#define STACK_BYTES (64u << 10)

static int fd = -1;
static bool is_tried;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void take(const struct uffd_msg *m)
{
	if (m->event == UFFD_EVENT_UNMAP || m->event == UFFD_EVENT_REMOVE)
		umem_pages_went(m->arg.remove.start, m->arg.remove.end - m->arg.remove.start);
	else if (m->event == UFFD_EVENT_REMAP)
		umem_pages_went(m->arg.remap.from, m->arg.remap.len);
}

/* The program may have closed the descriptor, and have another file of that number. */
static bool is_userfaultfd(int number)
{
	struct uffdio_range none = { 0 };

	return syscall(SYS_ioctl, number, UFFDIO_WAKE, &none) < 0 && errno == EINVAL;
}

/* Reading an event lets its cause go on, so no copy may be under way then. */
static void *listen_to(void *arg)
{
	struct pollfd p = { .fd = (int)(intptr_t)arg, .events = POLLIN };
	struct uffd_msg m;

	for (;;) {
		if (syscall(SYS_ppoll, &p, 1, NULL, NULL, 0) < 0)
			continue;
		if (!is_userfaultfd(p.fd))
			return NULL;
		umem_suspend();
		while (syscall(SYS_read, p.fd, &m, sizeof(m)) == sizeof(m))
			take(&m);
		umem_resume();
	}
}

static int open_fd(void)
{
	struct uffdio_api api = { .api = UFFD_API, .features = FEATURES };
	int new = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);

	if (new < 0)
		return -1;
	new = sys_move_up(new);
	if (syscall(SYS_ioctl, new, UFFDIO_API, &api) == 0)
		return new;
	syscall(SYS_close, new);
	return -1;
}

static bool start_thread(int new)
{
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t thread;
	int rc;

	sigfillset(&all);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&thread, &attr, listen_to, (void *)(intptr_t)new);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return !rc;
}

static void start(void)
{
	int new = open_fd();

	if (new >= 0 && !start_thread(new)) {
		syscall(SYS_close, new);
		new = -1;
	}
	fd = new;
}

static struct uffdio_range whole_pages(uint64_t start_address, uint64_t length)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), head = start_address % page;

	return (struct uffdio_range){ start_address - head,
				      (head + length + page - 1) / page * page };
}

void watch_range(uint64_t start_address, uint64_t length)
{
	struct uffdio_register r = { .range = whole_pages(start_address, length),
				     .mode = UFFDIO_REGISTER_MODE_WP };

	pthread_mutex_lock(&lock);
	if (!is_tried)
		start();
	is_tried = true;
	if (fd >= 0)
		syscall(SYS_ioctl, fd, UFFDIO_REGISTER, &r);
	pthread_mutex_unlock(&lock);
}

/* A umem that is being made is in the list before it is watched, so it is either seen here
 * or watched after this. */
void watch_end(uint64_t start_address, uint64_t length)
{
	struct uffdio_range pages = whole_pages(start_address, length);

	pthread_mutex_lock(&lock);
	if (fd >= 0 && !umem_any_overlaps(pages.start, pages.len))
		syscall(SYS_ioctl, fd, UFFDIO_UNREGISTER, &pages);
	pthread_mutex_unlock(&lock);
}

void watch_fork_child(void)
{
	if (fd >= 0)
		syscall(SYS_close, fd);
	fd = -1;
	is_tried = false;
	pthread_mutex_init(&lock, NULL);
}
