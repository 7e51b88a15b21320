/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop.h - for programs that judge the simulated device through libibverbs: a queue pair
 * connected to itself, and a way to say what is not so.
 */
#ifndef TENT_SIM_HCA_LOOP_H
#define TENT_SIM_HCA_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <infiniband/verbs.h>

#define CHECK(truth)							\
	do {								\
		if (!(truth)) {						\
			printf("%s, line %d: not so: %s (%m)\n", __FILE__, __LINE__, #truth); \
			exit(1);					\
		}							\
	} while (0)

enum { LOOP_HALF = 4096,
       LOOP_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };

struct loop {
	bool signals_all;		/* as its maker asks */
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;		/* of all of loop_memory */
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

extern char loop_memory[2 * LOOP_HALF];

struct ibv_context *loop_open_device(void);
void loop_make(struct loop *l);
void loop_drop(struct loop *l);
/* Spins until the next completion is there. */
struct ibv_wc loop_wait(struct loop *l);
/* The first bytes of loop_memory go to an address. */
enum ibv_wc_status loop_write_to(struct loop *l, void *to, uint32_t rkey);
/* To the second half, whose bytes are looked at. */
void loop_write(struct loop *l);

#endif /* TENT_SIM_HCA_LOOP_H */
