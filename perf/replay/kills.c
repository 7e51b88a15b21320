/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kills.c - SIGKILL for one of the two engines, in the middle of the replay, again and
 * again: every request that was under way must end, what was said to be written must be
 * in the store, and the replay goes on with an engine in the place of the dead one.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "perf/replay/replay.h"

#define DELAY_NS 8000000	/* from a request's start to the kill, at most */
#define DEATH_STEPS 2000	/* of 1 ms, until a failure is nobody's death */

static uint64_t chance_next(uint64_t *state)	/* xorshift64* */
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1dull >> 32;
}

int kills_open(struct server *s)
{
	struct kills *k = &s->kills;
	uint64_t slots = s->o->pool / s->o->block;
	void *p = mmap(NULL, sizeof(*k->shared) + slots * sizeof(k->shared->slots[0]),
		       PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED) {
		perror("ledger");
		return -1;
	}
	k->shared = p;
	k->chance = s->o->seed * 2 + 1;
	samples_init(&k->end_ns, s->o->kills + 1);
	return 0;
}

/* ---- the blow ---------------------------------------------------------- */

static void strike(struct ledger *shared, pid_t victim, uint64_t delay_ns)
{
	struct timespec t = { .tv_nsec = (long)delay_ns };

	nanosleep(&t, NULL);
	shared->struck_ns = tent_monotonic_now_ns();
	kill(victim, SIGKILL);
	_exit(0);
}

/* Kills are spread evenly over the requests of the trace. */
static bool is_due(const struct server *s)
{
	const struct kills *k = &s->kills;

	return k->done < s->o->kills && !k->killer &&
	       s->next >= (k->done + 1) * s->trace->nr_requests / (s->o->kills + 1);
}

void kills_begin_due(struct server *s)
{
	struct kills *k = &s->kills;
	uint64_t delay_ns;

	if (!is_due(s))
		return;
	k->victim = (int)(chance_next(&k->chance) % 2);
	delay_ns = chance_next(&k->chance) % DELAY_NS;
	k->killed_before = s->stats->killed_requests;
	k->killer = fork();
	if (k->killer == 0)
		strike(k->shared, s->sites->daemons[k->victim].pid, delay_ns);
	if (k->killer > 0)
		return;
	server_note_error(s, "fork: %s", strerror(errno));
	s->lost = true;
}

bool kills_explain(const struct server *s)
{
	static const struct timespec step = { .tv_nsec = 1000000 };
	const struct kills *k = &s->kills;
	siginfo_t info;

	for (int i = 0; k->killer > 0 && i < DEATH_STEPS; i++) {
		info.si_pid = 0;
		if (waitid(P_PID, (id_t)s->sites->daemons[k->victim].pid, &info,
			   WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid)
			return info.si_code == CLD_KILLED && info.si_status == SIGKILL;
		nanosleep(&step, NULL);
	}
	return false;
}

bool kills_struck(const struct server *s)
{
	const struct kills *k = &s->kills;
	siginfo_t info = { 0 };

	return k->killer > 0 &&
	       waitid(P_PID, (id_t)k->killer, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       info.si_pid;
}

/* ---- what must hold now ------------------------------------------------ */

/* Every request ends: without that this does not come back. */
static void await_ends(struct server *s)
{
	struct kills *k = &s->kills;

	while (s->running.nr)
		jobs_poll(s);
	if (s->stats->killed_requests == k->killed_before)
		return;
	k->in_flight++;
	samples_add(&k->end_ns, tent_monotonic_now_ns() - k->shared->struck_ns);
}

/* What was said to be written is there, whoever died. */
static int check_store(struct server *s)
{
	struct kills *k = &s->kills;
	unsigned long long right, wrong;

	for (uint32_t i = 0; i < s->pool.nr_slots; i++) {
		const struct pool_slot *slot = &s->pool.slots[i];

		k->shared->slots[i] = (struct ledger_slot) {
			.id = slot->id, .stored = slot->state == POOL_STORED,
		};
	}
	if (process_ask(&s->sites->store, "check") ||
	    sscanf(s->sites->store.said, "right %llu wrong %llu", &right, &wrong) != 2) {
		fprintf(stderr, "the store does not answer\n");
		return -1;
	}
	k->checked += right + wrong;
	s->stats->wrong_blocks += wrong;
	if (wrong)
		server_note_error(s, "%llu of %llu blocks that were said to be written are not "
				  "in the store", wrong, right + wrong);
	return 0;
}

/* ---- going on ---------------------------------------------------------- */

static int replace_store(struct server *s)
{
	struct sites *t = s->sites;
	char order[128];

	snprintf(order, sizeof(order), "move %s", t->daemons[HOST_STORE].url);
	if (process_ask(&t->store, order))
		return -1;
	snprintf(t->segment, sizeof(t->segment), "%s", t->store.said);
	tent_close_segment(s->engine, s->target);
	pool_free(&s->pool);
	pool_init(&s->pool, (uint32_t)(s->o->pool / s->o->block));
	return sites_find_pool(s, t->segment);
}

static int replace_own(struct server *s)
{
	struct sites *t = s->sites;

	tent_destroy_engine(s->engine);
	if (sites_attach(s, t->daemons[HOST_SERVER].url, t->segment))
		return -1;
	return server_open_memory(s);
}

static int go_on(struct server *s)
{
	struct sites *t = s->sites;
	int victim = s->kills.victim, rc;

	rc = daemon_stop(&t->daemons[victim]);
	if (rc != 128 + SIGKILL) {
		fprintf(stderr, "tentd ended with %d before it was killed\n", rc);
		return -1;
	}
	if (sites_start_engine(t, s->o, victim))
		return -1;
	return victim == HOST_STORE ? replace_store(s) : replace_own(s);
}

int kills_recover(struct server *s)
{
	struct kills *k = &s->kills;

	waitpid(k->killer, NULL, 0);
	await_ends(s);
	server_finish_jobs(s);
	if (check_store(s) || go_on(s))
		return -1;
	/* What fell due meanwhile would come all at once. */
	s->start_ns += tent_monotonic_now_ns() - k->shared->struck_ns;
	k->killer = 0;
	k->of[k->victim]++;
	k->done++;
	return 0;
}

int kills_close(struct server *s)
{
	return s->o->kills ? check_store(s) : 0;
}
