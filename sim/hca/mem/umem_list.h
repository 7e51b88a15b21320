/* SPDX-License-Identifier: Apache-2.0 */
/*
 * umem_list.h - between the files of this folder: what happens to pages of any umem.
 */
#ifndef TENT_SIM_HCA_UMEM_LIST_H
#define TENT_SIM_HCA_UMEM_LIST_H

#include <stdbool.h>
#include <stdint.h>

bool umem_any_overlaps(uint64_t start, uint64_t length);

/* From suspend to resume, no access goes through a program's mapping, and accesses wait. */
void umem_suspend(void);
void umem_resume(void);

/* In between: these addresses no longer hold what was pinned. */
void umem_pages_went(uint64_t start, uint64_t length);

#endif /* TENT_SIM_HCA_UMEM_LIST_H */
