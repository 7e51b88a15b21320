/* SPDX-License-Identifier: Apache-2.0 */
/*
 * program.h - a program that talks to a device by ioctl, as libibverbs does, and the
 * world around that device. Commands go through memory and pointers like a real one's.
 */
#ifndef TENT_SIM_HCA_PROGRAM_H
#define TENT_SIM_HCA_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include "sim/hca/uverbs/event.h"
#include "sim/hca/uverbs/uverbs.h"

enum { PROGRAM_MAX_FDS = 16, PROGRAM_FIRST_FD = 100, PROGRAM_MAX_ATTRS = 16 };

/* struct ib_uverbs_ioctl_hdr without the attributes behind it. */
struct program_header {
	uint16_t length, object_id, method_id, num_attrs;
	uint64_t reserved1;
	uint32_t driver_id, reserved2;
};
_Static_assert(sizeof(struct program_header) == sizeof(struct ib_uverbs_ioctl_hdr),
	       "what the device reads");

struct program {
	struct uverbs_env env;
	struct hca_env hca_env;
	struct hca_faults faults;
	struct hca_counters counters;
	struct uverbs_device device;
	struct uverbs_file *file;
	struct event_queue *fds[PROGRAM_MAX_FDS]; /* descriptor PROGRAM_FIRST_FD + i */
	bool is_ethernet, is_up;
	uint64_t max_mr_bytes;
	int refusal;			/* of the next registrations: 0 or -errno */
	int qp_refusal;			/* the same of queue pairs */
	bool no_dma_bufs, has_peers;	/* what it registers, beside memory of its own */
	unsigned nr_freed_uars;
	uint64_t uar_offset;		/* of the last page; here, so that tests can repeat the */
	uint32_t uar_length;		/* command */
	/* what the next ioctl says */
	struct {
		struct program_header hdr;
		struct ib_uverbs_attr attrs[PROGRAM_MAX_ATTRS];
	} call;
	uint8_t *memory;		/* pages for queues, page-aligned, PROGRAM_BYTES */
};

#define PROGRAM_BYTES (64 * 4096)

struct program *program_create(void);
void program_destroy(struct program *p);
/* As cmocka wants them; open: with a context. */
int program_setup(void **state);
int program_setup_open(void **state);
int program_teardown(void **state);

/* Begins an ioctl; attributes follow. */
void program_begin(struct program *p, uint16_t object, uint16_t method);
struct ib_uverbs_attr *program_attr(struct program *p, uint16_t id, uint16_t length,
				    uint64_t data);
/* Bytes, inline where they have to be. */
struct ib_uverbs_attr *program_bytes(struct program *p, uint16_t id, const void *bytes,
				     size_t n);
/* 0 or -errno. */
int program_ioctl(struct program *p);

/* An INVOKE_WRITE; NULL where a part is not there. */
struct program_write {
	uint32_t number;
	const void *in;
	size_t in_bytes;
	void *out;
	size_t out_bytes;
	const void *hw_in;
	size_t hw_in_bytes;
	void *hw_out;
	size_t hw_out_bytes;
};
int program_write(struct program *p, const struct program_write *w);
/* One without a driver's part. */
int program_write_command(struct program *p, uint32_t number, const void *in, size_t in_bytes,
			  void *out, size_t out_bytes);
#define PROGRAM_WRITE(p, number, in, out)				\
	program_write_command(p, number, &(in), sizeof(in), &(out), sizeof(out))
#define PROGRAM_WRITE_IN(p, number, in)					\
	program_write_command(p, number, &(in), sizeof(in), NULL, 0)

/* What every test needs first; handles, or -errno. */
int program_get_context(struct program *p);
int program_alloc_pd(struct program *p);
int program_alloc_uar(struct program *p, uint32_t *page);
/* channel: a descriptor, or -1. */
int program_create_cq(struct program *p, uint32_t cqe, int channel, uint64_t user_handle);
int program_create_channel(struct program *p);	/* a descriptor */
int program_reg_mr(struct program *p, uint32_t pd, const struct ib_uverbs_reg_mr *in);
int program_create_srq(struct program *p, uint32_t pd, uint32_t max_wr);

struct event_queue *program_queue(struct program *p, int fd);
/* What a read() that does not wait gives. */
int program_read_event(struct event_queue *q, void *to, size_t n);

#endif /* TENT_SIM_HCA_PROGRAM_H */
