/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wired.h - links, as the backend sees them whose connections they set up (struct wired_ops).
 * All does nothing where there is no such backend.
 */
#ifndef TENT_ENGINE_WIRED_H
#define TENT_ENGINE_WIRED_H

#include "engine/links.h"

/* After backends and their queues. 0, or a negative enum tent_error with a sentence. */
int wired_open(struct engine *e, char *error, size_t size);
/* On the control thread. 0 or -errno. */
int wired_start(struct engine *e);

/* Members of hello: both ends have it, or it is not used. */
void hello_put_wired(const struct engine *e, json_t *hello);
void hello_get_wired(struct link *l, const json_t *hello);
/* Who called may use segments of ours this way; no more. */
bool wired_invites(const struct engine *e, const struct link *l);
void wired_uninvite(struct engine *e, const struct guest *g);
void link_take_wired(struct engine *e, struct link *l, const json_t *frame);

/* Memory of a tenant of ours, before anybody knows it; once nobody does. Open, then pin,
 * which takes as long as it has pages, and settle. Pin and close: any thread. */
void wired_region_open(struct engine *e, struct region *r, uint32_t uid);
void wired_region_pin(struct engine *e, struct region *r);
void wired_region_settle(struct engine *e, struct region *r);
void wired_region_close(struct engine *e, struct region *r);
/* So much of it that nobody should wait for pin and close who has others to serve. */
bool wired_takes_long(const struct region *r);
/* What peers are told of it: a text, or "". */
json_t *wired_keys(const struct engine *e, const struct region *r);

/* Engines whose segments are used, and their memory; keys: as above, or NULL. */
void wired_far_open(struct engine *e, struct far_end *f);
void wired_far_close(struct engine *e, struct far_end *f);
void wired_far_region_open(struct engine *e, struct region *r, const char *keys);
void wired_far_region_close(struct engine *e, struct region *r);

#endif /* TENT_ENGINE_WIRED_H */
