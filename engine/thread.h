/* SPDX-License-Identifier: Apache-2.0 */
/* thread.h - starts the threads of an engine and its backends. */
#ifndef TENT_ENGINE_THREAD_H
#define TENT_ENGINE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* Starts a thread that takes no signal of the program's. attr NULL: the usual. 0 or
 * -errno. */
int thread_start(pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *arg),
		 void *arg);

/* The same for one that needs little stack; detached: nobody joins it. */
int thread_start_small(pthread_t *thread, bool detached, void *(*body)(void *arg), void *arg);

#endif /* TENT_ENGINE_THREAD_H */
