/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cm_fix.h - the connection managers of two hosts, joined by a wire that the test holds in
 * its hand, and commands as librdmacm gives them. What is not as expected fails the test.
 */
#ifndef TENT_SIM_HCA_CM_FIX_H
#define TENT_SIM_HCA_CM_FIX_H

#include "sim/hca/cm/core.h"

enum {
	LISTEN_PORT = 7174, A_QPN = 0x10005, B_QPN = 0x20006,
	LISTENER = 0x11, CLIENT = 0x22, SERVER = 0x33,	/* uids */
};

struct cm_fix_host {
	struct cm *cm;
	struct cm_fix_host *peer;
	uint8_t last_octet;		/* of 10.0.0.x */
	struct cm_file *file;
	bool readable;
};

struct cm_fix_packet {
	struct cm_fix_host *to;
	struct hca_packet p;
	uint8_t bytes[CM_MAD_BYTES];
};

extern struct cm_fix_host cm_fix_hosts[2];
static struct cm_fix_host *const a = &cm_fix_hosts[0], *const b = &cm_fix_hosts[1];
extern uint32_t cm_fix_nr_wire;		/* packets on their way */
extern uint64_t cm_fix_clock_ns;
extern bool cm_fix_is_ib;
extern struct cm_call cm_fix_result;	/* of the last command */

int cm_fix_setup_roce(void **state);
int cm_fix_setup_ib(void **state);
int cm_fix_teardown(void **state);

/* What each host's file has for cm_file_create(). */
void cm_fix_set_readable(struct cm_file *f);

#define ROCE(f)	cmocka_unit_test_setup_teardown(f, cm_fix_setup_roce, cm_fix_teardown)
#define IB(f)	{ #f " (InfiniBand)", f, cm_fix_setup_ib, cm_fix_teardown, NULL }

void cm_fix_gid_of(const struct cm_fix_host *h, uint8_t gid[16]);

/* ---- the wire --------------------------------------------------------------------------- */

void cm_fix_arrive(struct cm_fix_packet *w);
void cm_fix_deliver_all(void);
/* The oldest packet, which must be this message; it is lost unless the test delivers it. */
struct cm_fix_packet cm_fix_expect_message(uint32_t attribute);
void cm_fix_pass_on(uint32_t attribute);

/* ---- commands: their results, or what they return --------------------------------------- */

#define COMMAND(h, name, in, out_bytes) \
	cm_fix_command_at((h)->file, RDMA_USER_CM_CMD_##name, &(in), sizeof(in), out_bytes)

int cm_fix_command_at(struct cm_file *f, uint32_t command, const void *in, uint32_t in_bytes,
		      uint32_t out_bytes);
uint32_t cm_fix_create(struct cm_fix_host *h, uint64_t uid, uint16_t ps);
int cm_fix_destroy(struct cm_fix_host *h, uint32_t id);
struct sockaddr_in6 cm_fix_address(uint32_t ip, uint16_t port);
int cm_fix_bind_to(struct cm_fix_host *h, uint32_t id, uint32_t ip, uint16_t port);
int cm_fix_listen_on(struct cm_fix_host *h, uint32_t id, uint32_t backlog);
int cm_fix_resolve(struct cm_fix_host *h, uint32_t id, uint32_t ip, uint16_t port);
int cm_fix_resolve_route(struct cm_fix_host *h, uint32_t id);
struct rdma_ucm_event_resp cm_fix_expect_event(struct cm_fix_host *h, uint64_t uid, uint32_t event,
					       int status);
void cm_fix_expect_no_event(struct cm_fix_host *h);
int cm_fix_connect_to(struct cm_fix_host *h, uint32_t id, const char *text);
int cm_fix_accept_as(struct cm_fix_host *h, uint32_t id, uint64_t uid, const char *text);
int cm_fix_establish(struct cm_fix_host *h, uint32_t id);
int cm_fix_disconnect(struct cm_fix_host *h, uint32_t id);
int cm_fix_reject(struct cm_fix_host *h, uint32_t id, const char *text);
int cm_fix_qp_attributes(struct cm_fix_host *h, uint32_t id, uint32_t qp_state,
			 struct ib_uverbs_qp_attr *out);

/* ---- what many tests begin with ---------------------------------------------------------- */

uint32_t cm_fix_listener_on_b(uint16_t ps);
uint32_t cm_fix_client_on_a(uint16_t ps);
/* Both, and the request that came of them: its id. */
uint32_t cm_fix_ask(uint32_t *client, const char *private_data);
void cm_fix_connect_both(uint32_t *client, uint32_t *server);

#endif /* TENT_SIM_HCA_CM_FIX_H */
