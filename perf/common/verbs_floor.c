/* SPDX-License-Identifier: Apache-2.0 */
/* verbs_floor.c - see verbs_floor.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tent/tent.h>

#include "perf/common/verbs_floor.h"

#define LIST_MAX 64u		/* requests of one call */

static int fail(const char *what)
{
	fprintf(stderr, "verbs: %s\n", what);
	return -1;
}

static int open_device(struct verbs_end *v, const struct dv_choice *c, char *why, size_t size)
{
	char names[DV_DEVICES_MAX][DV_NAME_SIZE];
	int nr = dv_device_names(c, names, why, size), rc = -1;

	for (int i = 0; i < nr && rc; i++)
		rc = dv_device_open(&v->device, names[i], c, why, size);
	return rc;
}

int verbs_open(struct verbs_end *v, const struct dv_choice *c, uint64_t size, uint32_t depth)
{
	struct dv_qp_options o = { .depth = 4 * depth, .timeout = 14, .retries = 7 };
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			   IBV_ACCESS_REMOTE_READ;
	char why[256] = "";

	memset(v, 0, sizeof(*v));
	if (open_device(v, c, why, sizeof(why)))
		return fail(why);
	v->pd = dv_pd_open(&v->device, why, sizeof(why));
	if (depth)
		o.td = v->td = dv_td_open(&v->device, why, sizeof(why));
	if (!v->pd || (depth && !v->td) ||
	    dv_qp_open(&v->qp, &v->device, v->pd, &o, why, sizeof(why)))
		return fail(why);
	v->memory = aligned_alloc(4096, (size + 4095) & ~(uint64_t)4095);
	if (!v->memory)
		return fail("out of memory");
	memset(v->memory, 0x5a, size);
	v->mr = ibv_reg_mr(v->pd, v->memory, size, access);
	return v->mr ? 0 : fail("the memory cannot be registered (ulimit -l)");
}

void verbs_close(struct verbs_end *v)
{
	if (v->qp.qp)
		dv_qp_close(&v->qp);
	if (v->mr)
		ibv_dereg_mr(v->mr);
	if (v->td)
		ibv_dealloc_td(v->td);
	if (v->pd)
		ibv_dealloc_pd(v->pd);
	if (v->device.context)
		dv_device_close(&v->device);
	free(v->memory);
	memset(v, 0, sizeof(*v));
}

/* ---- the other end ----------------------------------------------------- */

void verbs_text(const struct verbs_end *v, char text[VERBS_TEXT])
{
	struct dv_endpoint e;
	uint64_t gid[2];

	dv_qp_endpoint(&v->qp, &e);
	memcpy(gid, e.address.gid.raw, sizeof(gid));
	snprintf(text, VERBS_TEXT, "%x %x %x %x %x %x %" PRIx64 " %" PRIx64 " %" PRIx64 " %x",
		 e.qpn, e.psn, e.reads, e.address.link, e.address.mtu, e.address.lid, gid[0],
		 gid[1], (uint64_t)(uintptr_t)v->memory, v->mr->rkey);
}

int verbs_connect(struct verbs_end *v, const char *text)
{
	unsigned int reads, link, mtu, lid;
	struct dv_endpoint e = { 0 };
	char why[256] = "";
	uint64_t gid[2];

	if (sscanf(text, "%x %x %x %x %x %x %" SCNx64 " %" SCNx64 " %" SCNx64 " %x", &e.qpn,
		   &e.psn, &reads, &link, &mtu, &lid, &gid[0], &gid[1], &v->remote,
		   &v->rkey) != 10)
		return fail("what the other end says of itself");
	e.reads = (uint8_t)reads;
	e.address.link = (uint8_t)link;
	e.address.mtu = (uint8_t)mtu;
	e.address.lid = (uint16_t)lid;
	memcpy(e.address.gid.raw, gid, sizeof(gid));
	return dv_qp_connect(&v->qp, &e, why, sizeof(why)) ? fail(why) : 0;
}

/* ---- requests ---------------------------------------------------------- */

static int post_list(struct verbs_end *v, int opcode, uint32_t size, const uint64_t *places,
		     uint32_t nr, uint64_t stride)
{
	struct ibv_send_wr wr[LIST_MAX], *bad;
	struct ibv_sge sge[LIST_MAX];

	for (uint32_t i = 0; i < nr; i++) {
		uint64_t at = places[i] * stride;

		sge[i] = (struct ibv_sge) { (uintptr_t)v->memory + at, size, v->mr->lkey };
		wr[i] = (struct ibv_send_wr) {
			.wr_id = places[i], .next = i + 1 < nr ? &wr[i + 1] : NULL,
			.sg_list = &sge[i], .num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
			.opcode = opcode == TENT_OPCODE_READ ? IBV_WR_RDMA_READ :
							       IBV_WR_RDMA_WRITE,
			.wr.rdma = { v->remote + at, v->rkey },
		};
	}
	return ibv_post_send(v->qp.qp, wr, &bad);
}

int verbs_post(struct verbs_end *v, int opcode, uint32_t size, const uint64_t *places,
	       uint32_t nr, uint64_t stride)
{
	int rc = 0;

	for (uint32_t at = 0; at < nr && !rc; at += LIST_MAX)
		rc = post_list(v, opcode, size, places + at,
			       nr - at < LIST_MAX ? nr - at : LIST_MAX, stride);
	return rc;
}

int verbs_poll(struct verbs_end *v, uint64_t *places, int nr)
{
	struct ibv_wc wc[LIST_MAX];
	int n = ibv_poll_cq(v->qp.cq, nr < (int)LIST_MAX ? nr : (int)LIST_MAX, wc);

	for (int i = 0; i < n; i++) {
		if (wc[i].status != IBV_WC_SUCCESS)
			return fail(ibv_wc_status_str(wc[i].status));
		places[i] = wc[i].wr_id;
	}
	return n;
}
