/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pages.h - between the files of this folder: the watched pages and their registers.
 */
#ifndef TENT_SIM_HCA_PAGES_H
#define TENT_SIM_HCA_PAGES_H

#include <signal.h>

#include "sim/hca/doorbell/doorbell.h"

#define PAGES_MAX 4096
#define REGISTER_BYTES 8

/* Of a UAR page: arming CQs, and two BlueFlame buffers that alternate by half. */
struct page_register {
	uint16_t offset;
	uint8_t kind;		/* enum doorbell_kind */
};
#define NR_REGISTERS 5
extern const struct page_register page_registers[NR_REGISTERS];

struct page {
	uintptr_t start;	/* the program's mapping; 0: unused. Stored last. */
	uint8_t *alias;
	void *cookie;
};

/* A copy of the page that holds address. Any thread, also in a handler. */
bool page_find(uintptr_t address, struct page *out);

/* Makes all pages writable, now and later. */
void pages_become_polled(void);

extern struct doorbell_ops doorbell_ops;

/* trap.c. True: the fault was a store into a watched page, and is done with. */
void trap_init(void);
bool trap_claim(siginfo_t *info, void *context);

#endif /* TENT_SIM_HCA_PAGES_H */
