/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_door.h - what the thread that makes connections consists of. All is its own. */
#ifndef TENT_IO_TCP_DOOR_H
#define TENT_IO_TCP_DOOR_H

#include "io/tcp.h"

#define DOOR_HELLO_NS 5000000000ull	/* from connect to welcome, at most */
#define DOOR_STRANGERS 64u		/* that have not said who they are, at most */
#define DOOR_RETRY_NS 50000000ull	/* between two tries to have one fenced */

enum visit_state {
	VISIT_DIALS,	/* we call: connecting */
	VISIT_SAID,	/* we said hello; it has not answered yet */
	VISIT_RESTS,	/* it did not answer: we try again a little later */
	VISIT_STRANGER,	/* it calls, and has not said who it is yet */
	VISIT_WAITS	/* it waits for a connection's end */
};

/* One half-made connection. */
struct tcp_visit {
	LIST_ENTRY(tcp_visit) all;	/* newest first */
	LIST_ENTRY(tcp_visit) awaited;	/* VISIT_WAITS: of the connection */
	enum visit_state state;
	int fd;			/* -1: VISIT_RESTS */
	bool over;		/* freed after this round of events */
	bool for_fence;
	struct tcp_conn *conn;	/* we call: for it */
	uint64_t until_ns, retry_ns;	/* CLOCK_MONOTONIC */
	uint32_t have;		/* bytes */
	union {
		struct tcp_hello hello;
		struct tcp_welcome welcome;
		uint8_t bytes[sizeof(struct tcp_hello)];
	};
};
LIST_HEAD(tcp_visits, tcp_visit);

struct tcp_door {
	struct tcp_instance *inst;
	pthread_t thread;
	bool running;
	uint32_t stopping;	/* R16/A16 */
	struct tcp_note *inbox;	/* R16/A16 */
	int event_fd, epoll_fd, listen_fd;
	bool paused;		/* out of descriptors */
	struct tcp_visits visits, dead;
	uint64_t last_name;	/* of connections that we made: a count, none comes twice */
	uint32_t nr_strangers;
	uint32_t nr_guest_conns;
	LIST_HEAD(, tcp_guest) guests;
	LIST_HEAD(, tcp_peer) peers;
	LIST_HEAD(, tcp_conn) conns;
	/* counted by the door, read by any thread */
	uint64_t accepted, turned_away;
};

/* tcp_visit.c */
/* They come: fd is theirs. We call for a connection of ours, or to have one fenced. */
void visit_receive(struct tcp_door *d, int fd);
void visit_call(struct tcp_door *d, struct tcp_line *l);
void visit_fence(struct tcp_door *d, struct tcp_conn *c);
/* Something happened on it; its time is up. */
void visit_ready(struct tcp_door *d, struct tcp_visit *v);
void visit_patrol(struct tcp_door *d, struct tcp_visit *v, uint64_t now);
/* The connection that it waits for is closed. */
void visit_welcome_fence(struct tcp_door *d, struct tcp_visit *v);
void visit_end(struct tcp_door *d, struct tcp_visit *v);

/* tcp_door.c */
struct tcp_conn *door_conn_create(struct tcp_queue *q);
/* It is made: the poller's from here on. */
void door_conn_hand_over(struct tcp_door *d, struct tcp_conn *c, int fd, uint32_t depth);
/* Frees it, and all that waited for it. */
void door_conn_free(struct tcp_door *d, struct tcp_conn *c);
void door_conn_retire(struct tcp_door *d, struct tcp_conn *c);
/* The least loaded. */
struct tcp_queue *door_queue(const struct tcp_door *d);
void door_peer_put(struct tcp_peer *p);

/* tcp_door.c. Control. */
int tcp_door_open(struct tcp_instance *inst, const struct sockaddr *address,
		  socklen_t size, uint16_t *port);
/* Ends the thread; pollers may run on. May be called again. */
void tcp_door_stop(struct tcp_instance *inst);
/* Frees all that it has; no poller runs. */
void tcp_door_close(struct tcp_instance *inst);

#endif /* TENT_IO_TCP_DOOR_H */
