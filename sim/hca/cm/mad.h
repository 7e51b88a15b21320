/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mad.h - communication management messages and their 256 bytes. IBA volume 1, 12.6 to
 * 12.8 (REQ, MRA, REJ, REP, RTU, DREQ, DREP) and 12.11 (SIDR); the header which the RDMA
 * IP CM service puts into the private data of REQ and SIDR_REQ: annex A11.
 */
#ifndef TENT_SIM_HCA_CM_MAD_H
#define TENT_SIM_HCA_CM_MAD_H

#include <stdbool.h>
#include <stdint.h>

#define CM_MAD_BYTES 256u
#define CM_PRIVATE_BYTES 232u		/* of the longest: what follows the MAD header */
#define CM_ARI_BYTES 72u
#define CM_IP_HEADER_BYTES 36u

enum cm_attribute {
	CM_REQ = 0x10, CM_MRA, CM_REJ, CM_REP, CM_RTU, CM_DREQ, CM_DREP,
	CM_SIDR_REQ, CM_SIDR_REP,
};

/* What an MRA or a REJ speaks of. */
enum cm_message { CM_MESSAGE_REQ, CM_MESSAGE_REP, CM_MESSAGE_OTHER };

/* 12.6.7.2 */
enum cm_reject_reason {
	CM_REJECT_TIMEOUT = 4,
	CM_REJECT_INVALID_SERVICE_ID = 8,
	CM_REJECT_INVALID_TRANSPORT = 9,
	CM_REJECT_STALE_CONNECTION = 10,
	CM_REJECT_CONSUMER = 28,
	CM_REJECT_VENDOR_OPTION = 35,
};

enum cm_sidr_status {
	CM_SIDR_SUCCESS = 0, CM_SIDR_UNSUPPORTED = 1, CM_SIDR_REJECTED = 2, CM_SIDR_NO_QP = 3,
};

/* A path as REQ carries it. */
struct cm_mad_path {
	uint32_t slid, dlid;
	uint8_t sgid[16], dgid[16];
	uint32_t flow_label, rate, traffic_class, hop_limit, sl, subnet_local, ack_timeout;
};

/* Each attribute uses some of these. Host order. */
struct cm_mad {
	uint32_t attribute;		/* enum cm_attribute */
	uint32_t modifier;		/* of the attribute: enhanced connection establishment */
	uint64_t transaction;
	uint32_t local_id, remote_id;	/* communication ids; SIDR: local_id is the request id */
	uint64_t service_id, ca_guid;
	uint32_t qkey, qpn, psn, pkey, vendor_id;
	uint32_t responder_resources, initiator_depth;
	uint32_t remote_response_timeout, local_response_timeout, max_cm_retries;
	uint32_t transport, flow_control, retry_count, rnr_retry_count, srq;
	uint32_t mtu;			/* enum ibv_mtu */
	uint32_t target_ack_delay, failover;
	uint32_t message;		/* enum cm_message */
	uint32_t service_timeout;
	uint32_t reason;		/* enum cm_reject_reason */
	uint32_t ari_length;
	uint32_t status;		/* enum cm_sidr_status */
	struct cm_mad_path path;
	uint8_t ari[CM_ARI_BYTES];
	uint8_t private_data[CM_PRIVATE_BYTES];
};

void cm_mad_pack(const struct cm_mad *m, uint8_t out[CM_MAD_BYTES]);
/* False: no CM message, or one that this does not know. */
bool cm_mad_unpack(struct cm_mad *out, const uint8_t *bytes, uint32_t length);
/* Bytes of private data that a message of this attribute has. */
uint32_t cm_mad_private_bytes(uint32_t attribute);

/* Who speaks to whom, of the RDMA IP CM service. IPv4 in the last 4 bytes, after zeros. */
struct cm_ip_header {
	uint32_t version;		/* 4 or 6 */
	uint16_t source_port;
	uint8_t source[16], destination[16];
};

void cm_ip_header_pack(const struct cm_ip_header *h, uint8_t out[CM_IP_HEADER_BYTES]);
bool cm_ip_header_unpack(struct cm_ip_header *out, const uint8_t bytes[CM_IP_HEADER_BYTES]);

#endif /* TENT_SIM_HCA_CM_MAD_H */
