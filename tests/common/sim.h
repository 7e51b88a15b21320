/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim.h - a test program that runs again, as a child, on software ConnectX devices: once for
 * each way of building them, in a network namespace of its own where that is permitted.
 */
#ifndef TENT_TESTS_SIM_H
#define TENT_TESTS_SIM_H

#include <stdbool.h>
#include <stdint.h>

/* Options of tent-sim, as one text with blanks; the list ends with NULL. Returns only in
 * the children; ends the parent with the first status that is not 0. */
void sim_main(char **argv, const char *const *options);

/* Options of this run; has it this one? */
bool sim_has(const char *option);

/* tent-sim ctl set ...: a fault, or what ends it. */
__attribute__((format(printf, 1, 2)))
void sim_set(const char *format, ...);
/* The same of one device, not of all. */
__attribute__((format(printf, 2, 3)))
void sim_set_device(int device, const char *format, ...);
/* What all devices here have on its way as of now. */
uint64_t sim_bytes_in_flight(void);

#endif /* TENT_TESTS_SIM_H */
