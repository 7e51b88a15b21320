/* SPDX-License-Identifier: Apache-2.0 */
/* complain.h - one line on stderr for a tent call that failed. */
#ifndef TENT_PERF_COMPLAIN_H
#define TENT_PERF_COMPLAIN_H

/* Of the C API: what, then tent_last_error()'s sentence. Always -1. */
int complain(const char *what);

/* Of libtentring: the same with tent_client_error(). Always -1. */
int complain_ring(const char *what);

#endif /* TENT_PERF_COMPLAIN_H */
