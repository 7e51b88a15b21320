/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_attack_socket.c - the control socket under attack: floods of connections,
 * descriptors and messages, and descriptors that bite when they are closed. tentd is
 * real, and two honest processes verify all of their data meanwhile.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <tent/rules.h>

#include "ring/order.h"
#include "tests/common/foe.h"
#include "tests/common/soak.h"
#include "tests/common/stuck_page.h"

#define STRANGER 54321u	/* a user that owns nothing here */

static int setup(void **state)
{
	(void)state;
	arena_start(&arena, (const char *const[]){
		"-o", "limits/clients=64",
		"-o", "limits/clients_per_tenant=32",
		"-o", "limits/allocated_bytes_per_client=16777216", NULL });
	return 0;
}

/* ---- floods ---------------------------------------------------------------------- */

static void raise_limit(void)
{
	struct rlimit l;

	need(getrlimit(RLIMIT_NOFILE, &l) == 0);
	l.rlim_cur = l.rlim_max;
	need(setrlimit(RLIMIT_NOFILE, &l) == 0);
}

/* A connection that does not wait for its turn; -1 when it would have to. */
static int connect_at_once(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	need(fd >= 0);
	strncpy(a.sun_path, path, sizeof(a.sun_path) - 1);
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0)
		return fd;
	close(fd);
	return -1;
}

/* Three thousand connections that say nothing, held open. */
static int attack_connections(struct arena *a, void *arg)
{
	int open = 0;

	(void)arg;
	raise_limit();
	for (int i = 0; i < 3000; i++)
		open += connect_at_once(a->tentd.socket) >= 0;
	need(open > 0);
	arena_witness(a, 100);
	return 0;
}

static void a_flood_of_silent_connections_holds_nobody_up(void **state)
{
	(void)state;
	assert_int_equal(arena_attack(&arena, attack_connections, NULL, 0), 0);
	need_service(&arena);
	arena_check(&arena);
}

/* As many clients as there may be, of one stranger; the others still get in. */
static int attack_clients(struct arena *a, void *arg)
{
	int got = 0;

	(void)arg;
	for (int i = 0; i < 200; i++) {
		struct raw r = { .sock = raw_socket(a->tentd.socket) };

		if (r.sock < 0 || raw_hello(&r, NULL, 0)) {
			close(r.sock);
			continue;
		}
		got++;
	}
	need(got == 32);
	arena_witness(a, 50);
	return 0;
}

static void one_tenant_cannot_take_every_place(void **state)
{
	pid_t pid = arena_spawn(&arena, attack_clients, NULL, STRANGER);

	(void)state;
	while (!waitpid(pid, NULL, WNOHANG | WNOWAIT))
		need_service(&arena);
	assert_int_equal(arena_wait(pid), 0);
	arena_check(&arena);
}

/* Comes and goes as fast as it can. */
static int attack_churn(struct arena *a, void *arg)
{
	(void)arg;
	for (uint32_t i = soak_rounds(300); i > 0; i--) {
		struct raw_ring ring;
		struct raw r;

		raw_attach(&r, a->tentd.socket, "churn");
		if (i % 3 == 0)
			need(raw_ring_open(&r, 64, &ring) == 0);
		shutdown(r.sock, SHUT_WR);	/* the name is free when tentd hung up */
		need(recv(r.sock, &r, sizeof(r), 0) == 0);
		close(r.sock);
		if (i % 3 == 0)
			raw_ring_forget(&ring);
	}
	return 0;
}

static void coming_and_going_leaves_nothing_behind(void **state)
{
	(void)state;
	assert_int_equal(arena_attack(&arena, attack_churn, NULL, 0), 0);
	arena_check(&arena);
}

/* ---- descriptors ------------------------------------------------------------------ */

/* A message of this type with nr copies of fd; its header says `told`. */
static int send_fds(int sock, uint16_t type, uint32_t size, int fd, int nr, int told)
{
	_Alignas(8) uint8_t control[CMSG_SPACE(sizeof(int) * 250)];
	struct ctl_message m = { .nr_fds = 0 };
	struct iovec v = { m.bytes, size };
	struct msghdr h = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = control,
			    .msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)nr) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&h);
	int *fds = (int *)(void *)CMSG_DATA(c);

	m.head.size = size;
	m.head.type = type;
	m.head.nr_fds = (uint16_t)told;
	memset(control, 0, sizeof(control));
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)nr);
	for (int i = 0; i < nr; i++)
		fds[i] = fd;
	return sendmsg(sock, &h, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* Whatever tentd answers, it keeps none of them. */
static int attack_fds(struct arena *a, void *arg)
{
	static const int counts[] = { 1, 2, 4, 5, 100, 250 };
	int event = eventfd(0, EFD_CLOEXEC);
	uint8_t reply[TENT_CTL_MAX_SIZE];

	(void)arg;
	for (int round = 0; round < 6; round++) {
		struct raw r = { .sock = -1 };

		for (size_t i = 0; i < RAW_MESSAGES * 6; i++) {
			int nr = counts[i % 6], told = round % 2 ? nr : (int)(i % 3);

			if (r.sock < 0)
				raw_attach(&r, a->tentd.socket, NULL);
			if (send_fds(r.sock, raw_messages[i / 6].type,
				     raw_messages[i / 6].size, event, nr, told) == 0 &&
			    recv(r.sock, reply, sizeof(reply), 0) > 0)
				continue;
			close(r.sock);	/* it hung up: as good an answer */
			r.sock = -1;
		}
		close(r.sock);
	}
	need_service(a);
	/* Ours are closed by now; what is left are clients on their way out. */
	while (arena_fds(a) > a->base_fds + 16)
		sched_yield();
	return 0;
}

static void descriptors_nobody_asked_for_are_closed(void **state)
{
	(void)state;
	assert_int_equal(arena_attack(&arena, attack_fds, NULL, 0), 0);
	arena_check(&arena);
}

/* A TCP connection to at, full, whose close() then waits an hour for a peer that reads
 * nothing. */
static int lingering_socket(const struct sockaddr_in *at)
{
	struct linger linger = { .l_onoff = 1, .l_linger = 3600 };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	char page[4096] = "";

	need(connect(fd, (const struct sockaddr *)at, sizeof(*at)) == 0);
	while (send(fd, page, sizeof(page), MSG_DONTWAIT) > 0)
		;
	need(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)) == 0);
	return fd;
}

/* A process on its way out does not linger: tentd has the last reference, and the close
 * that takes an hour is tentd's. */
static void send_and_die(struct arena *a, const struct sockaddr_in *at, size_t i)
{
	pid_t pid = fork();
	struct raw r;

	need(pid >= 0);
	if (pid == 0) {
		raw_attach(&r, a->tentd.socket, NULL);
		need(send_fds(r.sock, raw_messages[i].type, raw_messages[i].size,
			      lingering_socket(at), 1, i & 1) == 0);
		_exit(0);
	}
	need(arena_wait(pid) == 0);
}

static int attack_linger(struct arena *a, void *arg)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)arg;
	need(bind(listener, (struct sockaddr *)&at, sizeof(at)) == 0);
	need(listen(listener, RAW_MESSAGES) == 0);
	need(getsockname(listener, (struct sockaddr *)&at, &size) == 0);
	for (size_t i = 0; i < RAW_MESSAGES; i++) {
		send_and_die(a, &at, i);
		need(accept(listener, NULL, NULL) >= 0); /* and never read */
		need_service(a);
	}
	arena_witness(a, 50);
	return 0;	/* our ends close, and tentd's closes come to an end */
}

static void a_socket_that_lingers_holds_nobody_up(void **state)
{
	(void)state;
	assert_int_equal(arena_attack(&arena, attack_linger, NULL, 0), 0);
	arena_check(&arena);
}

/* Its close waits for a FUSE server that does not answer. */
static void attack_flush(void *page, void *arg)
{
	struct arena *a = arg;

	(void)page;
	for (size_t i = 0; i < RAW_MESSAGES; i++) {
		struct raw r;

		raw_attach(&r, a->tentd.socket, NULL);
		need(send_fds(r.sock, raw_messages[i].type, raw_messages[i].size,
			      open(STUCK_PATH, O_RDONLY), 1, 1) == 0);
	}
	for (;;)
		pause();
}

static struct stuck_board *board;

/* Others are served while a close of that file does not end, and the attacker is as far
 * as stage. */
static void a_stuck_close_holds_nobody_up(void (*attack)(void *page, void *arg), uint32_t stage)
{
	pid_t server;

	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		     -1, 0);
	board->no_flush = 1;
	server = stuck_page_start(board, attack, &arena);
	if (server < 0) {
		print_message("this machine has no /dev/fuse: not run\n");
		skip();
	}
	while (!load_acquire(&board->closes) || load_acquire(&board->stage) < stage)
		sched_yield();
	for (int i = 0; i < 20; i++)
		need_service(&arena);
	arena_honest_rounds(&arena, 50);
	kill(server, SIGKILL);
	arena_wait(server);
	kill(board->attacker, SIGKILL);
	munmap(board, sizeof(*board));
	arena_check(&arena);
}

static void a_file_that_nobody_closes_for_us_holds_nobody_up(void **state)
{
	(void)state;
	a_stuck_close_holds_nobody_up(attack_flush, 0);
}

/* Says hello over its parent's socket once that is in its exec, and tells when tentd has
 * received it. */
static void say_hello(int sock)
{
	struct ctl_message m = { .head = { .size = sizeof(struct tent_ctl_hello),
					   .type = TENT_CTL_HELLO } };
	int left;

	((struct tent_ctl_hello *)m.bytes)->abi_major = TENT_RING_ABI_MAJOR;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (!load_acquire(&board->closes))
		sched_yield();
	need(ctl_send(sock, &m, 0) == 0);
	do
		need(ioctl(sock, SIOCOUTQ, &left) == 0);
	while (left);
	store_release(&board->stage, 1u);
	pause();
}

/* A process in the middle of an exec, which waits for the close of that file; who opens
 * its /proc/PID/mem waits for the exec. */
static void attack_exec(void *page, void *arg)
{
	struct arena *a = arg;
	int sock = raw_socket(a->tentd.socket);

	(void)page;
	need(sock >= 0);
	if (fork() == 0)
		say_hello(sock);
	need(open(STUCK_PATH, O_RDONLY | O_CLOEXEC) >= 0);
	execlp("sleep", "sleep", "60", NULL);
	_exit(1);
}

static void a_process_that_does_not_come_out_of_its_exec_holds_nobody_up(void **state)
{
	(void)state;
	a_stuck_close_holds_nobody_up(attack_exec, 1);
}

/* ---- messages ---------------------------------------------------------------------- */

static int attack_deaf(struct arena *a, void *arg)
{
	struct tent_ctl_segment_info m = {
		.head = { .size = sizeof(m), .type = TENT_CTL_SEGMENT_INFO } };
	struct raw r;

	(void)arg;
	raw_attach(&r, a->tentd.socket, NULL);
	/* It may hang up on us, or stop listening; both are its right. */
	for (int i = 0; i < 100000; i++)
		if (send(r.sock, &m, sizeof(m), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			break;
	need_service(a);
	arena_witness(a, 50);
	return 0;
}

static void a_client_that_never_reads_its_replies_holds_nobody_up(void **state)
{
	(void)state;
	assert_int_equal(arena_attack(&arena, attack_deaf, NULL, 0), 0);
	arena_check(&arena);
}

/* ---- explain ------------------------------------------------------------------------ */

struct resizer {
	int fd;
	uint32_t stop;
};

static void *resize_main(void *arg)
{
	struct resizer *s = arg;

	while (!load_acquire(&s->stop)) {
		need(ftruncate(s->fd, 0) == 0);
		need(ftruncate(s->fd, 1 << 20) == 0);
	}
	return NULL;
}

static int explain(struct raw *r, int fd, uint32_t count)
{
	struct ctl_message m = { .nr_fds = 1, .fds = { fd } };
	struct tent_ctl_query *q = (void *)m.bytes;
	int rc;

	q->what = TENT_QUERY_EXPLAIN;
	q->count = count;
	rc = raw_call(r, &m, TENT_CTL_QUERY, sizeof(*q));
	if (rc != TENT_ERR_ENGINE_LOST)
		ctl_close_fds(&m);
	return rc;
}

static int attack_explain(struct arena *a, void *arg)
{
	struct resizer s = { .fd = memfd_create("explain", MFD_CLOEXEC) };
	int fds[2], good = memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	pthread_t thread;
	struct raw r;

	(void)arg;
	raw_attach(&r, a->tentd.socket, NULL);
	need(ftruncate(good, 4096) == 0);
	need(fcntl(good, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) == 0);
	explain(&r, good, 0);	/* nothing is explained, or refused */
	need(explain(&r, good, UINT32_MAX) < 0);
	need(explain(&r, good, 1u << 20) < 0);
	need(explain(&r, good, 22) < 0);	/* 192 bytes each: does not fit */
	need(pipe(fds) == 0);
	need(explain(&r, fds[0], 1) < 0);	/* to read from it would block */
	need(explain(&r, eventfd(0, EFD_CLOEXEC), 1) < 0);
	need(pthread_create(&thread, NULL, resize_main, &s) == 0);
	for (int i = 0; i < 300; i++)
		explain(&r, s.fd, 256);
	store_release(&s.stop, 1u);
	pthread_join(thread, NULL);
	need_service(a);
	return 0;
}

static void explaining_a_file_that_shrinks_or_blocks_kills_nobody(void **state)
{
	(void)state;
	assert_int_equal(arena_attack(&arena, attack_explain, NULL, 0), 0);
	arena_check(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_flood_of_silent_connections_holds_nobody_up),
		cmocka_unit_test(one_tenant_cannot_take_every_place),
		cmocka_unit_test(coming_and_going_leaves_nothing_behind),
		cmocka_unit_test(descriptors_nobody_asked_for_are_closed),
		cmocka_unit_test(a_socket_that_lingers_holds_nobody_up),
		cmocka_unit_test(a_file_that_nobody_closes_for_us_holds_nobody_up),
		cmocka_unit_test(
			a_process_that_does_not_come_out_of_its_exec_holds_nobody_up),
		cmocka_unit_test(a_client_that_never_reads_its_replies_holds_nobody_up),
		cmocka_unit_test(explaining_a_file_that_shrinks_or_blocks_kills_nobody),
	};

	return cmocka_run_group_tests(tests, setup, arena_teardown);
}
