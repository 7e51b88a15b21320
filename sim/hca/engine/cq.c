/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cq.c - completion queues: where a CQE goes, when the program sees it, whom it wakes.
 *
 * The owner byte is a CQE's last, in a 128-byte one too: its low bit flips each time round,
 * and the program takes what carries its own. It is stored last, with release.
 */
#include <errno.h>
#include <stdlib.h>

#include <infiniband/mlx5dv.h>

#include "sim/hca/engine/bytes.h"
#include "sim/hca/engine/card.h"

enum {
	INDEX_MASK = 0xffffff,		/* consumer indices in records and doorbells */
	MAX_CQES = 1 << 22,
	CONSUMER_RECORD = 0, ARM_RECORD = 4,
	ARM_SOLICITED = 1 << 24,	/* of the arm word: only for solicited ones */
};

static int check_buffer(struct umem *buffer, uint64_t offset, uint32_t cqe_bytes,
			uint32_t nr_cqes)
{
	uint64_t bytes = (uint64_t)nr_cqes * cqe_bytes;

	if (cqe_bytes != 64 && cqe_bytes != 128)
		return -EINVAL;
	if (!nr_cqes || nr_cqes > MAX_CQES || (nr_cqes & (nr_cqes - 1)))
		return -EINVAL;
	if (offset > umem_length(buffer) || bytes > umem_length(buffer) - offset)
		return -EINVAL;
	return 0;
}

int hca_cq_create(struct hca *h, const struct hca_cq_attr *a, struct hca_cq **out,
		  uint32_t *cqn)
{
	struct hca_cq *cq;
	int rc = check_buffer(a->buffer, a->buffer_offset, a->cqe_bytes, a->nr_cqes);

	if (rc)
		return rc;
	if (a->record_offset + 8 < 8 || a->record_offset + 8 > umem_length(a->record))
		return -EINVAL;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return -ENOMEM;
	cq->hca = h;
	cq->attr = *a;
	cq->arm_record = HCA_UNWRITTEN;
	cq->late = calloc(a->nr_cqes, sizeof(*cq->late));
	if (!cq->late || hca_table_add(&h->cqs, cq, &cq->cqn)) {
		free(cq->late);
		free(cq);
		return -ENOMEM;
	}
	/* The first time a program may arm it by a word of 0, which lies there already. */
	umem_write(a->record, a->record_offset + ARM_RECORD, &cq->arm_record,
		   sizeof(cq->arm_record));
	*out = cq;
	*cqn = cq->cqn;
	return 0;
}

void hca_cq_free(struct hca_cq *cq)
{
	cq->hca->nr_late -= cq->pi - cq->visible;
	hca_table_remove(&cq->hca->cqs, cq->cqn);
	umem_release(cq->attr.buffer);
	umem_release(cq->attr.record);
	free(cq->late);
	free(cq);
}

int hca_cq_destroy(struct hca_cq *cq)
{
	if (cq->users)
		return -EBUSY;
	hca_cq_free(cq);
	return 0;
}

/* ---- waking ------------------------------------------------------------------- */

static void wake(struct hca_cq *cq)
{
	cq->is_armed = false;
	cq->hca->env.cq_event(cq->hca->env.ctx, cq->attr.cookie);
}

/* Arming looks back as well: what the program has not consumed counts. */
static void arm(struct hca_cq *cq, uint32_t word)
{
	uint32_t ci = word & INDEX_MASK;
	uint32_t unread = (cq->visible - ci) & INDEX_MASK;
	uint32_t to_solicited = (cq->last_solicited - ci) & INDEX_MASK;

	cq->hca->config.counters->cq_arms++;
	cq->is_armed = true;
	cq->is_solicited_only = word & ARM_SOLICITED;
	if (!cq->is_solicited_only && unread)
		wake(cq);
	else if (cq->is_solicited_only && cq->has_solicited && to_solicited &&
		 to_solicited <= unread)
		wake(cq);
}

void hca_cq_doorbell(struct hca *h, const uint8_t bytes[8])
{
	struct hca_cq *cq = hca_table_get(&h->cqs, get_be32(bytes + 4) & INDEX_MASK);

	if (cq) {
		cq->arm_record = get_be32(bytes);
		arm(cq, cq->arm_record);
	}
}

bool hca_cq_poll_record(struct hca_cq *cq)
{
	uint32_t word;

	if (umem_load32(cq->attr.record, cq->attr.record_offset + ARM_RECORD, &word))
		return false;
	word = be32toh(word);
	if (word == cq->arm_record)
		return false;
	cq->arm_record = word;
	arm(cq, word);
	return true;
}

/* ---- writing ------------------------------------------------------------------- */

static uint64_t offset_of(const struct hca_cq *cq, uint32_t index)
{
	/* The 64 bytes that mean something are a long CQE's second half. */
	return cq->attr.buffer_offset +
	       (uint64_t)(index & (cq->attr.nr_cqes - 1)) * cq->attr.cqe_bytes +
	       cq->attr.cqe_bytes - 64;
}

static uint8_t owner_of(const struct hca_cq *cq, uint32_t index)
{
	return index & cq->attr.nr_cqes ? MLX5_CQE_OWNER_MASK : 0;
}

static bool is_full(struct hca_cq *cq)
{
	uint32_t ci;

	if (umem_load32(cq->attr.record, cq->attr.record_offset + CONSUMER_RECORD, &ci))
		return true;
	return ((cq->pi - be32toh(ci)) & INDEX_MASK) >= cq->attr.nr_cqes;
}

static void show(struct hca_cq *cq, uint8_t op_own, bool is_solicited)
{
	umem_store8(cq->attr.buffer, offset_of(cq, cq->visible) + 63, op_own);
	cq->visible++;
	if (is_solicited) {
		cq->last_solicited = cq->visible;
		cq->has_solicited = true;
	}
	if (cq->is_armed && (is_solicited || !cq->is_solicited_only))
		wake(cq);
}

uint64_t hca_cq_timers(struct hca_cq *cq, uint64_t now)
{
	while (cq->visible != cq->pi) {
		struct hca_late *l = &cq->late[cq->visible & (cq->attr.nr_cqes - 1)];

		if (l->due_ns > now)
			return l->due_ns;
		cq->hca->nr_late--;
		show(cq, l->op_own, l->is_solicited);
	}
	return UINT64_MAX;
}

static void publish(struct hca_cq *cq, uint8_t op_own, bool is_solicited)
{
	uint32_t late_ns = __atomic_load_n(&cq->hca->config.faults->late_cqe_ns,
					   __ATOMIC_RELAXED);

	op_own |= owner_of(cq, cq->pi);
	if (!late_ns && cq->visible == cq->pi) {
		cq->pi++;
		show(cq, op_own, is_solicited);
		return;
	}
	cq->late[cq->pi & (cq->attr.nr_cqes - 1)] = (struct hca_late) {
		.due_ns = hca_now(cq->hca) + late_ns,
		.op_own = op_own,
		.is_solicited = is_solicited,
	};
	cq->pi++;
	cq->hca->nr_late++;
}

static void break_queue(struct hca_cq *cq)
{
	if (!cq->is_broken)
		hca_event(cq->hca, HCA_EVENT_CQ_ERROR, cq->attr.cookie);
	cq->is_broken = true;
}

/* Data that travels in a CQE begins it; up to 32 bytes leave the second half's rest whole. */
static int write_data(struct hca_cq *cq, uint8_t cqe[64], const void *data, uint32_t n)
{
	if (n <= 32) {
		memcpy(cqe, data, n);
		cqe[63] |= MLX5_INLINE_SCATTER_32;
		return 0;
	}
	cqe[63] |= MLX5_INLINE_SCATTER_64;
	return umem_write(cq->attr.buffer, offset_of(cq, cq->pi) - 64, data, n);
}

static bool write_cqe(struct hca_cq *cq, uint8_t cqe[64], const void *data, uint32_t n)
{
	if (n && write_data(cq, cqe, data, n))
		return false;
	return !umem_write(cq->attr.buffer, offset_of(cq, cq->pi), cqe, 63);
}

bool hca_cq_post(struct hca_cq *cq, uint8_t cqe[64], const void *data, uint32_t inline_bytes,
		 bool is_solicited)
{
	struct hca_counters *c = cq->hca->config.counters;

	if (cq->is_broken)
		return false;
	if (hca_fault_due(&cq->hca->config.faults->lost_cqe_at))
		return true;
	if (hca_fault_due(&cq->hca->config.faults->cq_overrun_at) ||
	    (!cq->attr.ignore_overrun && is_full(cq)) ||
	    !write_cqe(cq, cqe, data, inline_bytes)) {
		break_queue(cq);
		return false;
	}
	c->cqes++;
	hca_trace_cqe(cq, cq->pi, cqe);
	publish(cq, cqe[63], is_solicited);
	return true;
}

int hca_cq_resize(struct hca_cq *cq, struct umem *buffer, uint64_t buffer_offset,
		  uint32_t cqe_bytes, uint32_t nr_cqes)
{
	uint8_t cqe[64] = { [63] = MLX5_CQE_RESIZE_CQ << 4 };
	int rc = check_buffer(buffer, buffer_offset, cqe_bytes, nr_cqes);
	struct hca_late *late;

	if (rc)
		return rc;
	if (is_full(cq))
		return -EBUSY;
	late = calloc(nr_cqes, sizeof(*late));
	if (!late)
		return -ENOMEM;
	hca_cq_timers(cq, UINT64_MAX);
	write_cqe(cq, cqe, NULL, 0);
	umem_store8(cq->attr.buffer, offset_of(cq, cq->pi) + 63,
		    (uint8_t)(cqe[63] | owner_of(cq, cq->pi)));
	cq->pi++;
	cq->visible++;
	umem_release(cq->attr.buffer);
	free(cq->late);
	cq->late = late;
	cq->attr.buffer = buffer;
	cq->attr.buffer_offset = buffer_offset;
	cq->attr.cqe_bytes = cqe_bytes;
	cq->attr.nr_cqes = nr_cqes;
	return 0;
}
