/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tentd_options.c - the command line. The file is applied first, wherever it is
 * named, then the options from left to right. The environment has no say: who
 * starts a daemon need not be who configures it.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tentd.h"

enum { OPT_MODE = 256, OPT_CHECK };

static const char short_options[] = "c:s:o:hV";
static const struct option long_options[] = {
	{ "config", required_argument, NULL, 'c' },
	{ "socket", required_argument, NULL, 's' },
	{ "set", required_argument, NULL, 'o' },
	{ "mode", required_argument, NULL, OPT_MODE },
	{ "check-config", no_argument, NULL, OPT_CHECK },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 }
};

static const char help[] =
	"usage: tentd [-c FILE] [-s SOCKET] [-o KEY=VALUE]... [--mode busy|adaptive]\n"
	"\n"
	"Moves data between the programs of this host through shared-memory rings.\n"
	"Runs in the foreground until SIGTERM or SIGINT.\n"
	"\n"
	"  -c, --config FILE     JSON configuration, see tent-config(5)\n"
	"  -s, --socket PATH     where clients attach; same as -o daemon/socket=PATH\n"
	"  -o, --set KEY=VALUE   one key, after the file; may be repeated\n"
	"      --mode MODE       busy or adaptive; same as -o engine/idle=MODE\n"
	"      --check-config    say whether the configuration is good, and exit\n"
	"  -h, --help            this text\n"
	"  -V, --version         the version\n"
	"\n"
	"Exit status: 0 ended cleanly, 1 could not start, 2 bad command line,\n"
	"78 bad configuration.\n";

static void show_warnings(const char *warnings)
{
	while (*warnings) {
		int length = (int)strcspn(warnings, "\n");

		tentd_say("warning: %.*s", length, warnings);
		warnings += length + (warnings[length] == '\n');
	}
}

static enum tentd_exit judge(const struct config_report *r, int error)
{
	show_warnings(r->warnings);
	if (!error)
		return TENTD_OK;
	tentd_say("%s", r->error);
	return TENTD_CONFIG;
}

static enum tentd_exit apply_file(struct engine_config *c, const char *path)
{
	struct config_report r;

	return judge(&r, engine_config_apply_file(c, path, &r));
}

static enum tentd_exit apply_key(struct engine_config *c, const char *key, const char *value)
{
	struct config_report r;

	return judge(&r, engine_config_apply_key(c, key, value, &r));
}

static enum tentd_exit apply_pair(struct engine_config *c, const char *pair)
{
	const char *equals = strchr(pair, '=');
	enum tentd_exit rc;
	char *key;

	if (!equals) {
		tentd_say("-o %s: expected KEY=VALUE", pair);
		return TENTD_USAGE;
	}
	key = strndup(pair, (size_t)(equals - pair));
	if (!key) {
		tentd_say("out of memory");
		return TENTD_FAILED;
	}
	rc = apply_key(c, key, equals + 1);
	free(key);
	return rc;
}

/* Settings that make sense in a program, but not in a daemon. */
static enum tentd_exit check_daemon(const struct engine_config *c)
{
	if (c->caller_mode || c->attach_path[0]) {
		tentd_say("engine is %s%s; allowed in tentd: thread",
			  c->attach_path[0] ? "unix:" : "caller", c->attach_path);
		return TENTD_CONFIG;
	}
	if (!c->shm_enable && !c->null_enable) {
		tentd_say("transports/shm/enable is false; allowed: true, with no other "
			  "transport enabled");
		return TENTD_CONFIG;
	}
	return TENTD_OK;
}

static enum tentd_exit apply_option(struct tentd_options *o, int option)
{
	switch (option) {
	case 's':
		return apply_key(&o->config, "daemon/socket", optarg);
	case 'o':
		return apply_pair(&o->config, optarg);
	case OPT_MODE:
		return apply_key(&o->config, "engine/idle", optarg);
	case OPT_CHECK:
		o->check_only = true;
		return TENTD_OK;
	default:		/* 'c' is through; help and version ended before */
		return TENTD_OK;
	}
}

/* First pass: what needs no configuration, and where the file is. */
static enum tentd_exit read_first(struct tentd_options *o, int argc, char **argv,
				  const char **file)
{
	int option;

	while ((option = getopt_long(argc, argv, short_options, long_options, NULL)) != -1) {
		switch (option) {
		case 'h':
			fputs(help, stdout);
			o->done = true;
			return TENTD_OK;
		case 'V':
			puts("tentd " TENT_VERSION);
			o->done = true;
			return TENTD_OK;
		case 'c':
			*file = optarg;
			break;
		case '?':
			fputs("try: tentd --help\n", stderr);
			return TENTD_USAGE;
		}
	}
	if (optind < argc) {
		tentd_say("%s: unexpected argument", argv[optind]);
		return TENTD_USAGE;
	}
	return TENTD_OK;
}

enum tentd_exit tentd_options_read(struct tentd_options *o, int argc, char **argv)
{
	const char *file = NULL;
	enum tentd_exit rc;
	int option;

	*o = (struct tentd_options) { .done = false };
	engine_config_default(&o->config);
	rc = read_first(o, argc, argv, &file);
	if (rc || o->done)
		return rc;
	if (file)
		rc = apply_file(&o->config, file);
	optind = 1;
	while (!rc && (option = getopt_long(argc, argv, short_options, long_options, NULL)) != -1)
		rc = apply_option(o, option);
	if (!rc)
		rc = check_daemon(&o->config);
	o->config.contain_sigbus = o->config.daemon = true;
	o->config.metered = o->config.metrics_enable;
	return rc;
}
