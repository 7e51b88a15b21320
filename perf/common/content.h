/* SPDX-License-Identifier: Apache-2.0 */
/*
 * content.h - the bytes of a KV block are a function of its hash id: every 8-byte
 * word differs from its neighbours, from the same word of every other block, and
 * from zero-filled or stale memory. A reader checks all of them.
 */
#ifndef TENT_PERF_CONTENT_H
#define TENT_PERF_CONTENT_H

#include <stddef.h>
#include <stdint.h>

/* size: a multiple of 64 bytes; both 8-aligned. seed: of the run. */
void content_fill(void *block, size_t size, uint64_t seed, uint64_t id);

/* Offset of the first wrong 8-byte word, or size when all are right. */
size_t content_check(const void *block, size_t size, uint64_t seed, uint64_t id);

#endif /* TENT_PERF_CONTENT_H */
