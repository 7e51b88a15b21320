/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.h - one line of text for each WQE, packet and CQE, where TENT_SIM_TRACE in the
 * environment names a file.
 */
#ifndef TENT_SIM_HCA_TRACE_H
#define TENT_SIM_HCA_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#define TRACE_ENV "TENT_SIM_TRACE"

bool trace_is_on(void);
void trace_line(uint32_t device, const char *line);

#endif /* TENT_SIM_HCA_TRACE_H */
