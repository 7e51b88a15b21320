/* SPDX-License-Identifier: Apache-2.0 */
/* words.h - the names of enum values, as configurations and answers spell them. */
#ifndef TENT_ENGINE_WORDS_H
#define TENT_ENGINE_WORDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum word_kind { WORD_OPCODE, WORD_INTENT, WORD_PRIORITY, WORD_TRANSPORT, WORD_PERMISSION };

/* The name of a value; NULL where there is none. */
const char *word_name(enum word_kind kind, int64_t value);
/* The same as JSON; the number as text where there is none. */
json_t *word_json(enum word_kind kind, int64_t value);
/* The value that a name stands for. False: none. */
bool word_find(enum word_kind kind, const char *text, int32_t *value);
/* The same, in any case. */
bool word_find_loosely(enum word_kind kind, const char *text, int32_t *value);

#endif /* TENT_ENGINE_WORDS_H */
