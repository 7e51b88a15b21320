/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_file_fix.h - a file backend with one queue, a file in /var/tmp, memory, and a
 * poller's loop that sleeps as a real one does: on the eventfd, at most 10 ms.
 */
#ifndef TENT_TEST_FILE_FIX_H
#define TENT_TEST_FILE_FIX_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE	/* O_DIRECT */
#endif

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/backends.h"
#include "io/file.h"
#include "tests/common/pattern.h"

#define SIZE	(4u << 20)	/* of the memory */
#define DEPTH	8u
#define CHUNK	65536u
#define PAGE	4096u

struct fix {
	struct backend_instance *inst;
	struct backend_queue *queue;
	int event_fd;
	char path[64];
	struct file file;
	struct segment segment;
	struct region local, remote;
	uint8_t *memory;	/* page-aligned */
};

static inline void open_file(struct fix *f, const char *path)
{
	f->file = (struct file){
		.fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600),
		.direct_fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC),
		.direct_align = PAGE, .writable = true,
	};
	assert_true(f->file.fd >= 0);
	assert_int_equal(file_backend.file_open(f->inst, &f->file), 0);
	f->remote = (struct region){ .end = INT64_MAX, .file = &f->file,
				     .segment = &f->segment };
}

static inline void close_file(struct fix *f)
{
	file_backend.file_close(f->inst, &f->file);
	close(f->file.fd);
	if (f->file.direct_fd >= 0)
		close(f->file.direct_fd);
}

static inline int start(void **state, bool io_uring, const struct file_io *io)
{
	struct backend_options o = { .faults = "", .file = {
		.depth = DEPTH, .chunk_bytes = CHUNK, .workers = 2, .direct = true,
		.io_uring = io_uring } };
	struct fix *f = calloc(1, sizeof(*f));

	f->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_int_equal(file_backend.open(&f->inst, &o), 0);
	assert_int_equal(file_backend.queue_open(f->inst, f->event_fd, &f->queue), 0);
	if (io)
		assert_int_equal(file_start((struct file_instance *)f->inst, io), 0);
	strcpy(f->path, "/var/tmp/tent-file-XXXXXX");
	close(mkstemp(f->path));
	open_file(f, f->path);
	f->memory = aligned_alloc(PAGE, SIZE);
	pattern_fill(f->memory, SIZE, 1);
	/* Its owner sees it elsewhere. */
	f->local = (struct region){ .base = 0x100000, .end = 0x100000 + SIZE,
				    .addr = f->memory };
	*state = f;
	return 0;
}

static inline int stop(void **state)
{
	struct fix *f = *state;

	close_file(f);
	unlink(f->path);
	file_backend.queue_close(f->queue);
	file_backend.close(f->inst);
	close(f->event_fd);
	free(f->memory);
	free(f);
	return 0;
}

static inline struct file_queue *queue_of(const struct fix *f)
{
	return (struct file_queue *)f->queue;
}

static inline struct transfer make(struct fix *f, int op, uint64_t at, uint64_t offset,
			    uint64_t length)
{
	return (struct transfer){
		.local = &f->local, .remote = &f->remote, .queue = f->queue,
		.local_addr = f->local.base + at, .remote_addr = offset,
		.length = length, .opcode = (uint8_t)op,
	};
}

/* One turn; when it brought nothing, sleeps as a poller does. */
static inline struct transfer *turn(struct fix *f)
{
	struct transfer *t = file_backend.poll(f->queue);
	struct pollfd p = { .fd = f->event_fd, .events = POLLIN };
	uint64_t count;

	if (t)
		return t;
	if (poll(&p, 1, 10) == 1 && read(f->event_fd, &count, sizeof(count)) < 0)
		return NULL;
	return file_backend.poll(f->queue);
}

static inline void run(struct fix *f, struct transfer *t)
{
	enum post_result r = file_backend.post(f->queue, t, 1);
	struct transfer *ended = NULL;

	if (r == POST_DONE || r == POST_FAILED) {
		assert_int_equal(r == POST_DONE, t->status == TENT_STATUS_COMPLETED);
		return;
	}
	assert_int_equal(r, POST_PENDING);
	while (!ended)
		ended = turn(f);
	assert_ptr_equal(ended, t);
	assert_null(ended->next);
}

static inline void completed(const struct transfer *t)
{
	if (t->status != TENT_STATUS_COMPLETED)
		fail_msg("ended with %s after %llu bytes", tent_rule_name(t->rule),
			 (unsigned long long)t->done);
	assert_int_equal(t->error, 0);
	assert_int_equal(t->rule, 0);
	assert_int_equal(t->done, t->length);
}

static inline void failed(const struct transfer *t, uint16_t rule)
{
	assert_string_equal(tent_rule_name(t->rule), tent_rule_name(rule));
	assert_int_equal(t->error, tent_rule_error(rule));
	assert_int_not_equal(t->status, TENT_STATUS_COMPLETED);
	assert_true(t->done < t->length);
}

static inline void move(struct fix *f, int op, uint64_t at, uint64_t offset, uint64_t length)
{
	struct transfer t = make(f, op, at, offset, length);

	run(f, &t);
	completed(&t);
}

#endif /* TENT_TEST_FILE_FIX_H */
