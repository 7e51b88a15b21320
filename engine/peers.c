/* SPDX-License-Identifier: Apache-2.0 */
/* peers.c - engines that this one calls. */
#define _GNU_SOURCE
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/peers.h"

#define LOOKUPS_AGAIN_MAX 32u	/* under way when one that nobody waits for begins */
#define RETRY_FIRST_NS 100000000ull
#define RETRY_LAST_NS 5000000000ull

/* ---- calling ----------------------------------------------------------- */

/* Twice as long after each failure in a row. */
static uint64_t retry_after(const struct engine_peer *p)
{
	uint64_t wait = RETRY_FIRST_NS;

	for (uint32_t i = 1; i < p->failures && wait < RETRY_LAST_NS; i++)
		wait *= 2;
	return wait < RETRY_LAST_NS ? wait : RETRY_LAST_NS;
}

static void forget_addresses(struct engine_peer *p)
{
	if (p->found)
		freeaddrinfo(p->found);
	p->found = NULL;
	p->untried = NULL;
}

/* None of its addresses answers, or it was up. */
static void is_down(struct engine *e, struct engine_peer *p, const char *why)
{
	p->losses += p->state == PEER_UP;
	p->state = PEER_IDLE;
	p->link = NULL;
	p->failures++;
	p->retry_ns = clock_monotonic_ns() + retry_after(p);
	snprintf(p->fault, sizeof(p->fault), "%s", why);
	forget_addresses(p);
	far_notices_drop(e, p);
	far_peer_down(e, p, why);
	far_end_put(e, p->end);
	p->end = NULL;
}

static int dial(const struct sockaddr *a, unsigned int size, int *fd)
{
	int yes = 1;

	*fd = socket(a->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (*fd < 0)
		return -errno;
	setsockopt(*fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	if (connect(*fd, a, size) == 0 || errno == EINPROGRESS)
		return 0;
	return -errno;
}

/* NULL, or why that address cannot be called. */
static const char *call_address(struct engine *e, struct engine_peer *p,
				const struct addrinfo *a)
{
	int fd = -1, error = dial(a->ai_addr, a->ai_addrlen, &fd);

	if (error) {
		if (fd >= 0)
			close(fd);
		return strerror(-error);
	}
	p->link = link_create(e, fd, p->name, p);
	if (!p->link)
		return "there is no memory for a connection";
	p->state = PEER_CALLING;
	return NULL;
}

/* A host has several addresses, and an engine listens at one: "localhost" is ::1 first.
 * why: what became of the address before. */
static void call_next(struct engine *e, struct engine_peer *p, const char *why)
{
	while (why && p->untried) {
		const struct addrinfo *a = p->untried;

		p->untried = a->ai_next;
		why = call_address(e, p, a);
	}
	if (why)
		is_down(e, p, why);
}

void peer_is_down(struct engine *e, struct engine_peer *p, const char *why)
{
	if (p->state == PEER_CALLING && !e->stopping)
		call_next(e, p, why);
	else
		is_down(e, p, why);
}

void peer_is_up(struct engine *e, struct engine_peer *p, struct link *l)
{
	p->end = far_end_create(e, l);
	if (!p->end) {
		link_end(e, l, "there is no memory for a peer");
		return;
	}
	p->state = PEER_UP;
	p->epoch = l->epoch;
	p->failures = 0;
	p->fault[0] = '\0';
	forget_addresses(p);
	far_peer_up(e, p);
}

void peer_looked_up(struct engine *e, struct engine_peer *p, int rc, struct addrinfo *found)
{
	p->found = p->untried = found;
	if (e->stopping)
		return;
	call_next(e, p, rc ? gai_strerror(rc) : "its name has no address");
}

void peer_call(struct engine *e, struct engine_peer *p)
{
	int rc;

	if (p->state != PEER_IDLE || e->stopping)
		return;
	p->calls++;
	p->state = PEER_LOOKUP;
	rc = lookup_send(e, p);
	if (rc < 0)
		is_down(e, p, strerror(-rc));
}

/* ---- the list ---------------------------------------------------------- */

static void peer_free(struct engine *e, struct engine_peer *p)
{
	struct engine_peer **at = &e->peers->list;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	e->peers->nr--;
	forget_addresses(p);
	far_end_put(e, p->end);
	free(p);
}

/* One that nobody uses makes room. */
static bool make_room(struct engine *e)
{
	struct engine_peer *idle = NULL;

	if (e->peers->nr < 2 * e->config.far_max)	/* all that tenants may use */
		return true;
	for (struct engine_peer *p = e->peers->list; p; p = p->next)
		if (!p->segments && p->state == PEER_IDLE)
			idle = p;
	if (idle)
		peer_free(e, idle);
	return idle;
}

struct engine_peer *peer_find(struct engine *e, const struct engine_address *a)
{
	struct engine_peer *p;

	for (p = e->peers->list; p; p = p->next)
		if (engine_address_equal(&p->address, a))
			return p;
	p = make_room(e) ? calloc(1, sizeof(*p)) : NULL;
	if (!p)
		return NULL;
	p->address = *a;
	engine_address_print(a, p->name);
	p->next = e->peers->list;
	e->peers->list = p;
	e->peers->nr++;
	return p;
}

/* ---- now and then ------------------------------------------------------ */

/* Nobody has a segment of it open, and nothing that was moved between us is on its way. */
static void leave(struct engine *e, struct engine_peer *p)
{
	link_end(e, p->link, NULL);
	p->losses--;
	p->failures = 0;
	p->retry_ns = 0;
	p->fault[0] = '\0';
}

/* Each look-up of a name is a thread. */
static bool may_call_again(const struct engine *e, const struct engine_peer *p, uint64_t now)
{
	return p->state == PEER_IDLE && p->segments && now >= p->retry_ns &&
	       (p->address.kind != HOST_NAME || e->peers->nr_lookups < LOOKUPS_AGAIN_MAX);
}

/* Called again as long as somebody has a segment of it. */
void peers_patrol(struct engine *e, uint64_t now)
{
	for (struct engine_peer *p = e->peers->list, *next; p; p = next) {
		next = p->next;
		far_patrol(e, p, now);
		far_notices_patrol(e, p, now);
		if (may_call_again(e, p, now))
			peer_call(e, p);
		else if (p->state == PEER_UP && !p->segments && p->end->refs == 1 &&
			 !p->notices.out && !p->notices.waiting)
			leave(e, p);
	}
}

bool peers_need_patrol(const struct engine *e)
{
	const struct engine_peer *p = e->peers->list;

	while (p && !p->segments)
		p = p->next;
	return p;
}

/* ---- life -------------------------------------------------------------- */

int peers_open(struct engine *e)
{
	e->peers = calloc(1, sizeof(*e->peers));
	if (!e->peers)
		return -ENOMEM;
	e->peers->round = round_create(e, CLIENT_ROUND);
	return e->peers->round ? 0 : -ENOMEM;
}

void peers_stop(struct engine *e)
{
	for (struct engine_peer *p = e->peers->list; p; p = p->next)
		lookup_abandon(e, p);
}

bool peers_busy(const struct engine *e)
{
	return e->peers->nr_lookups || e->peers->dropping;
}

void peers_close(struct engine *e)
{
	if (!e->peers)
		return;
	while (e->peers->list)
		peer_free(e, e->peers->list);
	far_doomed_close(e);
	free(e->peers->round);
	free(e->peers);
	e->peers = NULL;
}
