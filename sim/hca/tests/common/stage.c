/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/hca/tests/common/stage.h"

static struct stage *create(const struct fabric_path *path, bool is_ethernet)
{
	struct stage *s = calloc(1, sizeof(*s));

	s->f = fabric_create(is_ethernet);
	s->f->is_cut = true;
	s->host = &s->f->host[0];
	s->qp = fabric_qp_create(s->host, &(struct fabric_qp_options) { .uidx = 1 });
	s->memory = fabric_region_create(s->host, 1 << 16, 15);
	fabric_connect_to(s->qp, STAGE_PEER_QPN, STAGE_RQ_PSN, STAGE_SQ_PSN,
			  path ? path : &fabric_usual);
	for (uint32_t i = 0; i < sizeof(s->payload); i++)
		s->payload[i] = (uint8_t)(i + 1);
	return s;
}

struct stage *stage_create(const struct fabric_path *path)
{
	return create(path, true);
}

struct stage *stage_create_ib(void)
{
	return create(NULL, false);
}

void stage_destroy(struct stage *s)
{
	struct fabric_cq *send_cq = s->qp->send_cq, *recv_cq = s->qp->recv_cq;

	fabric_qp_destroy(s->qp);
	fabric_cq_destroy(send_cq);
	fabric_cq_destroy(recv_cq);
	fabric_region_destroy(&s->memory);
	fabric_destroy(s->f);
	free(s);
}

void stage_inject(struct stage *s, struct hca_packet p)
{
	bool is_answer = p.opcode >= HCA_READ_RESPONSE_FIRST && p.opcode <= HCA_ATOMIC_ACKNOWLEDGE;

	p.dest_qpn = s->qp->qpn;
	p.pkey = p.pkey ? p.pkey : 0xffff;
	p.psn = (p.psn + (is_answer ? STAGE_SQ_PSN : STAGE_RQ_PSN)) & HCA_PSN_MASK;
	if (!p.route.port)
		p.route = fabric_route_of_peer(s->qp);
	if (!p.payload)
		p.payload = s->payload;
	hca_receive(s->host->hca, &p);
}

const struct hca_packet *stage_next_sent(struct stage *s)
{
	if (s->seen == s->f->nr_logged)
		return NULL;
	return fabric_sent(s->f, s->f->nr_logged - ++s->seen);
}

void stage_expect_silence(struct stage *s)
{
	assert_null(stage_next_sent(s));
}

void stage_expect_answer(struct stage *s, uint8_t opcode, int32_t psn, uint8_t syndrome)
{
	const struct hca_packet *p = stage_next_sent(s);

	assert_non_null(p);
	assert_int_equal(p->opcode, opcode);
	assert_int_equal(p->psn, (STAGE_RQ_PSN + psn) & HCA_PSN_MASK);
	assert_int_equal(p->syndrome, syndrome);
	assert_int_equal(p->dest_qpn, STAGE_PEER_QPN);
	assert_int_equal(p->pkey, 0xffff);
}

const struct hca_packet *stage_expect_request(struct stage *s, uint8_t opcode, uint32_t psn)
{
	const struct hca_packet *p = stage_next_sent(s);

	assert_non_null(p);
	assert_int_equal(p->opcode, opcode);
	assert_int_equal(p->psn, (STAGE_SQ_PSN + psn) & HCA_PSN_MASK);
	return p;
}

void stage_expect_state(struct stage *s, enum hca_qp_state state)
{
	assert_int_equal(fabric_state(s->qp), state);
}

struct hca_packet stage_write_packet(struct stage *s, uint8_t opcode, uint32_t psn, uint32_t n,
				      uint32_t whole)
{
	return (struct hca_packet) {
		.opcode = opcode, .psn = psn, .length = n, .dma_length = whole,
		.remote_address = fabric_address(&s->memory, 0), .rkey = s->memory.key,
		.ack_request = true,
	};
}

struct hca_packet stage_read_packet(struct stage *s, uint32_t psn, uint32_t offset, uint32_t n)
{
	return (struct hca_packet) {
		.opcode = HCA_READ_REQUEST, .psn = psn, .dma_length = n, .rkey = s->memory.key,
		.remote_address = fabric_address(&s->memory, offset),
	};
}
