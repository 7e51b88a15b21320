/* SPDX-License-Identifier: Apache-2.0 */
/*
 * segments.h - segments and the handles that clients have on them. A handle is bound to
 * the segment of one owner's life: when the owner dies it stays and finds nothing, even
 * when the name is taken again.
 */
#ifndef TENT_ENGINE_SEGMENTS_H
#define TENT_ENGINE_SEGMENTS_H

#include "engine/client.h"

#define HANDLES_MAX 262144u	/* opens of one client over its life: ids are not reused */

struct owned_segment {
	struct segment segment;	/* first */
	uint32_t refs;		/* its owner, and every handle */
};

/* Gives a client its segment and handle 0. full: its full name. 0 or -ENOMEM. */
int segment_create(struct engine *e, struct client *c, const char *full);
/* Its owner ends: nobody finds its regions any more, they are doomed. */
void segment_orphan(struct engine *e, struct client *c);
/* Lets go of all handles; no ring of the client is left. */
void segments_leave(struct engine *e, struct client *c);

/* Answers an open with a handle on the segment, the same as before where there is one. */
void segment_open_found(struct engine *e, struct client *c, struct segment *s);
void segment_refuse_unknown(struct engine *e, struct client *c, const char *name,
			    const char *why);

/* The same for the segment of a full name, here or at another engine; or refuses. */
void segment_open_at(struct engine *e, struct client *c, const char *name);
/* "host:port" or "host:port/text" into a full name; false when that is too long. */
bool segment_full_name(const struct engine *e, const char *text, char full[TENT_CTL_NAME_SIZE]);

/* Control messages. */
void segment_open(struct engine *e, struct client *c, struct ctl_message *m);
void segment_close(struct engine *e, struct client *c, struct ctl_message *m);
void segment_info(struct engine *e, struct client *c, struct ctl_message *m);

#endif /* TENT_ENGINE_SEGMENTS_H */
