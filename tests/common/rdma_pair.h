/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rdma_pair.h - two tentd on two hosts, each with software ConnectX devices of its own; an
 * owner on host 0, a user of its segment on host 1. Who may not make hosts skips his test
 * where he starts the first of them.
 */
#ifndef TENT_TESTS_RDMA_PAIR_H
#define TENT_TESTS_RDMA_PAIR_H

#include <stdbool.h>
#include <stdint.h>
#include <tent/tentring.h>

#include "tests/common/pattern.h"
#include "tests/common/tentd_pair.h"

#define RDMA_SIZE ((uint64_t)4 << 20)	/* of either's memory, moved as */
#define RDMA_PARTS 32			/* requests of */
#define RDMA_PART (RDMA_SIZE / RDMA_PARTS)

extern struct tentd_pair rdma_two;
/* transports/rdma/fence_ms of daemons that start. Who needs what broke to be fenced, however slow
 * the machine is, sets more; where nobody is left to confirm it, half of it is waited for. */
extern unsigned int rdma_fence_ms;
#define RDMA_PATIENT_FENCE_MS 60000u
/* Options of tent-sim: RoCE, InfiniBand. */
extern const char *const *const rdma_links[2];

/* A group's, for cmocka: with a cable between the hosts, or with two. */
int rdma_setup(void **state);
int rdma_rails_setup(void **state);
int rdma_teardown(void **state);
/* The cable between them. */
void rdma_hosts_cut(void);
void rdma_hosts_heal(void);
/* It loses all packets of the devices, and no others; or does no more. */
void rdma_hosts_lose(bool all);

/* Members of transports/rdma, of the whole: each begins with a comma; or NULL. */
struct rdma_host {
	const char *const *sim;		/* options of tent-sim; NULL: it has no device */
	const char *rdma, *extra;
};
void rdma_start_at(int i, const struct rdma_host *h);
/* Nothing but RDMA: closes that object, to go last in it. */
#define RDMA_ALONE "}, \"tcp\": {\"enable\": false"
/* A fault of host i's devices, or of one of them; or what ends it. */
void rdma_set_at(int i, const char *what);
void rdma_set_device_at(int i, int device, const char *what);
/* What host i's devices have on their way as of now. */
uint64_t rdma_bytes_in_flight_at(int i);
/* See tap.h; of the cable at host i. */
int rdma_tap_at(int i);

struct rdma_pair {
	struct tent_client *owner, *user;
	struct tent_ring *ring;
	uint8_t *theirs, *mine;
	tent_segment_id_t id;
};

void rdma_open_owner(struct rdma_pair *p);
void rdma_open_user(struct rdma_pair *p);
/* Daemons too; with two that are alike, or not. */
void rdma_pair_open(struct rdma_pair *p, const char *const *sim, const char *rdma,
		    const char *extra);
void rdma_pair_open_as(struct rdma_pair *p, const struct rdma_host hosts[2]);
/* Clients alone; daemons too. */
void rdma_pair_close(struct rdma_pair *p);
void rdma_pair_end(struct rdma_pair *p);

/* A request for each part, its number as user_data. */
void rdma_submit_all(struct rdma_pair *p, int opcode);
/* All parts are moved, by this transport. */
void rdma_expect_all(struct rdma_pair *p, int opcode, int transport, uint32_t seed);
/* WRITE and READ, by RDMA. */
void rdma_expect_both(struct rdma_pair *p, uint32_t seed);
/* How many of all did not complete, but ended with this error and fenced; those that did
 * have their bytes there. */
int rdma_failures(struct rdma_pair *p, int opcode, int error);
/* What tentd i says of its transport, as of now; static. */
const char *rdma_facts_at(int i);

#endif /* TENT_TESTS_RDMA_PAIR_H */
