/* SPDX-License-Identifier: Apache-2.0 */
/* ctl_io.h - one control message with its descriptors, sent and received whole. */
#ifndef TENT_RING_CTL_IO_H
#define TENT_RING_CTL_IO_H

#include <tent/ctl.h>

struct ctl_message {
	union {
		struct tent_ctl_head head;
		_Alignas(8) uint8_t bytes[TENT_CTL_MAX_SIZE];
	};
	int fds[TENT_CTL_MAX_FDS];	/* nr_fds of them are ours to close */
	int nr_fds;
};

/* Sends head.size bytes with fds[0..nr_fds); the fds stay the caller's. flags as
 * send(2). 0 or -errno. */
int ctl_send(int sock, struct ctl_message *m, int flags);

/* Receives one message. Received fds are CLOEXEC and the caller's. 0, -EPIPE at
 * end of file, -EBADMSG when the size word, the truncation flags or the number of
 * descriptors do not agree (all fds are then closed), or another -errno. */
int ctl_recv(int sock, struct ctl_message *m, int flags);

void ctl_close_fds(struct ctl_message *m);

#endif /* TENT_RING_CTL_IO_H */
