/* SPDX-License-Identifier: Apache-2.0 */
/* paths.c - see paths.h. Few ways fail at a time, so they are looked for one by one; and
 * nobody looks while none is paused. */
#include "engine/hot.h"
#include "engine/paths.h"

static const struct path *find(const struct paths *p, uint8_t transport, uint64_t epoch)
{
	for (uint32_t i = 0; i < PATHS_MAX; i++)
		if (load_relaxed(&p->path[i].transport) == transport &&
		    load_relaxed(&p->path[i].epoch) == epoch)
			return &p->path[i];
	return NULL;
}

static struct path *find_of(struct paths *p, const struct transfer *t)
{
	return (struct path *)find(p, t->transport, path_epoch(t->remote));
}

bool paths_is_paused(const struct paths *p, uint8_t transport, uint64_t epoch)
{
	const struct path *w = find(p, transport, epoch);

	return w && load_relaxed(&w->until);
}

/* Others are kept from it meanwhile; and again after that, should it never end. */
static void begin_probe(struct path *w, const struct transfer *t, uint64_t now)
{
	w->probe = t->seen_ticks;
	store_relaxed(&w->until, now + w->pause);
}

bool paths_admit(struct paths *p, uint8_t transport, struct transfer *t, uint64_t now)
{
	struct path *w = (struct path *)find(p, transport, path_epoch(t->remote));
	uint64_t until = w ? load_relaxed(&w->until) : 0;

	if (!until)
		return true;
	if (!t->seen_ticks)
		return now >= until;
	if (now >= until)
		begin_probe(w, t, now);
	else if (w->probe != t->seen_ticks)
		return false;
	t->flags |= TRANSFER_F_PROBE;
	return true;
}

/* ---- the poller's ------------------------------------------------------ */

/* Free ones first, then the one that was used longest after its last failure, then the
 * one whose pause ends first. */
static bool gives_way_to(const struct path *a, const struct path *b)
{
	if (a->transport == TENT_TRANSPORT_UNSPEC || b->transport == TENT_TRANSPORT_UNSPEC)
		return b->transport == TENT_TRANSPORT_UNSPEC;
	if (!a->until != !b->until)
		return !b->until;
	return a->until ? b->until < a->until : b->since < a->since;
}

static void leave(struct paths *p, struct path *w)
{
	if (w->until)
		store_relaxed(&p->nr_paused, p->nr_paused - 1);
	store_relaxed(&w->until, 0ull);
	store_relaxed(&w->transport, (uint32_t)TENT_TRANSPORT_UNSPEC);
}

static struct path *take(struct paths *p, const struct transfer *t)
{
	struct path *w = find_of(p, t);

	if (w)
		return w;
	w = &p->path[0];
	for (uint32_t i = 1; i < PATHS_MAX; i++)
		if (gives_way_to(w, &p->path[i]))
			w = &p->path[i];
	leave(p, w);
	w->failures = 0;
	w->probe = 0;
	w->pause = p->pause;
	store_relaxed(&w->epoch, path_epoch(t->remote));
	store_relaxed(&w->transport, (uint32_t)t->transport);
	return w;
}

/* The probe failed: longer, this time. What was under way before it tells nothing new. */
static bool fail_again(struct paths *p, struct path *w, const struct transfer *t, uint64_t now)
{
	if (!(t->flags & TRANSFER_F_PROBE) || w->probe != t->seen_ticks)
		return false;
	w->probe = 0;
	w->pause = w->pause < p->pause_max / 2 ? 2 * w->pause : p->pause_max;
	store_relaxed(&w->until, now + w->pause);
	return true;
}

bool paths_failed(struct paths *p, const struct transfer *t, uint64_t now)
{
	struct path *w;

	if (!p->errors)
		return false;
	w = take(p, t);
	if (w->until)
		return fail_again(p, w, t, now);
	if (!w->failures || now - w->since > p->window) {
		w->since = now;
		w->failures = 0;
	}
	if (++w->failures < p->errors)
		return false;
	store_relaxed(&w->until, now + w->pause);
	store_relaxed(&p->nr_paused, p->nr_paused + 1);
	return true;
}

bool paths_worked(struct paths *p, const struct transfer *t)
{
	struct path *w = find_of(p, t);

	if (!w || !w->until)
		return false;
	leave(p, w);
	return true;
}
