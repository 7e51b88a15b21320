/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.h - one attached client, as the control thread keeps it.
 *
 *   accept.c         connections become clients
 *   client.c         its life: messages, replies, the order in which it ends
 *   client_hello.c   who it is and what its segment is called
 *   client_ring.c    its rings                 client_flight.c  what it has not received
 *   memory.c         what it registered        buffers.c   mappings behind that
 *   chore.c errand.c  what of this takes long or for ever
 *   segments.c       what it opened            inbox.c     what it was sent
 *   query*.c explain.c what it asks
 *
 * A client is served one message at a time. A reply that needs pollers or takes long is
 * sent when its round or chore is over; until then the client is busy, its socket is not
 * read, and others are served. Ending waits for that too, so a client has one at most.
 */
#ifndef TENT_ENGINE_CLIENT_H
#define TENT_ENGINE_CLIENT_H

#include <sys/types.h>
#include <tent/tentring.h>

#include "engine/chore.h"
#include "engine/control.h"
#include "engine/inbox.h"
#include "engine/peercred.h"
#include "ring/ctl_io.h"
#include "ring/host.h"

#define CLIENT_ROUND 64		/* orders in a client's round, or one per poller */
#define CLIENTS_REFUSED_MAX 16

struct buffer;
struct errand;
struct file_offer;
struct lookup_job;

struct client_ring {
	struct client_ring *next;
	struct ring_state *state;
	uint32_t id;
	uint32_t poller;
	int error;		/* of making it: 0 or -errno */
	uint64_t bytes;		/* that it is charged for */
	struct ring_geometry geometry;
};

/* A region, and what the control thread alone knows of it. */
struct owned_region {
	struct region region;		/* first */
	struct owned_region *next;	/* of the client's doomed ones */
};

struct client {
	struct event_source socket, death;	/* death: its pidfd */
	struct client *next, **at;		/* of the engine's clients */
	int sock;				/* stays open until all has ended */
	struct peer peer;
	struct tenant *tenant;
	struct tent_ctl_head request;		/* being served */
	uint32_t id;
	bool local;		/* of this process, by engine_attach_local() */
	bool own;		/* the daemon's look at itself: takes no place, is not listed */
	bool refused;		/* over a limit: its first message is answered so */
	bool identified;	/* peer is filled in */
	bool said_hello, observer, membarrier;
	bool busy;		/* a round or a chore of it is on its way */
	bool ending;
	bool over;		/* nothing of it is touched any more */
	bool lingers;		/* over, but for descriptors that it may still receive */
	bool rests;		/* is not listened to for a while, see client_rest.c */
	uint16_t end_rule;	/* what its requests end with */
	struct round *round;	/* the one it has */
	struct chore chore;	/* the same */
	struct errand *errand;	/* receives from its socket, closes it, or identifies it */
	struct file_offer *offer; /* the file that came with the message being served */
	void (*resume)(struct engine *e, struct client *c); /* after dropping regions */
	void (*after_end)(struct engine *e, struct client *c);

	struct client_space space;
	struct segment *segment;	/* its own; NULL: observer, or before HELLO */
	struct segment *segment_pending; /* being closed: its handle is gone */
	struct name *name;
	uint64_t reload_asked;		/* it waits for this one of them; 0: for none */
	struct far_segment *asks;	/* it waits for this one to be opened */
	struct client *next_asker;
	struct lookup_job *lookup;	/* it waits for the directory */
	uint64_t asks_until_ns;

	struct client_ring *rings, *ring_pending; /* pending: being opened or closed */
	struct client_ring *rings_leaving; /* no poller's any more, and charged */
	uint32_t nr_rings, last_ring_id;
	struct poller_stats closed;	/* sums over rings that are no more */

	struct inbox inbox;
	struct buffer *buffers;
	uint64_t last_buffer_id;
	uint64_t allocated;		/* bytes */
	struct buffer *buffer_pending;	/* being made or freed */
	struct buffer *leaving;		/* nobody's any more; still mapped, and charged */
	struct region *pinning;		/* registered, as soon as devices have it */
	struct owned_region *doomed;	/* unpublished, pollers still to be asked */
	uint32_t dropping;		/* how many of them this round asks about */
	struct private_owner *owner;	/* of its private memory, once it has some */
	uint32_t fds;			/* charged to its tenant */
	uint32_t in_flight;		/* the same, in replies that it may not have received */
};

/* client.c */
/* A connection becomes a client. Takes the socket over, on failure too. */
void client_adopt(struct engine *e, int sock, bool local);
/* Its process's end, however it comes, ends the client. */
void client_watch_death(struct engine *e, struct client *c);
/* Answers that a rule is broken, with its usual sentence or with one of its own. */
void client_refuse(struct engine *e, struct client *c, uint16_t rule, uint64_t value);
void client_refuse_text(struct engine *e, struct client *c, uint16_t rule, uint64_t value,
			const char *format, ...) __attribute__((format(printf, 5, 6)));
/* Sends a good answer of size bytes; its descriptors stay the caller's. */
void client_reply(struct engine *e, struct client *c, struct ctl_message *m, size_t size);
void client_reply_plain(struct engine *e, struct client *c);
/* Sends the client's round; done gets the client and ends in client_idle(). */
void client_await(struct engine *e, struct client *c,
		  void (*done)(struct engine *e, void *client));
/* What it was busy with is over: on to the next message, or to its end. */
void client_idle(struct engine *e, struct client *c);
/* Begins to take everything from it; its requests end with rule. May be repeated. */
void client_end(struct engine *e, struct client *c, uint16_t rule);
/* Serves a message, or learns of ctl_recv()'s error; m stays the caller's. */
void client_received(struct engine *e, struct client *c, int rc, struct ctl_message *m);
void client_identified(struct engine *e, struct client *c, struct errand *errand);
/* Its errand is over: on to the next message, or to the end that waited for it. */
void client_go_on(struct engine *e, struct client *c);
/* The same for the one that closed its socket. */
void client_closed(struct engine *e, struct client *c);
/* The engine stops: goes on without it. */
void client_abandon_errand(struct engine *e, struct client *c);
/* It lingered or rested: looks whether that is over. */
void client_look_again(struct engine *e, struct client *c);
/* client_rest.c: a system call on its socket took that much of the control thread. */
void client_pays(struct client *c, uint64_t cpu_ns);
/* On to its next message, at once or after the rest its tenant owes. */
void client_listen(struct engine *e, struct client *c);
/* If it rested: the same again. */
void client_wake_up(struct engine *e, struct client *c);
/* It ends: nobody waits for its rest to be over. */
void client_rest_ends(struct engine *e, struct client *c);

/* Frees those that ended. */
void clients_bury(struct engine *e);
bool client_charge(struct engine *e, struct client *c, enum resource r, uint32_t n);
void client_refund(struct engine *e, struct client *c, enum resource r, uint32_t n);

/* client_flight.c */
/* May its reply have nr_fds descriptors? They are charged to its tenant until it has
 * received them; false: it was told that it may not. */
bool client_may_reply(struct engine *e, struct client *c, uint32_t nr_fds);
/* Has it received all that there was? Then nothing is charged any more. */
bool client_flight_over(struct engine *e, struct client *c);
/* The same for one that is over: else it keeps its place. */
bool client_linger(struct engine *e, struct client *c);

/* client_hello.c */
void client_hello(struct engine *e, struct client *c, struct ctl_message *m);
/* Goes on with it, once who it is has been found out. */
void client_welcome(struct engine *e, struct client *c, const struct tent_ctl_hello *q);

/* client_ring.c */
void client_ring_open(struct engine *e, struct client *c, struct ctl_message *m);
void client_ring_close(struct engine *e, struct client *c, struct ctl_message *m);
/* Ends all rings, a round at a time. */
void client_rings_end(struct engine *e, struct client *c,
		      void (*after)(struct engine *e, struct client *c));
/* Tells pollers whether there are more spinners than cores. */
void client_rings_spin(struct engine *e);

/* query.c, explain.c */
void client_query(struct engine *e, struct client *c, struct ctl_message *m);
void client_explain(struct engine *e, struct client *c, struct ctl_message *m);
/* Sends text as a query's answer; frees it. NULL: no memory. */
void client_reply_text(struct engine *e, struct client *c, char *text);

#endif /* TENT_ENGINE_CLIENT_H */
