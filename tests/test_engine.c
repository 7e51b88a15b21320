/* SPDX-License-Identifier: Apache-2.0 */
/* test_engine.c - an engine's life: what it starts, what it listens at, how it ends. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/backends.h"
#include "ring/order.h"
#include "ring/spin.h"
#include "tests/common/engine_fix.h"

#define SIZE 65536u

static void hold_everything(struct engine_config *c)
{
	c->shm_enable = false;
	c->null_enable = true;
	strcpy(c->null_faults, "pending=1,hold");
}

static void two_pollers(struct engine_config *c)
{
	c->nr_pollers = 2;
}

static void by_hand(struct engine_config *c)
{
	c->caller_mode = true;
}

/* ---- making ------------------------------------------------------------ */

static void an_engine_that_did_nothing_leaves_nothing(void **state)
{
	struct engine_fix f;

	(void)state;
	engine_fix_start(&f, NULL);
	engine_fix_stop(&f);
}

static void bad_faults_name_the_key_and_leave_nothing(void **state)
{
	struct engine_config config;
	struct engine_fix f;
	struct engine *e;
	char error[256];
	int fds, threads;

	(void)state;
	engine_fix_start(&f, NULL);
	fds = engine_fix_count_fds();
	threads = engine_fix_count_threads();
	engine_config_default(&config);
	hold_everything(&config);
	strcpy(config.null_faults, "nonsense");
	assert_int_equal(engine_create(&e, &config, all_backends, error, sizeof(error)),
			 TENT_ERR_CONFIG);
	assert_non_null(strstr(error, "transports/null/faults"));
	assert_int_equal(engine_fix_count_fds(), fds);
	engine_fix_settle(engine_fix_count_threads, threads);
	engine_fix_stop(&f);
}

static void two_engines_have_different_epochs(void **state)
{
	struct engine_fix a, b;
	struct tent_client *ca, *cb;

	(void)state;
	engine_fix_start(&a, NULL);
	engine_fix_start(&b, NULL);
	ca = engine_fix_attach(&a, NULL);
	cb = engine_fix_local(&b);
	assert_int_not_equal(tent_client_epoch(ca), tent_client_epoch(cb));
	tent_client_detach(ca);
	tent_client_detach(cb);
	engine_destroy(b.engine);
	unlink(b.path);
	rmdir(b.folder);
	engine_fix_stop(&a);
}

/* Threads, but for the first, that do not block SIGUSR1. */
static int count_open_to_signals(void)
{
	DIR *d = opendir("/proc/self/task");
	struct dirent *entry;
	int open = 0;

	while ((entry = readdir(d))) {
		unsigned long long blocked = 0;
		char path[300], line[256];
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/task/%s/status", entry->d_name);
		f = atoi(entry->d_name) == getpid() ? NULL : fopen(path, "re");
		while (f && fgets(line, sizeof(line), f)) {
			if (sscanf(line, "SigBlk: %llx", &blocked) == 1)
				open += !(blocked >> (SIGUSR1 - 1) & 1);
		}
		if (f)
			fclose(f);
	}
	closedir(d);
	return open;
}

static void no_thread_of_the_engine_takes_the_programs_signals(void **state)
{
	int open = count_open_to_signals();	/* a sanitizer may have one */
	struct engine_fix f;

	(void)state;
	engine_fix_start(&f, two_pollers);
	assert_int_equal(count_open_to_signals(), open);
	engine_fix_stop(&f);
}

/* The CPUs that the one thread of that name may run on. */
static cpu_set_t affinity_of(const char *name)
{
	DIR *d = opendir("/proc/self/task");
	struct dirent *entry;
	cpu_set_t set;
	int found = 0;

	CPU_ZERO(&set);
	while ((entry = readdir(d))) {
		char path[300], comm[32] = "";
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
		f = fopen(path, "re");
		if (!f)
			continue;
		assert_true(fscanf(f, "%31s", comm) == 1);
		fclose(f);
		if (strcmp(comm, name))
			continue;
		found++;
		assert_int_equal(sched_getaffinity(atoi(entry->d_name), sizeof(set), &set), 0);
	}
	closedir(d);
	assert_int_equal(found, 1);
	return set;
}

static cpu_set_t affinity_of_poller_at(int core)
{
	int threads = engine_fix_count_threads();
	struct engine_config config;
	struct engine *e;
	char error[256];
	cpu_set_t set;

	engine_config_default(&config);
	config.cores[0] = core;
	assert_int_equal(engine_create(&e, &config, all_backends, error, sizeof(error)), 0);
	set = affinity_of("tent-poller");
	engine_destroy(e);
	engine_fix_settle(engine_fix_count_threads, threads);	/* the next is alone again */
	return set;
}

static void a_core_that_is_not_ours_leaves_the_poller_unpinned(void **state)
{
	cpu_set_t ours, pollers;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(ours), &ours), 0);
	pollers = affinity_of_poller_at(1023);
	assert_true(CPU_EQUAL(&pollers, &ours));
}

static void a_core_that_is_ours_is_the_pollers_only_one(void **state)
{
	cpu_set_t ours, pollers;
	int core = 0;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(ours), &ours), 0);
	while (!CPU_ISSET(core, &ours))
		core++;
	pollers = affinity_of_poller_at(core);
	assert_int_equal(CPU_COUNT(&pollers), 1);
	assert_true(CPU_ISSET(core, &pollers));
}

/* ---- listening --------------------------------------------------------- */

static void a_live_socket_is_not_taken_over(void **state)
{
	struct engine_fix f;
	struct engine_config config;
	struct engine *second;
	struct tent_client *c;
	char error[256];

	(void)state;
	engine_fix_start(&f, NULL);
	engine_config_default(&config);
	assert_int_equal(engine_create(&second, &config, all_backends, error, sizeof(error)), 0);
	assert_int_equal(engine_listen(second, f.path), -EADDRINUSE);
	engine_destroy(second);
	c = engine_fix_attach(&f, NULL);	/* its file is still there */
	tent_client_detach(c);
	engine_fix_stop(&f);
}

static void a_stale_socket_is_replaced_and_open_to_all(void **state)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct engine_fix f;
	struct tent_client *c;
	struct stat st;
	char stale[80];
	int sock;

	(void)state;
	engine_fix_start(&f, NULL);
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	snprintf(stale, sizeof(stale), "%s/stale", f.folder);
	strcpy(a.sun_path, stale);
	assert_int_equal(bind(sock, (struct sockaddr *)&a, sizeof(a)), 0);
	close(sock);
	assert_int_equal(engine_listen(f.engine, stale), 0);
	assert_int_equal(stat(stale, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0666);
	assert_int_equal(tent_client_attach(stale, NULL, &c), 0);
	tent_client_detach(c);
	engine_fix_stop(&f);
}

static void other_files_are_not_replaced(void **state)
{
	struct engine_fix f;
	char path[80];
	int fd;

	(void)state;
	engine_fix_start(&f, NULL);
	snprintf(path, sizeof(path), "%s/file", f.folder);
	fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(engine_listen(f.engine, path), -EEXIST);
	assert_int_equal(unlink(path), 0);
	memset(path, 'x', sizeof(path));
	path[0] = '/';
	assert_int_equal(engine_listen(f.engine, ""), -ENAMETOOLONG);
	engine_fix_stop(&f);
}

/* ---- rings ------------------------------------------------------------- */

static uint32_t poller_of_next_ring(struct raw *r)
{
	struct ctl_message m = { .nr_fds = 0 };
	struct tent_ctl_ring_open *o = (void *)m.bytes;

	o->slot_count = 8;
	assert_int_equal(raw_call(r, &m, TENT_CTL_RING_OPEN, sizeof(*o)), 0);
	ctl_close_fds(&m);
	return ((const struct tent_ctl_ring_open_reply *)m.bytes)->poller;
}

/* Prints the number of the poller that a stranger's rings come to. */
static int stranger_rings(struct engine_fix *f)
{
	struct raw r;
	uint32_t first;

	raw_attach(&r, f->path, NULL);
	first = poller_of_next_ring(&r);
	for (int i = 0; i < 5; i++)
		need(poller_of_next_ring(&r) == first);
	return 10 + (int)first;
}

static void a_tenants_rings_share_a_poller_and_tenants_spread(void **state)
{
	struct engine_fix f;
	struct raw r, other;
	uint32_t ours;

	(void)state;
	engine_fix_start(&f, two_pollers);
	raw_attach(&r, f.path, NULL);
	raw_attach(&other, f.path, NULL);
	ours = poller_of_next_ring(&r);
	assert_int_equal(poller_of_next_ring(&r), ours);
	assert_int_equal(poller_of_next_ring(&other), ours);
	assert_int_equal(engine_fix_child(&f, 65534, stranger_rings), 10 + !ours);
	close(r.sock);
	close(other.sock);
	engine_fix_stop(&f);
}

static bool yields(const struct raw_ring *ring)
{
	return load_acquire(&ring->engine_line->flags) & TENT_ENGINE_SPIN_YIELD;
}

/* Leaves the thread, and those that it starts, two of the CPUs that it had. */
static void keep_two_cores(const cpu_set_t *all)
{
	cpu_set_t few;

	CPU_ZERO(&few);
	for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&few) < 2; core++)
		if (CPU_ISSET(core, all))
			CPU_SET(core, &few);
	assert_int_equal(sched_setaffinity(0, sizeof(few), &few), 0);
}

static void spinning_yields_while_there_are_more_spinners_than_cores(void **state)
{
	struct raw_ring rings[2];
	struct engine_fix f;
	uint32_t cores;
	cpu_set_t all;
	struct raw r;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	keep_two_cores(&all);
	cores = spin_usable_cores();
	engine_fix_start(&f, NULL);
	raw_attach(&r, f.path, NULL);
	for (uint32_t i = 0; i < cores; i++)
		assert_int_equal(raw_ring_open(&r, 8, &rings[i]), 0);
	while (!yields(&rings[0]))	/* the poller and cores rings: one too many */
		sched_yield();
	for (uint32_t i = 1; i < cores; i++) {
		struct ctl_message m = { .nr_fds = 0 };

		((struct tent_ctl_id *)m.bytes)->id = rings[i].id;
		assert_int_equal(raw_call(&r, &m, TENT_CTL_RING_CLOSE,
					  sizeof(struct tent_ctl_id)), 0);
		raw_ring_forget(&rings[i]);
	}
	while (cores > 1 && yields(&rings[0]))
		sched_yield();
	raw_ring_forget(&rings[0]);
	close(r.sock);
	engine_fix_stop(&f);
	assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
}

/* ---- the end ----------------------------------------------------------- */

static void stop_with_work_in_flight(void (*tune)(struct engine_config *), struct engine_fix *f)
{
	struct tent_client *c, *local;
	struct tent_ring *ring, *mine;
	struct tent_completion done;
	struct tent_request_v1 r;
	uint8_t *m, *lm;

	engine_fix_start(f, tune);
	c = engine_fix_attach(f, NULL);
	local = engine_fix_local(f);
	m = engine_fix_memory(c, SIZE);
	lm = engine_fix_memory(local, SIZE);
	ring = engine_fix_ring(c);
	mine = engine_fix_ring(local);
	for (int i = 0; i < 32; i++) {
		r = engine_fix_request(TENT_OPCODE_WRITE, m, 0, m + 4096, 64);
		engine_fix_submit(ring, &r);
		r = engine_fix_request(TENT_OPCODE_WRITE, lm, 0, lm + 4096, 64);
		engine_fix_submit(mine, &r);
	}
	/* A batch that the engine never took ends with its ring, without a word. */
	while (!tent_ring_consumed(ring, 32) || !tent_ring_consumed(mine, 32))
		sched_yield();
	engine_destroy(f->engine);
	for (int i = 0; i < 64; i++) {
		assert_int_equal(tent_ring_poll(i % 2 ? ring : mine, &done, 1), 1);
		assert_int_equal(done.rule, TENT_RULE_ENGINE_STOPPED);
		assert_int_equal(done.status, TENT_STATUS_CANCELED);
	}
	assert_int_equal(tent_ring_end_rule(ring), TENT_RULE_ENGINE_STOPPED);
	tent_ring_close(ring);
	tent_ring_close(mine);
	tent_client_detach(c);
	tent_client_detach(local);
	assert_int_equal(rmdir(f->folder), 0);
	engine_fix_settle(engine_fix_count_fds, f->fds);
	engine_fix_settle(engine_fix_count_threads, f->threads);
}

static void stopping_ends_every_request_in_flight_with_the_reason(void **state)
{
	struct engine_fix f;

	(void)state;
	stop_with_work_in_flight(hold_everything, &f);
}

static void hold_by_hand(struct engine_config *c)
{
	hold_everything(c);
	by_hand(c);
}

/* Published and not looked at: a batch that nobody took is not ended, the ring is. */
static void in_caller_mode_the_control_thread_ends_what_the_caller_left(void **state)
{
	struct engine_fix f;
	struct tent_client *c;
	struct tent_ring *ring;
	struct tent_completion done;
	struct tent_request_v1 r;
	uint8_t *m;

	(void)state;
	engine_fix_start(&f, hold_by_hand);
	c = engine_fix_local(&f);
	m = engine_fix_memory(c, SIZE);
	ring = engine_fix_ring(c);
	r = engine_fix_request(TENT_OPCODE_WRITE, m, 0, m + 4096, 64);
	engine_fix_submit(ring, &r);
	while (!tent_ring_consumed(ring, 1))
		engine_drive(f.engine);
	engine_destroy(f.engine);
	assert_int_equal(tent_ring_poll(ring, &done, 1), 1);
	assert_int_equal(done.rule, TENT_RULE_ENGINE_STOPPED);
	tent_ring_close(ring);
	tent_client_detach(c);
	rmdir(f.folder);
}

static void caller_mode_moves_bytes_when_driven(void **state)
{
	struct engine_fix f;
	struct tent_client *c;
	struct tent_ring *ring;
	struct tent_completion done;
	struct tent_request_v1 r;
	uint8_t *m;

	(void)state;
	engine_fix_start(&f, by_hand);
	engine_fix_settle(engine_fix_count_threads, f.threads + 2); /* control, tcp; no poller */
	c = engine_fix_local(&f);
	m = engine_fix_memory(c, SIZE);
	ring = engine_fix_ring(c);
	memset(m, 7, 4096);
	r = engine_fix_request(TENT_OPCODE_WRITE, m, 0, m + 4096, 4096);
	engine_fix_submit(ring, &r);
	while (!tent_ring_poll(ring, &done, 1))
		engine_drive(f.engine);
	assert_int_equal(done.status, TENT_STATUS_COMPLETED);
	assert_memory_equal(m, m + 4096, 4096);
	tent_ring_close(ring);
	tent_client_detach(c);
	engine_fix_stop(&f);
}

static uint32_t driving_stop;

static void *drive_main(void *engine)
{
	while (!load_acquire(&driving_stop))
		engine_drive(engine);
	return NULL;
}

static void many_threads_may_drive_one_engine(void **state)
{
	struct engine_fix f;
	struct tent_client *c;
	struct tent_ring *ring;
	pthread_t threads[3];
	uint8_t *m;

	(void)state;
	store_release(&driving_stop, 0u);
	engine_fix_start(&f, by_hand);
	c = engine_fix_local(&f);
	m = engine_fix_memory(c, SIZE);
	ring = engine_fix_ring(c);
	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, drive_main, f.engine);
	for (int i = 0; i < 500; i++) {
		struct tent_completion done;

		memset(m, i, 256);
		done = engine_fix_move(ring, TENT_OPCODE_WRITE, m, 0, m + 4096, 256);
		assert_int_equal(done.status, TENT_STATUS_COMPLETED);
		assert_memory_equal(m, m + 4096, 256);
	}
	store_release(&driving_stop, 1u);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	tent_ring_close(ring);
	tent_client_detach(c);
	engine_fix_stop(&f);
}

/* ---- fork -------------------------------------------------------------- */

static int use_inherited(struct engine_fix *f)
{
	need(engine_attach_local(f->engine) == -ESRCH);
	need(engine_listen(f->engine, "/tmp/never") == -ESRCH);
	engine_destroy(f->engine);	/* is ignored */
	return 0;
}

static void a_forked_child_cannot_use_or_end_its_parents_engine(void **state)
{
	struct engine_fix f;
	struct tent_client *c;
	struct tent_ring *ring;
	uint8_t *m;

	(void)state;
	engine_fix_start(&f, NULL);
	c = engine_fix_local(&f);
	m = engine_fix_memory(c, SIZE);
	ring = engine_fix_ring(c);
	assert_int_equal(engine_fix_child(&f, 0, use_inherited), 0);
	assert_int_equal(engine_fix_move(ring, TENT_OPCODE_WRITE, m, 0, m + 64, 64).status,
			 TENT_STATUS_COMPLETED);
	tent_ring_close(ring);
	tent_client_detach(c);
	engine_fix_stop(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_engine_that_did_nothing_leaves_nothing),
		cmocka_unit_test(bad_faults_name_the_key_and_leave_nothing),
		cmocka_unit_test(two_engines_have_different_epochs),
		cmocka_unit_test(no_thread_of_the_engine_takes_the_programs_signals),
		cmocka_unit_test(a_core_that_is_not_ours_leaves_the_poller_unpinned),
		cmocka_unit_test(a_core_that_is_ours_is_the_pollers_only_one),
		cmocka_unit_test(a_live_socket_is_not_taken_over),
		cmocka_unit_test(a_stale_socket_is_replaced_and_open_to_all),
		cmocka_unit_test(other_files_are_not_replaced),
		cmocka_unit_test(a_tenants_rings_share_a_poller_and_tenants_spread),
		cmocka_unit_test(spinning_yields_while_there_are_more_spinners_than_cores),
		cmocka_unit_test(stopping_ends_every_request_in_flight_with_the_reason),
		cmocka_unit_test(in_caller_mode_the_control_thread_ends_what_the_caller_left),
		cmocka_unit_test(caller_mode_moves_bytes_when_driven),
		cmocka_unit_test(many_threads_may_drive_one_engine),
		cmocka_unit_test(a_forked_child_cannot_use_or_end_its_parents_engine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
