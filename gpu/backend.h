/* SPDX-License-Identifier: Apache-2.0 */
/* backend.h - the transport that goes by copies of GPUs. */
#ifndef TENT_GPU_BACKEND_H
#define TENT_GPU_BACKEND_H

#include "engine/backend.h"

/* Between GPUs of this process, and between them and memory of the host: gpu/nvlink.c. */
extern const struct backend nvlink_backend;

#endif /* TENT_GPU_BACKEND_H */
