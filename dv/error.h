/* SPDX-License-Identifier: Apache-2.0 */
/*
 * error.h - what a completion that is none of success says: whom it hits, how the request
 * ends, and why, in words.
 *
 * On an RC QP every error ends the QP: what was posted behind it is flushed. The scope
 * tells what has to be different for another try to be worth it.
 */
#ifndef TENT_DV_ERROR_H
#define TENT_DV_ERROR_H

#include <infiniband/mlx5dv.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tent/rules.h>

enum dv_scope {
	DV_SCOPE_REQUEST = 1,	/* it fails anywhere; what was flushed with it is innocent */
	DV_SCOPE_CONNECTION,	/* another connection may carry the same request */
	DV_SCOPE_DEVICE		/* nothing of this card is to be trusted */
};

struct dv_fault {
	uint8_t scope;		/* enum dv_scope */
	bool names_wqe;		/* the entry says which WQE of the send queue it is about */
	uint16_t rule;		/* enum tent_rule; NONE: as whatever ended its connection */
	const char *text;	/* part of a sentence */
};

/* Of an entry that is none of success. One that nobody knows gets the wide answer. */
const struct dv_fault *dv_fault_of(const struct mlx5_cqe64 *cqe);

/* One that names a WQE which was not posted, or is retired. */
extern const struct dv_fault dv_fault_stray;

/* "WRITE of QP 0x1234, block 5: <text> (syndrome 0x13, vendor 0x88)". f: of this entry. */
void dv_fault_describe(const struct dv_fault *f, const struct mlx5_cqe64 *cqe, char *text,
		       size_t size);

#endif /* TENT_DV_ERROR_H */
