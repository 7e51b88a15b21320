/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interpose.h - how this library takes the place of libc's functions. Whatever is marked
 * INTERPOSE is seen by the program instead of libc's function of that name; NEXT(name) is
 * libc's.
 *
 * A file that defines such functions undefines _FORTIFY_SOURCE before it includes
 * anything: the fortified headers define some of them inline.
 */
#ifndef TENT_SIM_HCA_INTERPOSE_H
#define TENT_SIM_HCA_INTERPOSE_H

#define INTERPOSE __attribute__((visibility("default"), used))

/* The next definition of name behind ours; kept in *cache. Never NULL for a name that
 * libc has. */
void *interpose_next(void **cache, const char *name);

#define NEXT(name)							\
	({ static void *next_; (__typeof__(&name))interpose_next(&next_, #name); })

#endif /* TENT_SIM_HCA_INTERPOSE_H */
