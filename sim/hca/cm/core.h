/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core.h - the connection manager without its sockets, as its own files share it.
 *
 * A file is an event channel; an id is what the program created, or what a request to a
 * listener made; a connection is what its peer knows of it, and outlives the id until the
 * peer has heard of its end. Everything hangs off struct cm and is used by one thread.
 */
#ifndef TENT_SIM_HCA_CM_CORE_H
#define TENT_SIM_HCA_CM_CORE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_user_cm.h>

#include "sim/hca/cm/frame.h"
#include "sim/hca/cm/holder.h"
#include "sim/hca/cm/mad.h"

#define CM_UDP_QKEY 0x01234567u		/* of every UD QP that has no other: A11 */
#define CM_QP1 1u
#define CM_QP1_QKEY 0x80010000u
#define CM_DEFAULT_PKEY 0xffffu
#define CM_AF_IB 27u			/* older libcs have no AF_IB */
#define CM_IB_ADDRESS_BYTES 48u
#define CM_MAX_IDS 65536u
#define CM_MAX_COMMAND_BYTES CM_FRAME_COMMAND_BYTES
#define CM_MAX_OPTION_BYTES CM_FRAME_OPTION_BYTES
#define CM_MAX_REPLY_BYTES CM_FRAME_REPLY_BYTES

/* As rdma_cma.h numbers them, which cannot be included beside rdma_user_cm.h. */
enum cm_event_kind {
	CM_EVENT_ADDR_RESOLVED, CM_EVENT_ADDR_ERROR, CM_EVENT_ROUTE_RESOLVED,
	CM_EVENT_ROUTE_ERROR, CM_EVENT_CONNECT_REQUEST, CM_EVENT_CONNECT_RESPONSE,
	CM_EVENT_CONNECT_ERROR, CM_EVENT_UNREACHABLE, CM_EVENT_REJECTED, CM_EVENT_ESTABLISHED,
	CM_EVENT_DISCONNECTED, CM_EVENT_DEVICE_REMOVAL, CM_EVENT_MULTICAST_JOIN,
	CM_EVENT_MULTICAST_ERROR, CM_EVENT_ADDR_CHANGE, CM_EVENT_TIMEWAIT_EXIT,
};

struct cm_event {
	struct cm_event *next;
	struct cm_id *id;		/* it counts against this one's destroy */
	struct cm_id *request;		/* CONNECT_REQUEST: the new id, not yet told of */
	struct rdma_ucm_event_resp resp;
};

struct cm_file {
	struct cm_file *next;
	struct cm *cm;
	void *holder;			/* whose set_readable() it is */
	uint64_t cookie;		/* SO_COOKIE of the program's descriptor */
	struct cm_event *events;	/* oldest first */
	bool is_readable;		/* as the program's descriptor shows it */
	/* Makes the program's descriptor readable. */
	void (*set_readable)(struct cm_file *f);
};

union cm_address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

struct cm_path {
	struct cm_place place;
	bool is_ethernet;
	uint8_t sgid[16], dgid[16];
	uint32_t sgid_index;
	uint16_t slid, dlid;		/* InfiniBand */
	uint32_t mtu;			/* enum ibv_mtu */
	uint32_t flow_label, traffic_class, hop_limit, sl;
	uint32_t life_time;		/* 4.096 us * 2^n, one way */
};

enum cm_id_state {
	CM_ID_IDLE, CM_ID_BOUND, CM_ID_ADDRESS_RESOLVED, CM_ID_ROUTE_RESOLVED,
	CM_ID_CONNECT, CM_ID_DISCONNECT, CM_ID_LISTEN,
};

struct cm_id {
	struct cm_id *next;
	struct cm_file *file;
	uint32_t handle;
	uint64_t uid;			/* the program's name for it; 0: it has none yet */
	uint32_t port_space;		/* enum rdma_ucm_port_space */
	uint32_t qp_type;		/* enum ibv_qp_type */
	enum cm_id_state state;
	bool is_waiting;		/* made by a request that the program has not taken */
	union cm_address source, destination;
	bool has_device;
	struct cm_path path;		/* place: with has_device; the rest: once resolved */
	uint32_t nr_paths;
	bool reuse_address, v6_only;
	bool has_tos, has_ack_timeout;
	uint8_t tos, ack_timeout;
	uint32_t backlog;		/* requests that may still wait */
	uint32_t events_reported;
	uint32_t qkey;			/* UD */
	uint32_t psn;			/* what the peer begins with */
	struct cm_connection *connection;
};

enum cm_connection_state {
	CM_CLOSED, CM_REQ_SENT, CM_REQ_RECEIVED, CM_REP_SENT, CM_REP_RECEIVED,
	CM_ESTABLISHED, CM_DREQ_SENT, CM_DREQ_RECEIVED, CM_TIMEWAIT,
	CM_SIDR_SENT, CM_SIDR_RECEIVED,
};

struct cm_connection {
	struct cm_connection *next;
	struct cm_id *id;		/* NULL: it was destroyed */
	enum cm_connection_state state;
	struct cm_path path;
	uint32_t local_id, remote_id;
	uint64_t remote_guid, service_id, transaction;
	uint32_t local_qpn, remote_qpn;
	uint32_t receive_psn, send_psn;
	uint32_t responder_resources, initiator_depth;
	uint32_t retry_count, rnr_retry_count;
	uint32_t ack_timeout;		/* as the QP wants it */
	uint64_t deadline_ns;		/* UINT64_MAX: none */
	uint64_t interval_ns;
	uint32_t tries_left;
	struct cm_mad sent;		/* to be sent again at the deadline */
};

struct cm {
	struct cm_env env;
	struct cm_file *files;
	struct cm_id *ids;
	struct cm_connection *connections;
	struct cm_id *by_handle[CM_MAX_IDS];
	uint32_t lowest_free;		/* no handle below it is free */
	uint64_t random;
	uint32_t mad_psn;		/* of QP 1 */
};

/* ---- core.c ------------------------------------------------------------------ */

struct cm *cm_create(const struct cm_env *env);
void cm_destroy(struct cm *cm);
struct cm_file *cm_file_create(struct cm *cm, void *holder,
			       void (*set_readable)(struct cm_file *));
/* With all that the program left: peers are told. Frees f. */
void cm_file_close(struct cm_file *f);
void cm_device_removed(struct cm *cm, uint32_t device);

struct cm_id *cm_id_create(struct cm_file *f, uint64_t uid, uint32_t port_space, uint32_t qp_type);
/* -ENOENT: no such id; -EINVAL: it is another file's. */
int cm_id_find(struct cm_file *f, uint32_t handle, struct cm_id **out);
void cm_id_destroy(struct cm_id *id);
uint32_t cm_random(struct cm *cm);

/* ---- address.c ---------------------------------------------------------------- */

bool cm_address_is_loopback(const union cm_address *a);
uint16_t cm_address_port(const union cm_address *a);
void cm_address_ip(const union cm_address *a, uint8_t ip[16]);
void cm_address_set(union cm_address *a, const uint8_t ip[16], uint16_t port);
uint32_t cm_address_bytes(const union cm_address *a);

int cm_bind(struct cm_id *id, const union cm_address *a);
/* source may have family 0. Failures of the resolution itself come as events. */
int cm_resolve_address(struct cm_id *id, const union cm_address *source,
		       const union cm_address *destination);
int cm_resolve_route(struct cm_id *id);
int cm_listen(struct cm_id *id, uint32_t backlog);
/* Who listens for this, on the port where the request came in; NULL: nobody. */
struct cm_id *cm_find_listener(struct cm *cm, struct cm_place at, uint64_t service_id,
			       const struct cm_ip_header *h);
uint64_t cm_service_id(const struct cm_id *id, const union cm_address *a);

/* ---- path.c -------------------------------------------------------------------- */

/* Fills id->path from the addresses and the place. 0 or -errno. */
int cm_path_resolve(struct cm_id *id);
/* The way back of a packet; false if it came to no address of ours. */
bool cm_path_reply(struct cm *cm, uint32_t device, const struct hca_packet *p,
		   struct cm_path *out);
bool cm_path_same_peer(const struct cm_path *a, const struct cm_path *b);
/* What the peer wants: a REQ that came in along `reply`. */
void cm_path_of_request(const struct cm_mad *req, struct cm_path *reply);
void cm_path_to_request(const struct cm_path *p, uint32_t ack_timeout, struct cm_mad *req);
void cm_path_to_user(const struct cm_path *p, struct ib_user_path_rec *out);
/* As a path record lies in a MAD: IBA 15.2.5.16. */
void cm_path_to_record(const struct cm_path *p, uint8_t out[64]);
bool cm_path_from_record(struct cm_path *p, const uint8_t record[64]);
void cm_path_to_ah(const struct cm_path *p, struct ib_uverbs_ah_attr *out);
void cm_send(struct cm *cm, const struct cm_path *p, const struct cm_mad *m);
/* 4.096 us * 2^n, scaled by the port's fault control. */
uint64_t cm_time_ns(struct cm *cm, struct cm_place at, uint32_t n);

/* ---- events.c ------------------------------------------------------------------- */

/* Queues an event for the program. The caller may fill the answer further; NULL: the
 * program does not hear of it, as its id has no name yet or memory is short. */
struct rdma_ucm_event_resp *cm_event_post(struct cm_id *id, enum cm_event_kind event,
					  int status);
/* The same for a request to a listener, of which `request` came. */
struct rdma_ucm_event_resp *cm_event_post_request(struct cm_id *listener, struct cm_id *request);
/* Takes the oldest; false: there is none. */
bool cm_event_take(struct cm_file *f, struct rdma_ucm_event_resp *out);
/* Drops what waits for an id, and the ids that nobody was told of. */
void cm_event_purge(struct cm_id *id);
void cm_event_move(struct cm_id *id, struct cm_file *to);
/* True once each time that what waited has all been taken. */
bool cm_event_drained(struct cm_file *f);

/* ---- state.c: what the program wants of a connection ------------------------------ */

int cm_connect(struct cm_id *id, const struct rdma_ucm_conn_param *p,
	       const struct rdma_ucm_ece *ece);
int cm_accept(struct cm_id *id, const struct rdma_ucm_conn_param *p,
	      const struct rdma_ucm_ece *ece);
/* The active side's answer to CONNECT_RESPONSE. */
int cm_establish(struct cm_id *id);
int cm_reject(struct cm_id *id, uint32_t reason, const uint8_t *private_data, uint32_t length);
int cm_disconnect(struct cm_id *id);
int cm_notify(struct cm_id *id, uint32_t ibv_event);
/* The id goes; the peer is told what it must know. */
void cm_connection_abandon(struct cm_id *id);
struct cm_connection *cm_connection_create(struct cm_id *id, const struct cm_path *path);
void cm_connection_free(struct cm *cm, struct cm_connection *c);
void cm_enter_timewait(struct cm *cm, struct cm_connection *c);
void cm_send_again_until(struct cm *cm, struct cm_connection *c, const struct cm_mad *m,
			 enum cm_connection_state state);
void cm_send_reject(struct cm *cm, struct cm_connection *c, uint32_t reason,
		    const uint8_t *private_data, uint32_t length);
void cm_send_simple(struct cm *cm, struct cm_connection *c, uint32_t attribute);
/* Sends again, gives up, ends TIMEWAIT. When to call again; UINT64_MAX: never. */
uint64_t cm_timers(struct cm *cm);

/* ---- sidr.c: the same for UD ------------------------------------------------------- */

int cm_sidr_connect(struct cm_id *id, const struct rdma_ucm_conn_param *p);
int cm_sidr_accept(struct cm_id *id, const struct rdma_ucm_conn_param *p);
void cm_sidr_answer(struct cm *cm, struct cm_connection *c, enum cm_sidr_status status,
		    const struct cm_mad *fields);
void cm_receive_sidr_req(struct cm *cm, const struct cm_path *reply, const struct cm_mad *m);
void cm_receive_sidr_rep(struct cm *cm, const struct cm_mad *m);
/* The IP header and, behind it, what the program wants to say: 0 or -EINVAL. */
int cm_private_data(const struct cm_id *id, const uint8_t *private_data, uint32_t length,
		    struct cm_mad *m);
/* The new id that a request to a listener makes; NULL: memory is short. */
struct cm_id *cm_id_of_request(struct cm_id *listener, const struct cm_path *path,
			       const struct cm_ip_header *h);

/* ---- receive.c ----------------------------------------------------------------------- */

void cm_receive(struct cm *cm, uint32_t device, const struct hca_packet *p);

/* ---- qpattr.c ------------------------------------------------------------------------ */

/* What ibv_modify_qp() is to be told for a state (enum ibv_qp_state); -EINVAL when the
 * connection is not so far. */
int cm_qp_attributes(const struct cm_id *id, uint32_t state, struct ib_uverbs_qp_attr *out);

/* ---- commands.c ----------------------------------------------------------------------- */

struct cm_call {
	struct cm_file *file;
	uint32_t command;
	uint32_t in_bytes, out_bytes;	/* as the program's header says */
	uint32_t option_bytes;
	uint64_t cookie;		/* MIGRATE_ID: of the old channel */
	uint8_t in[CM_MAX_COMMAND_BYTES]; /* zero behind in_bytes */
	uint8_t option[CM_MAX_OPTION_BYTES];
	/* what comes back */
	uint64_t response;		/* where the program wants the reply; 0: nowhere */
	uint32_t reply_bytes;
	bool drained, old_drained;	/* no event waits any more: here, on the old channel */
	uint8_t reply[CM_MAX_REPLY_BYTES];
};

void cm_reply(struct cm_call *c, const void *from, uint32_t bytes);
int cm_query_route(struct cm_call *c, struct cm_id *id); /* query.c, all three */
int cm_query(struct cm_call *c, struct cm_id *id);
int cm_init_qp_attr(struct cm_call *c);

/* 0 or -errno as the kernel's ucma answers; GET_EVENT: -EAGAIN when none waits. */
int cm_command(struct cm_call *c);

#endif /* TENT_SIM_HCA_CM_CORE_H */
