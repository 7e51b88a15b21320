/* SPDX-License-Identifier: Apache-2.0 */
/* config_json.h - the JSON that sets one key. */
#ifndef TENT_TESTS_CONFIG_JSON_H
#define TENT_TESTS_CONFIG_JSON_H

#include <stddef.h>

/* {"a":{"b":value}} for the path a/b. */
void nest(char *json, size_t size, const char *path, const char *value);

#endif /* TENT_TESTS_CONFIG_JSON_H */
