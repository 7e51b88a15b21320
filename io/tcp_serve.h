/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_serve.h - what peers ask of us, for the files that receive and send it. */
#ifndef TENT_IO_TCP_SERVE_H
#define TENT_IO_TCP_SERVE_H

#include "io/tcp.h"

/* tcp_serve.c. Poller. */
/* A head came that asks for something. 1: go on; 0: no frame is free, later; -1: it
 * breaks the protocol. */
int tcp_request_head(struct tcp_conn *c);
void tcp_request_end(struct tcp_conn *c, uint16_t status);
/* After an operation: memory may be needed elsewhere. */
void tcp_request_check(struct tcp_conn *c);
void tcp_request_sent(struct tcp_conn *c);
bool tcp_drop(struct backend_queue *queue, const struct region *r);

/* tcp_loan.c. Poller. */
/* Is it a GPU's, and are there buffers to go by? */
bool tcp_loan_reaches(const struct tcp_queue *q, const struct region *r);
/* For what the head that came asks of the region, which may be none. NULL: it needs no
 * buffer, or there is none now, and it comes again. */
struct loan *tcp_loan_take(struct tcp_conn *c, const struct region *r);
void tcp_loan_hold(struct tcp_frame *f, struct loan *loan);
void tcp_loan_give(struct tcp_frame *f);
/* The frame is sent once it is over. */
void tcp_loan_copy(struct tcp_frame *f, struct region *r, uint64_t address, uint32_t n);
void tcp_loan_copied(struct backend_queue *queue, struct loan *loan, uint16_t rule);
void tcp_loans_check(struct tcp_queue *q);
/* The connection ends, and none of its frames copies. */
void tcp_loans_end(struct tcp_conn *c);

#endif /* TENT_IO_TCP_SERVE_H */
