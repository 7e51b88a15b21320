/* SPDX-License-Identifier: Apache-2.0 */
/* arena.c - see arena.h. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>
#include <tent/tentring.h>

#include "ring/order.h"
#include "tests/common/arena.h"
#include "tests/common/raw.h"
#include "tests/common/soak.h"

#define BLOCKS	64u
#define BLOCK	8192u
#define ROUNDS_PER_CHECK 50u

/* ---- the honest ones ------------------------------------------------------ */

static void complain(struct honest_board *b, const char *what, long value)
{
	if (load_acquire(&b->wrong) == 0)
		snprintf(b->what, sizeof(b->what), "%s: %ld", what, value);
	fetch_add(&b->wrong, 1u);
}

/* Says where two blocks differ, and what is there. */
static void complain_block(struct honest_board *b, uint64_t round, const uint8_t *want,
			   const uint8_t *got)
{
	uint32_t first = 0, nr = 0;

	for (uint32_t i = BLOCK; i-- > 0;)
		if (want[i] != got[i]) {
			first = i;
			nr++;
		}
	if (load_acquire(&b->wrong) == 0)
		snprintf(b->what, sizeof(b->what), "round %llu: %u bytes differ from offset %u on, "
			 "where 0x%02x is 0x%02x", (unsigned long long)round, nr, first,
			 want[first], got[first]);
	fetch_add(&b->wrong, 1u);
}

/* What block i holds in round r. */
static void block_fill(uint8_t *p, uint32_t i, uint64_t round)
{
	uint64_t x = round * 0x9e3779b97f4a7c15u + i + 1;

	for (uint32_t k = 0; k < BLOCK / 8; k++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		memcpy(p + 8 * k, &x, 8);
	}
}

static void store_main(struct arena *a)
{
	struct tent_client *c;
	void *memory;

	need(tent_client_attach(a->tentd.socket, "store", &c) == 0);
	need(tent_client_alloc(c, BLOCKS * BLOCK, NULL, &memory) == 0);
	need(tent_client_register(c, memory, BLOCKS * BLOCK, TENT_PERM_GLOBAL_READ_WRITE,
				  NULL, 0) == 0);
	snprintf(a->board->segment, sizeof(a->board->segment), "%s",
		 tent_client_segment(c));
	a->board->base = (uintptr_t)memory;
	fetch_add(&a->board->ready, 1u);
	for (;;)
		pause();
}

struct reader {
	struct honest_board *board;
	struct tent_client *client;
	struct tent_ring *ring;
	tent_segment_id_t store;
	uint64_t base;		/* of the store's buffer */
	uint8_t *shared;	/* two blocks each: what is written, what came back */
	uint8_t *private;
};

static void reader_move(struct reader *h, int opcode, uint8_t *local, uint32_t block)
{
	struct tent_request_v1 r = {
		.struct_size = sizeof(r), .schema_version = 1, .opcode = opcode,
		.source = local, .target_id = h->store,
		.target_offset = h->base + (uint64_t)block * BLOCK, .length = BLOCK,
	};
	struct tent_completion c;

	if (tent_ring_submit(h->ring, &r, 1, sizeof(r), block, 0))
		return complain(h->board, "submit", opcode);
	if (tent_ring_wait(h->ring, 600000000000ull))
		return complain(h->board, "wait", (long)tent_ring_end_rule(h->ring));
	if (tent_ring_poll(h->ring, &c, 1) != 1 || c.status != TENT_STATUS_COMPLETED ||
	    c.bytes != BLOCK || c.user_data != block)
		complain(h->board, "completion with rule", c.rule);
}

/* Through shared memory mostly, through private memory every fourth time. */
static void reader_round(struct reader *h, uint64_t round)
{
	uint8_t *local = round % 4 == 3 ? h->private : h->shared;
	uint32_t block = (uint32_t)(round % BLOCKS);

	block_fill(local, block, round);
	reader_move(h, TENT_OPCODE_WRITE, local, block);
	memset(local + BLOCK, 0, BLOCK);
	reader_move(h, TENT_OPCODE_READ, local + BLOCK, block);
	if (memcmp(local, local + BLOCK, BLOCK))
		complain_block(h->board, round, local, local + BLOCK);
}

static void reader_main(struct arena *a)
{
	struct reader h = { .board = a->board };
	struct tent_segment_info info;
	void *memory;

	while (load_acquire(&a->board->ready) == 0)
		sched_yield();
	need(tent_client_attach(a->tentd.socket, "reader", &h.client) == 0);
	need(tent_client_alloc(h.client, 2 * BLOCK, NULL, &memory) == 0);
	h.shared = memory;
	h.private = malloc(2 * BLOCK);
	need(tent_client_register(h.client, h.shared, 2 * BLOCK, 0, NULL, 0) == 0);
	need(tent_client_register(h.client, h.private, 2 * BLOCK, 0, NULL, 0) == 0);
	need(tent_ring_open(h.client, 64, 64, &h.ring) == 0);
	need(tent_client_open_segment(h.client, a->board->segment, &h.store) == 0);
	need(tent_client_segment_info(h.client, h.store, &info) == 0);
	h.base = info.buffers[0].base;
	fetch_add(&a->board->ready, 1u);
	for (uint64_t round = 0;; round++) {
		reader_round(&h, round);
		store_release(&a->board->rounds, round + 1);
	}
}

/* ---- processes ------------------------------------------------------------ */

static int count_entries(pid_t pid, const char *what)
{
	char path[64];
	DIR *d;
	int n = 0;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, what);
	d = opendir(path);
	if (!d)
		return -1;
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

int arena_fds(const struct arena *a)
{
	return count_entries(a->tentd.program.pid, "fd");
}

static int count_threads(const struct arena *a)
{
	return count_entries(a->tentd.program.pid, "task");
}

static int count_clients(const char *text)
{
	json_t *root = json_loads(text, 0, NULL), *one;
	size_t i;
	int n = 0;

	json_array_foreach(json_object_get(root, "clients"), i, one)
		n += strcmp(json_string_value(json_object_get(one, "kind")), "observer") != 0;
	json_decref(root);
	return n;
}

/* As tentctl would count them, but for those that only look. */
int arena_clients(const struct arena *a)
{
	struct tent_client *c;
	char *text = NULL;
	int n = -1;

	if (tent_client_observe(a->tentd.socket, &c))
		return -1;
	if (tent_client_query(c, TENT_QUERY_CLIENTS, &text) == 0)
		n = count_clients(text);
	free(text);
	tent_client_detach(c);
	return n;
}

static pid_t fork_quiet(void)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

pid_t arena_spawn(struct arena *a, int (*attack)(struct arena *a, void *arg), void *arg,
		  unsigned uid)
{
	pid_t pid = fork_quiet();

	if (pid)
		return pid;
	if (uid)
		need(setresgid(uid, uid, uid) == 0 && setresuid(uid, uid, uid) == 0);
	_exit(attack(a, arg));
}

int arena_wait(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		assert_int_equal(errno, EINTR);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int arena_attack(struct arena *a, int (*attack)(struct arena *a, void *arg), void *arg,
		 unsigned uid)
{
	return arena_wait(arena_spawn(a, attack, arg, uid));
}

static void check_standing(struct arena *a)
{
	if (program_ended(&a->tentd.program)) {
		int status = program_wait(&a->tentd.program);

		fail_msg("tentd ended with status %d: %s", status, a->tentd.program.errors);
	}
	if (load_acquire(&a->board->wrong))
		fail_msg("the honest client met %u wrongs, first %s",
			 load_acquire(&a->board->wrong), a->board->what);
	if (waitpid(a->store, NULL, WNOHANG) || waitpid(a->reader, NULL, WNOHANG))
		fail_msg("an honest process ended");
}

void arena_honest_rounds(struct arena *a, uint64_t nr)
{
	uint64_t goal = load_acquire(&a->board->rounds) + nr;

	while (load_acquire(&a->board->rounds) < goal) {
		check_standing(a);
		usleep(100);	/* leaves the cores to them */
	}
}

void arena_witness(struct arena *a, uint64_t nr)
{
	uint64_t goal = load_acquire(&a->board->rounds) + nr;

	while (load_acquire(&a->board->rounds) < goal && !load_acquire(&a->board->wrong))
		usleep(100);	/* the same */
}

/* No test may hang for ever; what they wait for takes milliseconds. */
static void watch(void)
{
	alarm((is_soak() ? 6000 : 600) + arena_seconds(0));
}

void arena_start(struct arena *a, const char *const *args)
{
	memset(a, 0, sizeof(*a));
	a->board = mmap(NULL, sizeof(*a->board), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(a->board, MAP_FAILED);
	watch();
	tentd_prepare(&a->tentd);
	tentd_start_ready(&a->tentd, args);
	a->store = fork_quiet();
	if (a->store == 0)
		store_main(a);
	a->reader = fork_quiet();
	if (a->reader == 0)
		reader_main(a);
	arena_honest_rounds(a, ROUNDS_PER_CHECK);
	a->base_clients = arena_clients(a);
	assert_int_equal(a->base_clients, 2);
	/* The observer that counted, and who looked at it, may still be on their way out:
	 * what stays the same for a while is without them. */
	do {
		a->base_fds = arena_fds(a);
		a->base_threads = count_threads(a);
	} while (usleep(20000) == 0 &&
		 (arena_fds(a) != a->base_fds || count_threads(a) != a->base_threads));
}

/* Says once what it waits for, in case it waits for ever. Fewer than before: somebody was on
 * his way out then. None: it could not be counted. */
static void settle(struct arena *a, const char *what, int (*count)(const struct arena *),
		   int base)
{
	for (int tries = 0, now; (now = count(a)) < 0 || now > base; tries++) {
		check_standing(a);
		if (tries == 500)
			fprintf(stderr, "tentd has %d %s, and had %d\n", now, what, base);
		usleep(10000);	/* to count takes a client, which is not to crowd others out */
	}
}

void arena_check(struct arena *a)
{
	watch();
	settle(a, "clients", arena_clients, a->base_clients);
	settle(a, "threads", count_threads, a->base_threads);
	settle(a, "descriptors", arena_fds, a->base_fds);
	arena_honest_rounds(a, ROUNDS_PER_CHECK);
	check_standing(a);
}

static void kill_child(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

void arena_stop(struct arena *a)
{
	arena_check(a);
	kill_child(a->reader);
	kill_child(a->store);
	assert_int_equal(tentd_end(&a->tentd, SIGTERM), 0);
	tentd_cleanup(&a->tentd);
	munmap(a->board, sizeof(*a->board));
}

struct arena arena;

int arena_setup(void **state)
{
	(void)state;
	arena_start(&arena, NULL);
	return 0;
}

int arena_teardown(void **state)
{
	(void)state;
	arena_stop(&arena);
	return 0;
}

unsigned arena_seconds(unsigned by_default)
{
	const char *text = getenv("TENT_FUZZ_SECONDS");

	return text ? (unsigned)strtoul(text, NULL, 10) : by_default;
}
