/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pages.h - memory of a test's own, and the device's hold on it. What fails fails the test.
 */
#ifndef TENT_SIM_HCA_TESTS_PAGES_H
#define TENT_SIM_HCA_TESTS_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/hca/mem/umem.h"

#define PAGE 4096u

uint8_t *pages_map(size_t n);
struct umem *pages_pin(void *p, uint64_t length);

extern bool pages_pins_hold;	/* else this machine permits no io_uring */
int pages_try_pins(void **state);	/* finds that out: a group's setup */
void pages_need_pins(void);	/* or the test is skipped */

#endif /* TENT_SIM_HCA_TESTS_PAGES_H */
