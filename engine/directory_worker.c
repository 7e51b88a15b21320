/* SPDX-License-Identifier: Apache-2.0 */
/* directory_worker.c - see directory_worker.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/directory_entry.h"
#include "engine/directory_worker.h"
#include "engine/thread.h"

#define RETRY_NS 1000000000ull

/* A name of ours. WANTED: not there yet; GOING: not gone yet. */
enum entry_state { ENTRY_WANTED, ENTRY_THERE, ENTRY_GOING };

struct entry {
	struct entry *next;
	enum entry_state state;
	char key[KEY_SIZE], value[VALUE_SIZE];
	char holder[TENT_CTL_NAME_SIZE]; /* another engine's segment that has the name, or "" */
};

/* value "": withdraw. */
struct change {
	struct change *next;
	char key[KEY_SIZE], value[VALUE_SIZE];
};

struct worker {
	const struct server_kind *kind;
	struct server *server;
	pthread_t thread;
	pthread_mutex_t lock;		/* the next six */
	pthread_cond_t wake;
	struct change *changes, **last_change;
	uint32_t pending;		/* of these, and the one that is worked on */
	struct lookup_job *lookups, **last_lookup;
	struct worker_state state;
	bool stopping;
	/* the thread's */
	uint64_t period_ns;		/* a third of a lifetime */
	uint64_t due_ns;		/* when entries are looked at next */
	uint64_t mute_until_ns;		/* the server did not answer: not asked before */
	char why[WHY_SIZE];		/* of the last failure, until the server answers */
	uint64_t failures;
	struct entry *entries;
};

/* ---- the server -------------------------------------------------------- */

static bool is_mute(const struct worker *w)
{
	return clock_monotonic_ns() < w->mute_until_ns;
}

static void look_again_soon(struct worker *w)
{
	uint64_t soon = clock_monotonic_ns() + RETRY_NS;

	if (w->due_ns > soon)
		w->due_ns = soon;
}

/* Judges what a call to the server came to; -EIO makes it mute for a while. */
static int heard(struct worker *w, int rc)
{
	if (rc != -EIO) {
		w->why[0] = '\0';
		return rc;
	}
	w->mute_until_ns = clock_monotonic_ns() + RETRY_NS;
	w->failures++;
	look_again_soon(w);
	return rc;
}

/* ---- entries ----------------------------------------------------------- */

/* Published by us in an earlier life, or by nobody that lives: one segment has one
 * address, and we have that. */
static bool is_same_segment(const char *a, const char *b)
{
	char one[TENT_CTL_NAME_SIZE], two[TENT_CTL_NAME_SIZE];

	return entry_segment(a, one) && entry_segment(b, two) && strcmp(one, two) == 0;
}

static void publish(struct worker *w, struct entry *n)
{
	char held[VALUE_SIZE], old[VALUE_SIZE];
	int rc = heard(w, w->kind->publish(w->server, n->key, n->value, NULL, held, w->why));

	if (rc == -EEXIST && is_same_segment(held, n->value)) {
		strcpy(old, held);
		rc = heard(w, w->kind->publish(w->server, n->key, n->value, old, held, w->why));
	}
	n->state = rc == 0 ? ENTRY_THERE : ENTRY_WANTED;
	if (rc != -EEXIST || !entry_segment(held, n->holder))
		n->holder[0] = '\0';
	if (rc)
		look_again_soon(w);
}

static struct entry **find(struct worker *w, const char *key)
{
	struct entry **at = &w->entries;

	while (*at && strcmp((*at)->key, key) != 0)
		at = &(*at)->next;
	return at;
}

static void forget(struct entry **at)
{
	struct entry *n = *at;

	*at = n->next;
	free(n);
}

/* One bounded look at an entry. True: it is gone from the list. */
static bool tend(struct worker *w, struct entry **at)
{
	struct entry *n = *at;

	if (is_mute(w)) {
		look_again_soon(w);
		return false;
	}
	if (n->state == ENTRY_WANTED)
		publish(w, n);
	if (n->state != ENTRY_GOING)
		return false;
	if (heard(w, w->kind->withdraw(w->server, n->key, n->value, w->why)))
		return false;
	forget(at);
	return true;
}

/* What others may read of it; so many changes are part of it now. */
static void tell(struct worker *w, uint32_t changes)
{
	struct worker_state s = { .failures = w->failures };
	const struct entry *held = NULL;

	for (const struct entry *n = w->entries; n; n = n->next) {
		s.published += n->state == ENTRY_THERE;
		s.waiting += n->state != ENTRY_THERE;
		held = n->holder[0] ? n : held;
	}
	if (w->why[0])
		memcpy(s.fault, w->why, sizeof(s.fault));
	else if (held)
		snprintf(s.fault, sizeof(s.fault), "%s is taken by %s",
			 held->key + strlen(KEY_PREFIX), held->holder);
	pthread_mutex_lock(&w->lock);
	s.lookups = w->state.lookups;
	w->state = s;
	w->pending -= changes;
	pthread_mutex_unlock(&w->lock);
}

static void tend_all(struct worker *w)
{
	for (struct entry **at = &w->entries; *at; )
		if (!tend(w, at))
			at = &(*at)->next;
}

/* With nothing published: whether the server answers is worth knowing all the same. */
static void probe(struct worker *w)
{
	char value[VALUE_SIZE];

	heard(w, w->kind->lookup(w->server, KEY_PREFIX, value, w->why));
}

/* What is there lives on; what is not yet gets there. */
static void refresh(struct worker *w)
{
	w->due_ns = clock_monotonic_ns() + w->period_ns;
	if (is_mute(w)) {
		w->due_ns = w->mute_until_ns;
		return;
	}
	if (!w->entries) {
		probe(w);
	} else if (heard(w, w->kind->refresh(w->server, w->why)) == -ENOENT) {
		for (struct entry *n = w->entries; n; n = n->next)
			if (n->state == ENTRY_THERE)
				n->state = ENTRY_WANTED;
	}
	tend_all(w);
}

/* ---- jobs -------------------------------------------------------------- */

static void do_change(struct worker *w, const struct change *c)
{
	struct entry **at = find(w, c->key), *n = *at;

	if (!*c->value) {
		if (n) {
			n->state = ENTRY_GOING;
			tend(w, at);
		}
		return;
	}
	if (!n) {
		n = *at = calloc(1, sizeof(*n));
		if (!n)
			return;
	}
	strcpy(n->key, c->key);
	strcpy(n->value, c->value);
	n->state = ENTRY_WANTED;
	tend(w, at);
}

static void do_lookup(struct worker *w, struct lookup_job *job)
{
	char key[KEY_SIZE], value[VALUE_SIZE];

	job->rc = -EIO;
	if (is_mute(w)) {
		memcpy(job->why, w->why, sizeof(job->why));
	} else if (entry_key(job->text, key)) {
		job->rc = heard(w, w->kind->lookup(w->server, key, value, w->why));
		memcpy(job->why, w->why, sizeof(job->why));
	}
	if (job->rc == 0 && !entry_segment(value, job->segment)) {
		job->rc = -EIO;
		snprintf(job->why, sizeof(job->why), "the directory has no address for it");
	}
	control_post(job->item.engine, &job->item);
}

/* ---- the thread -------------------------------------------------------- */

static void wait_for_work(struct worker *w)
{
	const struct timespec due = {
		.tv_sec = (time_t)(w->due_ns / 1000000000),
		.tv_nsec = (long)(w->due_ns % 1000000000),
	};
	int rc = 0;

	while (!w->changes && !w->lookups && !w->stopping && rc == 0)
		rc = pthread_cond_timedwait(&w->wake, &w->lock, &due);
}

static struct change *take_changes(struct worker *w)
{
	struct change *list = w->changes;

	w->changes = NULL;
	w->last_change = &w->changes;
	return list;
}

static struct lookup_job *take_lookups(struct worker *w)
{
	struct lookup_job *list = w->lookups;

	w->lookups = NULL;
	w->last_lookup = &w->lookups;
	return list;
}

/* Changes one by one, so that who looks up waits for one of them at most. */
static bool turn(struct worker *w)
{
	struct lookup_job *lookups, *next;
	struct change *c;
	bool goes_on;

	pthread_mutex_lock(&w->lock);
	wait_for_work(w);
	lookups = take_lookups(w);
	c = w->changes;
	if (c && !(w->changes = c->next))
		w->last_change = &w->changes;
	goes_on = !w->stopping;
	pthread_mutex_unlock(&w->lock);
	for (; lookups; lookups = next) {
		next = lookups->next;
		do_lookup(w, lookups);	/* gives it away */
	}
	if (c)
		do_change(w, c);
	if (goes_on && clock_monotonic_ns() >= w->due_ns)
		refresh(w);
	tell(w, c != NULL);
	free(c);
	return goes_on;
}

/* Takes back what is there, as long as the server answers. */
static void take_all_back(struct worker *w)
{
	for (struct entry *n = w->entries; n; n = n->next)
		n->state = n->state == ENTRY_WANTED ? ENTRY_WANTED : ENTRY_GOING;
	for (struct entry **at = &w->entries; *at; )
		if ((*at)->state == ENTRY_WANTED || !tend(w, at))
			forget(at);
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;

	while (turn(w))
		;
	take_all_back(w);
	return NULL;
}

/* ---- doors ------------------------------------------------------------- */

static void cond_init_monotonic(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

static void worker_free(struct worker *w)
{
	pthread_cond_destroy(&w->wake);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

int worker_start(struct worker **out, const struct server_kind *kind, struct server *server,
		 uint32_t ttl_s)
{
	struct worker *w = calloc(1, sizeof(*w));
	int rc;

	if (!w) {
		kind->close(server);
		return -ENOMEM;
	}
	w->kind = kind;
	w->server = server;
	w->last_change = &w->changes;
	w->last_lookup = &w->lookups;
	w->period_ns = ttl_s * 1000000000ull / 3;
	w->due_ns = clock_monotonic_ns();
	pthread_mutex_init(&w->lock, NULL);
	cond_init_monotonic(&w->wake);
	rc = thread_start(&w->thread, NULL, worker_main, w);
	if (rc == 0) {
		pthread_setname_np(w->thread, "tent-directory");
		*out = w;
		return 0;
	}
	kind->close(server);
	worker_free(w);
	return rc;
}

static void drop_jobs(struct worker *w)
{
	struct change *c = take_changes(w), *next;
	struct lookup_job *job = take_lookups(w), *after;

	for (; c; c = next) {
		next = c->next;
		free(c);
	}
	for (; job; job = after) {
		after = job->next;
		job->rc = -EIO;
		control_post(job->item.engine, &job->item);
	}
}

void worker_stop(struct worker *w)
{
	pthread_mutex_lock(&w->lock);
	w->stopping = true;
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	drop_jobs(w);
	while (w->entries)
		forget(&w->entries);
	w->kind->close(w->server);
	worker_free(w);
}

/* The one of that key, made if need be; under the lock. What waits is as much as there
 * are names, however often they come and go. */
static struct change *change_of(struct worker *w, const char *key)
{
	struct change *c = w->changes;

	while (c && strcmp(c->key, key) != 0)
		c = c->next;
	if (c)
		return c;
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	snprintf(c->key, sizeof(c->key), "%s", key);
	*w->last_change = c;
	w->last_change = &c->next;
	w->pending++;
	return c;
}

static void send_change(struct worker *w, const char *key, const char *value)
{
	struct change *c;

	pthread_mutex_lock(&w->lock);
	c = change_of(w, key);
	if (c)
		snprintf(c->value, sizeof(c->value), "%s", value);
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
}

void worker_publish(struct worker *w, const char *key, const char *value)
{
	send_change(w, key, value);
}

void worker_withdraw(struct worker *w, const char *key)
{
	send_change(w, key, "");
}

void worker_lookup(struct worker *w, struct lookup_job *job)
{
	job->next = NULL;
	pthread_mutex_lock(&w->lock);
	*w->last_lookup = job;
	w->last_lookup = &job->next;
	w->state.lookups++;
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
}

void worker_state_read(struct worker *w, struct worker_state *out)
{
	pthread_mutex_lock(&w->lock);
	*out = w->state;
	out->waiting += w->pending;
	pthread_mutex_unlock(&w->lock);
}
