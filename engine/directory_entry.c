/* SPDX-License-Identifier: Apache-2.0 */
/* directory_entry.c - see directory_entry.h. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/directory_entry.h"
#include "engine/frame.h"

#define ENTRY_VERSION 1

bool entry_key(const char *text, char key[KEY_SIZE])
{
	int n = snprintf(key, KEY_SIZE, KEY_PREFIX "%s", text);

	return n > 0 && (unsigned int)n < KEY_SIZE;
}

bool entry_write(const char *name, const struct engine_address *engine, const char *text,
		 uint64_t epoch, char value[VALUE_SIZE])
{
	char address[ADDRESS_SIZE], full[TENT_CTL_NAME_SIZE], *dump = NULL;
	json_t *root;
	bool good;

	engine_address_print(engine, address);
	if (!segment_name_print(engine, text, full, sizeof(full)))
		return false;
	root = json_pack("{s:i,s:s,s:s,s:s,s:o}", "version", ENTRY_VERSION, "name", name,
			 "rpc_server_addr", address, "segment", full, "epoch",
			 frame_hex(epoch));
	dump = root ? json_dumps(root, JSON_COMPACT) : NULL;
	good = dump && strlen(dump) < VALUE_SIZE;
	if (good)
		strcpy(value, dump);
	free(dump);
	json_decref(root);
	return good;
}

/* rpc_server_addr alone is what the existing engine publishes: the engine itself. */
bool entry_segment(const char *value, char segment[TENT_CTL_NAME_SIZE])
{
	json_t *root = json_loads(value, JSON_REJECT_DUPLICATES, NULL);
	const char *text = json_string_value(json_object_get(root, "segment"));
	struct segment_name n;
	bool good;

	if (!text)
		text = json_string_value(json_object_get(root, "rpc_server_addr"));
	good = text && strlen(text) < TENT_CTL_NAME_SIZE && !segment_name_read(text, &n) &&
	       n.form == SEGMENT_ADDRESS;
	if (good)
		strcpy(segment, text);
	json_decref(root);
	return good;
}
