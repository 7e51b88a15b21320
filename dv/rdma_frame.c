/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma_frame.c - frames of type "rdma", docs/peers.md has the contract. An engine that asks
 * says "call", with its end, and "end"; one that is asked answers "answer", with its own,
 * or "refuse", and "ended".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dv/rdma_frame.h"

#define GID_TEXT 32u
#define REASON_MAX 200u

static json_t *endpoint_json(const struct dv_endpoint *e)
{
	char gid[GID_TEXT + 1];

	for (int i = 0; i < 16; i++)
		snprintf(gid + 2 * i, 3, "%02x", e->address.gid.raw[i]);
	return json_pack("{s:b,s:i,s:i,s:s,s:i,s:i,s:i}", "infiniband",
			 e->address.link == IBV_LINK_LAYER_INFINIBAND, "mtu", e->address.mtu,
			 "lid", e->address.lid, "gid", gid, "qpn", (int)e->qpn, "psn",
			 (int)e->psn, "reads", e->reads);
}

json_t *rdma_frame(const char *what, uint64_t id, const struct dv_endpoint *e,
		   const char *reason)
{
	char hex[20];
	json_t *frame;

	snprintf(hex, sizeof(hex), "0x%llx", (unsigned long long)id);
	frame = json_pack("{s:s,s:s,s:s}", "type", "rdma", "what", what, "id", hex);
	if (e)
		json_object_set_new(frame, "endpoint", endpoint_json(e));
	if (reason)
		json_object_set_new(frame, "reason", json_string(reason));
	return frame;
}

/* ---- reading ----------------------------------------------------------- */

static bool read_uint(const json_t *from, const char *name, uint32_t max, uint32_t *value)
{
	const json_t *v = json_object_get(from, name);
	json_int_t number = json_integer_value(v);

	if (!json_is_integer(v) || number < 0 || number > max)
		return false;
	*value = (uint32_t)number;
	return true;
}

/* It may be absent. */
static bool read_wish(const json_t *from, const char *name, uint32_t max, uint32_t *value)
{
	return !json_object_get(from, name) || read_uint(from, name, max, value);
}

static bool read_gid(const char *text, union ibv_gid *gid)
{
	if (!text || strlen(text) != GID_TEXT || strspn(text, "0123456789abcdef") != GID_TEXT)
		return false;
	for (int i = 0; i < 16; i++) {
		char byte[3] = { text[2 * i], text[2 * i + 1], '\0' };

		gid->raw[i] = (uint8_t)strtoul(byte, NULL, 16);
	}
	return true;
}

static bool read_endpoint(const json_t *from, struct dv_endpoint *e)
{
	const json_t *infiniband = json_object_get(from, "infiniband");
	uint32_t mtu, lid, reads;

	memset(e, 0, sizeof(*e));
	if (!json_is_boolean(infiniband) || !read_uint(from, "mtu", UINT8_MAX, &mtu) ||
	    !read_uint(from, "lid", UINT16_MAX, &lid) ||
	    !read_uint(from, "reads", UINT8_MAX, &reads) ||
	    !read_uint(from, "qpn", UINT32_MAX, &e->qpn) ||
	    !read_uint(from, "psn", UINT32_MAX, &e->psn) ||
	    !read_gid(json_string_value(json_object_get(from, "gid")), &e->address.gid))
		return false;
	e->address.link = json_is_true(infiniband) ? IBV_LINK_LAYER_INFINIBAND :
						     IBV_LINK_LAYER_ETHERNET;
	e->address.mtu = (uint8_t)mtu;
	e->address.lid = (uint16_t)lid;
	e->reads = (uint8_t)reads;
	return true;
}

static bool read_id(const char *text, uint64_t *id)
{
	size_t length = text ? strlen(text) : 0;

	if (length < 3 || length > 18 || strncmp(text, "0x", 2) != 0 ||
	    strspn(text + 2, "0123456789abcdef") != length - 2)
		return false;
	*id = strtoull(text, NULL, 16);
	return true;
}

bool rdma_frame_read(const json_t *frame, struct rdma_said *s)
{
	const json_t *endpoint = json_object_get(frame, "endpoint");

	s->what = json_string_value(json_object_get(frame, "what"));
	s->reason = json_string_value(json_object_get(frame, "reason"));
	s->has_endpoint = endpoint && read_endpoint(endpoint, &s->endpoint);
	if (s->reason && strlen(s->reason) > REASON_MAX)
		s->reason = NULL;
	s->rail = 0;
	s->service_level = s->traffic_class = RDMA_NOT_SAID;
	if (!read_wish(frame, "rail", UINT8_MAX, &s->rail) ||
	    !read_wish(frame, "service_level", 15, &s->service_level) ||
	    !read_wish(frame, "traffic_class", UINT8_MAX, &s->traffic_class))
		return false;
	return s->what && read_id(json_string_value(json_object_get(frame, "id")), &s->id) &&
	       (!endpoint || s->has_endpoint);
}
