/* SPDX-License-Identifier: Apache-2.0 */
/* socket_owner.h - whose is the other end of a TCP connection? The kernel knows it when
 * that end is in this network namespace. */
#ifndef TENT_ENGINE_SOCKET_OWNER_H
#define TENT_ENGINE_SOCKET_OWNER_H

#include <stdbool.h>
#include <stdint.h>

enum socket_owner {
	OWNER_ELSEWHERE,	/* the other end is not in this network namespace */
	OWNER_KNOWN,
	OWNER_HIDDEN		/* it is, and the kernel does not say whose; or it is closed */
};

/* A socket to ask the kernel by, or -errno. */
int socket_owner_open(void);

/* Does the kernel know of the listening socket? Else it knows of none. */
bool socket_owner_works(int asks, int listening);

/* Of the other end of a connected socket. asks: the socket of above, or negative: then
 * what is of this host for certain is hidden. Waits for nothing. */
enum socket_owner socket_owner_find(int asks, int fd, uint32_t *uid);

#endif /* TENT_ENGINE_SOCKET_OWNER_H */
