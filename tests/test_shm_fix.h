/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_shm_fix.h - an shm instance with two queues, and a poller's loop around
 * one that sleeps as a real one does: on the eventfd, at most 10 ms.
 */
#ifndef TENT_TEST_SHM_FIX_H
#define TENT_TEST_SHM_FIX_H

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/backends.h"
#include "io/shm.h"
#include "ring/order.h"

struct shm_fix {
	struct backend_instance *inst;
	struct backend_queue *queue, *queue2;
	int event_fd, event_fd2;
};

static inline int fix_setup(void **state)
{
	struct backend_options o = { .faults = "", .stream_bytes = 65536 };
	struct shm_fix *f = calloc(1, sizeof(*f));

	f->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	f->event_fd2 = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (shm_backend.open(&f->inst, &o) ||
	    shm_backend.queue_open(f->inst, f->event_fd, &f->queue) ||
	    shm_backend.queue_open(f->inst, f->event_fd2, &f->queue2))
		return -1;
	*state = f;
	return 0;
}

static inline int fix_teardown(void **state)
{
	struct shm_fix *f = *state;

	shm_backend.queue_close(f->queue);
	shm_backend.queue_close(f->queue2);
	shm_backend.close(f->inst);
	close(f->event_fd);
	close(f->event_fd2);
	free(f);
	return 0;
}

static inline void fix_fill(uint8_t *p, size_t n, uint32_t seed)
{
	for (size_t i = 0; i < n; i++) {
		seed = seed * 1664525 + 1013904223;
		p[i] = (uint8_t)(seed >> 24);
	}
}

static inline struct transfer fix_transfer(struct shm_fix *f, int op, struct region *local,
					   uint64_t local_at, struct region *remote,
					   uint64_t remote_at, uint64_t length)
{
	return (struct transfer){
		.queue = f->queue, .local = local, .remote = remote,
		.local_addr = local->base + local_at,
		.remote_addr = remote->base + remote_at,
		.length = length, .opcode = (uint8_t)op,
	};
}

/* One turn; when it brought nothing, sleeps until the eventfd or 10 ms. */
static inline struct transfer *fix_poll_on(struct backend_queue *q, int fd)
{
	struct transfer *t = shm_backend.poll(q);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint64_t count;

	if (t)
		return t;
	if (poll(&p, 1, 10) == 1 && read(fd, &count, sizeof(count)) < 0)
		return NULL;
	return shm_backend.poll(q);
}

static inline struct transfer *fix_poll(struct shm_fix *f)
{
	return fix_poll_on(f->queue, f->event_fd);
}

/* Posts nr transfers and polls until all have ended. */
static inline void fix_run_on(struct backend_queue *q, int fd, struct transfer *t, int nr)
{
	int left = nr;

	for (int i = 0; i < nr; i++)
		left -= shm_backend.post(q, &t[i], UINT64_MAX) == POST_DONE;
	while (left > 0)
		for (struct transfer *e = fix_poll_on(q, fd); e; e = e->next)
			left--;
}

static inline void fix_run(struct shm_fix *f, struct transfer *t, int nr)
{
	fix_run_on(f->queue, f->event_fd, t, nr);
}

/* Entries of a folder of /proc. */
static inline int fix_count(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static inline void *fix_tell_tid(void *tid)
{
	*(int *)tid = (int)syscall(SYS_gettid);
	return NULL;
}

/* Threads that there are without ours. A sanitizer keeps one of its own from the first on;
 * one that was joined is in /proc a moment longer. */
static inline int fix_settle_threads(void)
{
	pthread_t thread;
	char path[64];
	int tid = 0;

	assert_int_equal(pthread_create(&thread, NULL, fix_tell_tid, &tid), 0);
	pthread_join(thread, NULL);
	snprintf(path, sizeof(path), "/proc/self/task/%d", tid);
	while (access(path, F_OK) == 0)
		sched_yield();
	return fix_count("/proc/self/task");
}

#endif /* TENT_TEST_SHM_FIX_H */
