/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doorbell.h - sees what a program stores into a UAR page, in one of two ways.
 *
 * Trapped: the program's mapping is made read-only, a store faults, and its thread decodes
 * it, does it through a mapping of our own and calls ring() before it goes on. Polled: the
 * mapping stays writable and doorbell_scan() takes out what was stored; of two stores into
 * one register between two scans it sees only the last. After any ring() of a polled page
 * the records of all queues of that page must be looked at.
 *
 * A store that the decoder does not know turns trapping into polling for the rest of the
 * process's life.
 */
#ifndef TENT_SIM_HCA_DOORBELL_H
#define TENT_SIM_HCA_DOORBELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DOORBELL_PAGE_BYTES 4096

enum doorbell_kind {
	DOORBELL_SEND,		/* the first 8 bytes of a WQE: the QPN is the top of bytes[4..8) */
	DOORBELL_CQ_ARM,	/* as hca_cq_doorbell() takes them */
};

struct doorbell_ops {
	/* Required. Trapped: in the storing thread's SIGSEGV handler, which holds no lock of
	 * libc's, may take locks and may take its time; may_run false: on a stack too small
	 * to run a queue, so that another thread has to. Polled: from doorbell_scan(). */
	void (*ring)(void *cookie, enum doorbell_kind kind, const uint8_t bytes[8],
		     bool may_run);
	/* Required. Trapping has just turned into polling: doorbell_scan() must be called
	 * often from now on. In a SIGSEGV handler. */
	void (*poll)(void);
};

/* What TENT_SIM_DOORBELL=trap|poll says; else polled where trapping is in the way (a
 * sanitizer, valgrind) or unknown (another CPU than x86-64). */
bool doorbell_default_is_polled(void);

/* Once per process, before the first page. */
void doorbell_init(const struct doorbell_ops *ops, bool polled);
bool doorbell_is_polled(void);

/* The program has mapped a UAR page, file page at offset of fd, at mapping. cookie comes
 * back in ring(). 0, -ENOSPC, or -errno of mmap and mprotect. */
int doorbell_watch(void *mapping, int fd, uint64_t offset, void *cookie);
/* The mappings in this range are going, or are no longer ours. Not from ring(). */
void doorbell_unwatch(const void *start, size_t length);

/* Any thread, one at a time. True: something had rung. */
bool doorbell_scan(void);

#endif /* TENT_SIM_HCA_DOORBELL_H */
