/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_hca_cm.c - commands of two hostile programs, messages of a hostile host and the
 * passing of time, in any order. Messages start as one that the manager sent, so that
 * numbers fit now and then.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "sim/hca/cm/core.h"

enum { NR_FILES = 2, NR_KEPT = 8 };

struct input {
	const uint8_t *bytes;
	size_t left;
};

static uint8_t kept[NR_KEPT][CM_MAD_BYTES];
static uint32_t nr_sent;
static uint64_t clock_ns;
static const uint8_t own_ip[16] = { [10] = 0xff, [11] = 0xff, 10, 0, 0, 1 };

static void env_send(void *ctx, uint32_t device, const struct hca_packet *p)
{
	(void)ctx;
	(void)device;
	memcpy(kept[nr_sent++ % NR_KEPT], p->payload, CM_MAD_BYTES);
}

static uint64_t env_now(void *ctx)
{
	(void)ctx;
	return clock_ns;
}

static bool env_port(void *ctx, struct cm_place at, struct cm_port *out)
{
	(void)ctx;
	*out = (struct cm_port){ .node_guid = 1, .is_ethernet = true, .path_mtu_bytes = 1024 };
	return !at.device && at.port == 1;
}

static bool env_gid(void *ctx, struct cm_place at, uint32_t index, uint8_t gid[16])
{
	(void)ctx;
	(void)at;
	memcpy(gid, own_ip, 16);
	return !index;
}

static int env_place_of(void *ctx, const uint8_t ip[16], struct cm_place *out)
{
	(void)ctx;
	*out = (struct cm_place){ 0, 1 };
	return ip[15] & 1 ? 0 : -ENODEV;
}

static int env_source_for(void *ctx, const uint8_t to[16], uint8_t from[16])
{
	(void)ctx;
	memcpy(from, own_ip, 16);
	return to[15] & 1 ? 0 : -ENETUNREACH;
}

static void set_readable(struct cm_file *f)
{
	(void)f;
}

static uint32_t take(struct input *in, void *to, size_t n)
{
	n = n < in->left ? n : in->left;
	memcpy(to, in->bytes, n);
	in->bytes += n;
	in->left -= n;
	return (uint32_t)n;
}

static uint8_t take_byte(struct input *in)
{
	uint8_t b = 0;

	take(in, &b, 1);
	return b;
}

/* What a program fills in is mostly small and mostly zero. */
static void give_command(struct cm_file *f, struct input *in)
{
	static struct cm_call c;
	uint8_t patches;

	memset(&c, 0, sizeof(c));
	c.file = f;
	c.command = take_byte(in) % 25;
	c.in_bytes = take_byte(in) & 1 ? take_byte(in) : CM_MAX_COMMAND_BYTES;
	c.out_bytes = take_byte(in) & 1 ? take_byte(in) : 0xffff;
	c.cookie = take_byte(in) % 3;
	for (patches = take_byte(in) % 16; patches; patches--)
		c.in[(take_byte(in) | take_byte(in) << 8) % CM_MAX_COMMAND_BYTES] = take_byte(in);
	c.option_bytes = take(in, c.option, take_byte(in));
	cm_command(&c);
}

static void give_message(struct cm *cm, struct input *in)
{
	uint8_t bytes[CM_MAD_BYTES], patches;
	struct hca_packet p = {
		.route = { .port = take_byte(in) % 3, .has_grh = true },
		.opcode = HCA_UD | HCA_SEND_ONLY, .dest_qpn = CM_QP1, .qkey = CM_QP1_QKEY,
		.payload = bytes, .length = CM_MAD_BYTES,
	};

	memcpy(p.route.dgid, own_ip, 16);
	memcpy(p.route.sgid, own_ip, 16);
	memcpy(bytes, kept[take_byte(in) % NR_KEPT], sizeof(bytes));
	for (patches = take_byte(in) % 16; patches; patches--)
		bytes[take_byte(in)] = take_byte(in);
	if (take_byte(in) & 1)		/* swaps who is local and who is remote */
		for (int i = 0; i < 4; i++) {
			uint8_t b = bytes[24 + i];

			bytes[24 + i] = bytes[28 + i];
			bytes[28 + i] = b;
		}
	cm_receive(cm, 0, &p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct cm_env env = {
		.send = env_send, .now_ns = env_now, .port = env_port, .gid = env_gid,
		.place_of = env_place_of, .source_for = env_source_for,
	};
	struct input in = { data, size };
	struct cm_file *files[NR_FILES];
	struct cm *cm = cm_create(&env);
	uint8_t what;
	int i;

	if (!cm)
		return 0;
	cm->random = 1;			/* the same run for the same input */
	clock_ns = 0;
	for (i = 0; i < NR_FILES; i++) {
		files[i] = cm_file_create(cm, NULL, set_readable);
		files[i]->cookie = (uint64_t)i + 1;
	}
	while (in.left) {
		what = take_byte(&in);
		if (what & 1)
			give_command(files[what >> 1 & 1], &in);
		else if (what & 2)
			give_message(cm, &in);
		else
			clock_ns += 1ull << (what >> 2);
		cm_timers(cm);
	}
	cm_destroy(cm);
	return 0;
}
