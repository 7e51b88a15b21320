/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link_user.c - for whose clients the engine at the other end of a link may speak. Who
 * knows the secret, for all. Without one: of an engine on this host the kernel says whose
 * it is, and it speaks for that user; root's and our own user's speak for all, as those
 * could take what they ask for in other ways. One that is elsewhere cannot be asked, and
 * is believed: that is what peers/insecure is called for.
 */
#include "engine/peers.h"

void link_find_user(const struct engine *e, struct link *l)
{
	if (!e->links.tls)
		l->owner = socket_owner_find(e->links.owner_fd, l->fd, &l->uid);
}

bool link_speaks_for(const struct engine *e, const struct link *l, uint32_t uid)
{
	if (e->links.tls || l->owner == OWNER_ELSEWHERE)
		return true;
	return l->owner == OWNER_KNOWN && (l->uid == 0 || l->uid == e->uid || l->uid == uid);
}
