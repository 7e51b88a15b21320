/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_api.c - finds the CUDA driver. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "gpu/cuda_api.h"

/* It stays loaded: it has threads, and handlers for the end of the program. */
bool cuda_api_load(struct cuda_api *api, const char *library, char *missing, size_t size)
{
	static const struct { const char *name; size_t offset; } functions[] = {
#define CUDA_PLACE(name, args) { #name, offsetof(struct cuda_api, name) },
		CUDA_FUNCTIONS(CUDA_PLACE)
#undef CUDA_PLACE
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
