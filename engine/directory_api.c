/* SPDX-License-Identifier: Apache-2.0 */
/* directory_api.c - finds libcurl and hiredis. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "engine/directory_api.h"

struct place {
	const char *name;
	size_t offset;		/* in the table */
};

/* It stays loaded: it has handlers for the ends of threads and of the program. */
static bool load(void *table, const char *library, const struct place *places, size_t nr,
		 char *missing, size_t size)
{
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL), *found = handle;

	for (size_t i = 0; found && i < nr; i++) {
		found = dlsym(handle, places[i].name);
		memcpy((char *)table + places[i].offset, &found, sizeof(found));
	}
	if (!found)
		snprintf(missing, size, "%s", dlerror());
	return found;
}

bool curl_api_load(struct curl_api *api, const char *library, char *missing, size_t size)
{
	static const struct place places[] = {
#define CURL_PLACE(result, name, args) { #name, offsetof(struct curl_api, name) },
		CURL_FUNCTIONS(CURL_PLACE)
#undef CURL_PLACE
	};

	return load(api, library, places, sizeof(places) / sizeof(places[0]), missing, size);
}

bool hiredis_api_load(struct hiredis_api *api, const char *library, char *missing, size_t size)
{
	static const struct place places[] = {
#define HIREDIS_PLACE(result, name, args) { #name, offsetof(struct hiredis_api, name) },
		HIREDIS_FUNCTIONS(HIREDIS_PLACE)
#undef HIREDIS_PLACE
	};

	return load(api, library, places, sizeof(places) / sizeof(places[0]), missing, size);
}
