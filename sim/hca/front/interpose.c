/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "sim/hca/front/interpose.h"

#include <dlfcn.h>

void *interpose_next(void **cache, const char *name)
{
	void *next = __atomic_load_n(cache, __ATOMIC_RELAXED);

	if (!next) {
		next = dlsym(RTLD_NEXT, name);
		__atomic_store_n(cache, next, __ATOMIC_RELAXED);
	}
	return next;
}
