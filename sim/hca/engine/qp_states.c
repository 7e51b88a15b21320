/* SPDX-License-Identifier: Apache-2.0 */
/*
 * qp_states.c - which changes of a queue pair's state there are, and which attributes each
 * needs and allows. IBA volume 1, 11.2.4.3, tables "Modify QP".
 */
#include <infiniband/verbs.h>

#include "sim/hca/engine/card.h"

struct change {
	uint8_t from, to;
	uint32_t rc_needs, rc_allows, ud_needs, ud_allows;
};

#define PATH		(IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | \
			 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define SENDING		(IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | \
			 IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC)
#define ALTERNATE	(IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE)
#define RC_RUNNING	(IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | \
			 ALTERNATE)
#define RC_FIRST	(IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define UD_FIRST	(IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY)
#define UD_RUNNING	(IBV_QP_CUR_STATE | IBV_QP_QKEY)
#define RC_DRAINED	(IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | \
			 IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | \
			 IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_MIN_RNR_TIMER | ALTERNATE)

/* Besides these, every state goes to RESET and to ERR, with no attribute. */
static const struct change changes[] = {
	{ HCA_QP_RESET, HCA_QP_INIT, .rc_needs = RC_FIRST, .ud_needs = UD_FIRST },
	{ HCA_QP_INIT, HCA_QP_INIT, .rc_allows = RC_FIRST, .ud_allows = UD_FIRST },
	{ HCA_QP_INIT, HCA_QP_RTR, .rc_needs = PATH,
	  .rc_allows = IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX,
	  .ud_allows = IBV_QP_PKEY_INDEX | IBV_QP_QKEY },
	{ HCA_QP_RTR, HCA_QP_RTS, .rc_needs = SENDING, .rc_allows = RC_RUNNING,
	  .ud_needs = IBV_QP_SQ_PSN, .ud_allows = UD_RUNNING },
	{ HCA_QP_RTS, HCA_QP_RTS, .rc_allows = RC_RUNNING, .ud_allows = UD_RUNNING },
	{ HCA_QP_RTS, HCA_QP_SQD, .rc_allows = IBV_QP_EN_SQD_ASYNC_NOTIFY,
	  .ud_allows = IBV_QP_EN_SQD_ASYNC_NOTIFY },
	{ HCA_QP_SQD, HCA_QP_RTS, .rc_allows = RC_RUNNING, .ud_allows = UD_RUNNING },
	{ HCA_QP_SQD, HCA_QP_SQD, .rc_allows = RC_DRAINED,
	  .ud_allows = IBV_QP_PKEY_INDEX | IBV_QP_QKEY },
	{ HCA_QP_SQE, HCA_QP_RTS, .ud_allows = UD_RUNNING },
};

static const struct change *find(enum hca_qp_state from, enum hca_qp_state to)
{
	for (uint32_t i = 0; i < sizeof(changes) / sizeof(*changes); i++) {
		if (changes[i].from == from && changes[i].to == to)
			return &changes[i];
	}
	return NULL;
}

bool hca_qp_change_is_legal(enum hca_transport t, enum hca_qp_state from,
			    enum hca_qp_state to, uint32_t mask)
{
	const struct change *c;
	uint32_t needs, allows;

	mask &= ~(uint32_t)IBV_QP_STATE;
	if (to == HCA_QP_RESET || to == HCA_QP_ERR)
		return !mask;
	c = find(from, to);
	if (!c)
		return false;
	needs = t == HCA_RC ? c->rc_needs : c->ud_needs;
	allows = needs | (t == HCA_RC ? c->rc_allows : c->ud_allows);
	return (mask & needs) == needs && !(mask & ~allows);
}
