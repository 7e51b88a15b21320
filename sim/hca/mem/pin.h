/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pin.h - pages that the kernel keeps for us, and that can be read and written without any
 * mapping: io_uring's registered buffers. RLIMIT_MEMLOCK counts them, as it counts a real
 * device's. Any thread.
 */
#ifndef TENT_SIM_HCA_PIN_H
#define TENT_SIM_HCA_PIN_H

#include <stdint.h>

#define PIN_BYTES_MAX (1ull << 30)	/* of one pin */

/* The pin's number, or -ENOMEM, -EFAULT (no memory that io_uring pins; it pins only what is
 * writable), -EOPNOTSUPP (no io_uring here, which is said once). */
int pin_add(uint64_t address, uint64_t length);
void pin_remove(int pin);

/* [address, address + n) as it was when pinned, and within it. 0 or -EFAULT. */
int pin_read(int pin, uint64_t address, void *to, uint64_t n);
int pin_write(int pin, uint64_t address, const void *from, uint64_t n);

/* Around fork(). The child starts without pins. */
void pin_fork_prepare(void);
void pin_fork_parent(void);
void pin_fork_child(void);

#endif /* TENT_SIM_HCA_PIN_H */
