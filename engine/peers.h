/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peers.h - engines that this one calls, and their segments as its clients open them.
 *
 *   peers.c         engines: called when a segment of theirs is opened, called again while
 *                   somebody has one open
 *   peers_lookup.c  their host names, looked up by threads that nobody waits for
 *   far.c           their segments: opened, described, withdrawn
 *   far_limits.c    what of them one tenant may have
 *   far_table.c     what they have registered, as regions that backends can be asked for
 *   link_serve.c    the other side: our segments, as peers ask for them
 *   notices_link.c  notifications to their owners, and to ours
 *
 * A far segment is that of one owner's life, as a near one. While its engine does not
 * answer it is lost: requests are refused with TARGET_PEER, and what was running ends.
 * When the same life answers again it is back, under the same handle; when another
 * answers in its place, it is gone for good, and opening its name finds the new one.
 */
#ifndef TENT_ENGINE_PEERS_H
#define TENT_ENGINE_PEERS_H

#include "engine/client.h"
#include "engine/segments.h"

#define OPEN_NS 10000000000ull	/* opening a far segment, at most */

enum peer_state { PEER_IDLE, PEER_LOOKUP, PEER_CALLING, PEER_UP };

struct far_segment;
struct lookup;
struct addrinfo;

/* One engine, by the address that clients call it. */
struct engine_peer {
	struct engine_peer *next;
	struct engine_address address;
	char name[ADDRESS_SIZE];
	enum peer_state state;
	struct link *link;		/* CALLING, UP */
	struct lookup *lookup;		/* LOOKUP */
	struct addrinfo *found;		/* CALLING: addresses of its host */
	struct addrinfo *untried;	/* of them, from here */
	struct far_end *end;		/* of the regions that are made now; UP */
	uint64_t epoch;			/* of the life it was last up with, or 0 */
	uint64_t retry_ns;		/* CLOCK_MONOTONIC: not called again before */
	uint32_t failures;		/* in a row */
	uint64_t calls, losses;
	struct far_segment *segments;	/* that can be opened */
	struct far_notices notices;
	char fault[160];		/* why it is not up */
};

struct far_segment {
	struct owned_segment owned;	/* first; refs: handles, and one of our own */
	struct far_segment *next;	/* of the peer's */
	struct engine_peer *peer;	/* NULL: gone */
	char text[NAME_SIZE];		/* its name at the peer */
	struct tenant *tenant;		/* pays for it; NULL: nobody, this program opened it */
	uint32_t buffers;		/* that it pays for */
	bool pays_fd;			/* and for its peer's connection */
	uint32_t regions;		/* that point here, doomed ones too */
	bool known;			/* described at least once in this life */
	bool asked, again;		/* a description is on its way; and is old already */
	uint64_t asked_ns;
	struct client *askers;		/* that wait for it, by next_asker */
	struct far_description *draft;	/* the pages so far */
};

/* Part of struct engine. */
struct peers {
	struct engine_peer *list;
	uint32_t nr, nr_lookups;
	struct round *round;		/* drops regions */
	struct far_region *doomed;	/* unpublished, pollers still to be asked */
	uint32_t dropping;
};

static inline struct far_segment *far_of(struct segment *s)
{
	return s->is_far ? (struct far_segment *)s : NULL;
}

/* ---- peers.c ---- */
int peers_open(struct engine *e);
/* Ends every call; nobody is called any more. */
void peers_stop(struct engine *e);
/* Does the engine still wait for something of theirs? */
bool peers_busy(const struct engine *e);
void peers_close(struct engine *e);
void peers_patrol(struct engine *e, uint64_t now);
bool peers_need_patrol(const struct engine *e);

/* The one of that address, made if need be. NULL: no memory, or too many. */
struct engine_peer *peer_find(struct engine *e, const struct engine_address *a);
/* Calls it unless it is up or being called. */
void peer_call(struct engine *e, struct engine_peer *p);
/* Hello came, or the link ended: then the next of its addresses is called, if none answered. */
void peer_is_up(struct engine *e, struct engine_peer *p, struct link *l);
void peer_is_down(struct engine *e, struct engine_peer *p, const char *why);

/* ---- peers_lookup.c ---- */
/* Looks the peer's host up; peer_looked_up() is told. 0 or -errno. */
int lookup_send(struct engine *e, struct engine_peer *p);
/* The engine stops and waits for none that is still out. */
void lookup_abandon(struct engine *e, struct engine_peer *p);
/* rc: 0, or of getaddrinfo(). The peer frees what was found. */
void peer_looked_up(struct engine *e, struct engine_peer *p, int rc, struct addrinfo *found);

/* ---- far.c ---- */
/* A client opens a segment of another engine: it is answered now or later. */
void far_open(struct engine *e, struct client *c, const struct segment_name *n);
/* The client ends: it waits no more. */
void far_forget_asker(struct engine *e, struct client *c);
/* A handle on it is closed. */
void far_put(struct engine *e, struct far_segment *s);
/* Its engine is up, or does not answer. */
void far_peer_up(struct engine *e, struct engine_peer *p);
void far_peer_down(struct engine *e, struct engine_peer *p, const char *why);
void far_patrol(struct engine *e, struct engine_peer *p, uint64_t now);
/* Frames of a link that we opened. */
void far_take_segment(struct engine *e, struct link *l, const json_t *frame);
void far_take_missing(struct engine *e, struct link *l, const json_t *frame);
void far_take_changed(struct engine *e, struct link *l, const json_t *frame);

/* ---- far_limits.c ---- */
/* The client's tenant pays for a segment and, when it has no other of that peer, for a
 * connection. False: it was told that it may not have more. */
bool far_pay(struct engine *e, struct client *c, const struct engine_peer *p,
	     struct far_segment *s);
/* For so many buffers instead of those before. False: it may not have more. */
bool far_pay_buffers(struct engine *e, struct far_segment *s, uint32_t nr);
/* It leaves its peer: another one of that tenant takes its part of the connection. */
void far_leave_peer(struct engine *e, struct far_segment *s);
/* Nobody has a handle on it any more. */
void far_refund(struct engine *e, struct far_segment *s);

/* ---- far_table.c ---- */
/* Takes a page into the draft. 1: all are there; 0: *next is wanted; -1: it is no such
 * page, -2: no memory, -3: more buffers than its tenant may have. */
int far_draft_take(struct engine *e, struct far_segment *s, const json_t *frame, uint32_t *next);
void far_draft_drop(struct far_segment *s);
/* The draft becomes the table. False: no memory. */
bool far_publish(struct engine *e, struct far_segment *s);
/* Nobody finds a region of it any more; what uses them ends with that rule. */
void far_withdraw(struct engine *e, struct far_segment *s, uint16_t rule);
/* It has no handle, no peer and no region left: freed. */
void far_free_if_over(struct engine *e, struct far_segment *s);
struct far_end *far_end_create(struct engine *e, const struct link *l);
/* Without pollers: frees what still waits. */
void far_doomed_close(struct engine *e);

#endif /* TENT_ENGINE_PEERS_H */
