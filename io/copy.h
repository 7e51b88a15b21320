/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy.h - the one place where shm moves bytes: plain for what should stay in
 * the cache, streaming for what is too large to.
 */
#ifndef TENT_IO_COPY_H
#define TENT_IO_COPY_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Moves n bytes with the meaning of memmove(): ranges may overlap. With stream,
 * stores bypass the cache where the CPU can do that and the ranges do not
 * overlap. All bytes are ordered before whatever the caller stores next; a
 * streaming copy ends in its own stream_fence(), because the next chunk, or the
 * report of the end, may come from another thread (caller mode).
 *
 * Both sides may be written by other processes meanwhile: which bytes arrive is
 * then theirs to explain, but nothing outside [dst, dst + n) is touched.
 */
void copy_bytes(void *dst, const void *src, size_t n, bool stream);

/* "avx2", "sse2" or "plain": what a streaming copy uses on this CPU. */
const char *copy_stream_kind(void);

#endif /* TENT_IO_COPY_H */
