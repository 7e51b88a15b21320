/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tool.h - tent-sim's commands. Each takes the arguments behind its name and returns what
 * the program exits with: 2 for a mistake of the user's.
 */
#ifndef TENT_SIM_HCA_TOOL_H
#define TENT_SIM_HCA_TOOL_H

#include "sim/hca/host/protocol.h"

#define EXIT_USAGE 2

/* Environment of what runs on the devices. */
#define TOOL_ENV_DOORBELL "TENT_SIM_DOORBELL"	/* "poll" or "trap" */
#define TOOL_ENV_TRACE "TENT_SIM_TRACE"	/* a file */
#define TOOL_ENV_GPUS "TENT_SIM_GPUS"		/* how many; sim/cuda reads it */
#define TOOL_ENV_HOST "TENT_SIM_HOST"		/* number of the host, from 1 */
#define TOOL_ENV_HOSTS "TENT_SIM_HOSTS"		/* how many there are */
#define TOOL_ENV_ADDRESS "TENT_SIM_ADDRESS"	/* this host's; with _N behind: host N's */

int tool_run(int argc, char **argv);	/* [OPTION...] CMD... */
int tool_hosts(int argc, char **argv);	/* N [--] CMD... */
int tool_ctl(int argc, char **argv);	/* [DEVICE] show|set ... */

/* "tent-sim: " and the text on stderr; returns status. */
int tool_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A number from 1 to max, or 0. */
uint32_t tool_number(const char *text, uint32_t max);
/* The index of "mlx5_1" or "1", HOST_ALL_DEVICES for "all"; false if it is no such name. */
bool tool_device(const char *name, uint32_t *out);

/* Connects to this namespace's holder, and starts one if there is none. 0, or what to exit
 * with after it has said why. */
int tool_attach(struct host **out, const struct holder_config *c);

#endif /* TENT_SIM_HCA_TOOL_H */
