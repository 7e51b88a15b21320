/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/hca/wire/gids.h"

#include <string.h>

static void turn_readers(struct wire_gids *t)
{
	/* What they find there has been written before. */
	__atomic_store_n(&t->generation, t->generation + 1, __ATOMIC_RELEASE);
}

static void write_copy(struct wire_gids *t, int copy, uint32_t index, const uint64_t words[2])
{
	/* Released: who sees one of these sees too that readers have been turned away. */
	__atomic_store_n(&t->copies[copy][index][0], words[0], __ATOMIC_RELEASE);
	__atomic_store_n(&t->copies[copy][index][1], words[1], __ATOMIC_RELEASE);
}

void wire_gid_set(struct wire_gids *t, uint32_t index, const uint8_t gid[16])
{
	int unread = !(t->generation & 1);
	uint64_t words[2];

	memcpy(words, gid, sizeof(words));
	write_copy(t, unread, index, words);
	turn_readers(t);
	write_copy(t, !unread, index, words);
	if (t->nr <= index)
		__atomic_store_n(&t->nr, index + 1, __ATOMIC_RELAXED);
}

bool wire_gid_get(const struct wire_gids *t, uint32_t index, uint8_t gid[16])
{
	uint64_t words[2] = { 0, 0 };
	uint32_t generation;

	if (index < WIRE_MAX_GIDS) {
		do {
			generation = __atomic_load_n(&t->generation, __ATOMIC_ACQUIRE);
			for (int i = 0; i < 2; i++)
				words[i] = __atomic_load_n(&t->copies[generation & 1][index][i],
							   __ATOMIC_ACQUIRE);
		} while (generation != __atomic_load_n(&t->generation, __ATOMIC_RELAXED));
	}
	memcpy(gid, words, sizeof(words));
	return words[0] | words[1];
}

int wire_gid_find(const struct wire_gids *t, const uint8_t gid[16])
{
	uint8_t there[16];

	for (int i = 0; i < WIRE_MAX_GIDS; i++) {
		if (wire_gid_get(t, (uint32_t)i, there) && !memcmp(there, gid, 16))
			return i;
	}
	return -1;
}
