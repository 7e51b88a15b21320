/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_hca_cq.c - when a completion can be seen, whom it wakes, and what happens when there
 * is no room for it.
 */
#include <endian.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <infiniband/mlx5dv.h>

#include "sim/hca/engine/card.h"
#include "sim/hca/tests/common/pair.h"

enum { SIGNALED = MLX5_WQE_CTRL_CQ_UPDATE, SOLICITED = MLX5_WQE_CTRL_SOLICITED };

/* A queue of 4 entries, and a QP whose NOPs fill it. */
struct small {
	struct fabric *f;
	struct fabric_host *host;
	struct fabric_cq *cq;
	struct fabric_qp *qp;
};

static struct small small_create(uint32_t nr, uint32_t cqe_bytes)
{
	struct small s = { .f = fabric_create(true) };

	s.host = &s.f->host[0];
	s.cq = fabric_cq_create(s.host, nr, cqe_bytes);
	s.qp = fabric_qp_create(s.host, &(struct fabric_qp_options) {
		.send_cq = s.cq, .recv_cq = s.cq, .uidx = 7 });
	fabric_connect_to(s.qp, 0x20005, 0, 0, &fabric_usual);
	return s;
}

static void small_destroy(struct small *s)
{
	fabric_qp_destroy(s->qp);
	fabric_cq_destroy(s->cq);
	fabric_destroy(s->f);
}

static void nop(struct small *s)
{
	fabric_post(s->qp, &(struct fabric_wr) { .opcode = MLX5_OPCODE_NOP, .fm_ce_se = SIGNALED });
}

static void owner_bit_flips_each_time_round(void **state)
{
	static const uint32_t lengths[] = { 64, 128 };

	(void)state;
	for (uint32_t l = 0; l < 2; l++) {
		struct small s = small_create(4, lengths[l]);
		struct fabric_cqe c;

		for (uint16_t i = 0; i < 100; i++) {
			assert_false(fabric_poll(s.cq, &c));
			nop(&s);
			assert_true(fabric_poll(s.cq, &c));
			assert_int_equal(c.wqe_counter, i);
			assert_int_equal(c.op_own & 1, (i >> 2) & 1);
		}
		small_destroy(&s);
	}
}

static void index_wraps_past_24_and_32_bits(void **state)
{
	static const uint32_t starts[] = { (1 << 24) - 6, UINT32_MAX - 5 };

	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		struct small s = small_create(4, 64);
		struct fabric_cqe c;

		s.cq->cq->pi = s.cq->cq->visible = s.cq->ci = starts[i];
		s.cq->record[0] = 0;
		s.cq->record[1] = s.cq->record[2] = 0xff;
		s.cq->record[3] = (uint8_t)starts[i];
		for (uint32_t n = 0; n < 4; n++)
			s.cq->buffer[n * 64 + 63] = 0xf0 | !(starts[i] & 4);
		for (uint16_t n = 0; n < 20; n++) {
			fabric_cq_arm(s.cq, false);
			assert_int_equal(s.host->cq_events, n);
			nop(&s);
			assert_int_equal(s.host->cq_events, n + 1);
			assert_true(fabric_poll(s.cq, &c));
			assert_int_equal(c.wqe_counter, n);
		}
		assert_int_equal(fabric_state(s.qp), HCA_QP_RTS);
		small_destroy(&s);
	}
}

static void overrun_breaks_queue_and_users(void **state)
{
	struct small s = small_create(4, 64);
	struct fabric_cqe c;

	(void)state;
	for (uint32_t i = 0; i < 4; i++)
		nop(&s);
	assert_int_equal(s.host->nr_events, 0);
	nop(&s);
	assert_true(fabric_has_event(s.host, HCA_EVENT_CQ_ERROR));
	assert_true(fabric_has_event(s.host, HCA_EVENT_QP_FATAL));
	assert_int_equal(s.host->nr_events, 2);
	assert_ptr_equal(s.host->events[0].cookie, s.cq);
	assert_ptr_equal(s.host->events[1].cookie, s.qp);
	assert_int_equal(fabric_state(s.qp), HCA_QP_ERR);
	for (uint32_t i = 0; i < 4; i++)
		assert_true(fabric_poll(s.cq, &c));
	assert_false(fabric_poll(s.cq, &c));
	small_destroy(&s);
}

static void overrun_may_be_ignored(void **state)
{
	struct fabric *f = fabric_create(true);
	uint8_t *memory = aligned_alloc(4096, 8192);
	struct hca_cq_attr a = { .cqe_bytes = 64, .nr_cqes = 2, .ignore_overrun = true };
	struct fabric_qp *qp;
	struct fabric_cq cq = { .host = &f->host[0] };

	(void)state;
	memset(memory, 0xff, 8192);
	assert_int_equal(umem_pin(&a.buffer, (uintptr_t)memory, 4096, true), 0);
	assert_int_equal(umem_pin(&a.record, (uintptr_t)memory + 4096, 8, true), 0);
	assert_int_equal(hca_cq_create(f->host[0].hca, &a, &cq.cq, &cq.cqn), 0);
	qp = fabric_qp_create(&f->host[0], &(struct fabric_qp_options) { .send_cq = &cq,
									.recv_cq = &cq });
	fabric_connect_to(qp, 0x20005, 0, 0, &fabric_usual);
	for (uint32_t i = 0; i < 5; i++)
		fabric_post(qp, &(struct fabric_wr) { .fm_ce_se = SIGNALED });
	assert_int_equal(f->host[0].nr_events, 0);
	assert_int_equal(fabric_state(qp), HCA_QP_RTS);
	assert_int_equal(memory[63], 0);		/* the fifth: third time round */
	assert_int_equal(memory[61], 4);
	assert_int_equal(memory[127], 1);
	fabric_qp_destroy(qp);
	assert_int_equal(hca_cq_destroy(cq.cq), 0);
	fabric_destroy(f);
	free(memory);
}

/* ---- waking ----------------------------------------------------------------------- */

static void armed_queue_wakes_once(void **state)
{
	struct small s = small_create(16, 64);
	struct fabric_cqe c;

	(void)state;
	nop(&s);
	assert_int_equal(s.host->cq_events, 0);
	assert_true(fabric_poll(s.cq, &c));
	fabric_cq_arm(s.cq, false);
	assert_int_equal(s.host->cq_events, 0);
	nop(&s);
	nop(&s);
	assert_int_equal(s.host->cq_events, 1);
	assert_ptr_equal(s.host->last_cq, s.cq);
	assert_int_equal(s.host->counters.cq_arms, 1);
	small_destroy(&s);
}

static void arming_with_entries_unread_wakes_at_once(void **state)
{
	struct small s = small_create(16, 64);

	(void)state;
	nop(&s);
	fabric_cq_arm(s.cq, false);
	assert_int_equal(s.host->cq_events, 1);
	nop(&s);
	assert_int_equal(s.host->cq_events, 1);
	small_destroy(&s);
}

static void solicited_only_sleeps_through_the_rest(void **state)
{
	struct pair *p = pair_create(NULL, NULL);
	struct fabric_host *b = &p->f->host[1];

	(void)state;
	for (uint32_t i = 0; i < 5; i++)
		pair_receive(p, 0, 100);
	fabric_cq_arm(p->b->recv_cq, true);
	pair_post(p, MLX5_OPCODE_SEND, 0, 8, 0, 0);
	fabric_run(p->f, SECOND_NS);
	assert_int_equal(b->cq_events, 0);
	pair_post(p, MLX5_OPCODE_SEND, SOLICITED, 8, 0, 0);
	fabric_run(p->f, SECOND_NS);
	assert_int_equal(b->cq_events, 1);
	/* What was solicited and is unread wakes whoever arms later. */
	pair_post(p, MLX5_OPCODE_SEND, 0, 8, 0, 0);
	fabric_run(p->f, SECOND_NS);
	fabric_cq_arm(p->b->recv_cq, true);
	assert_int_equal(b->cq_events, 2);
	for (uint32_t i = 0; i < 3; i++) {
		pair_completion(p, p->b->recv_cq);
		fabric_cq_arm(p->b->recv_cq, true);
		/* The second is the solicited one. */
		assert_int_equal(b->cq_events, 3);
	}
	pair_destroy(p);
}

static void errors_wake_who_waits_for_solicited(void **state)
{
	struct small s = small_create(16, 64);

	(void)state;
	fabric_cq_arm(s.cq, true);
	nop(&s);
	assert_int_equal(s.host->cq_events, 0);
	fabric_post(s.qp, &(struct fabric_wr) { .opcode = 0x3f });
	assert_int_equal(s.host->cq_events, 1);
	small_destroy(&s);
}

static void polled_mode_sees_the_arm_word(void **state)
{
	struct small s = small_create(16, 64);

	(void)state;
	assert_false(hca_poll_records(s.host->hca));
	s.cq->record[4] = 0x10;			/* arm number 1, consumer index 0 */
	assert_true(hca_poll_records(s.host->hca));
	assert_false(hca_poll_records(s.host->hca));
	nop(&s);
	assert_int_equal(s.host->cq_events, 1);
	small_destroy(&s);
}

/* libmlx5 arms a CQ for the first time by a word of 0, which is also what it began with. */
static void polled_mode_sees_the_first_arm_word(void **state)
{
	struct small s = small_create(16, 64);

	(void)state;
	memset(s.cq->record + 4, 0, 4);
	assert_true(hca_poll_records(s.host->hca));
	assert_false(hca_poll_records(s.host->hca));
	nop(&s);
	assert_int_equal(s.host->cq_events, 1);
	small_destroy(&s);
}

static void foreign_queue_numbers_are_ignored(void **state)
{
	struct small s = small_create(16, 64);
	uint8_t bytes[8];

	(void)state;
	memset(bytes, 0xff, sizeof(bytes));
	hca_cq_doorbell(s.host->hca, bytes);
	memset(bytes, 0, sizeof(bytes));
	hca_cq_doorbell(s.host->hca, bytes);
	assert_int_equal(s.host->counters.cq_arms, 0);
	small_destroy(&s);
}

/* ---- late and lost ---------------------------------------------------------------- */

static void late_completions_keep_their_order_and_wake_late(void **state)
{
	struct small s = small_create(16, 64);
	struct fabric_cqe c;

	(void)state;
	fabric_cq_arm(s.cq, false);
	s.host->faults.late_cqe_ns = 5000;
	nop(&s);
	s.host->faults.late_cqe_ns = 0;
	nop(&s);
	assert_false(fabric_poll(s.cq, &c));
	assert_int_equal(s.host->cq_events, 0);
	fabric_run(s.f, 4999);
	assert_false(fabric_poll(s.cq, &c));
	fabric_run(s.f, 2);
	assert_int_equal(s.host->cq_events, 1);
	assert_true(fabric_poll(s.cq, &c));
	assert_int_equal(c.wqe_counter, 0);
	assert_true(fabric_poll(s.cq, &c));
	assert_int_equal(c.wqe_counter, 1);
	small_destroy(&s);
}

static void lost_completion_takes_no_entry(void **state)
{
	struct small s = small_create(16, 64);
	struct fabric_cqe c;

	(void)state;
	s.host->faults.lost_cqe_at = 2;
	for (uint32_t i = 0; i < 3; i++)
		nop(&s);
	assert_true(fabric_poll(s.cq, &c));
	assert_true(fabric_poll(s.cq, &c));
	assert_int_equal(c.wqe_counter, 2);
	assert_false(fabric_poll(s.cq, &c));
	small_destroy(&s);
}

static void asked_for_overrun_needs_no_full_queue(void **state)
{
	struct small s = small_create(16, 64);
	struct fabric_cqe c;

	(void)state;
	s.host->faults.cq_overrun_at = 2;
	nop(&s);
	assert_false(fabric_has_event(s.host, HCA_EVENT_CQ_ERROR));
	nop(&s);
	assert_true(fabric_has_event(s.host, HCA_EVENT_CQ_ERROR));
	assert_int_equal(fabric_state(s.qp), HCA_QP_ERR);
	assert_true(fabric_poll(s.cq, &c));
	assert_false(fabric_poll(s.cq, &c));
	small_destroy(&s);
}

/* ---- resizing --------------------------------------------------------------------- */

/* What libmlx5 does: moves what is unread, up to the mark, to one index further. */
static void move_unread(struct fabric_cq *cq, uint8_t *fresh, uint32_t nr, uint32_t cqe_bytes)
{
	uint32_t i = cq->ci;

	for (;; i++) {
		const uint8_t *from = cq->buffer + (i & (cq->nr - 1)) * cq->cqe_bytes;
		uint8_t *to = fresh + ((i + 1) & (nr - 1)) * cqe_bytes;
		uint8_t op_own = from[cq->cqe_bytes - 1];

		assert_int_equal(op_own & 1, !!(i & cq->nr));
		if (op_own >> 4 == MLX5_CQE_RESIZE_CQ)
			break;
		memcpy(to, from, cq->cqe_bytes);
		to[cqe_bytes - 1] = (uint8_t)((op_own & ~1) | !!((i + 1) & nr));
	}
	cq->ci++;
	free(cq->buffer);
	cq->buffer = fresh;
	cq->nr = nr;
}

static void resize_keeps_what_is_unread(void **state)
{
	static const uint32_t lengths[] = { 64, 128 };

	(void)state;
	for (uint32_t l = 0; l < 2; l++) {
		for (uint32_t done = 0; done < 20; done++) {
			struct small s = small_create(8, lengths[l]);
			uint8_t *fresh = aligned_alloc(4096, 4096);
			struct fabric_cqe c;
			struct umem *m;

			for (uint32_t i = 0; i < done; i++) {
				nop(&s);
				assert_true(fabric_poll(s.cq, &c));
			}
			for (uint32_t i = 0; i < 5; i++)
				nop(&s);
			memset(fresh, MLX5_CQE_INVALID << 4, 4096);
			assert_int_equal(umem_pin(&m, (uintptr_t)fresh, 4096, true), 0);
			assert_int_equal(hca_cq_resize(s.cq->cq, m, 0, lengths[l], 16), 0);
			nop(&s);
			move_unread(s.cq, fresh, 16, lengths[l]);
			for (uint32_t i = 0; i < 6; i++) {
				assert_true(fabric_poll(s.cq, &c));
				assert_int_equal(c.wqe_counter, done + i);
			}
			assert_false(fabric_poll(s.cq, &c));
			for (uint32_t i = 0; i < 40; i++) {
				nop(&s);
				assert_true(fabric_poll(s.cq, &c));
			}
			small_destroy(&s);
		}
	}
}

static void resize_needs_room_for_its_mark(void **state)
{
	struct small s = small_create(4, 64);
	uint8_t *fresh = aligned_alloc(4096, 4096);
	struct umem *m;

	(void)state;
	for (uint32_t i = 0; i < 4; i++)
		nop(&s);
	assert_int_equal(umem_pin(&m, (uintptr_t)fresh, 4096, true), 0);
	assert_int_equal(hca_cq_resize(s.cq->cq, m, 0, 64, 16), -EBUSY);
	assert_int_equal(hca_cq_resize(s.cq->cq, m, 0, 64, 128), -EINVAL);
	assert_int_equal(hca_cq_resize(s.cq->cq, m, 0, 64, 12), -EINVAL);
	assert_int_equal(hca_cq_resize(s.cq->cq, m, 0, 32, 16), -EINVAL);
	umem_release(m);
	free(fresh);
	small_destroy(&s);
}

static void used_queue_cannot_be_destroyed(void **state)
{
	struct small s = small_create(4, 64);

	(void)state;
	assert_int_equal(hca_cq_destroy(s.cq->cq), -EBUSY);
	small_destroy(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(owner_bit_flips_each_time_round),
		cmocka_unit_test(index_wraps_past_24_and_32_bits),
		cmocka_unit_test(overrun_breaks_queue_and_users),
		cmocka_unit_test(overrun_may_be_ignored),
		cmocka_unit_test(armed_queue_wakes_once),
		cmocka_unit_test(arming_with_entries_unread_wakes_at_once),
		cmocka_unit_test(solicited_only_sleeps_through_the_rest),
		cmocka_unit_test(errors_wake_who_waits_for_solicited),
		cmocka_unit_test(polled_mode_sees_the_arm_word),
		cmocka_unit_test(polled_mode_sees_the_first_arm_word),
		cmocka_unit_test(foreign_queue_numbers_are_ignored),
		cmocka_unit_test(late_completions_keep_their_order_and_wake_late),
		cmocka_unit_test(lost_completion_takes_no_entry),
		cmocka_unit_test(asked_for_overrun_needs_no_full_queue),
		cmocka_unit_test(resize_keeps_what_is_unread),
		cmocka_unit_test(resize_needs_room_for_its_mark),
		cmocka_unit_test(used_queue_cannot_be_destroyed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
