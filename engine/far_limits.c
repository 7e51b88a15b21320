/* SPDX-License-Identifier: Apache-2.0 */
/*
 * far_limits.c - what one tenant may have of other engines: segments, so that nobody's
 * flood of names fills the list of peers; the connections that those need, which are
 * descriptors; and buffers, which a peer may describe without end.
 */
#include "engine/peers.h"

/* Another segment of that tenant at the peer, or NULL. */
static struct far_segment *find_other(const struct engine_peer *p, const struct far_segment *s,
				      const struct tenant *tenant)
{
	struct far_segment *other = p->segments;

	while (other && (other == s || other->tenant != tenant))
		other = other->next;
	return other;
}

bool far_pay(struct engine *e, struct client *c, const struct engine_peer *p,
	     struct far_segment *s)
{
	struct tenant *tenant = c->tenant;

	if (c->local)
		return true;
	if (!tenant_charge(&e->tenants, tenant, RESOURCE_FAR, 1)) {
		client_refuse_text(e, c, TENT_RULE_MEM_LIMIT, tenant->used[RESOURCE_FAR],
				   "this user has %u segments of other engines open; allowed: "
				   "limits/far_segments_per_tenant, %u",
				   tenant->used[RESOURCE_FAR], e->config.far_max);
		return false;
	}
	s->pays_fd = !find_other(p, s, tenant);
	if (s->pays_fd && !tenant_charge(&e->tenants, tenant, RESOURCE_FDS, 1)) {
		tenant_refund(&e->tenants, tenant, RESOURCE_FAR, 1);
		client_refuse_text(e, c, TENT_RULE_MEM_LIMIT, tenant->used[RESOURCE_FDS],
				   "this user has %u descriptors, connections to peers too; "
				   "allowed: within the engine's limits",
				   tenant->used[RESOURCE_FDS]);
		return false;
	}
	s->tenant = tenant;
	return true;
}

bool far_pay_buffers(struct engine *e, struct far_segment *s, uint32_t nr)
{
	if (!s->tenant)
		return true;
	if (nr > s->buffers && !tenant_charge(&e->tenants, s->tenant, RESOURCE_FAR_BUFFERS,
					      nr - s->buffers))
		return false;
	if (nr < s->buffers)
		tenant_refund(&e->tenants, s->tenant, RESOURCE_FAR_BUFFERS, s->buffers - nr);
	s->buffers = nr;
	return true;
}

void far_leave_peer(struct engine *e, struct far_segment *s)
{
	struct far_segment *heir = s->pays_fd ? find_other(s->peer, s, s->tenant) : NULL;

	if (heir)
		heir->pays_fd = true;
	else if (s->pays_fd)
		tenant_refund(&e->tenants, s->tenant, RESOURCE_FDS, 1);
	s->pays_fd = false;
}

void far_refund(struct engine *e, struct far_segment *s)
{
	if (!s->tenant)
		return;
	far_pay_buffers(e, s, 0);
	tenant_refund(&e->tenants, s->tenant, RESOURCE_FAR, 1);
	tenant_tidy(&e->tenants, s->tenant);
	s->tenant = NULL;
}
