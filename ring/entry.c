/* SPDX-License-Identifier: Apache-2.0 */
/* entry.c - the entries that are not plain: short ones, long ones, named policies. */
#define _GNU_SOURCE
#include <tent/tentring.h>

#include "ring/entry.h"

/* On 32-bit the slot's high half is no part of the pointer. Not zero, it goes on as
 * it is and the engine refuses it. */
uint64_t entry_load_policy(char *cell, uint64_t name)
{
	const char *text = (const char *)(uintptr_t)name;
	uint64_t rest = name - (uintptr_t)text;
	size_t length;

	if (!text)
		return rest;
	length = strnlen(text, TENT_CELL_SIZE);
	memcpy(cell, text, length);
	return length ? length | rest : UINT64_MAX;
}

/* Offset of the first non-zero byte of entry[from..to), or 0. */
static uint32_t find_tail(const uint8_t *entry, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++) {
		if (entry[i])
			return (uint32_t)i;
	}
	return 0;
}

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* What struct_size does not cover stays as the last lap left it: the engine reads
 * nothing there. The struct_size that was obeyed is the one that is sent. */
void entry_load_general(struct tent_slot *slot, char *cell, const uint8_t *entry,
			size_t stride)
{
	uint8_t *to = (uint8_t *)&slot->request;
	uint32_t struct_size = 0;
	size_t covered;
	uint64_t name = 0;

	memcpy(&struct_size, entry, smaller(sizeof(struct_size), stride));
	covered = smaller(struct_size, stride);
	memcpy(to, entry, smaller(covered, TENT_REQUEST_V1_SIZE));
	memcpy(to, &struct_size, sizeof(struct_size));
	if (covered >= ENTRY_POLICY_END) {
		memcpy(&name, to + ENTRY_POLICY, sizeof(name));
		if (name)
			name = entry_load_policy(cell, name);
	}
	memcpy(to + ENTRY_POLICY, &name, sizeof(name));
	slot->tail_offset = find_tail(entry, TENT_REQUEST_V1_SIZE, covered);
	slot->entry_stride = stride < UINT32_MAX ? (uint32_t)stride : UINT32_MAX;
}

void tent_entry_load(struct tent_slot *slot, char *cell, const void *entry,
		     size_t entry_stride)
{
	entry_load(slot, cell, entry, entry_stride);
}
