/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_no_membarrier.c - containers whose seccomp filter denies membarrier: tentd, its
 * client or both do without, go to sleep all the same, and transfer.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <tent/tentring.h>

#include "ring/client_ring.h"
#include "ring/wake.h"
#include "tests/common/asleep.h"
#include "tests/common/raw.h"
#include "tests/common/tentd.h"

#define HALF (1u << 20)	/* bytes */
#define ROUNDS 64u

/* Of the calling thread and what it starts. */
static void deny_membarrier(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { .len = sizeof(code) / sizeof(code[0]), .filter = code };

	need(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	need(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
	need(wake_barrier_register() == -EPERM);
	need(!wake_barrier());
}

/* ---- tentd --------------------------------------------------------------- */

/* tentd ends with the thread that started it. */
struct starter {
	struct tentd *tentd;
	bool denied;
	sem_t started, over;
};

static void *start_main(void *arg)
{
	struct starter *s = arg;

	if (s->denied)
		deny_membarrier();
	tentd_start_ready(s->tentd, (const char *const[]){
		"-o", "engine/idle=adaptive", "-o", "engine/spin_us=50", NULL });
	sem_post(&s->started);
	sem_wait(&s->over);
	return NULL;
}

/* ---- its client ------------------------------------------------------------ */

struct side {
	pid_t tentd;
	struct tent_client *client;
	struct tent_ring *ring;
	uint8_t *memory;
	long slept;		/* times it gave the CPU away in a wait */
};

static long switches(void)
{
	struct rusage u;

	getrusage(RUSAGE_THREAD, &u);
	return u.ru_nvcsw;
}

/* The wait for a completion; of a tentd that stands still until its client sleeps. */
static void wait_asleep(struct side *s)
{
	pid_t pid = fork();
	long before;

	need(pid >= 0);
	if (pid == 0) {
		await_sleep(getppid(), getppid());
		_exit(kill(s->tentd, SIGCONT));
	}
	before = switches();
	need(tent_ring_wait(s->ring, 60000000000u) == 0);
	s->slept += switches() - before;
	need(waitpid(pid, NULL, 0) == pid);
}

/* The first half goes to the second. tentd sleeps before, or is about to. */
static void transfer(struct side *s, uint32_t round)
{
	uint64_t length = round % 2 ? HALF : 64;
	bool stands_still = round % 8 == 0;
	struct tent_request_v1 r = {
		.struct_size = sizeof(r), .schema_version = 1, .opcode = TENT_OPCODE_WRITE,
		.source = s->memory, .length = length,
		.target_offset = (uintptr_t)s->memory + HALF,
	};
	struct tent_completion c;

	memset(s->memory, (int)round + 1, length);
	while (!(load_acquire(&s->ring->line->flags) & TENT_ENGINE_NEED_WAKE)) /* A13 */
		sched_yield();
	if (stands_still)
		need(stop_process(s->tentd) == 0);
	need(tent_ring_submit(s->ring, &r, 1, sizeof(r), round, 0) == 0);
	if (stands_still)
		wait_asleep(s);
	else
		need(tent_ring_wait(s->ring, 60000000000u) == 0);
	need(tent_ring_poll(s->ring, &c, 1) == 1);
	need(c.status == TENT_STATUS_COMPLETED && c.bytes == length && c.user_data == round);
	need(memcmp(s->memory, s->memory + HALF, length) == 0);
}

/* Times that tentd's poller slept. */
static unsigned long engine_sleeps(struct tent_client *c)
{
	char *text, *at;
	unsigned long n;

	need(tent_client_query(c, TENT_QUERY_STATS, &text) == 0);
	at = strstr(text, "\"sleeps\":");
	need(at != NULL);
	n = strtoul(at + strlen("\"sleeps\":"), NULL, 10);
	free(text);
	return n;
}

static int client_main(const struct tentd *tentd, bool denied)
{
	struct side s = { .tentd = tentd->program.pid };
	void *memory;

	alarm(300);
	if (denied)
		deny_membarrier();
	need(tent_client_attach(tentd->socket, NULL, &s.client) == 0);
	need(tent_client_alloc(s.client, 2 * HALF, NULL, &memory) == 0);
	need(tent_client_register(s.client, memory, 2 * HALF, 0, NULL, 0) == 0);
	need(tent_ring_open(s.client, 64, 64, &s.ring) == 0);
	s.memory = memory;
	need(s.ring->look == (denied ? RING_LOOK_FENCE : RING_LOOK));
	for (uint32_t round = 0; round < ROUNDS; round++)
		transfer(&s, round);
	need(s.slept > 0);
	need(engine_sleeps(s.client) > 0);
	tent_ring_close(s.ring);
	tent_client_detach(s.client);
	return 0;
}

/* In a process of its own: what membarrier knows of it, others do not inherit. */
static int run_client(const struct tentd *tentd, bool denied)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(client_main(tentd, denied));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void transfer_without(bool tentd_denied, bool client_denied)
{
	struct tentd tentd;
	struct starter s = { .tentd = &tentd, .denied = tentd_denied };
	pthread_t thread;
	int client, end;

	tentd_prepare(&tentd);
	sem_init(&s.started, 0, 0);
	sem_init(&s.over, 0, 0);
	assert_int_equal(pthread_create(&thread, NULL, start_main, &s), 0);
	while (sem_wait(&s.started))
		;
	client = run_client(&tentd, client_denied);
	end = tentd_end(&tentd, SIGTERM);
	sem_post(&s.over);
	pthread_join(thread, NULL);
	tentd_cleanup(&tentd);
	assert_int_equal(client, 0);
	assert_int_equal(end, 0);
}

static void neither_side_has_membarrier(void **state)
{
	(void)state;
	transfer_without(true, true);
}

static void tentd_alone_has_no_membarrier(void **state)
{
	(void)state;
	transfer_without(true, false);
}

static void the_client_alone_has_no_membarrier(void **state)
{
	(void)state;
	transfer_without(false, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(neither_side_has_membarrier),
		cmocka_unit_test(tentd_alone_has_no_membarrier),
		cmocka_unit_test(the_client_alone_has_no_membarrier),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
