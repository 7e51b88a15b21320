/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/hca/tool/show.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "sim/hca/host/parts.h"

/* ---- counters ---------------------------------------------------------------- */

#define ENGINE(field) { #field, offsetof(struct host_slot_counters, engine.field) }
#define WIRE(field) { "wire_" #field, offsetof(struct host_slot_counters, wire.field) }

static const struct counter {
	const char *name;
	size_t offset;
} counters[] = {
	ENGINE(wqes), ENGINE(cqes), ENGINE(error_cqes), ENGINE(packets_sent),
	ENGINE(packets_received), ENGINE(bytes_sent), ENGINE(bytes_received), ENGINE(retries),
	ENGINE(timeouts), ENGINE(rnr_naks_sent), ENGINE(rnr_naks_received), ENGINE(naks_sent),
	ENGINE(naks_received), ENGINE(duplicates), ENGINE(out_of_sequence), ENGINE(doorbells),
	ENGINE(cq_arms), WIRE(sent), WIRE(received), WIRE(dropped), WIRE(delayed),
	WIRE(malformed), WIRE(bad_icrc), WIRE(unsent), WIRE(queue_full),
};

#define NR_COUNTERS (sizeof(counters) / sizeof(counters[0]))

static_assert(NR_COUNTERS == (sizeof(struct hca_counters) + sizeof(struct wire_counters)) / 8,
	      "every counter is shown");

static uint64_t read_counter(const struct host_slot_counters *s, const struct counter *c)
{
	return __atomic_load_n((const uint64_t *)((const uint8_t *)s + c->offset),
			       __ATOMIC_RELAXED);
}

/* Also of processes that have ended, until another has their slot. */
static uint64_t total(const struct host_memory_device *m, const struct counter *c)
{
	uint64_t sum = 0;

	for (int i = 0; i < HOST_NR_SLOTS; i++)
		sum += read_counter(&m->slots[i], c);
	return sum;
}

/* ---- what is on its way ------------------------------------------------------ */

static uint64_t in_flight(const struct host_slot_counters *s)
{
	return __atomic_load_n(&s->gauges.bytes_in_flight, __ATOMIC_RELAXED);
}

/* Of processes that live: what another had on its way is on no way any more. */
static uint64_t total_in_flight(const struct host_table *t, const struct host_memory_device *m)
{
	uint64_t sum = 0;

	for (int i = 0; i < HOST_NR_SLOTS; i++)
		if (t->users[i].pid)
			sum += in_flight(&m->slots[i]);
	return sum;
}

/* False: the place is nobody's. */
static bool read_gauge(const struct host_slot_counters *s, uint32_t i, struct hca_in_flight *out)
{
	const struct hca_in_flight *from = &s->gauges.qps[i];

	out->qpn = __atomic_load_n(&from->qpn, __ATOMIC_RELAXED);
	out->bytes = __atomic_load_n(&from->bytes, __ATOMIC_RELAXED);
	out->first_psn = __atomic_load_n(&from->first_psn, __ATOMIC_RELAXED);
	out->next_psn = __atomic_load_n(&from->next_psn, __ATOMIC_RELAXED);
	return out->qpn;
}

/* ---- what both forms need ---------------------------------------------------- */

static bool is_shown(uint32_t device, uint32_t i)
{
	return device == HOST_ALL_DEVICES || device == i;
}

static bool gid_text(const struct host_port *p, uint32_t i, char text[INET6_ADDRSTRLEN])
{
	uint8_t gid[16];
	bool is_there = wire_gid_get(&p->wire.gids, i, gid);

	inet_ntop(AF_INET6, gid, text, INET6_ADDRSTRLEN);
	return is_there;
}

static const char *link_name(const struct host_port *p)
{
	return p->wire.is_ethernet ? "roce" : "ib";
}

static const char *state_name(const struct host_port *p)
{
	return p->state == HOST_PORT_ACTIVE ? "up" : "down";
}

/* ---- for people -------------------------------------------------------------- */

static void port_text(const struct host_port *p, unsigned number)
{
	char gid[INET6_ADDRSTRLEN];

	printf("  port %u: %s, %s, MTU %u, on %.16s", number, link_name(p), state_name(p),
	       p->active_mtu_bytes, p->ifname);
	if (!p->wire.is_ethernet)
		printf(", LID %u", p->wire.lid);
	printf("\n");
	for (uint32_t i = 0; i < WIRE_MAX_GIDS; i++)
		if (gid_text(p, i, gid))
			printf("    gid.%u %s\n", i, gid);
}

static void faults_text(const struct host_memory_device *m)
{
	char value[32];

	for (unsigned i = 0; i < nr_knobs; i++) {
		if (!knob_load(m, &knobs[i]))
			continue;
		knob_print(&knobs[i], knob_load(m, &knobs[i]), value, sizeof(value));
		printf("  fault %s=%s\n", knobs[i].name, value);
	}
}

static void in_flight_text(const struct host_table *t, const struct host_memory_device *m)
{
	struct hca_in_flight g;

	printf("  %-18s %20llu\n", "bytes_in_flight", (unsigned long long)total_in_flight(t, m));
	for (uint32_t slot = 0; slot < HOST_NR_SLOTS; slot++)
		for (uint32_t i = 0; t->users[slot].pid && i < HCA_GAUGES; i++)
			if (read_gauge(&m->slots[slot], i, &g))
				printf("    QP %#x of process %u: %u, PSN %u to before %u\n", g.qpn,
				       t->users[slot].pid, g.bytes, g.first_psn, g.next_psn);
}

static void device_text(const struct host_table *t, const struct host_memory *m, uint32_t n)
{
	const struct host_device *d = &t->devices[n];

	printf("%.16s: node GUID %016llx%s\n", d->name, (unsigned long long)d->node_guid,
	       d->is_removed ? ", removed" : "");
	for (uint32_t i = 0; i < d->nr_ports && i < HOST_MAX_PORTS; i++)
		port_text(&d->ports[i], i + 1);
	faults_text(&m->devices[n]);
	for (size_t i = 0; i < NR_COUNTERS; i++)
		printf("  %-18s %20llu\n", counters[i].name,
		       (unsigned long long)total(&m->devices[n], &counters[i]));
	in_flight_text(t, &m->devices[n]);
}

void show_text(const struct host_table *t, const struct host_memory *m, uint32_t device)
{
	for (uint32_t i = 0; i < t->nr_devices && i < HOST_MAX_DEVICES; i++)
		if (is_shown(device, i))
			device_text(t, m, i);
	for (uint32_t i = 0; i < HOST_NR_SLOTS; i++)
		if (t->users[i].pid)
			printf("slot %u: process %u of user %u\n", i, t->users[i].pid,
			       t->users[i].uid);
}

/* ---- for programs ------------------------------------------------------------ */

static void port_json(const struct host_port *p, unsigned number)
{
	char gid[INET6_ADDRSTRLEN];

	printf("%s{\"port\": %u, \"link\": \"%s\", \"state\": \"%s\", \"mtu\": %u, "
	       "\"interface\": \"%.16s\", \"lid\": %u, \"gids\": [",
	       number > 1 ? ", " : "", number, link_name(p), state_name(p), p->active_mtu_bytes,
	       p->ifname, p->wire.lid);
	for (uint32_t i = 0; i < WIRE_MAX_GIDS && i < p->wire.gids.nr; i++)
		printf("%s\"%s\"", i ? ", " : "", gid_text(p, i, gid) ? gid : "");
	printf("]}");
}

static void faults_json(const struct host_memory_device *m)
{
	bool is_first = true;

	for (unsigned i = 0; i < nr_knobs; i++) {
		if (!knobs[i].bytes)
			continue;
		printf("%s\"%s\": %llu", is_first ? "" : ", ", knobs[i].name,
		       (unsigned long long)knob_load(m, &knobs[i]));
		is_first = false;
	}
}

static void in_flight_json(const struct host_slot_counters *s)
{
	struct hca_in_flight g;
	bool is_first = true;

	printf(", \"bytes_in_flight\": %llu, \"qps_in_flight\": [",
	       (unsigned long long)in_flight(s));
	for (uint32_t i = 0; i < HCA_GAUGES; i++) {
		if (!read_gauge(s, i, &g))
			continue;
		printf("%s{\"qpn\": %u, \"bytes\": %u, \"first_psn\": %u, \"next_psn\": %u}",
		       is_first ? "" : ", ", g.qpn, g.bytes, g.first_psn, g.next_psn);
		is_first = false;
	}
	printf("]");
}

static void process_json(const struct host_table *t, const struct host_slot_counters *s,
			 uint32_t slot, bool is_first)
{
	printf("%s\n    {\"slot\": %u, \"pid\": %u, \"uid\": %u", is_first ? "" : ",", slot,
	       t->users[slot].pid, t->users[slot].uid);
	for (size_t i = 0; i < NR_COUNTERS; i++)
		printf(", \"%s\": %llu", counters[i].name,
		       (unsigned long long)read_counter(s, &counters[i]));
	in_flight_json(s);
	printf("}");
}

static void device_json(const struct host_table *t, const struct host_memory *m, uint32_t n)
{
	const struct host_device *d = &t->devices[n];
	bool is_first = true;

	printf("  {\"name\": \"%.16s\", \"node_guid\": \"%016llx\", \"removed\": %s,\n   "
	       "\"ports\": [",
	       d->name, (unsigned long long)d->node_guid, d->is_removed ? "true" : "false");
	for (uint32_t i = 0; i < d->nr_ports && i < HOST_MAX_PORTS; i++)
		port_json(&d->ports[i], i + 1);
	printf("],\n   \"faults\": {");
	faults_json(&m->devices[n]);
	printf("},\n   \"counters\": {");
	for (size_t i = 0; i < NR_COUNTERS; i++)
		printf("%s\"%s\": %llu", i ? ", " : "", counters[i].name,
		       (unsigned long long)total(&m->devices[n], &counters[i]));
	printf("},\n   \"bytes_in_flight\": %llu,\n   \"processes\": [",
	       (unsigned long long)total_in_flight(t, &m->devices[n]));
	for (uint32_t i = 0; i < HOST_NR_SLOTS; i++)
		if (t->users[i].pid) {
			process_json(t, &m->devices[n].slots[i], i, is_first);
			is_first = false;
		}
	printf("]}");
}

void show_json(const struct host_table *t, const struct host_memory *m, uint32_t device)
{
	bool is_first = true;

	printf("[\n");
	for (uint32_t i = 0; i < t->nr_devices && i < HOST_MAX_DEVICES; i++)
		if (is_shown(device, i)) {
			printf("%s", is_first ? "" : ",\n");
			device_json(t, m, i);
			is_first = false;
		}
	printf("\n]\n");
}
