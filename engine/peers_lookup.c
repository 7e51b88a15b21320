/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peers_lookup.c - a host's name into an address. Name servers answer when they like, so
 * a thread of its own asks them, and only that peer waits.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "engine/peers.h"
#include "engine/thread.h"

struct lookup {
	struct inbox_item item;		/* first: how it comes back */
	struct engine_peer *peer;
	char host[HOST_SIZE], port[8];
	struct addrinfo hints;
	struct addrinfo *found;
	int rc;
	uint32_t life;			/* R12/A12: who comes second frees */
};

enum { LIFE_OUT = 0, LIFE_BACK = 1, LIFE_ABANDONED = 2 };

static void lookup_free(struct lookup *k)
{
	if (k->rc == 0 && k->found)
		freeaddrinfo(k->found);
	free(k);
}

static void *lookup_main(void *arg)
{
	struct lookup *k = arg;

	k->rc = getaddrinfo(k->host, k->port, &k->hints, &k->found);
	/* BACK: the engine waits for the item. R12/A12, pairs with lookup_abandon(). */
	if (exchange(&k->life, (uint32_t)LIFE_BACK) == LIFE_OUT)
		control_post(k->item.engine, &k->item);
	else
		lookup_free(k);
	return NULL;
}

static void lookup_back(struct engine *e, struct inbox_item *item)
{
	struct lookup *k = (struct lookup *)item;

	e->peers->nr_lookups--;
	k->peer->lookup = NULL;
	peer_looked_up(e, k->peer, k->rc, k->rc ? NULL : k->found);
	free(k);
}

int lookup_send(struct engine *e, struct engine_peer *p)
{
	struct lookup *k = calloc(1, sizeof(*k));
	pthread_t thread;
	int rc;

	if (!k)
		return -ENOMEM;
	k->item.engine = e;
	k->item.arrive = lookup_back;
	k->peer = p;
	memcpy(k->host, p->address.host, sizeof(k->host));
	snprintf(k->port, sizeof(k->port), "%u", p->address.port);
	k->hints.ai_socktype = SOCK_STREAM;
	if (p->address.kind != HOST_NAME) {	/* nobody is asked: no thread */
		k->hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
		k->rc = getaddrinfo(k->host, k->port, &k->hints, &k->found);
		peer_looked_up(e, p, k->rc, k->rc ? NULL : k->found);
		free(k);
		return 0;
	}
	rc = thread_start_small(&thread, true, lookup_main, k);
	if (rc < 0) {
		free(k);
		return rc;
	}
	p->lookup = k;
	e->peers->nr_lookups++;
	return 0;
}

void lookup_abandon(struct engine *e, struct engine_peer *p)
{
	struct lookup *k = p->lookup;

	/* R12/A12, pairs with lookup_main(). */
	if (!k || exchange(&k->life, (uint32_t)LIFE_ABANDONED) != LIFE_OUT)
		return;		/* none, or it is about to arrive */
	p->lookup = NULL;
	e->peers->nr_lookups--;
}
