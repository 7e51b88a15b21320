/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notice.h - a notification on its way: from the slot that carries it, over the poller and
 * the control thread, to whoever is to know.
 *
 *   notice.c    the poller's: taken from a slot, kept until its batch has ended, handed over
 *   notices.c   the control thread's: to whom, and what the sender is told
 *   inbox.c     what a client was sent and has not taken yet
 *   far_notice.c link_notice.c  to other engines, and from them
 *
 * A batch's goes out once all of its requests completed, and to each segment once: it is
 * never sent twice, so what breaks on the way is lost and counted.
 */
#ifndef TENT_ENGINE_NOTICE_H
#define TENT_ENGINE_NOTICE_H

#include <tent/ring.h>

#include "engine/poller.h"

#define NOTICES_PER_RING 64u	/* in flight; a batch with one more waits at the ring's head */

struct refusal;
struct tent_slot;

/* The poller's, but for the time between notice_hand_over() and POLLER_NOTICE_BACK. */
struct notice {
	struct notice *next;		/* in the list of whoever owns it */
	struct ring_state *ring;
	struct poller_command back;	/* its way back to the poller */
	bool alone;			/* op NOTIFY: it has a completion of its own, */
	uint16_t rule;			/* and this is how it ended */
	uint64_t user_data, seen_ticks;	/* the same, of its slot */
	uint32_t nr_targets;
	uint32_t targets[TENT_NOTIFY_TARGETS_MAX];	/* handles, each once */
	uint32_t name_length, message_length;
	char name[TENT_NOTIFY_NAME_MAX + 1];		/* both end with a NUL */
	char message[TENT_NOTIFY_MESSAGE_MAX + 1];
};

/* ---- the poller's thread only ---------------------------------------------- */

/* Does the batch that begins with this slot bring one? */
static inline bool notice_is_in(const struct tent_slot *s)
{
	return s->op == TENT_OP_NOTIFY ||
	       ((s->flags & TENT_SLOT_F_NOTIFY) && s->op != TENT_OP_CANCEL &&
		s->op != TENT_OP_NOP);
}

/* There is room for none now. */
bool notice_must_wait(const struct ring_state *r);
/* Takes the notification of a batch's first slot into the intake, and out of the slot;
 * *why says what is wrong with it. */
void notice_take(struct ring_state *r, struct tent_slot *s, struct refusal *why);
/* Requests of its batch passed: it goes to their targets too. */
void notice_cover(struct ring_state *r, const struct tent_slot *slots,
		  struct transfer *const *records, uint32_t n, struct refusal *why);
/* Nobody is to get it. NULL is ignored. */
void notice_drop(struct ring_state *r, struct notice *n);
/* To the control thread, which gives it back with POLLER_NOTICE_BACK. */
void notice_hand_over(struct poller *p, struct notice *n);
/* It is back. */
void notice_back(struct poller *p, struct notice *n);
/* A slot with op NOTIFY. */
void notice_begin(struct poller *p, struct ring_state *r, struct tent_slot *s);

/* ---- the control thread's ---------------------------------------------------- */

/* Those that were handed over, oldest first. */
struct notice *notices_take(struct poller *p);

#endif /* TENT_ENGINE_NOTICE_H */
