/* SPDX-License-Identifier: Apache-2.0 */
/* rdma_pair.c - see rdma_pair.h. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "tests/common/engine_fix.h"
#include "tests/common/far.h"
#include "tests/common/rdma_pair.h"
#include "tests/common/sim.h"
#include "tests/common/tap.h"

#define ROCE_PORT 4791		/* of UDP; software InfiniBand goes by it too */

/* Retries of half a second in all are too short for a machine that others use. */
static const char *const roce[] = { "--link", "roce", "--fault", "timeouts=400%", NULL };
static const char *const infiniband[] = { "--link", "ib", "--fault", "timeouts=400%", NULL };
const char *const *const rdma_links[2] = { roce, infiniband };

struct tentd_pair rdma_two;
unsigned int rdma_fence_ms = 5000;

/* ---- hosts ------------------------------------------------------------- */

int rdma_setup(void **state)
{
	(void)state;
	tentd_pair_open(&rdma_two);
	return 0;
}

int rdma_rails_setup(void **state)
{
	rdma_setup(state);
	if (rdma_two.permitted)
		hosts_add_cable(&rdma_two.hosts);
	return 0;
}

int rdma_teardown(void **state)
{
	(void)state;
	tentd_pair_close(&rdma_two);
	return 0;
}

void rdma_hosts_cut(void)
{
	hosts_cut(&rdma_two.hosts);
}

void rdma_hosts_heal(void)
{
	hosts_heal(&rdma_two.hosts);
}

void rdma_hosts_lose(bool all)
{
	hosts_lose_udp(&rdma_two.hosts, ROCE_PORT, all);
}

void rdma_start_at(int i, const struct rdma_host *h)
{
	char peers[128], more[768];

	if (!rdma_two.permitted)
		skip();
	/* However slow the machine is, nobody is taken for dead. */
	snprintf(peers, sizeof(peers), "\"secret_file\": \"%s\", \"keepalive_ms\": 20000",
		 rdma_two.secret);
	snprintf(more, sizeof(more), "\"transports\": {\"rdma\": {\"enable\": true, "
		 "\"fence_ms\": %u%s}}%s", rdma_fence_ms, h->rdma ? h->rdma : "",
		 h->extra ? h->extra : "");
	rdma_two.sims[i] = h->sim;
	tentd_pair_start(&rdma_two, i, HOSTS_IPV4, peers, more);
}

void rdma_set_at(int i, const char *what)
{
	hosts_enter(&rdma_two.hosts, i);
	sim_set("%s", what);
	hosts_enter(&rdma_two.hosts, -1);
}

void rdma_set_device_at(int i, int device, const char *what)
{
	hosts_enter(&rdma_two.hosts, i);
	sim_set_device(device, "%s", what);
	hosts_enter(&rdma_two.hosts, -1);
}

uint64_t rdma_bytes_in_flight_at(int i)
{
	uint64_t bytes;

	hosts_enter(&rdma_two.hosts, i);
	bytes = sim_bytes_in_flight();
	hosts_enter(&rdma_two.hosts, -1);
	return bytes;
}

int rdma_tap_at(int i)
{
	int tap;

	hosts_enter(&rdma_two.hosts, i);
	tap = tap_open(HOSTS_PORT);
	hosts_enter(&rdma_two.hosts, -1);
	return tap;
}

/* ---- clients ----------------------------------------------------------- */

static uint8_t *memory_of(struct tent_client *c)
{
	void *p;

	assert_int_equal(tent_client_alloc(c, RDMA_SIZE, "*", &p), 0);
	assert_int_equal(tent_client_register(c, p, RDMA_SIZE, TENT_PERM_GLOBAL_READ_WRITE, NULL,
					      0), 0);
	return p;
}

void rdma_open_owner(struct rdma_pair *p)
{
	assert_int_equal(tent_client_attach(rdma_two.daemons[0].socket, "kv", &p->owner), 0);
	p->theirs = memory_of(p->owner);
}

void rdma_open_user(struct rdma_pair *p)
{
	assert_int_equal(tent_client_attach(rdma_two.daemons[1].socket, NULL, &p->user), 0);
	p->mine = memory_of(p->user);
	p->ring = engine_fix_ring(p->user);
	p->id = far_open_it(p->user, tent_client_segment(p->owner));
}

void rdma_pair_open_as(struct rdma_pair *p, const struct rdma_host hosts[2])
{
	for (int i = 0; i < 2; i++)
		rdma_start_at(i, &hosts[i]);
	rdma_open_owner(p);
	rdma_open_user(p);
}

void rdma_pair_open(struct rdma_pair *p, const char *const *sim, const char *rdma,
		    const char *extra)
{
	const struct rdma_host alike = { sim, rdma, extra };

	rdma_pair_open_as(p, (const struct rdma_host[2]){ alike, alike });
}

void rdma_pair_close(struct rdma_pair *p)
{
	tent_ring_close(p->ring);
	tent_client_detach(p->user);
	tent_client_detach(p->owner);
}

void rdma_pair_end(struct rdma_pair *p)
{
	rdma_pair_close(p);
	tentd_pair_end(&rdma_two);
}

/* ---- traffic ----------------------------------------------------------- */

void rdma_submit_all(struct rdma_pair *p, int opcode)
{
	for (uint64_t i = 0; i < RDMA_PARTS; i++) {
		struct tent_request_v1 r =
			engine_fix_request(opcode, p->mine + i * RDMA_PART, p->id,
					   p->theirs + i * RDMA_PART, RDMA_PART);

		assert_int_equal(tent_ring_submit(p->ring, &r, 1, sizeof(r), i, 0), 0);
	}
}

void rdma_expect_all(struct rdma_pair *p, int opcode, int transport, uint32_t seed)
{
	pattern_fill(opcode == TENT_OPCODE_WRITE ? p->mine : p->theirs, RDMA_SIZE, seed);
	memset(opcode == TENT_OPCODE_WRITE ? p->theirs : p->mine, 0, RDMA_SIZE);
	rdma_submit_all(p, opcode);
	for (int i = 0; i < RDMA_PARTS; i++) {
		struct tent_completion c = engine_fix_wait(p->ring);

		assert_int_equal(c.status, TENT_STATUS_COMPLETED);
		assert_int_equal(c.transport, transport);
	}
	assert_memory_equal(p->mine, p->theirs, RDMA_SIZE);
}

void rdma_expect_both(struct rdma_pair *p, uint32_t seed)
{
	rdma_expect_all(p, TENT_OPCODE_WRITE, TENT_TRANSPORT_RDMA, seed);
	rdma_expect_all(p, TENT_OPCODE_READ, TENT_TRANSPORT_RDMA, seed + 1);
}

int rdma_failures(struct rdma_pair *p, int opcode, int error)
{
	int failed = 0;

	pattern_fill(opcode == TENT_OPCODE_WRITE ? p->mine : p->theirs, RDMA_SIZE, 77);
	rdma_submit_all(p, opcode);
	for (int i = 0; i < RDMA_PARTS; i++) {
		struct tent_completion c = engine_fix_wait(p->ring);
		uint64_t at = c.user_data * RDMA_PART;

		if (c.status == TENT_STATUS_COMPLETED) {
			assert_memory_equal(p->mine + at, p->theirs + at, RDMA_PART);
			continue;
		}
		assert_int_equal(c.error, error);
		assert_int_equal(c.flags & TENT_CQE_F_TARGET_UNFENCED, 0);
		failed++;
	}
	return failed;
}

const char *rdma_facts_at(int i)
{
	static char facts[1024];
	struct tent_client *c;
	const char *text;
	json_t *stats;
	char *json;

	assert_int_equal(tent_client_observe(rdma_two.daemons[i].socket, &c), 0);
	assert_int_equal(tent_client_query(c, TENT_QUERY_STATS, &json), 0);
	stats = json_loads(json, 0, NULL);
	assert_int_equal(json_unpack(stats, "{s:{s:s}}", "transport_facts", "rdma", &text), 0);
	snprintf(facts, sizeof(facts), "%s", text);
	json_decref(stats);
	free(json);
	tent_client_detach(c);
	return facts;
}
