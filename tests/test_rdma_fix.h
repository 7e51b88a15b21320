/* SPDX-License-Identifier: Apache-2.0 */
/* test_rdma_fix.h - what two tentd with RDMA say, and that they use it again. */
#ifndef TENT_TEST_RDMA_FIX_H
#define TENT_TEST_RDMA_FIX_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/common/engine_fix.h"
#include "tests/common/rdma_pair.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))
/* Three connections have the time that their cards take to give up. */
#define PATIENT ", \"engine\": {\"request_timeout_ms\": 60000}"

static inline void expect_facts(int host, const char *text)
{
	const char *facts = rdma_facts_at(host);

	if (!strstr(facts, text))
		fail_msg("no \"%s\" in: %s", text, facts);
}

/* The user's side names its device and port, its peer, and what happened. */
static inline void expect_reason(const char *text)
{
	expect_facts(1, "last fault: mlx5_0 port 1 to 10.77.0.1:15000");
	expect_facts(1, text);
}

/* How many of all parts went by RDMA. */
static inline int by_rdma(struct rdma_pair *p)
{
	int nr = 0;

	rdma_submit_all(p, TENT_OPCODE_WRITE);
	for (int i = 0; i < RDMA_PARTS; i++) {
		struct tent_completion c = engine_fix_wait(p->ring);

		nr += c.status == TENT_STATUS_COMPLETED && c.transport == TENT_TRANSPORT_RDMA;
	}
	return nr;
}

/* A peer that did not answer is left alone for a while; one that never is asked again fails
 * the test. */
static inline void expect_resumed(struct rdma_pair *p, uint32_t seed)
{
	while (by_rdma(p) < RDMA_PARTS)
		;
	rdma_expect_both(p, seed);
}

#endif /* TENT_TEST_RDMA_FIX_H */
