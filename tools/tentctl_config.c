/* SPDX-License-Identifier: Apache-2.0 */
/* tentctl_config.c - judges a configuration file with the engine's own code. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "engine/config_table.h"
#include "tools/tentctl.h"

static json_t *warning_list(const char *warnings)
{
	json_t *list = json_array();

	while (*warnings) {
		size_t length = strcspn(warnings, "\n");

		json_array_append_new(list, json_stringn(warnings, length));
		warnings += length + (warnings[length] == '\n');
	}
	return list;
}

/* What the file changed. */
static json_t *changed_list(const struct engine_config *c)
{
	const struct config_key *k;
	json_t *list = json_array();

	for (unsigned int i = 0; (k = config_key_at(i)); i++) {
		char text[512];

		if (c->sources[i] == CONFIG_FROM_DEFAULT)
			continue;
		config_value_text(k, c, text, sizeof(text));
		json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "key", k->path, "value",
						      text, "default", k->initial));
	}
	return list;
}

/* What it has beside keys; names are not repeated. */
static json_t *contracts_json(const struct contract_config *c)
{
	return json_pack("{s:i, s:b, s:i}", "policies", (int)c->nr_policies,
			 "qos", c->has_qos, "tenants", (int)c->nr_tenants);
}

static enum tentctl_exit print_owned(const struct tentctl_options *o, json_t *root)
{
	char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
	enum tentctl_exit rc = TENTCTL_FAILED;

	if (text)
		rc = tentctl_print(o, text);
	else
		tentctl_say("out of memory");
	free(text);
	json_decref(root);
	return rc;
}

static enum tentctl_exit check(const struct tentctl_options *o, const char *path)
{
	struct config_report r;
	struct engine_config c;
	enum tentctl_exit rc;
	int bad;

	engine_config_default(&c);
	bad = engine_config_apply_file(&c, path, &r);
	if (bad && !o->json) {
		fputs(r.warnings, stderr);
		tentctl_say("%s", r.error);
		return TENTCTL_FAILED;
	}
	rc = print_owned(o, json_pack("{s:s, s:b, s:s*, s:o, s:o, s:o}", "file", path, "good",
				      !bad, "error", bad ? r.error : NULL, "contracts",
				      contracts_json(&c.contracts), "warnings",
				      warning_list(r.warnings), "set", changed_list(&c)));
	return rc ? rc : bad ? TENTCTL_FAILED : TENTCTL_OK;
}

static enum tentctl_exit keys(const struct tentctl_options *o)
{
	const struct config_key *k;
	json_t *list = json_array();

	for (unsigned int i = 0; (k = config_key_at(i)); i++) {
		char allowed[256];

		config_allowed_text(k, allowed, sizeof(allowed));
		json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}", "key", k->path,
						      "default", k->initial, "allowed", allowed,
						      "meaning", k->meaning));
	}
	return print_owned(o, list);
}

enum tentctl_exit tentctl_config(const struct tentctl_options *o, int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "check") == 0)
		return check(o, argv[2]);
	if (argc == 2 && strcmp(argv[1], "keys") == 0)
		return keys(o);
	tentctl_say("expected: config check FILE, or config keys");
	return TENTCTL_USAGE;
}
