/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uring.h - the kernel's rings, as our backends use them: set up, probed, with tables
 * of registered files and buffers. A "kring" is one of them, beside our own rings.
 *
 * The poller is the only one that submits and reaps; the control thread may change the
 * tables meanwhile (the kernel locks them). A container or an administrator may forbid
 * io_uring: kring_open() then says so in a sentence, and the backend does without.
 */
#ifndef TENT_IO_URING_H
#define TENT_IO_URING_H

#include <liburing.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kring_options {
	uint32_t entries;	/* submissions; there is room for twice as many completions */
	uint32_t files, buffers; /* places in the tables; 0: no table */
	uint32_t sqpoll_ms;	/* a kernel thread submits, and sleeps after this; 0: none */
	int event_fd;		/* written with every completion; -1: none */
	const uint8_t *ops;	/* IORING_OP_* that must be there, 0-terminated; or NULL */
};

struct kring {
	struct io_uring ring;
	bool has_files, has_buffers;
	/* counted by the poller, read by any thread */
	uint64_t enters;	/* io_uring_enter() calls; no other system call is made */
	uint64_t submitted;	/* entries */
};

/* Control. 0, or -errno with a sentence that says what stands in the way, and, where it
 * is a setting, which. */
int kring_open(struct kring *k, const struct kring_options *o, char *why, size_t size);
void kring_close(struct kring *k);
/* Could one be opened? The same answer. */
int kring_probe(const uint8_t *ops, char *why, size_t size);

/* Control. Puts a descriptor (-1: none) at a place of the table. 0 or -errno. */
int kring_set_file(struct kring *k, uint32_t place, int fd);
/* The same for memory, which the kernel pins; length 0: none. */
int kring_set_buffer(struct kring *k, uint32_t place, void *memory, size_t length);

/* Poller. The next entry, zeroed by its io_uring_prep_*(), or NULL until kring_submit(). */
static inline struct io_uring_sqe *kring_entry(struct kring *k)
{
	return io_uring_get_sqe(&k->ring);
}

/* Poller. Hands what was prepared to the kernel: one io_uring_enter(), or none where its
 * thread is awake. What the kernel has no room for stays prepared. */
void kring_submit(struct kring *k);

/* Poller. Makes no system call, unless the kernel says that it kept completions back.
 * NULL: none is there; else it stays until kring_seen(). */
struct io_uring_cqe *kring_peek(struct kring *k);

static inline void kring_seen(struct kring *k)
{
	io_uring_cq_advance(&k->ring, 1);
}

#endif /* TENT_IO_URING_H */
