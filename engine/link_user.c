/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link_user.c - whose the engine at the other end of a link is. For whose clients may it
 * speak? Who knows the secret, for all. Without one: of an engine on this host the kernel
 * says whose it is, and it speaks for that user; root's and our own user's speak for all,
 * as those could take what they ask for in other ways. One that is elsewhere cannot be
 * asked, and is believed: that is what peers/insecure is called for.
 */
#include <string.h>

#include "engine/peers.h"

void link_find_user(const struct engine *e, struct link *l)
{
	l->owner = socket_owner_find(e->links.owner_fd, l->fd, &l->uid);
}

/* Of one user on this host, or of one host elsewhere. */
static bool is_akin(const struct link *a, const struct link *b)
{
	size_t host = (size_t)(strrchr(a->from, ':') - a->from) + 1;	/* the colon too */

	if (a->owner != b->owner)
		return false;
	return a->owner == OWNER_KNOWN ? a->uid == b->uid :
	       strncmp(a->from, b->from, host) == 0;
}

/* Nobody's flood of honest hellos locks the others out. */
bool link_has_share(const struct engine *e, const struct link *l)
{
	uint32_t nr = 0, share = e->config.links_max / 2;

	for (const struct link *other = e->links.list; other; other = other->next)
		nr += !other->peer && other->state == LINK_UP && is_akin(l, other);
	return nr < (share ? share : 1);
}

/* FNV-1a of the host; users are told apart from those by the top bit. */
uint64_t link_kin(const struct link *l)
{
	const char *end = strrchr(l->from, ':');
	uint64_t kin = 0xcbf29ce484222325ull;

	if (l->owner == OWNER_KNOWN)
		return l->uid;
	for (const char *at = l->from; at < end; at++)
		kin = (kin ^ (uint8_t)*at) * 0x100000001b3ull;
	return kin | 1ull << 63;
}

bool link_speaks_for(const struct engine *e, const struct link *l, uint32_t uid)
{
	if (e->links.tls || l->owner == OWNER_ELSEWHERE)
		return true;
	return l->owner == OWNER_KNOWN && (l->uid == 0 || l->uid == e->uid || l->uid == uid);
}
