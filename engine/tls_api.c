/* SPDX-License-Identifier: Apache-2.0 */
/* tls_api.c - finds OpenSSL. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "engine/tls_api.h"

static struct tls_api the_api;	/* constant once the_once is over, like the next two */
static bool is_there;
static char what_lacks[192];
static pthread_once_t the_once = PTHREAD_ONCE_INIT;

/* It stays loaded: it has handlers for the ends of threads and of the program. */
bool tls_api_load(struct tls_api *api, const char *library, char *missing, size_t size)
{
	static const struct { const char *name; size_t offset; } functions[] = {
#define TLS_PLACE(result, name, args) { #name, offsetof(struct tls_api, name) },
		TLS_FUNCTIONS(TLS_PLACE)
#undef TLS_PLACE
	};
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL), *found = handle;

	for (size_t i = 0; found && i < sizeof(functions) / sizeof(functions[0]); i++) {
		found = dlsym(handle, functions[i].name);
		memcpy((char *)api + functions[i].offset, &found, sizeof(found));
	}
	if (!found)
		snprintf(missing, size, "%s", dlerror());
	return found;
}

static void load(void)
{
	is_there = tls_api_load(&the_api, TLS_LIBRARY, what_lacks, sizeof(what_lacks));
}

const struct tls_api *tls_api_get(const char **missing)
{
	pthread_once(&the_once, load);
	*missing = what_lacks;
	return is_there ? &the_api : NULL;
}
