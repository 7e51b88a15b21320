/* SPDX-License-Identifier: Apache-2.0 */
/* calls.h - the calls as functions, which the library exports. */
#ifndef TENT_SIM_CUDA_CALLS_H
#define TENT_SIM_CUDA_CALLS_H

#include "sim/cuda/driver.h"

#define CU_DECLARE(name, args) __attribute__((visibility("default"))) cu_result name args;
CU_CALLS(CU_DECLARE)
#undef CU_DECLARE

#endif /* TENT_SIM_CUDA_CALLS_H */
