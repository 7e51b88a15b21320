/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link_tls.c - a link that speaks TLS, as all links of an engine do that has a secret.
 * Nothing is made for who connects and says nothing, and no frame is read before the
 * other end has proven that it knows the secret.
 */
#include "engine/peers.h"

#define STRETCH 16384u	/* bytes of a record at most: what is read at once */

/* ---- out --------------------------------------------------------------- */

/* What TLS has to say goes to the socket's queue. */
static bool queue_all(struct link *l)
{
	uint8_t bytes[4096];
	size_t n;

	while ((n = tls_take(l->tls, bytes, sizeof(bytes))))
		if (!link_queue(l, bytes, n))
			return false;
	return true;
}

bool link_tls_queue(struct link *l, const uint8_t *bytes, size_t size)
{
	if (!tls_is_up(l->tls))
		return true;	/* who has proven nothing is told nothing */
	return tls_write(l->tls, bytes, size) && queue_all(l);
}

/* ---- in ---------------------------------------------------------------- */

/* Goes on with what was put in. */
static void pump(struct engine *e, struct link *l)
{
	enum tls_result result;
	uint8_t bytes[STRETCH];
	size_t size;

	do {
		result = tls_read(l->tls, bytes, sizeof(bytes), &size);
		if (!queue_all(l)) {
			link_end(e, l, "it does not read what it asked for");
			return;
		}
		if (result == TLS_UP)
			link_greet(e, l);
		else if (result == TLS_BYTES)
			link_take(e, l, bytes, size);
	} while (!l->over && (result == TLS_UP || result == TLS_BYTES));
	if (l->over || !link_flush(e, l))
		return;
	if (result == TLS_FAULT)
		link_end(e, l, tls_fault(l->tls));
	else if (result == TLS_OVER)
		link_end(e, l, NULL);
}

/* False: it is no TLS, and the link has ended. */
static bool begin(struct engine *e, struct link *l, uint8_t first)
{
	if (first != TLS_RECORD_HANDSHAKE) {
		link_refuse(e, l, "this engine speaks TLS: it has a peers/secret_file");
		return false;
	}
	l->tls = tls_session_create(e->links.tls, false);
	if (!l->tls)
		link_end(e, l, "there is no memory for TLS");
	return l->tls;
}

/* Frames in the clear can only be an engine without a secret. */
static bool is_clear(const struct link *l, uint8_t first)
{
	return l->peer && tls_is_fresh(l->tls) && first == FRAME_FIRST_BYTE;
}

void link_tls_take(struct engine *e, struct link *l, const uint8_t *bytes, size_t size)
{
	if (!l->tls && !begin(e, l, bytes[0]))
		return;
	if (is_clear(l, bytes[0]))
		link_end(e, l, "it speaks no TLS: it has no peers/secret_file");
	else if (!tls_put(l->tls, bytes, size))
		link_end(e, l, "there is no memory for TLS");
	else
		pump(e, l);
}

void link_tls_call(struct engine *e, struct link *l)
{
	l->tls = tls_session_create(e->links.tls, true);
	if (l->tls)
		pump(e, l);
	else
		link_end(e, l, "there is no memory for TLS");
}

bool link_secret(const struct link *l, const char *label, uint8_t secret[TLS_EXPORT_SIZE])
{
	return l->tls && tls_export(l->tls, label, secret);
}
