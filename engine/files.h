/* SPDX-License-Identifier: Apache-2.0 */
/*
 * files.h - regular files that clients opened and pass. The engine opens no path for
 * anybody: what a descriptor allows is what its owner may do.
 *
 * A descriptor can be hostile: one that a process of the client's own serves (FUSE)
 * makes every look at it wait, and one of /proc acts with the engine's rights. So it is
 * judged where waiting hurts the client only (errand.h), and by a list of file systems
 * that keep their files themselves.
 */
#ifndef TENT_ENGINE_FILES_H
#define TENT_ENGINE_FILES_H

#include "engine/client.h"

/* A descriptor that was judged, on its way to SEGMENT_OPEN. */
struct file_offer {
	struct file file;	/* fd -1: refused, or taken over */
	uint16_t rule;		/* why it is refused; 0: it is not */
	char why[160];		/* one sentence */
};

struct file_terms {
	bool foreign;		/* of another process: the list applies */
	bool any_system;	/* transports/file/any_file_system: it does not */
	bool direct;		/* O_DIRECT is wanted too */
};

/* Any thread; may block. Judges fd, which stays the caller's, and opens descriptors of
 * our own for the same file. */
void file_offer_judge(struct file_offer *o, int fd, const struct file_terms *t);
/* Closes what nobody took; may block. */
void file_offer_close(struct file_offer *o);
/* The same, and waits for nothing. */
void file_offer_stray(struct file_offer *o);

struct file_terms file_terms_of(const struct engine *e, const struct client *c);
/* The offer's file as a region of its own in s, known to the backend; or the client was
 * told why not. */
struct region *file_take(struct engine *e, struct client *c, struct file_offer *o,
			 struct segment *s);
/* No poller names it any more. */
void file_release(struct engine *e, struct client *c, struct owned_region *r);
/* How long it is now, bytes. Does not wait for its file system. */
uint64_t file_length(const struct file *f);

#endif /* TENT_ENGINE_FILES_H */
