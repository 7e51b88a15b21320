/* SPDX-License-Identifier: Apache-2.0 */
/*
 * staging_loan.c - buffers on loan to the backend that serves peers, and their copies. What
 * is longer than a buffer has several that lie behind each other.
 */
#include "engine/staging_parts.h"

_Static_assert(STAGING_LOANS * STAGING_BYTES >= LOAN_BYTES && STAGING_LOANS < 32,
	       "the longest fits, and a word has a bit for each");

static struct staging *staging_of(struct lender *l)
{
	return (struct staging *)((char *)l - offsetof(struct staging, lender));
}

static struct staging_loan *own(struct loan *loan)
{
	return (struct staging_loan *)((char *)loan - offsetof(struct staging_loan, loan));
}

static struct loan *borrow(struct lender *base, uint32_t bytes)
{
	struct staging_lender *l = (struct staging_lender *)base;
	uint32_t nr = (bytes + STAGING_BYTES - 1) / STAGING_BYTES, run = (1u << nr) - 1;

	for (uint32_t i = 0; i + nr <= STAGING_LOANS; i++) {
		if (l->taken & run << i)
			continue;
		l->loans[i].taken = run << i;
		l->taken |= run << i;
		return &l->loans[i].loan;
	}
	return NULL;
}

static void give_back(struct lender *base, struct loan *loan)
{
	struct staging_lender *l = (struct staging_lender *)base;

	l->taken &= ~own(loan)->taken;
}

/* ---- copies ------------------------------------------------------------ */

static void over(struct staging *s, struct staging_loan *o)
{
	struct staging_lender *l = &s->lender;
	bool good = o->t.status == TENT_STATUS_COMPLETED;

	l->nr_copies--;
	l->borrower->ops->loan_copied(l->borrower, &o->loan, good ? 0 : o->t.rule);
}

static void post(struct staging *s, struct staging_loan *o)
{
	switch (s->device->ops->post(s->device, &o->t, o->t.length)) {
	case POST_PENDING:
		break;
	case POST_BUSY:
	case POST_MORE:
		TAILQ_INSERT_TAIL(&s->lender.again, o, link);
		break;
	case POST_DONE:
	case POST_FAILED:
		over(s, o);
		break;
	}
}

/* From the next turn on: who asks has not settled yet what it does when it is over. */
static void copy(struct lender *base, struct loan *loan, enum tent_opcode opcode,
		 struct region *gpu, uint64_t address, uint32_t bytes)
{
	struct staging *s = staging_of(base);
	struct staging_loan *o = own(loan);

	o->t = (struct transfer){
		.queue = s->device, .local = &o->region, .local_addr = o->region.base,
		.remote = gpu, .remote_addr = address, .length = bytes, .attempts = 1,
		.opcode = (uint8_t)opcode, .status = TENT_STATUS_WAITING,
		.state = TRANSFER_POSTED, .transport = s->device->ops->transport,
	};
	s->lender.nr_copies++;
	TAILQ_INSERT_TAIL(&s->lender.again, o, link);
}

bool staging_loan_over(struct staging *s, struct transfer *t)
{
	struct staging_loan *o = (struct staging_loan *)t;

	if (o < s->lender.loans || o >= s->lender.loans + STAGING_LOANS)
		return false;
	over(s, o);
	return true;
}

void staging_loans_again(struct staging *s)
{
	struct staging_loan *last = TAILQ_LAST(&s->lender.again, staging_loans), *o = NULL;

	while (o != last) {
		o = TAILQ_FIRST(&s->lender.again);
		TAILQ_REMOVE(&s->lender.again, o, link);
		post(s, o);
	}
}

/* ---- control ----------------------------------------------------------- */

void staging_lender_init(struct staging *s, struct backend_queue *borrower)
{
	s->lender.base = (struct lender){ .borrow = borrow, .copy = copy, .give_back = give_back };
	s->lender.borrower = borrower;
	borrower->lender = &s->lender.base;
}

void staging_lender_fill(struct staging *s)
{
	uint64_t first = STAGING_BUFFERS * (uint64_t)STAGING_BYTES;

	for (uint32_t i = 0; i < STAGING_LOANS; i++) {
		struct staging_loan *o = &s->lender.loans[i];

		*o = (struct staging_loan){ .region = s->pool };
		o->region.base += first + i * (uint64_t)STAGING_BYTES;
		o->region.addr += first + i * (uint64_t)STAGING_BYTES;
		o->loan.bytes = o->region.addr;
	}
	store_release(&s->lender.base.is_open, 1u); /* R19, pairs with A19 in tcp_loan.c */
}
