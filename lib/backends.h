/* SPDX-License-Identifier: Apache-2.0 */
/* backends.h - the transports of this build, for whoever creates an engine. */
#ifndef TENT_LIB_BACKENDS_H
#define TENT_LIB_BACKENDS_H

#include "dv/backend.h"
#include "gpu/backend.h"
#include "io/backends.h"

/* NULL-terminated, in the order plan prefers them. The config decides which of
 * them an engine opens. */
extern const struct backend *const all_backends[];

#endif /* TENT_LIB_BACKENDS_H */
