/* SPDX-License-Identifier: Apache-2.0 */
/* thread.c - signals are the program's, our threads are not. */
#include <signal.h>

#include "engine/thread.h"

#define STACK_SMALL (256u * 1024)

/* All but SIGBUS: one that a thread raises by touching memory that is gone cannot wait;
 * blocked, it would kill the program before ring/sigbus.h saw it. */
int thread_start(pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *arg),
		 void *arg)
{
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(thread, attr, body, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -rc;
}

int thread_start_small(pthread_t *thread, bool detached, void *(*body)(void *arg), void *arg)
{
	pthread_attr_t attr;
	int rc = -pthread_attr_init(&attr);

	if (rc < 0)
		return rc;
	pthread_attr_setstacksize(&attr, STACK_SMALL);
	if (detached)
		pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	rc = thread_start(thread, &attr, body, arg);
	pthread_attr_destroy(&attr);
	return rc;
}
