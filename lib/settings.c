/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.c - what tent_set_config() and tent_load_config_from_file() collected on
 * this thread, and how it becomes the configuration of an engine: the file, then the
 * keys, then the environment, whose MC_TENT_CONF replaces both, and TENT_ENGINE last.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/lib.h"

struct setting {
	struct setting *next;
	char *value;		/* points behind key */
	char key[];
};

static __thread struct setting *settings;	/* in the order they were made */
static __thread char *config_file;
static __thread bool out_of_memory;		/* a setting was lost: refuse to start */

/* Takes the setting of a key out of the list; a later one replaces it. */
static void forget(const char *key)
{
	for (struct setting **at = &settings; *at; at = &(*at)->next) {
		struct setting *s = *at;

		if (strcmp(s->key, key))
			continue;
		*at = s->next;
		free(s);
		return;
	}
}

void tent_set_config(const char *key, const char *value)
{
	struct setting **end = &settings, *s;
	size_t key_size, value_size;

	if (!key || !value) {
		lib_fail_null(key ? "value" : "key");
		return;
	}
	if (lib_thread_watch()) {
		out_of_memory = true;
		return;
	}
	key_size = strlen(key) + 1;
	value_size = strlen(value) + 1;
	s = malloc(sizeof(*s) + key_size + value_size);
	if (!s) {
		out_of_memory = true;
		return;
	}
	forget(key);
	s->next = NULL;
	s->value = memcpy(s->key + key_size, value, value_size);
	memcpy(s->key, key, key_size);
	while (*end)
		end = &(*end)->next;
	*end = s;
}

void tent_load_config_from_file(const char *path)
{
	char *copy;

	if (!path) {
		lib_fail_null("path");
		return;
	}
	copy = lib_thread_watch() ? NULL : strdup(path);
	if (!copy) {
		out_of_memory = true;
		return;
	}
	free(config_file);
	config_file = copy;
}

void lib_settings_free(void)
{
	while (settings)
		forget(settings->key);
	free(config_file);
	config_file = NULL;
}

static struct warned {				/* pool lock */
	struct warned *next;
	char line[];
} *warned;

/* True the first time a line comes. Without memory it may come twice. */
static bool is_new_warning(const char *line, size_t length)
{
	struct warned *w;

	for (w = warned; w; w = w->next)
		if (strlen(w->line) == length && !memcmp(w->line, line, length))
			return false;
	w = malloc(sizeof(*w) + length + 1);
	if (!w)
		return true;
	memcpy(w->line, line, length);
	w->line[length] = 0;
	w->next = warned;
	warned = w;
	return true;
}

void lib_warn(const char *warnings)
{
	lib_pool_lock();
	while (*warnings) {
		size_t length = strcspn(warnings, "\n");

		if (length && is_new_warning(warnings, length))
			fprintf(stderr, "tent: %.*s\n", (int)length, warnings);
		warnings += length + (warnings[length] == '\n');
	}
	lib_pool_unlock();
}

static int judge(const struct config_report *r, int error)
{
	lib_warn(r->warnings);
	if (!error)
		return 0;
	return lib_fail_text(error, TENT_RULE_CONFIG, "config", "%s", r->error);
}

static int apply_key(struct engine_config *c, struct config_report *r, const char *key,
		     const char *value)
{
	return judge(r, engine_config_apply_key(c, key, value, r));
}

static void warn_of_daemons_keys(const struct engine_config *c)
{
	if (c->metrics_enable && engine_config_is_set(c, "metrics/enabled"))
		lib_warn("metrics/enabled is not used: a program serves no metrics by HTTP; "
			 "tentd does");
}

int lib_settings_resolve(struct engine_config *c)
{
	const char *engine = getenv("TENT_ENGINE");
	struct config_report r;
	int rc = 0;

	memset(c, 0, sizeof(*c));
	engine_config_default(c);
	if (out_of_memory)
		return lib_fail_text(TENT_ERR_CONFIG, TENT_RULE_CONFIG, "config",
				     "a setting was lost: out of memory");
	if (config_file)
		rc = judge(&r, engine_config_apply_file(c, config_file, &r));
	for (const struct setting *s = settings; s && !rc; s = s->next)
		rc = apply_key(c, &r, s->key, s->value);
	if (!rc)
		rc = judge(&r, engine_config_apply_environment(c, &r));
	if (!rc && engine && *engine)
		rc = apply_key(c, &r, "engine", engine);
	if (!rc)
		warn_of_daemons_keys(c);
	return rc;
}
