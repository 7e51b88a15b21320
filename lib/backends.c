/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backends.c - all others before null: null reaches everything and moves nothing, so
 * a request gets it only when the others are disabled or the request names it.
 */
#include "lib/backends.h"

const struct backend *const all_backends[] = {
	&shm_backend,
	&file_backend,
	&rdma_backend,
	&tcp_backend,
	&nvlink_backend,
	&null_backend,
	NULL
};
