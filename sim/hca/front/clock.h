/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock.h - the page from which libmlx5 learns what the ticks in completions mean.
 */
#ifndef TENT_SIM_HCA_CLOCK_H
#define TENT_SIM_HCA_CLOCK_H

/* Writes the page into a device's file. 0, or -1 and errno. */
int clock_write(int fd);

#endif /* TENT_SIM_HCA_CLOCK_H */
