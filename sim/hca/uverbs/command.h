/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command.h - one command of a program, copied in whole before anything is done, and what
 * the handlers of commands share. A handler returns 0 or -errno.
 */
#ifndef TENT_SIM_HCA_COMMAND_H
#define TENT_SIM_HCA_COMMAND_H

#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

#include "sim/hca/uverbs/object.h"
#include "sim/hca/uverbs/uverbs.h"

struct uverbs_file {
	struct uverbs_device *device;
	struct uverbs_file *next;	/* of the device */
	struct object_table objects;
	struct event_queue *async;	/* NULL until GET_CONTEXT */
	uint32_t port_reported;		/* events that belong to no object */
};

/* More than the largest structure of the interface; a longer input is read so far. */
#define COMMAND_BYTES 512

struct command {
	struct uverbs_file *file;
	/* What the program gave: the core's structure and the driver's. Zero behind length. */
	_Alignas(8) uint8_t in[COMMAND_BYTES], hw_in[COMMAND_BYTES];
	uint32_t in_length, hw_in_length; /* as the program said; may be more than there is */
	bool is_in_tail_zero;		/* all of the input behind in[] is zero */
	/* What it gets, zeroed; the handler says how much of the driver's it filled. */
	_Alignas(8) uint8_t out[COMMAND_BYTES], hw_out[COMMAND_BYTES];
	uint32_t out_length, hw_out_length; /* room, as the program said */
	uint32_t out_used, hw_out_used;
	/* Undone when the answer cannot be delivered. */
	struct object *made;
	int made_fd;			/* -1: none */
};

#define COMMAND_IN(c, type)  ((const struct type *)(const void *)(c)->in)
#define COMMAND_HW_IN(c, type) ((const struct type *)(const void *)(c)->hw_in)
#define COMMAND_OUT(c, type) \
	((c)->out_used = sizeof(struct type), (struct type *)(void *)(c)->out)
#define COMMAND_HW_OUT(c, type) \
	((c)->hw_out_used = sizeof(struct type), (struct type *)(void *)(c)->hw_out)

/* Whether all that the program gave behind the first known bytes is zero: it asks for
 * nothing that we do not know. */
bool command_is_tail_zero(const struct command *c, uint32_t known);

/* An extended answer says how much of it there is. */
uint32_t command_response_length(const struct command *c, uint32_t full);

/* INVOKE_WRITE: runs command number, filled in above. */
int command_invoke_write(struct command *c, uint32_t number);

/* The object of this handle, or NULL. */
struct object *command_find(const struct command *c, enum object_type type, uint32_t handle);
/* A new object, undone if the command fails later. NULL: no memory. */
struct object *command_make(struct command *c, enum object_type type);
/* The engine would not have it: the new object goes, and this is rc. */
int command_unmake(struct command *c, int rc);
/* Destroys by handle: 0, -ENOENT, -EBUSY. */
int command_destroy(struct command *c, enum object_type type, uint32_t handle);
/* Whatever rests on it is gone. 0, or -EBUSY of the engine. */
int uverbs_destroy_object(struct object *o);

int command_get_context(struct command *c);
int command_query_device(struct command *c);
int command_query_device_ex(struct command *c);
int command_query_port(struct command *c);
int command_create_comp_channel(struct command *c);

int command_alloc_pd(struct command *c);
int command_dealloc_pd(struct command *c);
int command_reg_mr(struct command *c);
int command_rereg_mr(struct command *c);
int command_dereg_mr(struct command *c);
int command_create_ah(struct command *c);
int command_destroy_ah(struct command *c);

struct command_dmabuf {
	uint64_t offset, length, iova;
	uint32_t pd_handle, access;
	int fd;
};
/* The object is c->made. */
int command_reg_dmabuf_mr(struct command *c, const struct command_dmabuf *d);

int command_create_cq(struct command *c);
int command_create_cq_ex(struct command *c);
int command_resize_cq(struct command *c);
int command_modify_cq_ex(struct command *c);
int command_destroy_cq(struct command *c);

int command_create_qp(struct command *c);
int command_create_qp_ex(struct command *c);
int command_modify_qp(struct command *c);
int command_modify_qp_ex(struct command *c);
int command_query_qp(struct command *c);
int command_destroy_qp(struct command *c);

int command_create_srq(struct command *c);
int command_modify_srq(struct command *c);
int command_query_srq(struct command *c);
int command_destroy_srq(struct command *c);

/* The object is c->made. */
int command_alloc_uar(struct command *c, uint64_t type);
bool command_knows_uar(const struct command *c, uint32_t page);

#endif /* TENT_SIM_HCA_COMMAND_H */
