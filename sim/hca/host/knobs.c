/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/hca/host/parts.h"

#define FIELD(part, field)                                    \
	offsetof(struct host_memory_device, part.field),      \
		sizeof(((struct host_memory_device *)0)->part.field)

const struct knob knobs[] = {
	{ "link", KNOB_LINK, 0, 0, "the port's link" },
	{ "mtu", KNOB_MTU, 0, 0, "active MTU of the port" },
	{ "gid", KNOB_GID, 0, 0, "gid.INDEX=ADDRESS: an entry of the port's GID table" },
	{ "interface", KNOB_INTERFACE, 0, 0, "whether GIDs have their network interface" },
	{ "removed", KNOB_REMOVED, 0, 0, "the device is taken out; there is no way back" },
	{ "no_permission", KNOB_SWITCH, FIELD(front, no_permission), "opening the node is EACCES" },
	{ "reg_mr_fails", KNOB_COUNT, FIELD(front, reg_mr_fails),
	  "so many registrations from now are ENOMEM; 4294967295: all" },
	{ "create_qp_fails", KNOB_COUNT, FIELD(front, create_qp_fails),
	  "so many queue pairs from now are ENOMEM; 4294967295: all" },
	{ "no_dma_buf", KNOB_SWITCH, FIELD(front, no_dma_buf), "registering a dma-buf is EOPNOTSUPP" },
	{ "peer_memory", KNOB_SWITCH, FIELD(front, peer_memory),
	  "memory of GPUs is registered by its address, too" },
	{ "max_mr_size", KNOB_BYTES, FIELD(front, max_mr_bytes), "largest registration" },
	{ "bandwidth", KNOB_SPEED, FIELD(wire, bandwidth_mbps), "of what the device sends" },
	{ "latency", KNOB_TIME, FIELD(wire, latency_ns), "added to each packet" },
	{ "jitter", KNOB_TIME, FIELD(wire, jitter_ns), "up to so much more; keeps the order" },
	{ "loss", KNOB_RATE, FIELD(wire, loss_ppm), "packets lost" },
	{ "loss_count", KNOB_COUNT, FIELD(wire, loss_count), "the next packets are lost" },
	{ "reorder", KNOB_RATE, FIELD(wire, reorder_ppm), "packets that others overtake" },
	{ "reorder_by", KNOB_TIME, FIELD(wire, reorder_ns), "for how long; 0: 100us" },
	{ "drop_requests", KNOB_RATE, FIELD(wire, drop_request_ppm), "requests lost" },
	{ "drop_requests_count", KNOB_COUNT, FIELD(wire, drop_request_count),
	  "the next requests are lost" },
	{ "drop_responses", KNOB_RATE, FIELD(wire, drop_response_ppm), "responses lost" },
	{ "drop_responses_count", KNOB_COUNT, FIELD(wire, drop_response_count),
	  "the next responses are lost" },
	{ "delay_requests", KNOB_RATE, FIELD(wire, delay_request_ppm), "requests held back" },
	{ "delay_requests_count", KNOB_COUNT, FIELD(wire, delay_request_count),
	  "the next requests are held back" },
	{ "delay_responses", KNOB_RATE, FIELD(wire, delay_response_ppm), "responses held back" },
	{ "delay_responses_count", KNOB_COUNT, FIELD(wire, delay_response_count),
	  "the next responses are held back" },
	{ "delay_by", KNOB_TIME, FIELD(wire, delay_ns), "for how long; 0: 1ms" },
	{ "seed", KNOB_COUNT, FIELD(wire, seed), "of all rates; 0: another one each time" },
	{ "nak_at", KNOB_COUNT, FIELD(engine, nak_at), "the n-th request from now gets a NAK" },
	{ "nak", KNOB_COUNT, FIELD(engine, nak_syndrome),
	  "which: 96 sequence, 97 invalid request, 98 remote access, 99 remote operation" },
	{ "syndrome_at", KNOB_COUNT, FIELD(engine, syndrome_at), "the n-th WQE from now fails" },
	{ "syndrome", KNOB_COUNT, FIELD(engine, syndrome), "with this MLX5_CQE_SYNDROME_*" },
	{ "lost_cqe_at", KNOB_COUNT, FIELD(engine, lost_cqe_at),
	  "the n-th CQE from now is not written" },
	{ "cq_overrun_at", KNOB_COUNT, FIELD(engine, cq_overrun_at),
	  "the n-th CQE from now finds its CQ full" },
	{ "late_cqe", KNOB_TIME, FIELD(engine, late_cqe_ns), "CQEs come so much later" },
	{ "timeouts", KNOB_PERCENT, FIELD(engine, timeout_scale_percent),
	  "scale of all transport timers; 0: 100%" },
};
const unsigned nr_knobs = sizeof(knobs) / sizeof(knobs[0]);

/* ---- values ------------------------------------------------------------------ */

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit no_units[] = { { "", 1 }, { 0 } };
static const struct unit rates[] = { { "%", 10000 }, { "ppm", 1 }, { 0 } };
static const struct unit times[] = { { "ns", 1 }, { "us", 1000 }, { "ms", 1000000 },
				     { "s", 1000000000 }, { 0 } };
static const struct unit speeds[] = { { "mbit", 1 }, { "gbit", 1000 }, { 0 } };
static const struct unit sizes[] = { { "", 1 }, { "K", 1 << 10 }, { "M", 1 << 20 },
				     { "G", 1 << 30 }, { 0 } };
static const struct unit percents[] = { { "%", 1 }, { 0 } };

static const struct {
	const struct unit *units;
	uint64_t max;
	const char *values;
} kinds[] = {
	[KNOB_COUNT] = { no_units, UINT32_MAX, "a number from 0 to 4294967295" },
	[KNOB_RATE] = { rates, 1000000, "0 to 100%, or 0 to 1000000ppm" },
	[KNOB_TIME] = { times, UINT32_MAX, "a time like 500ns, 10us, 2ms or 1s, below 4.29s" },
	[KNOB_SPEED] = { speeds, UINT32_MAX, "a speed like 100mbit or 10gbit, 0 for no limit" },
	[KNOB_BYTES] = { sizes, UINT64_MAX, "bytes, like 4096, 64K, 1M or 2G, 0 for no limit" },
	[KNOB_PERCENT] = { percents, UINT32_MAX, "a percentage like 10%" },
	[KNOB_SWITCH] = { NULL, 1, "on or off" },
	[KNOB_REMOVED] = { NULL, 1, "on" },
	[KNOB_LINK] = { NULL, 1, "up or down" },
	[KNOB_MTU] = { NULL, 0, "256, 512, 1024, 2048 or 4096" },
	[KNOB_INTERFACE] = { NULL, 1, "there or gone" },
	[KNOB_GID] = { NULL, 0, "an IPv4 or IPv6 address, or none" },
};

const char *knob_values(enum knob_kind kind)
{
	return kinds[kind].values;
}

/* A decimal number with a unit, to the unit's millionth. 0 needs none. */
static bool parse_number(const char *text, enum knob_kind kind, uint64_t *out)
{
	const struct unit *u = kinds[kind].units;
	char *end;
	double v;

	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	if (u[0].factor == 1 && !*u[0].name) {
		uint64_t whole = strtoull(text, &end, 10);

		while (u->name && strcmp(u->name, end))
			u++;
		*out = u->name ? whole * u->factor : 0;
		return u->name && !errno && whole <= kinds[kind].max / u->factor;
	}
	v = strtod(text, &end);
	while (u->name && strcmp(u->name, end))
		u++;
	if (!u->name && (v != 0 || *end))
		return false;
	v *= u->name ? (double)u->factor : 0;
	if (!(v <= (double)kinds[kind].max))
		return false;
	*out = (uint64_t)(v + 0.5);
	return true;
}

static bool parse_words(const char *text, const char *zero, const char *one, uint64_t *out)
{
	*out = !strcmp(text, one);
	return *out || !strcmp(text, zero);
}

static bool parse_mtu(const char *text, uint64_t *out)
{
	static const char *const mtus[] = { "256", "512", "1024", "2048", "4096" };

	for (int i = 0; i < 5; i++)
		if (!strcmp(text, mtus[i])) {
			*out = 256u << i;
			return true;
		}
	return false;
}

static bool parse_gid(const char *text, uint8_t gid[16])
{
	memset(gid, 0, 16);
	if (!strcmp(text, "none") || inet_pton(AF_INET6, text, gid) == 1)
		return true;
	gid[10] = gid[11] = 0xff;
	return inet_pton(AF_INET, text, gid + 12) == 1;
}

static bool parse_value(const char *text, struct knob_setting *s)
{
	switch (s->knob->kind) {
	case KNOB_SWITCH:
		return parse_words(text, "off", "on", &s->value);
	case KNOB_REMOVED:
		return parse_words(text, "on", "on", &s->value);
	case KNOB_LINK:
		return parse_words(text, "down", "up", &s->value);
	case KNOB_INTERFACE:
		return parse_words(text, "gone", "there", &s->value);
	case KNOB_MTU:
		return parse_mtu(text, &s->value);
	case KNOB_GID:
		return parse_gid(text, s->gid);
	default:
		return parse_number(text, s->knob->kind, &s->value);
	}
}

/* ---- settings ---------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static int refuse(char *text, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(text, HOST_TEXT_BYTES, format, args);
	va_end(args);
	return -EINVAL;
}

static const struct knob *find(const char *name, size_t n)
{
	for (unsigned i = 0; i < nr_knobs; i++)
		if (strlen(knobs[i].name) == n && !memcmp(knobs[i].name, name, n))
			return &knobs[i];
	return NULL;
}

/* "PORT/" in front, ".INDEX" behind. */
static int parse_name(const char *name, size_t n, struct knob_setting *out, char *text)
{
	const char *dot;

	if (n > 2 && name[1] == '/') {
		out->port = (uint32_t)(name[0] - '0');
		if (out->port < 1 || out->port > HOST_MAX_PORTS)
			return refuse(text, "%.*s: ports are 1 to %u", (int)n, name, HOST_MAX_PORTS);
		name += 2;
		n -= 2;
	}
	dot = memchr(name, '.', n);
	out->knob = find(name, dot ? (size_t)(dot - name) : n);
	if (!out->knob)
		return refuse(text, "%.*s: there is no such setting; tent-sim ctl --help lists them",
			      (int)n, name);
	if (out->port && out->knob->kind < KNOB_LINK)
		return refuse(text, "%.*s is of the device, not of a port", (int)n, name);
	if (out->knob->kind != KNOB_GID)
		return dot ? refuse(text, "%.*s: only gid has an index", (int)n, name) : 0;
	out->index = dot && isdigit((unsigned char)dot[1]) ? (uint32_t)strtoul(dot + 1, NULL, 10) :
							     WIRE_MAX_GIDS;
	if (out->index >= WIRE_MAX_GIDS)
		return refuse(text, "%.*s: gid.INDEX with an index from 0 to %u", (int)n, name,
			      WIRE_MAX_GIDS - 1);
	return 0;
}

int knob_parse(const char *setting, struct knob_setting *out, char *text)
{
	const char *is = strchr(setting, '=');
	int rc;

	*out = (struct knob_setting){ 0 };
	if (!is || is == setting)
		return refuse(text, "\"%.64s\" is not NAME=VALUE", setting);
	rc = parse_name(setting, (size_t)(is - setting), out, text);
	if (rc)
		return rc;
	if (!parse_value(is + 1, out))
		return refuse(text, "%.64s: %s takes %s", setting, out->knob->name,
			      kinds[out->knob->kind].values);
	return 0;
}

void knob_store(struct host_memory_device *m, const struct knob_setting *s)
{
	void *at = (uint8_t *)m + s->knob->offset;

	if (s->knob->bytes == 8)
		__atomic_store_n((uint64_t *)at, s->value, __ATOMIC_RELAXED);
	else if (s->knob->bytes == 4)
		__atomic_store_n((uint32_t *)at, (uint32_t)s->value, __ATOMIC_RELAXED);
}

uint64_t knob_load(const struct host_memory_device *m, const struct knob *k)
{
	const void *at = (const uint8_t *)m + k->offset;

	if (k->bytes == 8)
		return __atomic_load_n((const uint64_t *)at, __ATOMIC_RELAXED);
	return k->bytes == 4 ? __atomic_load_n((const uint32_t *)at, __ATOMIC_RELAXED) : 0;
}

void knob_print(const struct knob *k, uint64_t value, char *out, size_t n)
{
	const struct unit *u = kinds[k->kind].units, *best = u;

	if (k->kind == KNOB_SWITCH) {
		snprintf(out, n, "%s", value ? "on" : "off");
		return;
	}
	for (; u && u->name; u++)
		if (value && value % u->factor == 0 && (value % best->factor || u->factor > best->factor))
			best = u;
	snprintf(out, n, "%llu%s", (unsigned long long)(best ? value / best->factor : value),
		 best && value ? best->name : "");
}
