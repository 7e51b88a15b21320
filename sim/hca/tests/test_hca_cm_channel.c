/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hca_cm_channel.c - an event channel between a process and the holder, a thread here:
 * what poll() says, when GET_EVENT waits, what a bad pointer does, and what is left when a
 * descriptor closes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "sim/hca/cm/cm.h"
#include "sim/hca/cm/core.h"
#include "sim/hca/tests/common/asleep.h"
#include "sim/hca/tests/common/cm_env.h"

enum { UID = 0x11 };

/* ---- the holder: one device, that reaches only itself -------------------------------- */

static struct cm_holder *holder;
static pthread_t holder_thread;
static pthread_mutex_t holder_lock = PTHREAD_MUTEX_INITIALIZER;
static int stop_pipe[2];

static struct {
	struct hca_packet p;
	uint8_t bytes[CM_MAD_BYTES];
} wire[64];
static int nr_wire;

static void env_send(void *ctx, uint32_t device, const struct hca_packet *p)
{
	(void)ctx;
	(void)device;
	if (nr_wire == 64)
		return;
	wire[nr_wire].p = *p;
	memcpy(wire[nr_wire].bytes, p->payload, CM_MAD_BYTES);
	wire[nr_wire].p.payload = wire[nr_wire].bytes;
	wire[nr_wire++].p.route.port = 1;
}

static uint64_t env_now(void *ctx)
{
	struct timespec t;

	(void)ctx;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *run_holder(void *arg)
{
	struct pollfd p[2] = {
		{ .fd = cm_holder_fd(holder), .events = POLLIN },
		{ .fd = stop_pipe[0], .events = POLLIN },
	};
	int i;

	while (poll(p, 2, -1) > 0 && !p[1].revents) {
		pthread_mutex_lock(&holder_lock);
		cm_holder_run(holder);
		for (i = 0; i < nr_wire; i++)
			cm_holder_packet(holder, 0, &wire[i].p);
		nr_wire = 0;
		pthread_mutex_unlock(&holder_lock);
	}
	return arg;
}

static int setup(void **state)
{
	struct cm_env env = cm_env_of_one_port(env_send, env_now);

	(void)state;
	nr_wire = 0;
	return cm_holder_create(&holder, &env) || pipe(stop_pipe) ||
	       pthread_create(&holder_thread, NULL, run_holder, NULL);
}

static int teardown(void **state)
{
	(void)state;
	close(stop_pipe[1]);
	pthread_join(holder_thread, NULL);
	close(stop_pipe[0]);
	cm_holder_destroy(holder);
	return 0;
}

/* ---- the process ------------------------------------------------------------------------- */

static struct cm_channel *open_channel(void)
{
	struct cm_channel *c;
	int fds[2];

	assert_int_equal(cm_channel_open(&c, fds), 0);
	pthread_mutex_lock(&holder_lock);
	assert_int_equal(cm_holder_channel(holder, fds), 0);
	pthread_mutex_unlock(&holder_lock);
	return c;
}

static void close_channel(struct cm_channel *c)
{
	close(cm_channel_fd(c));
	cm_channel_close(c);
}

static ssize_t run(struct cm_channel *c, uint32_t command, const void *in, uint16_t n,
		   uint16_t out)
{
	struct rdma_ucm_cmd_hdr hdr = { .cmd = command, .in = n, .out = out };
	uint8_t bytes[512];

	memcpy(bytes, &hdr, sizeof(hdr));
	memcpy(bytes + sizeof(hdr), in, n);
	return cm_channel_write(c, cm_channel_fd(c), bytes, sizeof(hdr) + n);
}

#define RUN(c, name, in, out) run(c, RDMA_USER_CM_CMD_##name, &(in), sizeof(in), out)
#define DONE(in) ((ssize_t)(sizeof(struct rdma_ucm_cmd_hdr) + sizeof(in)))

static uint32_t create(struct cm_channel *c)
{
	struct rdma_ucm_create_id_resp resp = { .id = 99 };
	struct rdma_ucm_create_id cmd = {
		.uid = UID, .response = (uintptr_t)&resp, .ps = RDMA_PS_TCP,
	};

	assert_int_equal(RUN(c, CREATE_ID, cmd, sizeof(resp)), DONE(cmd));
	return resp.id;
}

static void resolve(struct cm_channel *c, uint32_t id)
{
	struct rdma_ucm_resolve_ip cmd = { .id = id };
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(7),
				  .sin_addr.s_addr = htonl(0x0a000001) };

	memcpy(&cmd.dst_addr, &to, sizeof(to));
	assert_int_equal(RUN(c, RESOLVE_IP, cmd, 0), DONE(cmd));
}

static ssize_t get_event(struct cm_channel *c, struct rdma_ucm_event_resp *e)
{
	struct rdma_ucm_get_event cmd = { .response = (uintptr_t)e };

	return RUN(c, GET_EVENT, cmd, sizeof(*e));
}

static uint32_t destroy(struct cm_channel *c, uint32_t id)
{
	struct rdma_ucm_destroy_id_resp resp;
	struct rdma_ucm_destroy_id cmd = { .response = (uintptr_t)&resp, .id = id };

	assert_int_equal(RUN(c, DESTROY_ID, cmd, sizeof(resp)), DONE(cmd));
	return resp.events_reported;
}

static bool is_readable(const struct cm_channel *c)
{
	struct pollfd p = { .fd = cm_channel_fd(c), .events = POLLIN };

	return poll(&p, 1, 0) == 1 && p.revents == POLLIN;
}

/* ---- tests --------------------------------------------------------------------------------- */

static void test_poll_says_whether_an_event_waits(void **state)
{
	struct cm_channel *c = open_channel();
	uint32_t one = create(c), two = create(c);
	struct rdma_ucm_event_resp e;

	(void)state;
	fcntl(cm_channel_fd(c), F_SETFL, O_NONBLOCK);
	assert_false(is_readable(c));
	assert_int_equal(get_event(c, &e), -EAGAIN);
	resolve(c, one);
	resolve(c, two);
	assert_true(is_readable(c));
	assert_true(get_event(c, &e) > 0);
	assert_int_equal(e.uid, UID);
	assert_int_equal(e.id, one);
	assert_true(is_readable(c));
	assert_true(get_event(c, &e) > 0);
	assert_int_equal(e.id, two);
	assert_false(is_readable(c));
	assert_int_equal(get_event(c, &e), -EAGAIN);
	assert_int_equal(destroy(c, one), 1);
	close_channel(c);
}

static void test_destroy_takes_unread_events_away(void **state)
{
	struct cm_channel *c = open_channel();
	uint32_t id = create(c);

	(void)state;
	resolve(c, id);
	assert_true(is_readable(c));
	assert_int_equal(destroy(c, id), 0);
	assert_false(is_readable(c));
	close_channel(c);
}

static pid_t reader;	/* thread; 0: not there yet; no pair */

static void *read_one(void *arg)
{
	static struct rdma_ucm_event_resp e;

	__atomic_store_n(&reader, gettid(), __ATOMIC_RELAXED);
	return get_event(arg, &e) > 0 ? &e : NULL;
}

/* A thread that reads an event and, as there is none, sleeps. */
static pthread_t start_reader(struct cm_channel *c)
{
	pthread_t t;
	pid_t tid;

	reader = 0;
	assert_int_equal(pthread_create(&t, NULL, read_one, c), 0);
	while (!(tid = __atomic_load_n(&reader, __ATOMIC_RELAXED)))
		sched_yield();
	await_sleep(getpid(), tid);
	return t;
}

static void test_get_event_waits(void **state)
{
	struct cm_channel *c = open_channel();
	uint32_t id = create(c);
	struct rdma_ucm_event_resp *e;
	void *result;
	pthread_t t;

	(void)state;
	t = start_reader(c);
	resolve(c, id);			/* while the other thread waits */
	pthread_join(t, &result);
	e = result;
	assert_non_null(e);
	assert_int_equal(e->id, id);
	close_channel(c);
}

static int nr_descriptors(void)
{
	int n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void test_cancelled_wait_leaves_nothing_open(void **state)
{
	struct cm_channel *c = open_channel();
	int before = nr_descriptors();
	void *result;
	pthread_t t;

	(void)state;
	t = start_reader(c);
	pthread_cancel(t);
	pthread_join(t, &result);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	assert_int_equal(nr_descriptors(), before);
	close_channel(c);
}

static void *create_when_cancelled(void *channel)
{
	pthread_cancel(pthread_self());
	create(channel);
	pthread_testcancel();
	return NULL;
}

static void test_cancelled_command_leaves_a_channel_that_works(void **state)
{
	struct cm_channel *c = open_channel();
	void *result;
	pthread_t t;

	(void)state;
	assert_int_equal(pthread_create(&t, NULL, create_when_cancelled, c), 0);
	pthread_join(t, &result);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	create(c);
	close_channel(c);
}

static void test_waiting_outlives_the_descriptor(void **state)
{
	struct cm_channel *c = open_channel();
	uint32_t id = create(c);
	int copy = dup(cm_channel_fd(c));
	struct pollfd p = { .fd = copy, .events = POLLIN };
	void *result;
	pthread_t t;

	(void)state;
	t = start_reader(c);
	/* Past libc's, which tsan watches for just this race. */
	syscall(SYS_close, cm_channel_fd(c));
	resolve(c, id);
	pthread_join(t, &result);
	assert_non_null(result);
	assert_int_equal(poll(&p, 1, 0), 0);
	close(copy);
	cm_channel_close(c);
}

static void wake(int signal_number)
{
	(void)signal_number;
}

static void *interrupt(void *arg)
{
	await_sleep(getpid(), getpid());	/* the main thread */
	pthread_kill(*(pthread_t *)arg, SIGUSR1);
	return NULL;
}

static void test_signal_interrupts_waiting(void **state)
{
	struct sigaction action = { .sa_handler = wake };
	struct cm_channel *c = open_channel();
	pthread_t self = pthread_self(), t;
	struct rdma_ucm_event_resp e;

	(void)state;
	sigaction(SIGUSR1, &action, NULL);
	assert_int_equal(pthread_create(&t, NULL, interrupt, &self), 0);
	assert_int_equal(get_event(c, &e), -EINTR);
	pthread_join(t, NULL);
	close_channel(c);
}

static void test_bad_pointers(void **state)
{
	struct rdma_ucm_create_id cmd = { .uid = UID, .response = 8, .ps = RDMA_PS_TCP };
	struct rdma_ucm_set_option option = {
		.optval = 8, .level = RDMA_OPTION_ID, .optname = RDMA_OPTION_ID_TOS, .optlen = 1,
	};
	struct cm_channel *c = open_channel();
	int fd = cm_channel_fd(c);

	(void)state;
	assert_int_equal(RUN(c, CREATE_ID, cmd, 4), -EFAULT);
	assert_int_equal(RUN(c, SET_OPTION, option, 0), -EFAULT);
	option.optlen = 100000;
	assert_int_equal(RUN(c, SET_OPTION, option, 0), -EINVAL);
	assert_int_equal(run(c, RDMA_USER_CM_CMD_GET_EVENT, &cmd, 8, 8), -ENOSPC);
	assert_int_equal(run(c, RDMA_USER_CM_CMD_GET_EVENT, &cmd, 7, 400), -EINVAL);
	assert_int_equal(cm_channel_write(c, fd, (void *)8, 32), -EFAULT);
	assert_int_equal(cm_channel_write(c, fd, &cmd, 7), -EINVAL);
	assert_int_equal(cm_channel_write(c, fd, &(struct rdma_ucm_cmd_hdr){ .in = 1 }, 8),
			 -EINVAL);
	close_channel(c);
}

static void test_migrate_checks_the_descriptor(void **state)
{
	struct cm_channel *from = open_channel(), *to = open_channel();
	struct rdma_ucm_migrate_resp resp;
	struct rdma_ucm_migrate_id cmd = { .response = (uintptr_t)&resp, .id = create(from) };
	struct rdma_ucm_event_resp e;

	(void)state;
	cmd.fd = 12345;
	assert_int_equal(RUN(to, MIGRATE_ID, cmd, sizeof(resp)), -ENOENT);
	cmd.fd = (uint32_t)stop_pipe[0];
	assert_int_equal(RUN(to, MIGRATE_ID, cmd, sizeof(resp)), -EINVAL);
	resolve(from, cmd.id);
	cmd.fd = (uint32_t)dup(cm_channel_fd(from));
	assert_int_equal(RUN(to, MIGRATE_ID, cmd, sizeof(resp)), DONE(cmd));
	close((int)cmd.fd);
	assert_false(is_readable(from));
	assert_true(is_readable(to));
	assert_true(get_event(to, &e) > 0);
	close_channel(from);
	close_channel(to);
}

static void bind_port(struct cm_channel *c, uint32_t id, ssize_t expected)
{
	struct rdma_ucm_bind_ip cmd = { .id = id };
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(77) };

	memcpy(&cmd.addr, &a, sizeof(a));
	assert_int_equal(RUN(c, BIND_IP, cmd, 0), expected);
}

/* As long as a child has a copy, the channel lives, as in a kernel. */
static void test_last_close_frees_the_port(void **state)
{
	struct cm_channel *c = open_channel(), *other = open_channel();
	int copy = dup(cm_channel_fd(c));
	struct rdma_ucm_bind_ip cmd = { .id = create(other) };
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(77) };

	(void)state;
	memcpy(&cmd.addr, &a, sizeof(a));
	bind_port(c, create(c), DONE(cmd));
	close_channel(c);
	usleep(10000);		/* for what a copy may not cause: there is no sign of nothing */
	assert_int_equal(RUN(other, BIND_IP, cmd, 0), -EADDRINUSE);
	close(copy);
	while (RUN(other, BIND_IP, cmd, 0) == -EADDRINUSE)
		usleep(1000);
	close_channel(other);
}

/* What each asks for ends differently, so an answer that went astray shows. */
static bool creates_ids(struct cm_channel *c)
{
	struct rdma_ucm_create_id_resp resp;
	struct rdma_ucm_create_id cmd = {
		.uid = UID, .response = (uintptr_t)&resp, .ps = RDMA_PS_TCP,
	};

	for (int i = 0; i < 500; i++)
		if (RUN(c, CREATE_ID, cmd, sizeof(resp)) != DONE(cmd))
			return false;
	return true;
}

static bool finds_no_id(struct cm_channel *c)
{
	struct rdma_ucm_destroy_id_resp resp;
	struct rdma_ucm_destroy_id cmd = { .response = (uintptr_t)&resp, .id = CM_MAX_IDS - 1 };

	for (int i = 0; i < 500; i++)
		if (RUN(c, DESTROY_ID, cmd, sizeof(resp)) != -ENOENT)
			return false;
	return true;
}

static void test_child_and_parent_get_their_own_answers(void **state)
{
	struct cm_channel *c = open_channel();
	pid_t pid = fork();
	int status;

	(void)state;
	if (!pid) {
		cm_channel_inherit(c);
		_exit(!finds_no_id(c));
	}
	assert_true(creates_ids(c));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	create(c);			/* as if it had never been there */
	close_channel(c);
}

/* The file is one, whoever made the id and whoever asks. */
static void test_child_takes_events_of_its_parents_ids(void **state)
{
	struct cm_channel *c = open_channel();
	uint32_t id = create(c);
	struct rdma_ucm_event_resp e;
	pid_t pid = fork();
	int status;

	(void)state;
	if (!pid) {
		cm_channel_inherit(c);
		resolve(c, id);
		_exit(get_event(c, &e) <= 0 || e.id != id || is_readable(c));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_false(is_readable(c));
	assert_int_equal(destroy(c, id), 1);
	close_channel(c);
}

static void test_holder_that_dies(void **state)
{
	struct rdma_ucm_create_id cmd = { .uid = UID, .ps = RDMA_PS_TCP };
	struct rdma_ucm_event_resp e;
	struct cm_channel *c;
	int fds[2];

	(void)state;
	assert_int_equal(cm_channel_open(&c, fds), 0);
	close(fds[0]);
	close(fds[1]);
	assert_int_equal(RUN(c, CREATE_ID, cmd, 4), -EIO);
	assert_int_equal(get_event(c, &e), -EIO);
	close_channel(c);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_poll_says_whether_an_event_waits),
		TEST(test_destroy_takes_unread_events_away),
		TEST(test_get_event_waits),
		TEST(test_cancelled_wait_leaves_nothing_open),
		TEST(test_cancelled_command_leaves_a_channel_that_works),
		TEST(test_waiting_outlives_the_descriptor),
		TEST(test_signal_interrupts_waiting),
		TEST(test_bad_pointers),
		TEST(test_migrate_checks_the_descriptor),
		TEST(test_last_close_frees_the_port),
		TEST(test_child_and_parent_get_their_own_answers),
		TEST(test_child_takes_events_of_its_parents_ids),
		TEST(test_holder_that_dies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
