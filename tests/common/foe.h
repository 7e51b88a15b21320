/* SPDX-License-Identifier: Apache-2.0 */
/* foe.h - an attacker with a buffer and a ring in an arena. Fails like raw.h. */
#ifndef TENT_TESTS_FOE_H
#define TENT_TESTS_FOE_H

#include "tests/common/arena.h"
#include "tests/common/raw.h"

#define FOE_SLOTS	64u
#define FOE_MEMORY	(1u << 20)

struct foe {
	struct raw raw;
	struct raw_memory memory;	/* FOE_MEMORY bytes, registered for everybody */
	struct raw_ring ring;
};

void foe_open(struct foe *f, struct arena *a);
/* The old ring has ended or will; the next one starts from nothing. */
void foe_reopen(struct foe *f);
/* Wakes tentd whether it sleeps or not. */
void foe_wake(struct foe *f);
/* Slot i: a sound copy from the first to the second half of its buffer. */
struct tent_slot *foe_request(struct foe *f, uint32_t i, uint64_t length);
/* Reaps nr completions. */
void foe_complete(struct foe *f, uint32_t nr);
/* One copy between its buffer and another address of its own; the completion, or
 * with rule only, when the ring ended. */
struct tent_completion foe_copy(struct foe *f, int opcode, const void *address,
				uint64_t length);
/* Somebody new can come, say hello and be served by the control thread. */
void need_service(struct arena *a);
/* A memfd with these MFD_* flags, size and F_SEAL_*. */
int foe_memfd(unsigned flags, uint64_t size, int seals);

#endif /* TENT_TESTS_FOE_H */
