/* SPDX-License-Identifier: Apache-2.0 */
/* config_reader.h - what config_policy.c, config_qos.c and config_authorization.c share:
 * objects whose members a table knows, and refusals that name their path. */
#ifndef TENT_ENGINE_CONFIG_READER_H
#define TENT_ENGINE_CONFIG_READER_H

#include "engine/config_contract.h"

#define READER_PATH 192		/* of a value in the JSON, in messages */

struct reader {
	struct contract_config *c;
	char *error;		/* "" until something is refused */
	size_t size;
};

/* A member that an object may have; read() refuses or stores into target. */
struct reader_field {
	const char *name;
	bool (*read)(struct reader *r, const char *path, const json_t *value, void *target);
};

/* All of these return false. */
bool reader_refuse(struct reader *r, const char *path, const json_t *value,
		   const char *allowed);
/* The same for a value that shall not be shown. */
bool reader_refuse_hidden(struct reader *r, const char *path, const char *what,
			  const char *allowed);
bool reader_refuse_type(struct reader *r, const char *path, const json_t *value,
			const char *allowed);

/* An object, each of whose members is in the table. */
bool reader_object(struct reader *r, const char *path, const json_t *value,
		   const struct reader_field *fields, size_t nr, void *target);
/* An array of up to max values, each of which read() takes. */
bool reader_array(struct reader *r, const char *path, const json_t *value, size_t max,
		  bool (*read)(struct reader *r, const char *path, const json_t *value,
			       void *target), void *target);

bool reader_bool(struct reader *r, const char *path, const json_t *value, bool *b);
bool reader_integer(struct reader *r, const char *path, const json_t *value, uint64_t min,
		    uint64_t max, uint64_t *n);
/* 1..63 of [A-Za-z0-9._:/-], as requests can say it. */
bool reader_name(struct reader *r, const char *path, const json_t *value,
		 char name[CONTRACT_NAME_SIZE]);
/* The same, without spaces around it and in lower case; "" is "default". */
bool reader_tenant_name(struct reader *r, const char *path, const json_t *value,
			char name[CONTRACT_NAME_SIZE]);
/* "high", "medium" or "low", in any case. */
bool reader_priority(struct reader *r, const char *path, const json_t *value,
		     uint8_t *priority);
/* One of several words, which stand for 0, 1, ... */
bool reader_choice(struct reader *r, const char *path, const json_t *value,
		   const char *const *words, uint8_t *choice);
/* The name of a transport that a request could be moved by. */
bool reader_transport(struct reader *r, const char *path, const json_t *value,
		      uint8_t *transport);

bool reader_policies(struct reader *r, const json_t *value);
bool reader_pools(struct reader *r, const json_t *value);
bool reader_qos(struct reader *r, const json_t *value);
bool reader_authorization(struct reader *r, const json_t *value);

#endif /* TENT_ENGINE_CONFIG_READER_H */
