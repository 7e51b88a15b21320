/* SPDX-License-Identifier: Apache-2.0 */
/* directory_entry.h - what a name is published as: JSON with the address of its engine. */
#ifndef TENT_ENGINE_DIRECTORY_ENTRY_H
#define TENT_ENGINE_DIRECTORY_ENTRY_H

#include <tent/ctl.h>

#include "engine/directory_server.h"
#include "engine/segment_name.h"

/* False: the name is too long. */
bool entry_key(const char *text, char key[KEY_SIZE]);

/* The value for a name whose segment is text at the engine's address, "" for the engine
 * itself. False: no memory. */
bool entry_write(const char *name, const struct engine_address *engine, const char *text,
		 uint64_t epoch, char value[VALUE_SIZE]);

/* The full name of the segment in a value, "host:port" or "host:port/text". False: there
 * is none. */
bool entry_segment(const char *value, char segment[TENT_CTL_NAME_SIZE]);

#endif /* TENT_ENGINE_DIRECTORY_ENTRY_H */
