/* SPDX-License-Identifier: Apache-2.0 */
/*
 * umem.h - memory of this process as the device sees it: pinned, so that it stays what
 * it was when it was registered, whatever the program unmaps or maps later. Nothing here
 * faults: a page that cannot be reached is -EFAULT.
 *
 * Any thread; the owner takes care that nobody uses a umem that is being released.
 */
#ifndef TENT_SIM_HCA_UMEM_H
#define TENT_SIM_HCA_UMEM_H

#include <stdbool.h>
#include <stdint.h>

struct umem;

/* Pins [address, address + length) of this process. Takes up the pages' contents as they
 * are now and shares later stores with the program. 0, -ENOMEM (also RLIMIT_MEMLOCK),
 * -EFAULT (not mapped, or not writable although for_writing says so), -EINVAL (no bytes,
 * or beyond the last address). A forked child has none of these: there, all of its
 * parent's answer -EFAULT. */
int umem_pin(struct umem **out, uint64_t address, uint64_t length, bool for_writing);

/* The same for a range of a file that can be mapped: a dma-buf, or a memfd in its place, or a
 * window of it (window.h). fd is not kept. */
int umem_pin_fd(struct umem **out, int fd, uint64_t offset, uint64_t length, bool for_writing);

/* The same for memory of another device at addresses of the program (peer.h). -EFAULT: it is
 * none. */
int umem_pin_peer(struct umem **out, uint64_t address, uint64_t length, bool for_writing);

void umem_release(struct umem *m);

/* Bytes [offset, offset + n), which the caller has bounded by the umem's length. 0 or
 * -EFAULT. */
int umem_read(struct umem *m, uint64_t offset, void *to, uint64_t n);
int umem_write(struct umem *m, uint64_t offset, const void *from, uint64_t n);

/* One aligned word, and a byte, in one access: acquire, and release. The device reads doorbell records
 * and writes owner bits with these. */
int umem_load32(struct umem *m, uint64_t offset, uint32_t *value);
int umem_store8(struct umem *m, uint64_t offset, uint8_t value);

/* One aligned 8-byte atomic on host-order values; *before gets what lay there. */
int umem_fetch_add64(struct umem *m, uint64_t offset, uint64_t add, uint64_t *before);
int umem_compare_swap64(struct umem *m, uint64_t offset, uint64_t compare, uint64_t swap,
			uint64_t *before);

uint64_t umem_length(const struct umem *m);

/* The program is about to take these pages away, or to put others in their place. Returns
 * when no access goes through its mapping any more. */
void umem_range_goes(const void *start, uint64_t length);

#endif /* TENT_SIM_HCA_UMEM_H */
