/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trial.h - fenced ends: requests that are ended in mid-transfer. Each has memory of its
 * own at both ends. Once its end is told both are filled anew, and for twice as long as
 * an end may take nothing but that is found in either. A trial counts when the cause that
 * is tried ended it, and some of its bytes had arrived by then, and some had not.
 */
#ifndef TENT_TESTS_TRIAL_H
#define TENT_TESTS_TRIAL_H

#include <stdbool.h>
#include <stdint.h>
#include <tent/rules.h>
#include <tent/tentring.h>

#define TRIAL_FLIGHT 24u	/* requests under way at a time, each on a ring of its own */
#define TRIAL_PLACES 72u	/* others are compared meanwhile */
#define TRIAL_RULES 3u
#define TRIAL_ROUGH 3u

struct trial {
	uint32_t place;
	uint64_t number;	/* of the trial, never again */
	int opcode;
	uint8_t *mine, *theirs;	/* as this process sees them */
	uint8_t *from, *to;	/* the same two */
	uint64_t past;		/* it may be struck when this byte has arrived */
	bool struck, ended;
	bool from_filled, to_filled;	/* anew */
	bool unfenced;		/* it said so: it may still move bytes */
	uint64_t arrived;	/* bytes, when its end was told */
	uint64_t until_ns;	/* both ends are compared until then; 0: it is not */
};

struct trials {
	const char *backend;
	uint64_t bytes;		/* of a request */
	uint64_t bound_ns;	/* how long an end may take, as documented */
	bool exact;		/* an end says all that arrived, and not only what is known to */
	uint64_t targets;	/* target_offset of theirs of place 0 */
	int mine_fd, theirs_fd;	/* TRIAL_PLACES times bytes */
	uint8_t *mine, *theirs;
	tent_segment_id_t id;	/* of theirs */
	/* One flight in TRIAL_ROUGH loses its way to theirs before it is struck, and has it
	 * again after; NULL: none does. */
	void (*lose)(bool all);
	struct tent_ring *rings[TRIAL_FLIGHT];
	struct trial places[TRIAL_PLACES];
	struct trial *flight[TRIAL_FLIGHT];
	uint64_t nr;		/* begun so far */
	uint64_t chance;
	uint32_t counted, over, unfenced, others;	/* of this cause */
};

/* What ends them. */
struct cause {
	const char *name;
	uint16_t rules[TRIAL_RULES];	/* that it ends them by */
	/* One of these, or none: they end by themselves. Each when it is under way, and it says
	 * which end is the program's again before any end is told, or NULL; or all at once
	 * when one is. */
	uint8_t *(*strike)(struct trials *t, struct trial *p);
	void (*strike_all)(struct trials *t);
	/* NULL: READ and WRITE by turns. */
	int (*opcode)(uint64_t number);
	/* What was taken away is there again; NULL: nothing was. */
	void (*restore)(struct trials *t);
};

/* theirs_fd: a file of that size, or -1: memory. */
void trials_open(struct trials *t, int theirs_fd);
void trials_close(struct trials *t);
/* Rings of the client that asks. */
void trials_attach(struct trials *t, struct tent_client *user);
void trials_detach(struct trials *t);

/* Registers a place of mine, or of theirs: shared, or as private memory. */
void trial_register(const struct trials *t, const struct trial *p, struct tent_client *c,
		    bool theirs, bool private);

/* A strike: asks for it to be canceled. */
uint8_t *trial_cancel(struct trials *t, struct trial *p);

/* As many trials as count, 100 and in `make soak` 1000, compared to the last. Prints them. */
void trials_run(struct trials *t, const struct cause *c);

#endif /* TENT_TESTS_TRIAL_H */
