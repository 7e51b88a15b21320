/* SPDX-License-Identifier: Apache-2.0 */
/*
 * path.c - how packets get from a port to another, in the forms that the program, the
 * messages and the wire want it; and sends messages along it.
 */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "sim/hca/cm/core.h"

enum {
	RATE_100_GBPS = 16,		/* enum ibv_rate */
	SELECT_EXACTLY = 2,
	LID_PERMISSIVE = 0xffff,
	ROCE_LIFE_TIME = 16,		/* 0.27 s, as the kernel takes for RoCE */
	IB_LIFE_TIME = 14,
	HOP_LIMIT = 64,
};

#define MAX_GIDS 256u

static uint32_t mtu_enum(uint32_t bytes)
{
	uint32_t mtu = IBV_MTU_256;

	while (mtu < IBV_MTU_4096 && 128u << (mtu + 1) <= bytes)
		mtu++;
	return mtu;
}

static bool find_gid(struct cm *cm, struct cm_place at, const uint8_t gid[16], uint32_t *index)
{
	uint8_t entry[16];
	uint32_t i;

	for (i = 0; i < MAX_GIDS && cm->env.gid(cm->env.ctx, at, i, entry); i++)
		if (!memcmp(entry, gid, sizeof(entry))) {
			*index = i;
			return true;
		}
	return false;
}

static int fill_port(struct cm *cm, struct cm_path *p)
{
	struct cm_port port;

	if (!cm->env.port(cm->env.ctx, p->place, &port))
		return -ENODEV;
	p->is_ethernet = port.is_ethernet;
	p->mtu = mtu_enum(port.path_mtu_bytes);
	p->slid = port.lid;
	p->life_time = port.is_ethernet ? ROCE_LIFE_TIME : IB_LIFE_TIME;
	p->hop_limit = port.is_ethernet ? HOP_LIMIT : 0;
	return 0;
}

static int resolve_ib(struct cm_id *id)
{
	struct cm_env *env = &id->file->cm->env;
	struct cm_path *p = &id->path;
	uint8_t to[16];

	cm_address_ip(&id->destination, to);
	if (!env->gid(env->ctx, p->place, 0, p->sgid))
		return -ENODEV;
	p->sgid_index = 0;
	return env->resolve_ib(env->ctx, p->place, to, p->dgid, &p->dlid) ? 0 : -EHOSTUNREACH;
}

static bool is_ipv4(const uint8_t gid[16])
{
	static const uint8_t prefix[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(gid, prefix, sizeof(prefix));
}

/* From a port to itself, by its first GID that is an IPv4 address, or else its first. */
static int resolve_loopback(struct cm *cm, struct cm_path *p)
{
	uint8_t gid[16];
	uint32_t i;

	if (!cm->env.gid(cm->env.ctx, p->place, 0, p->sgid))
		return -ENODEV;
	p->sgid_index = 0;
	for (i = 0; i < MAX_GIDS && cm->env.gid(cm->env.ctx, p->place, i, gid); i++)
		if (is_ipv4(gid)) {
			p->sgid_index = i;
			memcpy(p->sgid, gid, sizeof(gid));
			break;
		}
	memcpy(p->dgid, p->sgid, sizeof(p->dgid));
	p->dlid = p->slid;
	return 0;
}

static bool is_foreign_loopback(struct cm *cm, const union cm_address *a)
{
	struct cm_place place;
	uint8_t ip[16];

	cm_address_ip(a, ip);
	return cm_address_is_loopback(a) && cm->env.place_of(cm->env.ctx, ip, &place);
}

int cm_path_resolve(struct cm_id *id)
{
	struct cm *cm = id->file->cm;
	struct cm_path *p = &id->path;
	int rc = fill_port(cm, p);

	if (rc)
		return rc;
	if (is_foreign_loopback(cm, &id->destination))
		return resolve_loopback(cm, p);
	if (!p->is_ethernet)
		return resolve_ib(id);
	cm_address_ip(&id->source, p->sgid);
	cm_address_ip(&id->destination, p->dgid);
	if (id->has_tos) {
		p->traffic_class = id->tos;
		p->sl = id->tos >> 5;
	}
	return find_gid(cm, p->place, p->sgid, &p->sgid_index) ? 0 : -ENODEV;
}

bool cm_path_reply(struct cm *cm, uint32_t device, const struct hca_packet *p,
		   struct cm_path *out)
{
	const struct hca_route *r = &p->route;

	memset(out, 0, sizeof(*out));
	out->place = (struct cm_place){ device, r->port };
	if (fill_port(cm, out))
		return false;
	out->sl = r->sl;
	out->dlid = r->slid;
	memcpy(out->dgid, r->sgid, sizeof(out->dgid));
	if (!out->is_ethernet)
		return cm->env.gid(cm->env.ctx, out->place, 0, out->sgid);
	out->traffic_class = r->tclass;
	memcpy(out->sgid, r->dgid, sizeof(out->sgid));
	return find_gid(cm, out->place, out->sgid, &out->sgid_index);
}

bool cm_path_same_peer(const struct cm_path *a, const struct cm_path *b)
{
	return a->dlid == b->dlid && !memcmp(a->dgid, b->dgid, sizeof(a->dgid));
}

/* ---- in messages ----------------------------------------------------------------- */

void cm_path_of_request(const struct cm_mad *req, struct cm_path *reply)
{
	if (req->mtu >= IBV_MTU_256 && req->mtu < reply->mtu)
		reply->mtu = req->mtu;
	reply->sl = req->path.sl;
	reply->flow_label = req->path.flow_label;
	reply->traffic_class = req->path.traffic_class;
	if (!reply->is_ethernet)
		memcpy(reply->dgid, req->path.sgid, sizeof(reply->dgid));
}

void cm_path_to_request(const struct cm_path *p, uint32_t ack_timeout, struct cm_mad *req)
{
	struct cm_mad_path *to = &req->path;

	req->pkey = CM_DEFAULT_PKEY;
	req->mtu = p->mtu;
	to->slid = p->is_ethernet ? LID_PERMISSIVE : p->slid;
	to->dlid = p->is_ethernet ? LID_PERMISSIVE : p->dlid;
	memcpy(to->sgid, p->sgid, sizeof(to->sgid));
	memcpy(to->dgid, p->dgid, sizeof(to->dgid));
	to->flow_label = p->flow_label;
	to->rate = RATE_100_GBPS;
	to->traffic_class = p->traffic_class;
	to->hop_limit = p->hop_limit;
	to->sl = p->sl;
	to->subnet_local = p->hop_limit <= 1;
	to->ack_timeout = ack_timeout;
}

/* ---- for the program ---------------------------------------------------------------- */

void cm_path_to_user(const struct cm_path *p, struct ib_user_path_rec *out)
{
	memset(out, 0, sizeof(*out));
	memcpy(out->dgid, p->dgid, sizeof(out->dgid));
	memcpy(out->sgid, p->sgid, sizeof(out->sgid));
	out->dlid = htobe16(p->dlid);
	out->slid = htobe16(p->slid);
	out->flow_label = htobe32(p->flow_label);
	out->reversible = 1;
	out->mtu = p->mtu;
	out->pkey = htobe16(CM_DEFAULT_PKEY);
	out->hop_limit = (uint8_t)p->hop_limit;
	out->traffic_class = (uint8_t)p->traffic_class;
	out->numb_path = 1;
	out->sl = (uint8_t)p->sl;
	out->mtu_selector = out->rate_selector = out->packet_life_time_selector = SELECT_EXACTLY;
	out->rate = RATE_100_GBPS;
	out->packet_life_time = (uint8_t)p->life_time;
}

static void put16(uint8_t *to, uint32_t value)
{
	to[0] = (uint8_t)(value >> 8);
	to[1] = (uint8_t)value;
}

void cm_path_to_record(const struct cm_path *p, uint8_t out[64])
{
	memset(out, 0, 64);
	memcpy(out + 8, p->dgid, 16);
	memcpy(out + 24, p->sgid, 16);
	put16(out + 40, p->dlid);
	put16(out + 42, p->slid);
	put16(out + 44, p->flow_label >> 8);
	put16(out + 46, p->flow_label << 8 | p->hop_limit);
	out[48] = (uint8_t)p->traffic_class;
	out[49] = 0x80 | 1;		/* reversible, one path */
	put16(out + 50, CM_DEFAULT_PKEY);
	put16(out + 52, p->sl);
	out[54] = (uint8_t)(SELECT_EXACTLY << 6 | p->mtu);
	out[55] = SELECT_EXACTLY << 6 | RATE_100_GBPS;
	out[56] = (uint8_t)(SELECT_EXACTLY << 6 | p->life_time);
}

bool cm_path_from_record(struct cm_path *p, const uint8_t record[64])
{
	uint32_t mtu = record[54] & 0x3f;

	if (memcmp(record + 8, p->dgid, 16) || memcmp(record + 24, p->sgid, 16) ||
	    mtu < IBV_MTU_256 || mtu > IBV_MTU_4096)
		return false;
	p->dlid = (uint16_t)(record[40] << 8 | record[41]);
	p->mtu = mtu;
	p->sl = record[53] & 0xf;
	p->traffic_class = record[48];
	p->flow_label = (record[44] & 0xfu) << 16 | (uint32_t)record[45] << 8 | record[46];
	p->life_time = record[56] & 0x1f;
	return true;
}

void cm_path_to_ah(const struct cm_path *p, struct ib_uverbs_ah_attr *out)
{
	memset(out, 0, sizeof(*out));
	out->sl = (uint8_t)p->sl;
	out->port_num = (uint8_t)p->place.port;
	if (!p->is_ethernet) {
		out->dlid = p->dlid;
		return;
	}
	out->is_global = 1;
	memcpy(out->grh.dgid, p->dgid, sizeof(out->grh.dgid));
	out->grh.flow_label = p->flow_label;
	out->grh.sgid_index = (uint8_t)p->sgid_index;
	out->grh.hop_limit = (uint8_t)p->hop_limit;
	out->grh.traffic_class = (uint8_t)p->traffic_class;
}

/* ---- sending -------------------------------------------------------------------------- */

void cm_send(struct cm *cm, const struct cm_path *p, const struct cm_mad *m)
{
	uint8_t bytes[CM_MAD_BYTES];
	struct hca_packet packet = {
		.route = {
			.slid = p->slid,
			.dlid = p->dlid,
			.sl = (uint8_t)p->sl,
			.tclass = (uint8_t)p->traffic_class,
			.hop_limit = (uint8_t)p->hop_limit,
			.port = (uint8_t)p->place.port,
			.sgid_index = (uint8_t)p->sgid_index,
			.has_grh = p->is_ethernet,
			.flow_label = p->flow_label,
		},
		.opcode = HCA_UD | HCA_SEND_ONLY,
		.pkey = CM_DEFAULT_PKEY,
		.dest_qpn = CM_QP1,
		.psn = cm->mad_psn++ & HCA_PSN_MASK,
		.qkey = CM_QP1_QKEY,
		.source_qpn = CM_QP1,
		.payload = bytes,
		.length = CM_MAD_BYTES,
	};

	memcpy(packet.route.sgid, p->sgid, sizeof(packet.route.sgid));
	memcpy(packet.route.dgid, p->dgid, sizeof(packet.route.dgid));
	cm_mad_pack(m, bytes);
	cm->env.send(cm->env.ctx, p->place.device, &packet);
}

uint64_t cm_time_ns(struct cm *cm, struct cm_place at, uint32_t n)
{
	uint64_t ns = 4096ull << (n & 0x1f);
	struct cm_port port;

	if (!cm->env.port(cm->env.ctx, at, &port) || !port.timeout_scale_percent)
		return ns;
	return ns / 100 * port.timeout_scale_percent;
}
