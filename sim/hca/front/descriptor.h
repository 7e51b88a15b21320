/* SPDX-License-Identifier: Apache-2.0 */
/*
 * descriptor.h - which of the program's file descriptors are a card's, and what is behind
 * them. All may be called for any number, and without the card's lock.
 */
#ifndef TENT_SIM_HCA_DESCRIPTOR_H
#define TENT_SIM_HCA_DESCRIPTOR_H

#include <stdbool.h>

#include "sim/hca/cm/cm.h"
#include "sim/hca/front/card.h"
#include "sim/hca/front/path.h"
#include "sim/hca/uverbs/event.h"

/* Descriptors beyond these cannot be a card's. */
#define DESCRIPTOR_MAX (1 << 16)

enum descriptor_kind {
	DESCRIPTOR_DEVICE,
	DESCRIPTOR_EVENTS,
	DESCRIPTOR_CM,
};

/* What one or more descriptors (dup) name; lives while there are references. */
struct descriptor {
	enum descriptor_kind kind;
	unsigned references;		/* descriptors, and calls under way */
	bool is_inherited;		/* from the parent of a fork */
	union {
		struct card_file device;
		struct event_queue *events;
		struct cm_channel *cm;
	};
};

/* The program has opened a node, whose file in the tree is tree_fd (taken over). Returns
 * the descriptor that it gets, or -1 and errno. */
int descriptor_open_node(enum path_node node, unsigned index, int tree_fd, int flags);

/* A new descriptor for q, and one reference of q. Under the lock. -errno. */
int descriptor_open_events(struct event_queue *q);
struct event_queue *descriptor_events(int fd);	/* under the lock; or NULL */
void descriptor_abandon_events(int fd);		/* under the lock */

/* A reference, to be put back; NULL: not a card's. */
struct descriptor *descriptor_get(int fd);
void descriptor_put(struct descriptor *d);

/* fd is closed, or about to name something else. */
void descriptor_forget(int fd);
/* to names from now on what from does; to is new, or forgotten. */
void descriptor_copy(int from, int to);
/* A quick no: fd is none of ours. */
bool descriptor_is_plain(int fd);

/* Which node an open descriptor is, for fstat(). */
enum path_node descriptor_node(int fd, unsigned *index);

/* Runs fn for each open file of a device; under the lock. */
void descriptor_each_file(void (*fn)(struct card_file *f, void *argument), void *argument);
/* In the child of a fork, with the lock held. */
void descriptor_inherit(void);

#endif /* TENT_SIM_HCA_DESCRIPTOR_H */
