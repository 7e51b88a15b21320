/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.c - applies settings from JSON, single keys, files and the environment.
 * Every source goes through assign(); a copy of the configuration takes the
 * changes and replaces the caller's only when all of them were good.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tent/tent.h>

#include "engine/config_table.h"

#define FILE_MAX (1u << 20)	/* no honest configuration is larger */
#define PATH_TEXT 160		/* longer than any key we know */
#define PREFIX_TEXT 256		/* of a file name, in messages */
#define VALUE_TEXT 96		/* of a refused value, in messages */
#define WARNINGS_FULL SIZE_MAX	/* the mark is there: no more after it */

/* One call that applies something. */
struct application {
	struct engine_config next;	/* takes the changes */
	uint8_t source;			/* enum config_source */
	bool seen[CONFIG_KEYS_MAX];	/* by key: one text sets a key once */
	struct config_report *report;
	size_t warned;			/* bytes of its warnings in use */
	struct contract_sections contracts; /* of the text that is visited */
};

/* Text from outside may end up on a terminal. */
static void scrub(char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text < 0x20 || (unsigned char)*text > 0x7e)
			*text = '?';
	}
}

__attribute__((format(printf, 2, 3)))
static int fail(struct application *a, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(a->report->error, sizeof(a->report->error), format, args);
	va_end(args);
	scrub(a->report->error);
	return TENT_ERR_CONFIG;
}

/* One line, or the mark that lines are missing; room for the mark is kept. */
static void warn(struct application *a, const char *name, const char *sentence)
{
	static const char mark[] = "...\n";
	size_t need = strlen(name) + strlen(sentence) + sizeof(" is not used: \n") - 1;
	char *at = a->report->warnings + a->warned;

	if (a->warned == WARNINGS_FULL)
		return;
	if (a->warned + need + sizeof(mark) > sizeof(a->report->warnings)) {
		memcpy(at, mark, sizeof(mark));
		a->warned = WARNINGS_FULL;
		return;
	}
	sprintf(at, "%s is not used: %s\n", name, sentence);
	a->warned += need;
}

/* A value as it was written, shortened: quoted when it is text. */
static void describe(char text[VALUE_TEXT], const char *from, const char *quote)
{
	int room = VALUE_TEXT - 8;

	snprintf(text, VALUE_TEXT, "%s%.*s%s%s", quote, room, from,
		 strlen(from) > (size_t)room ? "..." : "", quote);
}

static void describe_json(char text[VALUE_TEXT], const json_t *value)
{
	char *dump = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII);

	describe(text, dump ? dump : "?", "");
	free(dump);
}

static int refuse_value(struct application *a, const char *path,
			const struct config_key *k, const char *value)
{
	char allowed[160];

	config_allowed_text(k, allowed, sizeof(allowed));
	return fail(a, "%s is %s; allowed: %s", path, value, allowed);
}

static int refuse_unknown(struct application *a, const char *path)
{
	const struct config_key *guess = config_key_guess(path);

	if (guess)
		return fail(a, "\"%.*s\" is not a known key; did you mean \"%s\"?", PATH_TEXT,
			    path, guess->path);
	return fail(a, "\"%.*s\" is not a known key; tent.conf(5) lists them", PATH_TEXT,
		    path);
}

static int mark_set(struct application *a, const char *path, const struct config_key *k)
{
	unsigned int i = config_key_index(k);

	if (a->seen[i])
		return fail(a, "%s is set twice", path);
	a->seen[i] = true;
	a->next.sources[i] = a->source;
	return 0;
}

/* Programs give the existing engine host:port here, which it replaces by its own;
 * names with a colon are taken the same way. True: that is what happened. */
static bool is_replaced_name(struct application *a, const struct config_key *k,
			     const char *text)
{
	if (k->offset != offsetof(struct engine_config, segment_name) || !strchr(text, ':'))
		return false;
	warn(a, k->path, "a name with ':' is an address; the engine names the segment");
	return config_store_text(k, &a->next, "");
}

static int assign_json(struct application *a, const char *path,
		       const struct config_key *k, const json_t *value)
{
	char text[VALUE_TEXT];

	if ((json_is_string(value) && is_replaced_name(a, k, json_string_value(value))) ||
	    config_store_json(k, &a->next, value))
		return mark_set(a, path, k);
	describe_json(text, value);
	return refuse_value(a, path, k, text);
}

static int assign_text(struct application *a, const char *path,
		       const struct config_key *k, const char *value)
{
	char text[VALUE_TEXT];

	if (is_replaced_name(a, k, value) || config_store_text(k, &a->next, value))
		return mark_set(a, path, k);
	describe(text, value, "\"");
	return refuse_value(a, path, k, text);
}

static void warn_foreign(struct application *a, const char *path,
			 const struct config_foreign *f, const char *value)
{
	bool is_silent = f->silent && (strcasecmp(value, f->silent) == 0 ||
		(strcmp(value, "0") == 0 && strcmp(f->silent, "false") == 0) ||
		(strcmp(value, "1") == 0 && strcmp(f->silent, "true") == 0));

	if (!is_silent)
		warn(a, path, f->instead);
}

static void warn_foreign_json(struct application *a, const char *path,
			      const struct config_foreign *f, const json_t *value)
{
	char *dump;

	if (json_is_string(value)) {
		warn_foreign(a, path, f, json_string_value(value));
		return;
	}
	dump = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
	warn_foreign(a, path, f, dump ? dump : "?");
	free(dump);
}

static int visit(struct application *a, const char *path, const json_t *value);

/* Recursion ends with the table: only sections are descended into. */
static int visit_members(struct application *a, const char *prefix, const json_t *object)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)object, name, value) {
		char path[PATH_TEXT];
		int rc;

		if (strchr(name, '/'))
			return fail(a, "\"%s%.*s\" is not a known key; write it nested", prefix,
				    PATH_TEXT, name);
		snprintf(path, sizeof(path), "%s%s", prefix, name);
		rc = visit(a, path, value);
		if (rc)
			return rc;
	}
	return 0;
}

/* Sections that are read together, once all of the text was visited. */
static int remember_section(struct application *a, const char *path, const json_t *value)
{
	struct contract_sections *s = &a->contracts;
	const json_t **at = *path == 'p' ? &s->policy : *path == 'q' ? &s->qos :
			    *path == 'a' ? &s->authorization : &s->pools;

	if (*at)
		return fail(a, "%s is set twice", path);
	*at = value;
	return 0;
}

static int visit(struct application *a, const char *path, const json_t *value)
{
	const struct config_key *k = config_key_find(path);
	const struct config_foreign *f = config_foreign_find(path);
	bool is_section = config_is_section(path);
	char prefix[PATH_TEXT + 1], text[VALUE_TEXT];

	if (config_is_contract(path))
		return remember_section(a, path, value);
	if (k && !(is_section && json_is_object(value)))
		return assign_json(a, path, k, value);
	if (f) {
		warn_foreign_json(a, path, f, value);
		return 0;
	}
	if (!is_section)
		return refuse_unknown(a, path);
	if (!json_is_object(value)) {
		describe_json(text, value);
		return fail(a, "%s is %s; allowed: an object", path, text);
	}
	snprintf(prefix, sizeof(prefix), "%s/", path);
	return visit_members(a, prefix, value);
}

/* A text that has any of these sections replaces all of them. */
static int take_contracts(struct application *a)
{
	const struct contract_sections *s = &a->contracts;
	char error[sizeof(a->report->error)];

	if (!s->policy && !s->qos && !s->authorization)
		return 0;
	if (contract_config_read(&a->next.contracts, s, error, sizeof(error)))
		return fail(a, "%s", error);
	return 0;
}

/* What no single key can tell. */
static int check_whole(struct application *a)
{
	const struct engine_config *c = &a->next;

	if (c->caller_mode && c->nr_pollers != 1)
		return fail(a, "engine/pollers is %u; allowed: 1 in caller mode",
			    c->nr_pollers);
	for (int i = (int)c->nr_pollers; i < ENGINE_POLLERS_MAX; i++) {
		if (c->cores[i] >= 0)
			return fail(a, "engine/cores has a core for poller %d; allowed: "
				    "engine/pollers, %u, of them", i + 1, c->nr_pollers);
	}
	return 0;
}

static int visit_text(struct application *a, const char *json, size_t length)
{
	char text[VALUE_TEXT];
	json_error_t at;
	json_t *root;
	int rc;

	root = json_loadb(json, length, JSON_REJECT_DUPLICATES, &at);
	if (!root)
		return fail(a, "not valid JSON, line %d, column %d: %s", at.line, at.column,
			    at.text);
	if (json_is_object(root)) {
		rc = visit_members(a, "", root);
		rc = rc ? rc : take_contracts(a);
	} else {
		describe_json(text, root);
		rc = fail(a, "the configuration is %s; allowed: a JSON object", text);
	}
	json_decref(root);
	return rc ? rc : check_whole(a);
}

static int prefix_error(struct application *a, const char *prefix)
{
	char error[sizeof(a->report->error)];

	memcpy(error, a->report->error, sizeof(error));
	return fail(a, "%.*s: %s", PREFIX_TEXT, prefix, error);
}

/* Reads up to size bytes. The length, or -errno; -EFBIG when there are more. */
static ssize_t read_whole(const char *path, char *text, size_t size)
{
	size_t used = 0;
	ssize_t n;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	do {
		n = read(fd, text + used, size - used);
		used += n > 0 ? (size_t)n : 0;
	} while ((n > 0 && used < size) || (n < 0 && errno == EINTR));
	n = n < 0 ? -errno : used == size ? -EFBIG : (ssize_t)used;
	close(fd);
	return n;
}

static int visit_file(struct application *a, const char *path)
{
	char *text = malloc(FILE_MAX + 1);
	ssize_t length;
	int rc;

	if (!text)
		return fail(a, "%.*s: out of memory", PREFIX_TEXT, path);
	length = read_whole(path, text, FILE_MAX + 1);
	if (length < 0)
		rc = fail(a, "%.*s: cannot read: %s", PREFIX_TEXT, path,
			  strerror((int)-length));
	else if (visit_text(a, text, (size_t)length))
		rc = prefix_error(a, path);
	else
		rc = 0;
	free(text);
	return rc;
}

static void begin(struct application *a, const struct engine_config *c, uint8_t source,
		  struct config_report *report)
{
	*a = (struct application) { .next = *c, .source = source, .report = report };
	report->error[0] = report->warnings[0] = '\0';
}

static int finish(const struct application *a, struct engine_config *c, int rc)
{
	if (!rc)
		*c = a->next;
	return rc;
}

void engine_config_default(struct engine_config *c)
{
	const struct config_key *k;

	memset(c, 0, sizeof(*c));
	for (unsigned int i = 0; (k = config_key_at(i)); i++)
		config_store_text(k, c, k->initial); /* tests read each one back */
	contract_config_default(&c->contracts);
	c->host_any = c->port_any = true;
}

bool engine_config_is_set(const struct engine_config *c, const char *key)
{
	return c->sources[config_key_index(config_key_find(key))] != CONFIG_FROM_DEFAULT;
}

int engine_config_apply_json(struct engine_config *c, const char *json,
			     struct config_report *report)
{
	struct application a;

	begin(&a, c, CONFIG_FROM_JSON, report);
	return finish(&a, c, visit_text(&a, json, strlen(json)));
}

int engine_config_apply_file(struct engine_config *c, const char *path,
			     struct config_report *report)
{
	struct application a;

	begin(&a, c, CONFIG_FROM_JSON, report);
	return finish(&a, c, visit_file(&a, path));
}

static int visit_key(struct application *a, const char *key, const char *value)
{
	const struct config_key *k = config_key_find(key);
	const struct config_foreign *f = config_foreign_find(key);

	if (config_is_contract(key))
		return fail(a, "%.*s is no key that can be set alone; allowed: in JSON, with "
			    "policy, qos and authorization in one text", PATH_TEXT, key);
	if (k)
		return assign_text(a, k->path, k, value);
	if (!f)
		return refuse_unknown(a, key);
	warn_foreign(a, f->path[strlen(f->path) - 1] == '*' ? key : f->path, f, value);
	return 0;
}

int engine_config_apply_key(struct engine_config *c, const char *key, const char *value,
			    struct config_report *report)
{
	struct application a;

	begin(&a, c, CONFIG_FROM_KEY, report);
	return finish(&a, c, visit_key(&a, key, value));
}

/* Keys that identify the program: set one by one, they outlive MC_TENT_CONF. */
static void keep_identity(struct engine_config *next, const struct engine_config *old)
{
	static const char *const paths[] = {
		"engine", "local_segment_name", "rpc_server_hostname", "rpc_server_port",
		"metadata_type", "metadata_servers"
	};

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		const struct config_key *k = config_key_find(paths[i]);
		unsigned int index = config_key_index(k);
		char text[sizeof(old->metadata_servers)];

		if (old->sources[index] != CONFIG_FROM_KEY)
			continue;
		config_value_text(k, old, text, sizeof(text));
		config_store_text(k, next, text);
		next->sources[index] = CONFIG_FROM_KEY;
		if (k->offset == offsetof(struct engine_config, host))
			next->host_any = old->host_any;
		if (k->offset == offsetof(struct engine_config, port))
			next->port_any = old->port_any;
	}
}

static int visit_variable(struct application *a, const struct engine_config *old,
			  const char *conf)
{
	struct stat st;
	bool is_file = stat(conf, &st) == 0;

	engine_config_default(&a->next);
	a->next.contain_sigbus = old->contain_sigbus;
	a->next.daemon = old->daemon;
	a->next.metered = old->metered;
	if (is_file ? visit_file(a, conf) : visit_text(a, conf, strlen(conf)))
		return prefix_error(a, is_file ? "MC_TENT_CONF" :
				    "MC_TENT_CONF (no such file, so read as JSON)");
	keep_identity(&a->next, old);
	return check_whole(a);
}

/* Variables of the existing engine that have a key here go before whatever set it. */
static int visit_aliases(struct application *a)
{
	const struct config_alias *alias;
	int rc = 0;

	memset(a->seen, 0, sizeof(a->seen));	/* they are no part of its text */
	for (unsigned int i = 0; !rc && (alias = config_alias_at(i)); i++) {
		const char *value = getenv(alias->variable);

		if (!value || !*value)
			continue;
		if (assign_text(a, alias->path, config_key_find(alias->path), value))
			rc = prefix_error(a, alias->variable);
	}
	return rc;
}

int engine_config_apply_environment(struct engine_config *c, struct config_report *report)
{
	const char *conf = getenv("MC_TENT_CONF");
	const struct config_foreign *v;
	struct application a;
	int rc = 0;

	begin(&a, c, CONFIG_FROM_ENVIRONMENT, report);
	if (conf && *conf)
		rc = visit_variable(&a, c, conf);
	if (!rc)
		rc = visit_aliases(&a);
	for (unsigned int i = 0; !rc && (v = config_variable_at(i)); i++) {
		if (getenv(v->path))
			warn(&a, v->path, v->instead);
	}
	return finish(&a, c, rc);
}
