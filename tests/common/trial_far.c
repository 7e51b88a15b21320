/* SPDX-License-Identifier: Apache-2.0 */
/* trial_far.c - see trial_far.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/common/far.h"
#include "tests/common/trial_far.h"

static struct tent_client *owner, *user;

/* ---- who takes part ---------------------------------------------------- */

void trial_far_open_owner(struct trials *t, const char *socket)
{
	assert_int_equal(tent_client_attach(socket, "kv", &owner), 0);
	for (uint32_t i = 0; i < TRIAL_PLACES; i++)
		trial_register(t, &t->places[i], owner, true, false);
}

void trial_far_open_user(struct trials *t, const char *socket)
{
	assert_int_equal(tent_client_attach(socket, NULL, &user), 0);
	for (uint32_t i = 0; i < TRIAL_PLACES; i++)
		trial_register(t, &t->places[i], user, false, false);
	trials_attach(t, user);
	t->id = far_open_it(user, tent_client_segment(owner));
}

void trial_far_close_owner(void)
{
	tent_client_detach(owner);
}

void trial_far_close_user(struct trials *t)
{
	trials_detach(t);
	tent_client_detach(user);
}

void trial_far_next_owner(struct trials *t, const char *socket)
{
	trial_far_open_owner(t, socket);
	far_expect_buffers(user, t->id, -TENT_RULE_TARGET_GONE);
	assert_int_equal(tent_client_close_segment(user, t->id), 0);
	t->id = far_open_it(user, tent_client_segment(owner));
}

void trial_far_await(struct trials *t)
{
	far_expect_buffers(user, t->id, TRIAL_PLACES);
}

/* ---- strikes ----------------------------------------------------------- */

static bool takes_theirs(const struct trial *p)
{
	return p->number >> 1 & 1;
}

uint8_t *trial_far_take(struct trials *t, struct trial *p)
{
	bool theirs = takes_theirs(p);
	uint8_t *memory = theirs ? p->theirs : p->mine;

	assert_int_equal(tent_client_unregister(theirs ? owner : user, memory, t->bytes), 0);
	return memory;
}

void trial_far_give(struct trials *t)
{
	for (uint32_t i = 0; i < TRIAL_FLIGHT; i++) {
		const struct trial *p = t->flight[i];
		bool theirs = takes_theirs(p);

		if (p->struck)
			trial_register(t, p, theirs ? owner : user, theirs, false);
	}
	trial_far_await(t);
}

int trial_far_mostly_read(uint64_t number)
{
	return number % TRIAL_FLIGHT ? TENT_OPCODE_READ : TENT_OPCODE_WRITE;
}
