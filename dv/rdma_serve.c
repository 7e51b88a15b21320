/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma_serve.c - QPs by which peers reach memory of ours. Such a QP lies in the protection
 * domain of the tenant that the peer speaks for, answers, and asks nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dv/rdma_memory.h"

static struct rdma_served *find(struct rdma_instance *inst, const struct guest *g, uint64_t id)
{
	struct rdma_served *s;

	LIST_FOREACH(s, &inst->served, all)
		if (s->guest == g && s->id == id)
			return s;
	return NULL;
}

static uint32_t count_of(const struct rdma_instance *inst, const struct guest *g)
{
	struct rdma_served *s;
	uint32_t nr = 0;

	LIST_FOREACH(s, &inst->served, all)
		nr += s->guest == g;
	return nr;
}

static void served_free(struct rdma_instance *inst, struct rdma_served *s)
{
	LIST_REMOVE(s, all);
	inst->nr_served--;
	dv_qp_close(&s->qp);
	free(s);
}

/* ---- calls ------------------------------------------------------------- */

/* What stands in its way, or NULL. */
static const char *check_call(struct rdma_instance *inst, const struct guest *g,
			      const struct rdma_said *said)
{
	if (!said->has_endpoint)
		return "a call needs an endpoint";
	if (said->rail >= inst->nr_rails || !(inst->usable & 1u << said->rail))
		return "its engine has no such device, or none now";
	if (find(inst, g, said->id))
		return "a connection of that name is there already";
	if (inst->nr_served >= RDMA_SERVED_MAX || count_of(inst, g) >= RDMA_GUEST_MAX)
		return "its engine serves as many connections as it may";
	return NULL;
}

static int connect_to(struct rdma_instance *inst, struct rdma_served *s, uint32_t uid,
		      const struct rdma_said *said, char *why, size_t size)
{
	struct rdma_tenant *t = rdma_tenant_find(inst, uid);
	struct rdma_rail *rail = &inst->rails[said->rail];
	struct ibv_pd *pd = t ? rdma_tenant_pd(t, rail, why, size) : NULL;
	const struct dv_qp_options o = {
		.sl = (uint8_t)(said->service_level == RDMA_NOT_SAID ? inst->o.service_level :
				said->service_level),
		.tc = (uint8_t)(said->traffic_class == RDMA_NOT_SAID ? inst->o.traffic_class :
				said->traffic_class),
		.hop_limit = (uint8_t)inst->o.hop_limit,
	};
	int rc;

	if (!pd)
		return -1;
	rc = dv_qp_open(&s->qp, &rail->device, pd, &o, why, size);
	if (rc < 0)
		return rc;
	rc = dv_qp_connect(&s->qp, &said->endpoint, why, size);
	if (rc < 0)
		dv_qp_close(&s->qp);
	return rc;
}

static void take_call(struct rdma_instance *inst, const struct guest *g, uint32_t uid,
		      const struct rdma_said *said)
{
	const char *fault = check_call(inst, g, said);
	struct rdma_served *s = fault ? NULL : calloc(1, sizeof(*s));
	struct dv_endpoint own;
	char why[200] = "its engine has no memory";

	if (!s || connect_to(inst, s, uid, said, why, sizeof(why)) < 0) {
		free(s);
		inst->wire.to_guest(inst->wire.context, g,
				    rdma_frame("refuse", said->id, NULL, fault ? fault : why));
		return;
	}
	s->guest = g;
	s->id = said->id;
	LIST_INSERT_HEAD(&inst->served, s, all);
	inst->nr_served++;
	dv_qp_endpoint(&s->qp, &own);
	inst->wire.to_guest(inst->wire.context, g, rdma_frame("answer", s->id, &own, NULL));
}

/* ---- ends -------------------------------------------------------------- */

/* One that is not there has ended. */
static void take_end(struct rdma_instance *inst, const struct guest *g, uint64_t id)
{
	struct rdma_served *s = find(inst, g, id);

	if (s)
		served_free(inst, s);
	inst->wire.to_guest(inst->wire.context, g, rdma_frame("ended", id, NULL, NULL));
}

void rdma_guest_frame(struct backend_instance *base, const struct guest *g, uint32_t uid,
		      const json_t *frame)
{
	struct rdma_instance *inst = (struct rdma_instance *)base;
	struct rdma_said said;

	if (!rdma_frame_read(frame, &said))
		return;		/* it waits in vain for an answer to nonsense */
	if (strcmp(said.what, "call") == 0)
		take_call(inst, g, uid, &said);
	else if (strcmp(said.what, "end") == 0)
		take_end(inst, g, said.id);
}

void rdma_guest_close(struct backend_instance *base, const struct guest *g)
{
	struct rdma_instance *inst = (struct rdma_instance *)base;
	struct rdma_served *s = LIST_FIRST(&inst->served), *next;

	for (; s; s = next) {
		next = LIST_NEXT(s, all);
		if (s->guest == g)
			served_free(inst, s);
	}
}
