/* SPDX-License-Identifier: Apache-2.0 */
/* backends.h - the transports of this build, for whoever creates an engine. */
#ifndef TENT_IO_BACKENDS_H
#define TENT_IO_BACKENDS_H

#include "engine/backend.h"

/* NULL-terminated, in the order plan prefers them. The config decides which of
 * them an engine opens. */
extern const struct backend *const io_backends[];

/* Same-host memory: io/shm.c. */
extern const struct backend shm_backend;
/* Memory and regular files: io/file.c. */
extern const struct backend file_backend;
/* Memory of other engines: io/rdma.c, where both have a device, and io/tcp.c. */
extern const struct backend rdma_backend;
extern const struct backend tcp_backend;

#endif /* TENT_IO_BACKENDS_H */
