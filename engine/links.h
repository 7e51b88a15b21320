/* SPDX-License-Identifier: Apache-2.0 */
/*
 * links.h - connections between engines. Each engine opens its own link to an engine
 * whose segments it uses: requests travel from who opened it, answers and news travel
 * back. So two engines that call each other at once have two links and no contest, and
 * whoever claims an address gains nothing: nobody is called back.
 *
 *   links.c         all of them: the listener, limits, keepalive, the end
 *   link.c          one: bytes in and out, hello
 *   link_tls.c      one that is secret
 *   links_listen.c  the address an engine listens on
 *   link_user.c     whose the engine at the other end is, and what follows from that
 *   link_serve.c    what those are told who opened one to us
 *   guests.c        what the transport is told that moves bytes beside them
 *   wired.c         frames of the transport whose connections they set up
 *
 * All on the control thread, which waits for no link. A peer is anybody: what it sends
 * is judged in full, what it does not read is bounded, and what it does not send in time
 * ends it.
 */
#ifndef TENT_ENGINE_LINKS_H
#define TENT_ENGINE_LINKS_H

#include "engine/control_source.h"
#include "engine/frame.h"
#include "engine/mem.h"
#include "engine/segment_name.h"
#include "engine/socket_owner.h"
#include "engine/tls.h"

#define LINK_HELLO_NS 5000000000ull	/* from connect to hello, at most */
#define LINK_DEAD_AFTER 3u		/* keepalives without a byte */
#define LINK_OUT_MAX (256u << 10)	/* unread bytes of one link, frames included, and */
#define LINK_SOCKET_MAX (128 << 10)	/* as many again in its socket: it doubles this */

struct engine;
struct engine_peer;
struct far_end;
struct follow;
struct guest;
struct segment;

enum link_state { LINK_CALLING, LINK_HELLO, LINK_UP };

struct link {
	struct event_source source;	/* first */
	struct link *next, **at;	/* of the engine's, newest first */
	int fd;
	enum link_state state;
	bool over;			/* to be freed after this round of events */
	struct engine_peer *peer;	/* we opened it to this one; NULL: it came to us */
	struct follow *follows;		/* link_serve.c's: what it asked for, and */
	uint32_t nr_follows;		/* how many */
	enum socket_owner owner;	/* of the other end, and where that is */
	uint32_t uid;			/* KNOWN: whose */
	struct tls_session *tls;	/* NULL: in the clear, or nothing came yet */
	struct frame_reader reader;
	uint8_t *out;			/* what the socket did not take yet */
	size_t out_used, out_room;
	uint64_t opened_ns, heard_ns, asked_ns;	/* CLOCK_MONOTONIC; asked: the last ping */
	uint64_t epoch;			/* of the engine at the other end */
	uint16_t data_port;		/* it is called at, for data; 0: not */
	uint64_t data_token[2];		/* to be shown there */
	bool takes_notices;		/* the other end knows of notifications */
	bool wired;			/* it has the transport that links set up, too */
	struct guest *guest;		/* it came to us: as a backend knows it, or NULL */
	char name[ADDRESS_SIZE];	/* where it says that it listens, or "" */
	char from[ADDRESS_SIZE];	/* the address it came from */
};

/* Part of struct engine. */
struct links {
	struct event_source source;	/* the listening socket */
	int fd;				/* the same; -1: peers are off */
	uint16_t data_port;		/* where peers bring data; 0: nowhere */
	bool wired_on;			/* wired.c: frames are taken */
	int wired_fd;			/* the same: its backend's */
	struct event_source wired_source;
	bool paused;			/* out of descriptors */
	int owner_fd;			/* asks the kernel for users; negative: it does not */
	struct tls *tls;		/* all links speak it; NULL: there is no secret */
	struct link *list, *dead;
	uint32_t nr, nr_hello;		/* that came to us; of these without hello */
	uint64_t next_patrol_ns;
	uint64_t accepted, refused;	/* over the engine's life */
	char last_fault[160];		/* of the last link that ended with one */
	char notices[512];		/* lines that its user is to see once */
};

/* Adds one; it ends with a newline. */
void links_notice(struct engine *e, const char *format, ...)
	__attribute__((format(printf, 2, 3)));


/* Before the control thread: listens where the configuration says, which settles the
 * engine's address. 0, also where it cannot and nobody had asked for it, which is a notice;
 * or a negative enum tent_error with a sentence. */
int links_open(struct engine *e, char *error, size_t size);
/* From then on links are accepted. 0 or -errno. */
int links_start(struct engine *e);
/* Ends those that came to us, and accepts no more. */
void links_stop(struct engine *e);
/* Ends the others. */
void links_end(struct engine *e);
/* No thread of the engine runs any more. */
void links_close(struct engine *e);

/* Deadlines; call it now and then while links_need_patrol(). */
void links_patrol(struct engine *e);
bool links_need_patrol(const struct engine *e);

/* links_listen.c: a listening socket, and e->address made what it is; or a negative enum
 * tent_error. */
int links_listen(struct engine *e, char *error, size_t size);

/* link.c */
/* fd becomes a link; closed when there is no memory. peer: fd is connecting to it. */
struct link *link_create(struct engine *e, int fd, const char *from,
			 struct engine_peer *peer);
/* Ends it. why: a sentence for the log of links, or NULL: nothing is wrong. May be
 * called from inside of anything: it is freed later. */
void link_end(struct engine *e, struct link *l, const char *why);
/* The same, and what is on its way to the other end is dropped. */
void link_abort(struct engine *e, struct link *l, const char *why);
/* Queues a frame; takes the reference. Ends the link when its reader does not read. */
void link_send(struct engine *e, struct link *l, json_t *frame);
/* Ends it with a last word; why as for link_end(). */
void link_refuse(struct engine *e, struct link *l, const char *why);

/* The two ends can talk: who called says hello. */
void link_greet(struct engine *e, struct link *l);
/* Bytes of frames, as they came. */
void link_take(struct engine *e, struct link *l, const uint8_t *bytes, size_t size);
/* Bytes for the wire, for link_flush() to send. False: more than may wait, or no memory. */
bool link_queue(struct link *l, const uint8_t *bytes, size_t size);
/* False: the link has ended. */
bool link_flush(struct engine *e, struct link *l);

/* link_tls.c */
/* The connection that we opened stands. */
void link_tls_call(struct engine *e, struct link *l);
void link_tls_take(struct engine *e, struct link *l, const uint8_t *bytes, size_t size);
/* Bytes of frames, to be made secret. As link_queue(). */
bool link_tls_queue(struct link *l, const uint8_t *bytes, size_t size);
/*
 * For transports, which open connections of their own: what the two ends of this link and
 * nobody else can know, another secret for each label ("tent tcp data", say; a constant
 * of ours). Both ends get the same, so that one who opens a data connection can prove by
 * it that it belongs to this link. False: the link is not up, or is in the clear, and
 * there is no such secret: then whoever reads the wire knows what the link was told.
 */
bool link_secret(const struct link *l, const char *label, uint8_t secret[TLS_EXPORT_SIZE]);

/* link_user.c */
/* Looks whose the other end is, once it says hello: then it is not in a queue any more,
 * and for a flood that says nothing nobody asks the kernel. */
void link_find_user(const struct engine *e, struct link *l);
/* May whoever is at the other end have one more that came to us? */
bool link_has_share(const struct engine *e, const struct link *l);
/* A number that is the same for all links of whoever may have one such share. */
uint64_t link_kin(const struct link *l);
/* May the engine at the other end speak for this user's clients? */
bool link_speaks_for(const struct engine *e, const struct link *l, uint32_t uid);

/* guests.c */
#define NO_HANDLE UINT32_MAX
/* After backends and their queues, before clients: peers may bring data. 0, or a
 * negative enum tent_error with a sentence. */
int links_open_data(struct engine *e, char *error, size_t size);
/* Who called is let in there; no more. */
void link_invite(struct engine *e, struct link *l);
/* What its data connections prove themselves by; NULL: the link is in the clear. */
link_prove link_key(const struct link *l, uint8_t key[LINK_KEY_SIZE]);
void link_uninvite(struct engine *e, struct link *l);
/* A segment that it may name from now on, and as what; NO_HANDLE: none. */
uint32_t guest_admit(struct guest *g, struct segment *s);
void guest_expel(struct guest *g, uint32_t handle);
/* Members of hello. */
void hello_put_data(const struct engine *e, const struct link *l, json_t *hello);
void hello_get_data(struct link *l, const json_t *hello);
/* The other way round: an engine whose segments are used. */
void far_end_open(struct engine *e, struct far_end *f);
void far_end_put(struct engine *e, struct far_end *f);

/* link_serve.c */
void link_take_describe(struct engine *e, struct link *l, const json_t *frame);
void link_unfollow_all(struct link *l);
/* The table of one of our segments changed; its owner ended. */
void links_segment_changed(struct engine *e, struct segment *s);
void links_segment_gone(struct engine *e, struct segment *s);

#endif /* TENT_ENGINE_LINKS_H */
