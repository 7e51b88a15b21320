/* SPDX-License-Identifier: Apache-2.0 */
/*
 * object.h - what a program made through one open file, by handle. An object that others
 * rest on cannot go before them.
 */
#ifndef TENT_SIM_HCA_OBJECT_H
#define TENT_SIM_HCA_OBJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/hca/engine/engine.h"
#include "sim/hca/uverbs/event.h"

/* In the order in which a closing file lets go of them. */
enum object_type {
	OBJECT_QP,
	OBJECT_SRQ,
	OBJECT_CQ,
	OBJECT_AH,
	OBJECT_MR,
	OBJECT_PD,
	OBJECT_UAR,
	OBJECT_NR_TYPES,
};

struct object_mr {
	struct hca_mr *hca;
	uint64_t start, length, iova;
	uint32_t access, key;
	bool is_dmabuf;
};

struct object_cq {
	struct hca_cq *hca;
	struct event_queue *channel;	/* or NULL */
	uint32_t cqe_bytes, nr_cqes;
};

struct object_srq {
	struct hca_srq *hca;
	uint32_t nr_wqes, max_sge;
};

struct object_qp {
	struct hca_qp *hca;
	bool is_ud, signal_all;
	uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_bytes;
	uint8_t port;			/* 0 until it is given one */
	uint8_t source_path_bits, static_rate;
};

#define OBJECT_MAX_USES 4

struct object {
	enum object_type type;
	uint32_t handle;
	uint32_t users;			/* objects that rest on this one */
	struct object *uses[OBJECT_MAX_USES];
	struct uverbs_file *file;
	uint64_t user_handle;		/* what events carry */
	uint32_t comp_reported, async_reported; /* events that the program has read */
	union {
		struct hca_pd *pd;
		struct object_mr mr;
		struct object_cq cq;
		struct object_srq srq;
		struct object_qp qp;
		unsigned uar;
	};
};

struct object_slot {
	struct object *object;
	uint32_t next_free;
};

struct object_table {
	struct object_slot *slots;
	uint32_t nr_slots, first_free;	/* first_free == nr_slots: none */
};

void object_table_destroy(struct object_table *t);

/* A zeroed object with a handle, or NULL: no memory. */
struct object *object_make(struct object_table *t, enum object_type type);
/* Gives back the handle, lets go of what it uses and frees it. */
void object_free(struct object_table *t, struct object *o);
/* NULL: no such handle of this type. */
struct object *object_find(const struct object_table *t, enum object_type type,
			   uint32_t handle);
/* user rests on used from now on. */
void object_use(struct object *user, struct object *used);
void object_unuse(struct object *user, struct object *used);

#endif /* TENT_SIM_HCA_OBJECT_H */
