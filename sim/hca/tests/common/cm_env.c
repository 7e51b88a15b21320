/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/hca/tests/common/cm_env.h"

#include <errno.h>
#include <string.h>

const uint8_t cm_env_ip[16] = { [10] = 0xff, [11] = 0xff, 10, 0, 0, 1 };

static bool describe_port(void *ctx, struct cm_place at, struct cm_port *out)
{
	(void)ctx;
	*out = (struct cm_port){ .node_guid = 1, .is_ethernet = true, .path_mtu_bytes = 4096,
				 .timeout_scale_percent = 1 };
	return !at.device && at.port == 1;
}

static bool gid_at(void *ctx, struct cm_place at, uint32_t index, uint8_t gid[16])
{
	(void)ctx;
	(void)at;
	memcpy(gid, cm_env_ip, 16);
	return !index;
}

static int place_of(void *ctx, const uint8_t ip[16], struct cm_place *out)
{
	(void)ctx;
	*out = (struct cm_place){ 0, 1 };
	return ip[15] & 1 ? 0 : -ENODEV;
}

static int source_for(void *ctx, const uint8_t to[16], uint8_t from[16])
{
	(void)ctx;
	memcpy(from, cm_env_ip, 16);
	return to[15] & 1 ? 0 : -ENETUNREACH;
}

struct cm_env cm_env_of_one_port(void (*send)(void *, uint32_t, const struct hca_packet *),
				 uint64_t (*now_ns)(void *))
{
	return (struct cm_env){ .send = send, .now_ns = now_ns, .port = describe_port,
				.gid = gid_at, .place_of = place_of, .source_for = source_for };
}
