/* SPDX-License-Identifier: Apache-2.0 */
/* backends.h - the transports that go by the kernel. */
#ifndef TENT_IO_BACKENDS_H
#define TENT_IO_BACKENDS_H

#include "engine/backend.h"

/* Same-host memory: io/shm.c. */
extern const struct backend shm_backend;
/* Memory and regular files: io/file.c. */
extern const struct backend file_backend;
/* Memory of other engines: io/tcp.c. */
extern const struct backend tcp_backend;

#endif /* TENT_IO_BACKENDS_H */
