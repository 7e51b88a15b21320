/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_ring_atomic.c - a batch is seen whole or not at all, by another thread and by
 * another process. Batches are of random size, every word of every slot is derived
 * from its running number, and the engine checks each of them.
 */
#include "tests/ring_fake.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "ring/client_ring.h"
#include "tests/barrier.h"
#include "tests/common/soak.h"

#define SLOTS 64u
#define COMPLETIONS 256u
#define TOTAL 100000u
#define FIRST (UINT32_MAX - 1000)

static void name_of(uint64_t number, char name[TENT_CELL_SIZE])
{
	snprintf(name, TENT_CELL_SIZE, "policy-%llu", (unsigned long long)number);
}

static bool has_name(uint64_t number)
{
	return number % 3 == 0;
}

/* ---- the engine's half ------------------------------------------------------------ */

/* What of slot i of a batch is not as the producer made it; NULL when all is. */
static const char *judge_slot(const struct ring_host *h, uint32_t position, uint32_t i,
			      uint64_t number)
{
	struct tent_slot s __attribute__((aligned(16)));
	char cell[TENT_CELL_SIZE] __attribute__((aligned(16))), name[TENT_CELL_SIZE];

	ring_host_copy_slot(h, position, &s);
	if (s.seq != (uint32_t)(position + 1))
		return "seq";
	if (i && (s.nr || s.op || s.flags || s.cq_head))
		return "follower";
	if (s.user_data != number)
		return "user_data";
	if (s.request.target_id != number || s.request.length != ~number)
		return "request";
	if (!has_name(number))
		return s.request.policy_name ? "policy" : NULL;
	name_of(number, name);
	ring_host_copy_cell(h, position, cell);
	if ((uintptr_t)s.request.policy_name != strlen(name))
		return "policy length";
	return memcmp(cell, name, strlen(name)) ? "cell" : NULL;
}

/* Waits for a completion's place: the client has reaped it when cq_head says so, and
 * since each batch carries it, room is there by construction. */
static const char *serve_batch(struct ring_host *h, uint64_t *number)
{
	struct tent_slot first __attribute__((aligned(16)));
	uint32_t nr;

	while (!ring_host_peek(h, &nr))
		sched_yield();
	if (!nr || nr > SLOTS)
		return "nr";
	ring_host_copy_slot(h, h->consumed, &first);
	if (h->cq_tail - first.cq_head + nr > COMPLETIONS)
		return "cq_head";
	for (uint32_t i = 0; i < nr; i++) {
		const char *bad = judge_slot(h, h->consumed + i, i, *number);

		if (bad)
			return bad;
		++*number;
	}
	ring_host_consume(h, h->consumed + nr);
	engine_complete(h, *number, nr);
	return NULL;
}

static const char *serve_all(struct ring_host *h)
{
	const char *bad = NULL;
	uint64_t number = 0;

	while (!bad && number < TOTAL)
		bad = serve_batch(h, &number);
	if (bad)	/* do not leave the producer without an end */
		ring_host_end(h, TENT_RULE_RING_SEQ);
	return bad;
}

static void *serve_thread(void *host)
{
	return (void *)(uintptr_t)serve_all(host);
}

/* ---- the client's half ------------------------------------------------------------ */

static void fill(struct tent_request_v1 *r, char name[TENT_CELL_SIZE], uint64_t number)
{
	name_of(number, name);
	*r = (struct tent_request_v1){
		.struct_size = 88, .target_id = number, .length = ~number,
		.policy_name = has_name(number) ? name : NULL,
	};
}

/* Batches of random size, limited by the room; reaps in between. */
static bool produce_all(struct tent_ring *ring)
{
	static struct tent_request_v1 r[SLOTS];
	static char names[SLOTS][TENT_CELL_SIZE];
	struct tent_completion done[8];
	uint64_t number = 0, seed = 11;

	while (number < TOTAL) {
		uint32_t nr = random_next(&seed) % (random_next(&seed) % 4 ? 4 : SLOTS) + 1;

		if (nr > TOTAL - number)
			nr = (uint32_t)(TOTAL - number);
		while (tent_ring_room(ring) < nr) {
			if (!tent_ring_poll(ring, done, 8))
				sched_yield();
			if (tent_ring_end_rule(ring))
				return false;
		}
		for (uint32_t i = 0; i < nr; i++)
			fill(&r[i], names[i], number + i);
		if (tent_ring_submit(ring, r, nr, sizeof(r[0]), number, 0))
			return false;
		number += nr;
	}
	return true;
}

/*
 * Lets the client use the engine's mapping of the same memory. tsan knows memory by
 * its address: only so does it see both ends of each release and acquire, and fails
 * when one of them is weaker.
 */
static void share_mapping(struct pair *p)
{
	struct tent_ring *r = p->ring;
	const struct ring_host *h = p->host;

	r->slots = (uint8_t *)(uintptr_t)h->slots;
	r->cells = (uint8_t *)(uintptr_t)h->cells;
	r->line = h->line;
	r->completions = h->completions;
	r->client_line = (struct tent_client_line *)(uintptr_t)h->client_line;
}

static void a_thread_never_sees_part_of_a_batch(void **state)
{
	pthread_t engine;
	struct pair p;
	void *bad;

	(void)state;
	/* more completions than slots: a slot is used again before its lap is reaped */
	pair_open(&p, fake_geometry(SLOTS, COMPLETIONS, FIRST, 0));
	share_mapping(&p);
	assert_int_equal(pthread_create(&engine, NULL, serve_thread, p.host), 0);
	assert_true(produce_all(p.ring));
	pthread_join(engine, &bad);
	if (bad)
		print_error("wrong in a slot: %s\n", (const char *)bad);
	assert_null(bad);
	pair_close(&p);
}

/* The engine lives in the child, the memfds arrive here as they would from tentd. */
static int serve_process(int fd)
{
	struct fake *f = calloc(1, sizeof(*f));
	const char *bad;

	f->g = fake_geometry(SLOTS, COMPLETIONS, FIRST, 0);
	f->fd = fd;
	if (pthread_create(&f->thread, NULL, fake_serve, f))
		return 2;
	while (!load_acquire(&f->nr_hosts))
		sched_yield();
	bad = serve_all(&f->hosts[0]);
	if (bad)
		fprintf(stderr, "wrong in a slot: %s\n", bad);
	pthread_join(f->thread, NULL);	/* until the client hangs up */
	return bad != NULL;
}

static void another_process_never_sees_part_of_a_batch(void **state)
{
	struct tent_client *c = NULL;
	struct tent_ring *r = NULL;
	int fds[2], status;
	pid_t pid;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		close(fds[1]);
		_exit(serve_process(fds[0]));
	}
	close(fds[0]);
	assert_int_equal(tent_client_attach_fd(fds[1], NULL, &c), 0);
	assert_int_equal(tent_ring_open(c, 0, 0, &r), 0);
	assert_true(produce_all(r));
	while (!tent_ring_consumed(r, FIRST + TOTAL) && !tent_ring_end_rule(r))
		sched_yield();
	tent_ring_close(r);
	tent_client_detach(c);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* A completion too: its 64 bytes are there when its seq is. */
static void *complete_thread(void *host)
{
	struct ring_host *h = host;

	for (uint64_t n = 1; n <= TOTAL; n++) {
		struct tent_completion *c = ring_host_next(h);

		while (n - load_acquire(&h->client_line->resv[0]) > SLOTS)
			sched_yield();
		memset((uint8_t *)c + 8, (int)n, sizeof(*c) - 8);
		ring_host_publish(h, c, (uint16_t)n, (uint8_t)n, (uint8_t)n);
	}
	return NULL;
}

static bool is_whole(const struct tent_completion *c, uint64_t n)
{
	const uint8_t *bytes = (const uint8_t *)c;

	for (size_t i = 8; i < sizeof(*c); i++) {
		if (bytes[i] != (uint8_t)n)
			return false;
	}
	return c->flags == (uint16_t)n && c->status == (uint8_t)n && c->transport == (uint8_t)n;
}

static void a_completion_is_never_seen_in_part(void **state)
{
	struct tent_completion c[8];
	pthread_t engine;
	uint64_t n = 0;
	struct pair p;
	uint32_t *reaped;

	(void)state;
	pair_open(&p, fake_geometry(SLOTS, SLOTS, FIRST, 0));
	share_mapping(&p);
	/* the test's own back-channel: how many were reaped so far */
	reaped = (uint32_t *)(uintptr_t)&p.host->client_line->resv[0];
	assert_int_equal(pthread_create(&engine, NULL, complete_thread, p.host), 0);
	while (n < TOTAL) {
		uint32_t got = tent_ring_poll(p.ring, c, 8);

		for (uint32_t i = 0; i < got; i++)
			assert_true(is_whole(&c[i], ++n));
		store_release(reaped, (uint32_t)n);
		if (!got)
			sched_yield();
	}
	pthread_join(engine, NULL);
	pair_close(&p);
}

/* ---- Dekker --------------------------------------------------------------------- */

#define DEKKER_ROUNDS 20000u
#define DEKKER_SPREAD 200u

/* Each word on its own 128 bytes, or the stores would not linger. */
struct dekker {
	uint32_t sleeps, resv0[31];	/* the F pairs' two words */
	uint32_t published, resv1[31];
	uint32_t saw_sleeper, resv2[31];
	uint32_t start, resv3[31];	/* rounds begun and ended */
	uint32_t end, resv4[31];
	uint32_t rounds, resv5[31];
};

/* One more look is in vain. The other side may be off its core. */
static void look_again(uint32_t *looks)
{
	if (++*looks % 1000)
		spin_pause();
	else
		sched_yield();
}

/* The publishing side: store, compiler fence, look. */
static void *dekker_publish(void *arg)
{
	struct dekker *d = arg;
	uint32_t looks = 0;

	for (uint32_t round = 1; round <= d->rounds; round++) {
		while (load_acquire(&d->start) != round)
			look_again(&looks);
		store_relaxed(&d->published, round);
		compiler_fence();
		d->saw_sleeper = load_relaxed(&d->sleeps) == round;
		store_release(&d->end, round);
	}
	return NULL;
}

/* The sleeping side, shifted a little each round so that the two stores meet. */
static bool dekker_sleep(struct dekker *d, uint32_t round)
{
	uint32_t looks = 0;
	bool saw_published;

	store_release(&d->start, round);
	for (volatile uint32_t i = 0; i < round % DEKKER_SPREAD; i++)
		;
	store_relaxed(&d->sleeps, round);
	wake_barrier();
	saw_published = load_relaxed(&d->published) == round;
	while (load_acquire(&d->end) != round)
		look_again(&looks);
	return saw_published || d->saw_sleeper;
}

/* One of the two must see the other, or both would wait for ever. Without the barrier
 * some hundred of these rounds go wrong. */
static void two_sides_that_look_late_never_miss_each_other(void **state)
{
	struct dekker *d = aligned_alloc(128, sizeof(*d));
	pthread_t thread;
	uint32_t missed = 0;

	(void)state;
	if (!barrier_reaches_all_cores()) {
		free(d);
		skip_because("no membarrier here: sleeps are short instead\n");
	}
	memset(d, 0, sizeof(*d));
	d->rounds = soak_rounds(DEKKER_ROUNDS);
	assert_int_equal(pthread_create(&thread, NULL, dekker_publish, d), 0);
	for (uint32_t round = 1; round <= d->rounds; round++)
		missed += !dekker_sleep(d, round);
	pthread_join(thread, NULL);
	free(d);
	assert_int_equal(missed, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_never_sees_part_of_a_batch),
		cmocka_unit_test(another_process_never_sees_part_of_a_batch),
		cmocka_unit_test(a_completion_is_never_seen_in_part),
		cmocka_unit_test(two_sides_that_look_late_never_miss_each_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
