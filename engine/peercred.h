/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peercred.h - who is at the other end of a socket, by the kernel's word. A pid is
 * only a number that may be given away again; everything here is tied to a pidfd.
 */
#ifndef TENT_ENGINE_PEERCRED_H
#define TENT_ENGINE_PEERCRED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct peer {
	pid_t pid;		/* 0: not visible in our PID namespace */
	uint32_t uid;
	int pidfd;		/* -1: none; then only its socket tells of its end */
	int mem_fd;		/* its /proc/PID/mem, or -1 */
	int mem_error;		/* errno that kept mem_fd from being opened */
	bool other_clock;	/* not proven to share our CLOCK_MONOTONIC */
};

/* Who connected? Fills pid and uid, opens nothing. 0 or -errno. */
int peer_read(int sock, struct peer *p);

/* Opens what can be had: pidfd, mem_fd, the clock's answer. -ESRCH when the process is
 * gone already, else 0. */
int peer_open(int sock, struct peer *p);
void peer_close(struct peer *p);

/* /proc/PID/mem of the very process that pidfd names: -ESRCH when pid has become
 * another's, or another -errno. */
int peer_open_memory(pid_t pid, int pidfd);

/* Does the process live? */
bool peer_is_alive(int pidfd);

/* Do we and pid share a time namespace? Unproven is no. */
bool peer_shares_clock(pid_t pid);

#endif /* TENT_ENGINE_PEERCRED_H */
