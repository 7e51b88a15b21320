/* SPDX-License-Identifier: Apache-2.0 */
/*
 * entry.h - copies one of the caller's entries into a slot: the only code that reads
 * the caller's array. It judges nothing; it only never reads more than the caller
 * said is there, and each byte that steers it only once.
 *
 * Inline because the producer's loop is this function.
 */
#ifndef TENT_RING_ENTRY_H
#define TENT_RING_ENTRY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <tent/ring.h>
#include <tent/rules.h>

#define ENTRY_POLICY offsetof(struct tent_request_v1, policy_name)
#define ENTRY_POLICY_END (ENTRY_POLICY + sizeof(uint64_t))

/* The call arguments of everything that takes an array: 0, or the rule that they break
 * and the value that does. Nothing of the array is read. */
static inline uint32_t array_fault(const void *array, size_t count, size_t size,
				   size_t align, int64_t *value)
{
	uintptr_t at = (uintptr_t)array;
	size_t bytes, end;

	if (!array)
		return TENT_RULE_ARG_NULL;
	if (at % align) {
		*value = (int64_t)at;
		return TENT_RULE_ARG_ALIGN;
	}
	if (__builtin_mul_overflow(count, size, &bytes) ||
	    __builtin_add_overflow(at, bytes, &end)) {
		*value = (int64_t)count;
		return TENT_RULE_ARG_OVERFLOW;
	}
	return 0;
}

/* The same for an array of tent_request_v1. */
static inline uint32_t entries_fault(const void *entries, size_t count, size_t stride,
				     int64_t *value)
{
	if (entries && (stride < TENT_REQUEST_V1_MIN_SIZE || stride > TENT_REQUEST_MAX_STRIDE ||
			stride % 8)) {
		*value = (int64_t)stride;
		return TENT_RULE_ARG_STRIDE;
	}
	return array_fault(entries, count, stride, sizeof(uint64_t), value);
}

/* Any other entry than the plain one below, and any policy name. */
void entry_load_general(struct tent_slot *slot, char *cell, const uint8_t *entry,
			size_t stride);
/* Copies the text behind a policy_name slot into the cell and returns what the slot
 * gets instead of the pointer: its length, UINT64_MAX for "". */
uint64_t entry_load_policy(char *cell, uint64_t name);

static inline __attribute__((always_inline)) void
entry_load(struct tent_slot *slot, char *cell, const uint8_t *entry, size_t stride)
{
	uint8_t *to = (uint8_t *)&slot->request;
	uint64_t first = 0, name, tail = (uint64_t)stride << 32;

	if (stride >= TENT_REQUEST_V1_SIZE && stride <= TENT_REQUEST_MAX_STRIDE)
		memcpy(&first, entry, sizeof(first));
	if (__builtin_expect((uint32_t)first != TENT_REQUEST_V1_SIZE, 0)) {
		entry_load_general(slot, cell, entry, stride);
		return;
	}
	memcpy(to, &first, sizeof(first));
	memcpy(to + 8, entry + 8, 8);
	memcpy(to + 16, entry + 16, 16);
	memcpy(to + 32, entry + 32, 16);
	memcpy(to + 48, entry + 48, 16);
	memcpy(&name, entry + ENTRY_POLICY, sizeof(name));
	if (__builtin_expect(name != 0, 0))
		name = entry_load_policy(cell, name);
	memcpy(to + ENTRY_POLICY, &name, sizeof(name));
	memcpy(to + ENTRY_POLICY_END, entry + ENTRY_POLICY_END, 16);
	memcpy(&slot->tail_offset, &tail, sizeof(tail)); /* tail_offset 0, entry_stride */
}

#endif /* TENT_RING_ENTRY_H */
