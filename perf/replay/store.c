/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store.c - the process that owns the KV pool. It registers the pool and sleeps:
 * the bytes come and go without it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf/replay/replay.h"

#define PAGE 4096

uint64_t store_size(const struct options *o)
{
	return o->pool + (o->checkpoint_flood ? o->flood : 0);
}

int complain(const char *what)
{
	struct tent_error_info info = { .size = sizeof(info) };

	if (tent_last_error(&info) == 0)
		fprintf(stderr, "%s: %s (error %d)\n", what, info.message, info.error);
	else
		fprintf(stderr, "%s failed\n", what);
	return -1;
}

void *store_open_pool(tent_engine_t engine, const struct options *o)
{
	uint64_t size = store_size(o);
	void *pool;

	if (tent_allocate_memory(engine, &pool, size, "*")) {
		complain("tent_allocate_memory");
		return NULL;
	}
	/* A store has its pages before it takes traffic. */
	for (uint64_t i = 0; i < size; i += PAGE)
		*(volatile uint8_t *)((uint8_t *)pool + i) = 0;
	if (tent_register_memory(engine, pool, size)) {
		complain("tent_register_memory");
		return NULL;
	}
	return pool;
}

/* The store process: its pool, one line to the server, then sleep until the
 * server closes its end of quit_fd. Returns the exit status. */
static int store_main(const struct options *o, const char *url, int ready_fd, int quit_fd)
{
	tent_engine_t engine;
	char name[128];

	snprintf(name, sizeof(name), "store-%d", (int)getpid());
	tent_set_config("engine", url);
	tent_set_config("local_segment_name", name);
	engine = tent_create_engine();
	if (!tent_available(engine))
		return complain("store: tent_create_engine"), 1;
	if (!store_open_pool(engine, o))
		return 1;
	if (tent_segment_name(engine, name, sizeof(name)))
		return complain("store: tent_segment_name"), 1;
	if (write(ready_fd, name, strlen(name)) != (ssize_t)strlen(name))
		return 1;
	close(ready_fd);
	while (read(quit_fd, name, sizeof(name)) < 0 && errno == EINTR)
		;
	tent_destroy_engine(engine);
	return 0;
}

static int await_ready(struct store *s)
{
	ssize_t n, nr = 0;

	do {
		n = read(s->ready_fd, s->segment + nr, sizeof(s->segment) - 1 - (size_t)nr);
		nr += n > 0 ? n : 0;
	} while (n > 0 || (n < 0 && errno == EINTR));
	close(s->ready_fd);
	if (nr > 0)
		return 0;
	fprintf(stderr, "the store process did not start\n");
	store_stop(s);
	return -1;
}

int store_start(struct store *s, const struct options *o, const char *engine_url)
{
	int ready[2], quit[2];

	*s = (struct store) { 0 };
	if (pipe2(ready, O_CLOEXEC) || pipe2(quit, O_CLOEXEC)) {
		perror("pipe");
		return -1;
	}
	fflush(NULL);
	s->pid = fork();
	if (s->pid < 0) {
		perror("fork");
		return -1;
	}
	if (s->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, "replay-store");
		close(ready[0]);
		close(quit[1]);
		_exit(store_main(o, engine_url, ready[1], quit[0]));
	}
	close(ready[1]);
	close(quit[0]);
	s->ready_fd = ready[0];
	s->quit_fd = quit[1];
	return await_ready(s);
}

int store_stop(struct store *s)
{
	int status = 0;

	if (s->pid <= 0)
		return 0;
	close(s->quit_fd);
	while (waitpid(s->pid, &status, 0) < 0 && errno == EINTR)
		;
	s->pid = 0;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
