/* SPDX-License-Identifier: Apache-2.0 */
/*
 * directory_worker.h - the thread that talks to the directory's server. It is given jobs,
 * does them in order, and says what is published again before it is forgotten. Where the
 * server does not answer, it is asked again a second later, and what is looked up meanwhile
 * is answered with the reason at once.
 */
#ifndef TENT_ENGINE_DIRECTORY_WORKER_H
#define TENT_ENGINE_DIRECTORY_WORKER_H

#include <tent/ctl.h>

#include "engine/control.h"
#include "engine/directory_server.h"

struct worker;

/* What a client asks for. The control thread's before and after. */
struct lookup_job {
	struct inbox_item item;		/* first: how it comes back */
	struct client *client;		/* NULL: it waits no more; the control thread's only */
	struct lookup_job *next;
	char text[64];			/* a plain name */
	int rc;				/* 0; -ENOENT: there is none; -EIO: no answer */
	char segment[TENT_CTL_NAME_SIZE]; /* its full name */
	char why[WHY_SIZE];
};

struct worker_state {
	uint32_t published, waiting;	/* names; waiting: not there yet, or not gone yet */
	uint64_t lookups, failures;	/* failures: of the server, not of names */
	char fault[WHY_SIZE];		/* of now, or "" */
};

/* Takes the server over, on failure too. 0 or -errno. */
int worker_start(struct worker **w, const struct server_kind *kind, struct server *server,
		 uint32_t ttl_s);
/* What is published is taken back, lookups that nobody answered are posted with -EIO. */
void worker_stop(struct worker *w);

/* Any thread. The first two are lost where there is no memory. */
void worker_publish(struct worker *w, const char *key, const char *value);
void worker_withdraw(struct worker *w, const char *key);
void worker_lookup(struct worker *w, struct lookup_job *job);
void worker_state_read(struct worker *w, struct worker_state *out);

#endif /* TENT_ENGINE_DIRECTORY_WORKER_H */
