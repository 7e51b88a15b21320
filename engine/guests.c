/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guests.c - what lets bytes travel beside the links: where our peers bring them, by
 * what they are known there, and which segments each may name. The backend that moves
 * them judges by that alone.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "engine/peers.h"
#include "engine/wired.h"

#define TOKEN_TEXT 32u

/* ---- the backend ------------------------------------------------------- */

static struct backend_instance *mover(const struct engine *e)
{
	for (uint32_t i = 0; i < e->nr_instances; i++)
		if (e->instances[i]->ops->peers_open)
			return e->instances[i];
	return NULL;
}

/* A backend may have descriptors of its own that end a poller's sleep. */
static int watch_queues(struct engine *e)
{
	int rc = 0;

	for (uint32_t i = 0; i < e->nr_pollers; i++) {
		struct engine_poller *p = &e->pollers[i];

		for (uint32_t k = 0; k < p->nr_queues && rc == 0; k++) {
			struct backend_queue *q = p->queues[k];
			int fd = q->ops->wait_fd ? q->ops->wait_fd(q) : -1;

			if (fd >= 0)
				rc = poller_watch_fd(p->poller, fd);
			if (fd >= 0)
				p->wait_fd = fd;
		}
	}
	return rc;
}

int links_open_data(struct engine *e, char *error, size_t size)
{
	struct backend_instance *inst = mover(e);
	struct sockaddr_storage a;
	socklen_t length = sizeof(a);
	int rc;

	if (e->links.fd < 0 || !inst)
		return 0;
	if (getsockname(e->links.fd, (struct sockaddr *)&a, &length) < 0)
		rc = -errno;
	else
		rc = inst->ops->peers_open(inst, &a, length, &e->links.data_port);
	if (rc == 0)
		rc = watch_queues(e);
	if (rc == 0)
		return 0;
	snprintf(error, size, "transports/tcp/port is %u: no data of peers can be taken there: "
		 "%s", e->config.tcp.port, strerror(-rc));
	return TENT_ERR_CONFIG;
}

/* ---- guests ------------------------------------------------------------ */

_Static_assert(LINK_KEY_SIZE == TLS_EXPORT_SIZE, "the key is one that TLS derives");

/* On a secret link nobody shows a token: whoever reads the wire of data would have it. */
link_prove link_key(const struct link *l, uint8_t key[LINK_KEY_SIZE])
{
	return link_secret(l, "tent data", key) ? tls_prove : NULL;
}

static struct guest *guest_create(const struct engine *e, const struct link *l)
{
	struct guest *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->epoch = l->epoch;
	g->own_epoch = e->epoch;
	g->kin = link_kin(l);
	g->refs = 1;
	g->prove = link_key(l, g->key);
	if (getrandom(g->token, sizeof(g->token), 0) == sizeof(g->token))
		return g;
	free(g);
	return NULL;
}

/* Without one it can ask about segments, and move nothing. */
void link_invite(struct engine *e, struct link *l)
{
	struct backend_instance *inst = mover(e);
	bool wired = wired_invites(e, l);
	struct guest *g = e->links.data_port || wired ? guest_create(e, l) : NULL;

	if (!g)
		return;
	if (e->links.data_port && inst->ops->guest_open(inst, g) < 0 && !wired)
		guest_put(g);
	else
		l->guest = g;
}

void link_uninvite(struct engine *e, struct link *l)
{
	struct backend_instance *inst = mover(e);

	if (!l->guest)
		return;
	if (l->guest->backend)
		inst->ops->guest_close(inst, l->guest);
	wired_uninvite(e, l->guest);
	guest_put(l->guest);
	l->guest = NULL;
}

uint32_t guest_admit(struct guest *g, struct segment *s)
{
	for (uint32_t i = 0; g && i < GUEST_SEGMENTS; i++) {
		if (g->segments[i])
			continue;
		store_release(&g->segments[i], s); /* R7, pairs with A7 in tcp_serve.c */
		return i;
	}
	return NO_HANDLE;
}

void guest_expel(struct guest *g, uint32_t handle)
{
	if (g && handle < GUEST_SEGMENTS)
		store_release(&g->segments[handle], NULL); /* R7 */
}

/* ---- members of hello -------------------------------------------------- */

void hello_put_data(const struct engine *e, const struct link *l, json_t *hello)
{
	char text[TOKEN_TEXT + 1];

	if (!l->guest || !l->guest->backend)
		return;
	snprintf(text, sizeof(text), "%016llx%016llx",
		 (unsigned long long)l->guest->token[0], (unsigned long long)l->guest->token[1]);
	json_object_set_new(hello, "data_port", json_integer(e->links.data_port));
	json_object_set_new(hello, "data_token", json_string(text));
}

static uint64_t half_of(const char *text)
{
	char half[TOKEN_TEXT / 2 + 1];

	memcpy(half, text, TOKEN_TEXT / 2);
	half[TOKEN_TEXT / 2] = '\0';
	return strtoull(half, NULL, 16);
}

void hello_get_data(struct link *l, const json_t *hello)
{
	const char *text = frame_text(hello, "data_token", TOKEN_TEXT);
	uint32_t port;

	if (!text || strspn(text, "0123456789abcdef") != TOKEN_TEXT ||
	    !frame_uint(hello, "data_port", UINT16_MAX, &port))
		return;
	l->data_port = (uint16_t)port;
	l->data_token[0] = half_of(text);
	l->data_token[1] = half_of(text + TOKEN_TEXT / 2);
}

/* ---- whom we use ------------------------------------------------------- */

void far_end_open(struct engine *e, struct far_end *f)
{
	struct backend_instance *inst = mover(e);

	if (f->data_port && inst && e->links.data_port)
		inst->ops->far_open(inst, f);	/* or nothing reaches it */
}

void far_end_put(struct engine *e, struct far_end *f)
{
	struct backend_instance *inst = mover(e);

	if (!f || --f->refs)
		return;
	if (f->peer)
		inst->ops->far_close(inst, f);
	wired_far_close(e, f);
	free(f);
}
