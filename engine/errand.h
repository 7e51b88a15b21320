/* SPDX-License-Identifier: Apache-2.0 */
/*
 * errand.h - the three things that a hostile client can make block for as long as it
 * likes: taking a descriptor out of a message, closing one, and opening what /proc has
 * of a process. (A socket that lingers and a file of a FUSE file system wait in close();
 * what was sent and never received is closed with the socket that holds it; a process
 * can stop in the middle of an exec, which /proc/PID/mem waits for.) They are done by a
 * thread of their own, and only that client waits for it. So is the look at a file that
 * comes with SEGMENT_OPEN; and a memfd that nobody took goes the same way, as the last
 * reference to it may be ours, and takes as long as it has pages. A message without
 * descriptors takes no thread.
 */
#ifndef TENT_ENGINE_ERRAND_H
#define TENT_ENGINE_ERRAND_H

#include "engine/files.h"
#include "engine/peercred.h"
#include "ring/ctl_io.h"

enum errand_kind { ERRAND_RECEIVE, ERRAND_SHED, ERRAND_IDENTIFY, ERRAND_CLOSE };

struct errand {
	struct inbox_item item;		/* first: how it comes back */
	struct client *client;
	int sock;			/* close: the client's; else a duplicate, or -1 */
	enum errand_kind kind;
	int rc;				/* of ctl_recv() or peer_open() */
	uint32_t life;			/* enum of errand.c: who frees it */
	struct peer peer;		/* identify: what was opened; else nothing */
	struct ctl_message message;	/* what is no memfd in it was closed: -1 */
	struct file_terms terms;	/* for a file that comes with SEGMENT_OPEN */
	struct file_offer offer;	/* what became of it */
};

enum errand_peek {
	PEEK_NOTHING,	/* yet */
	PEEK_END,	/* the other end is closed, and all was received */
	PEEK_PLAIN,	/* a message without descriptors */
	PEEK_LOADED	/* a message with some */
};

/* What comes next? Looks, and takes nothing. */
enum errand_peek errand_peek(int sock);

/* Receives the client's next message; client_received() gets it, then what it does not
 * take is closed. -errno: no thread. */
int errand_receive(struct engine *e, struct client *c);
/* Opens what there is of the client's process; client_identified() gets that, and the
 * HELLO that asked for it. -errno: no thread. */
int errand_identify(struct engine *e, struct client *c, const struct ctl_message *hello);
/* Closes the client's socket; client_closed() is told. -errno: no thread. */
int errand_close(struct engine *e, struct client *c);
/* The engine stops and does not wait: the errand ends by itself, unless it is on its
 * way back already (false). */
bool errand_abandon(struct errand *errand);

/* Closes fd, whatever that takes, and tells nobody. Any thread; waits for nothing. */
void errand_close_stray(int fd);
/* Nothing more arrives at a connected socket. True: and nothing is left in it, so that
 * closing it cannot block. */
bool errand_seal(int sock);

#endif /* TENT_ENGINE_ERRAND_H */
