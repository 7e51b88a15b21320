/* SPDX-License-Identifier: Apache-2.0 */
/*
 * user.h - copies from and to addresses that the program named. They may be anything: what
 * cannot be reached is -EFAULT.
 */
#ifndef TENT_SIM_HCA_USER_H
#define TENT_SIM_HCA_USER_H

#include <stddef.h>
#include <stdint.h>

int user_read(void *to, uint64_t from, size_t n);
int user_write(uint64_t to, const void *from, size_t n);

#endif /* TENT_SIM_HCA_USER_H */
