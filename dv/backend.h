/* SPDX-License-Identifier: Apache-2.0 */
/* backend.h - the transport that goes by a ConnectX. */
#ifndef TENT_DV_BACKEND_H
#define TENT_DV_BACKEND_H

#include "engine/backend.h"

/* Memory of other engines, where both have a device: dv/rdma.c. */
extern const struct backend rdma_backend;

#endif /* TENT_DV_BACKEND_H */
