/* SPDX-License-Identifier: Apache-2.0 */
/* test_ring_wait.c - sleeping and waking, and that no wait outlasts its engine. */
#include "tests/ring_fake.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "ring/client_ring.h"
#include "ring/wake.h"
#include "tests/common/asleep.h"

#define FOREVER UINT64_MAX

static int open_adaptive(void **state)
{
	struct pair *p = calloc(1, sizeof(*p));

	*state = p;
	pair_open(p, fake_geometry(8, 8, UINT32_MAX - 2, TENT_RING_F_ADAPTIVE));
	return 0;
}

static int open_busy(void **state)
{
	struct pair *p = calloc(1, sizeof(*p));

	*state = p;
	pair_open(p, fake_geometry(8, 8, 0, 0));
	return 0;
}

static int close_pair(void **state)
{
	pair_close(*state);
	free(*state);
	return 0;
}

static void publish_nop(struct tent_ring *r)
{
	struct tent_slot *s = tent_ring_slot(r, 0);

	s->user_data = 1;
	memset(&s->request, 0, sizeof(s->request) + 8);
	tent_ring_publish(r, 1, TENT_OP_NOP, 0);
}

static uint64_t read_event(int fd)
{
	uint64_t count = 0;

	return read(fd, &count, sizeof(count)) == sizeof(count) ? count : 0;
}

static bool is_readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/* ---- one side at a time ---------------------------------------------------------- */

static void a_wait_with_nothing_to_come_times_out(void **state)
{
	struct pair *p = *state;

	assert_int_equal(tent_ring_wait(p->ring, 0), TENT_ERR_TIMEOUT);
	assert_int_equal(tent_ring_wait(p->ring, 1), TENT_ERR_TIMEOUT);
	assert_int_equal(tent_ring_wait(p->ring, 2000000), TENT_ERR_TIMEOUT);
	assert_int_equal(last_error().rule, TENT_RULE_TIMEOUT);
	publish_nop(p->ring);
	assert_int_equal(tent_ring_wait_consumed(p->ring, p->host->consumed + 1, 1000),
			 TENT_ERR_TIMEOUT);
	assert_int_equal(p->host->client_line->want_wake, 0); /* nothing stays wanted */
}

static void what_has_come_needs_no_wait(void **state)
{
	struct pair *p = *state;

	publish_nop(p->ring);
	engine_take(p->host);
	assert_int_equal(tent_ring_wait_consumed(p->ring, p->host->consumed, 0), 0);
	engine_complete(p->host, 1, 1);
	assert_int_equal(tent_ring_wait(p->ring, 0), 0);
}

static void a_spinning_wait_may_have_to_yield(void **state)
{
	struct pair *p = *state;

	ring_host_set_flags(p->host, TENT_ENGINE_SPIN_YIELD, 0);
	assert_int_equal(tent_ring_wait(p->ring, 1000000), TENT_ERR_TIMEOUT);
	publish_nop(p->ring);
	engine_take(p->host);
	engine_complete(p->host, 1, 1);
	assert_int_equal(tent_ring_wait(p->ring, 1000000), 0);
}

static void a_busy_ring_never_writes_the_eventfd(void **state)
{
	struct pair *p = *state;

	ring_host_set_flags(p->host, TENT_ENGINE_NEED_WAKE, 0);
	publish_nop(p->ring);
	assert_int_equal(read_event(p->host->event_fd), 0);
}

static void an_adaptive_ring_writes_it_only_when_asked(void **state)
{
	struct pair *p = *state;

	publish_nop(p->ring);
	assert_int_equal(read_event(p->host->event_fd), 0);
	ring_host_set_flags(p->host, TENT_ENGINE_NEED_WAKE, 0);
	publish_nop(p->ring);
	assert_int_equal(read_event(p->host->event_fd), 1);
	ring_host_set_flags(p->host, 0, TENT_ENGINE_NEED_WAKE);
	publish_nop(p->ring);
	assert_int_equal(read_event(p->host->event_fd), 0);
}

static void a_client_is_told_when_it_has_to_fence(void **state)
{
	struct pair p;

	(void)state;
	pair_open(&p, fake_geometry(8, 8, 0,
				    TENT_RING_F_ADAPTIVE | TENT_RING_F_CLIENT_FENCE));
	assert_int_equal(p.ring->look, RING_LOOK_FENCE);
	ring_host_set_flags(p.host, TENT_ENGINE_NEED_WAKE, 0);
	publish_nop(p.ring);
	assert_int_equal(read_event(p.host->event_fd), 1);
	pair_close(&p);
}

static void the_fd_becomes_readable_only_when_armed(void **state)
{
	struct pair *p = *state;
	int fd = tent_ring_event_fd(p->ring);
	struct tent_completion c;

	publish_nop(p->ring);
	publish_nop(p->ring);
	engine_take(p->host);
	engine_complete(p->host, 1, 1);
	assert_false(ring_host_client_waits(p->host));
	assert_int_equal(tent_ring_arm(p->ring), 1);	/* there is one: not armed */
	assert_false(ring_host_client_waits(p->host));
	tent_ring_poll(p->ring, &c, 1);
	assert_int_equal(tent_ring_arm(p->ring), 0);
	assert_true(ring_host_client_waits(p->host));
	engine_take(p->host);
	engine_complete(p->host, 1, 1);
	ring_host_wake_client(p->host);
	assert_true(is_readable(fd));
	assert_true(read_event(fd) > 0);
	tent_ring_poll(p->ring, &c, 1);			/* reaping disarms */
	assert_false(ring_host_client_waits(p->host));
	assert_false(is_readable(fd));
}

static void one_drain_takes_every_token_of_the_fd(void **state)
{
	struct pair *p = *state;
	int fd = tent_ring_event_fd(p->ring);

	assert_int_equal(tent_ring_arm(p->ring), 0);
	for (int i = 0; i < 3; i++)
		ring_host_wake_client(p->host);
	assert_true(is_readable(fd));
	assert_int_equal(read_event(fd), 1);
	assert_true(is_readable(fd));
	wake_event_drain(fd);
	assert_false(is_readable(fd));
}

/* ---- a client that wants the poller to block ---------------------------------------- */

static void make_blocking(int fd)
{
	assert_int_equal(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK), 0);
}

static void draining_an_emptied_blocking_eventfd_returns(void **state)
{
	struct pair *p = *state;

	make_blocking(p->ring->wake_fd);	/* the same open file as the engine's */
	wake_event_drain(p->host->event_fd);
	wake_event_signal(p->ring->wake_fd);
	assert_true(is_readable(p->host->event_fd));
	wake_event_drain(p->host->event_fd);
	assert_false(is_readable(p->host->event_fd));
	wake_event_drain(p->host->event_fd);
}

/* The client takes no token and makes its end blocking; it can send nothing itself. */
static void signalling_a_full_blocking_socket_returns(void **state)
{
	struct pair *p = *state;
	int fd = tent_ring_event_fd(p->ring);
	char byte = 0;

	assert_int_equal(send(fd, &byte, 1, MSG_NOSIGNAL), -1);
	assert_int_equal(errno, EPIPE);
	make_blocking(fd);
	assert_int_equal(tent_ring_arm(p->ring), 0);
	for (int i = 0; i < 10000; i++)
		ring_host_wake_client(p->host);
}

static void waking_a_client_that_shut_its_fd_down_raises_no_sigpipe(void **state)
{
	struct pair *p = *state;

	assert_int_equal(shutdown(tent_ring_event_fd(p->ring), SHUT_RDWR), 0);
	assert_int_equal(tent_ring_arm(p->ring), 0);
	ring_host_wake_client(p->host);
}

static void waking_a_client_that_closed_its_fd_raises_no_sigpipe(void **state)
{
	struct pair *p = *state;

	close(p->ring->record->completion_fd);	/* the client's copy of the read end */
	p->ring->record->completion_fd = -1;
	assert_int_equal(tent_ring_arm(p->ring), 0);
	ring_host_wake_client(p->host);
}

/* ---- the end of a ring ----------------------------------------------------------------- */

#define LOOKS_MS 100

static uint32_t returned;	/* the waiter did, before it sleeps elsewhere; no pair */
static pid_t waiter;

static bool sleeps_on(void)
{
	return is_asleep(getpid(), waiter) && !load_acquire(&returned);
}

/* Ends it; and wakes a waiter that the end did not wake, so that the test can fail: one that
 * is asleep, and is so again at another look. However late one that was woken gets a CPU. */
static void *end_ring(void *host)
{
	struct ring_host *h = host;

	ring_host_end(h, TENT_RULE_RING_SEQ);
	while (!load_acquire(&returned)) {
		if (sleeps_on() && poll(NULL, 0, LOOKS_MS) == 0 && sleeps_on()) {
			wake_futex_wake(&h->line->wake_seq);
			return NULL;
		}
		sched_yield();
	}
	return host;
}

static void an_ended_ring_ends_every_wait_with_its_rule(void **state)
{
	struct pair *p = *state;
	pthread_t engine;
	void *woken;

	returned = 0;
	waiter = (pid_t)syscall(SYS_gettid);
	p->ring->slice_ns = FOREVER / 4;	/* only the end itself may wake it */
	p->ring->spin_ns = 0;
	assert_int_equal(tent_ring_end_rule(p->ring), 0);
	publish_nop(p->ring);
	assert_int_equal(pthread_create(&engine, NULL, end_ring, p->host), 0);
	assert_int_equal(tent_ring_wait(p->ring, FOREVER), TENT_ERR_PROTOCOL);
	store_release(&returned, 1u);
	pthread_join(engine, &woken);
	assert_non_null(woken);
	assert_int_equal(last_error().rule, TENT_RULE_RING_SEQ);
	assert_int_equal(tent_ring_end_rule(p->ring), TENT_RULE_RING_SEQ);
	assert_int_equal(tent_ring_wait_consumed(p->ring, p->ring->tail, FOREVER),
			 TENT_ERR_PROTOCOL);
	assert_int_equal(tent_ring_arm(p->ring), 1);
	assert_true(is_readable(tent_ring_event_fd(p->ring)));
}

static void what_an_ended_ring_delivered_still_counts(void **state)
{
	struct pair *p = *state;
	struct tent_completion c;

	publish_nop(p->ring);
	engine_take(p->host);
	engine_complete(p->host, 1, 1);
	ring_host_end(p->host, TENT_RULE_ENGINE_STOPPED);
	assert_int_equal(tent_ring_wait(p->ring, FOREVER), 0);
	assert_int_equal(tent_ring_poll(p->ring, &c, 1), 1);
	assert_int_equal(tent_ring_wait(p->ring, FOREVER), TENT_ERR_CANCELED);
	assert_int_equal(last_error().error, TENT_ERR_CANCELED);
	assert_int_equal(last_error().rule, TENT_RULE_ENGINE_STOPPED);
}

static void a_ring_that_ended_without_a_rule_is_closed(void **state)
{
	struct pair *p = *state;

	ring_host_end(p->host, TENT_RULE_NONE);
	assert_int_equal(tent_ring_wait(p->ring, FOREVER), TENT_ERR_CANCELED);
	assert_int_equal(last_error().rule, TENT_RULE_RING_CLOSED);
}

/* ---- an engine in another process --------------------------------------------------------- */

struct daemon {
	char dir[32], path[64];
	pid_t pid;
	struct tent_client *client;
	struct tent_ring *ring;
};

/* The child listens itself: peer credentials are those of who listens. */
static void serve_one_client(const char *path, int ready)
{
	struct fake *f = calloc(1, sizeof(*f));
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strcpy(a.sun_path, path);
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 1) < 0 ||
	    write(ready, "r", 1) != 1)
		_exit(1);
	f->g = fake_geometry(8, 8, 0, TENT_RING_F_ADAPTIVE);
	f->fd = accept(fd, NULL, NULL);
	fake_serve(f);
	_exit(0);
}

static int start_daemon(void **state)
{
	struct daemon *d = calloc(1, sizeof(*d));
	int ready[2];
	char byte;

	strcpy(d->dir, "/tmp/tent-ring-XXXXXX");
	assert_non_null(mkdtemp(d->dir));
	snprintf(d->path, sizeof(d->path), "%s/sock", d->dir);
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	d->pid = fork();
	assert_true(d->pid >= 0);
	if (!d->pid)
		serve_one_client(d->path, ready[1]);
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	assert_int_equal(tent_client_attach(d->path, NULL, &d->client), 0);
	assert_int_equal(tent_ring_open(d->client, 0, 0, &d->ring), 0);
	*state = d;
	return 0;
}

static int stop_daemon(void **state)
{
	struct daemon *d = *state;

	tent_ring_close(d->ring);
	tent_client_detach(d->client);
	kill(d->pid, SIGKILL);
	waitpid(d->pid, NULL, 0);
	unlink(d->path);
	rmdir(d->dir);
	free(d);
	return 0;
}

static void *kill_daemon(void *daemon)
{
	kill(((struct daemon *)daemon)->pid, SIGKILL);
	return NULL;
}

static void a_wait_ends_when_the_engine_process_dies(void **state)
{
	struct daemon *d = *state;
	pthread_t killer;

	assert_int_equal(tent_client_engine_alive(d->client), 1);
	publish_nop(d->ring);
	assert_int_equal(pthread_create(&killer, NULL, kill_daemon, d), 0);
	assert_int_equal(tent_ring_wait(d->ring, FOREVER), TENT_ERR_ENGINE_LOST);
	pthread_join(killer, NULL);
	assert_int_equal(last_error().rule, TENT_RULE_ENGINE_LOST);
	assert_int_equal(tent_client_engine_alive(d->client), 0);
	assert_int_equal(tent_ring_wait_consumed(d->ring, 1, FOREVER), TENT_ERR_ENGINE_LOST);
}

static void a_control_call_ends_when_the_engine_process_dies(void **state)
{
	struct daemon *d = *state;
	tent_segment_id_t id;
	pthread_t killer;
	int rc;

	assert_int_equal(pthread_create(&killer, NULL, kill_daemon, d), 0);
	do {
		rc = tent_client_open_segment(d->client, "x", &id);
	} while (rc == 0);
	pthread_join(killer, NULL);
	assert_int_equal(rc, TENT_ERR_ENGINE_LOST);
}

static void a_stopped_engine_is_slow_and_not_lost(void **state)
{
	struct daemon *d = *state;
	int status;

	kill(d->pid, SIGSTOP);
	assert_int_equal(waitpid(d->pid, &status, WUNTRACED), d->pid);
	assert_true(WIFSTOPPED(status));
	d->ring->slice_ns = 100000;	/* many looks at whether it lives */
	assert_int_equal(tent_ring_wait(d->ring, 3000000), TENT_ERR_TIMEOUT);
	assert_int_equal(tent_client_engine_alive(d->client), 1);
	kill(d->pid, SIGCONT);
}

/* Without a pidfd the closed connection is what a death looks like. */
static void a_death_is_seen_without_a_pidfd_too(void **state)
{
	struct daemon *d = *state;

	if (d->client->pidfd >= 0)
		close(d->client->pidfd);
	d->client->pidfd = -1;
	assert_int_equal(tent_client_engine_alive(d->client), 1);
	kill(d->pid, SIGKILL);
	assert_int_equal(waitpid(d->pid, NULL, 0), d->pid);
	d->ring->slice_ns = 100000;
	assert_int_equal(tent_ring_wait(d->ring, FOREVER), TENT_ERR_ENGINE_LOST);
	assert_int_equal(tent_client_engine_alive(d->client), 0);
}

#define ON(open, test) cmocka_unit_test_setup_teardown(test, open, close_pair)
#define ON_DAEMON(test) cmocka_unit_test_setup_teardown(test, start_daemon, stop_daemon)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON(open_adaptive, a_wait_with_nothing_to_come_times_out),
		ON(open_adaptive, what_has_come_needs_no_wait),
		ON(open_adaptive, a_spinning_wait_may_have_to_yield),
		ON(open_busy, a_busy_ring_never_writes_the_eventfd),
		ON(open_adaptive, an_adaptive_ring_writes_it_only_when_asked),
		cmocka_unit_test(a_client_is_told_when_it_has_to_fence),
		ON(open_adaptive, the_fd_becomes_readable_only_when_armed),
		ON(open_adaptive, one_drain_takes_every_token_of_the_fd),
		ON(open_adaptive, draining_an_emptied_blocking_eventfd_returns),
		ON(open_adaptive, signalling_a_full_blocking_socket_returns),
		ON(open_adaptive, waking_a_client_that_shut_its_fd_down_raises_no_sigpipe),
		ON(open_adaptive, waking_a_client_that_closed_its_fd_raises_no_sigpipe),
		ON(open_adaptive, an_ended_ring_ends_every_wait_with_its_rule),
		ON(open_adaptive, what_an_ended_ring_delivered_still_counts),
		ON(open_adaptive, a_ring_that_ended_without_a_rule_is_closed),
		ON_DAEMON(a_wait_ends_when_the_engine_process_dies),
		ON_DAEMON(a_control_call_ends_when_the_engine_process_dies),
		ON_DAEMON(a_stopped_engine_is_slow_and_not_lost),
		ON_DAEMON(a_death_is_seen_without_a_pidfd_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
