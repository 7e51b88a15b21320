/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tentd_options.c - the command line. The file is applied first, wherever it is
 * named, then the options from left to right. The environment has no say: who
 * starts a daemon need not be who configures it.
 */
#include <getopt.h>
#include <stdarg.h>
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
	"  -c, --config FILE     JSON configuration, see tent.conf(5)\n"
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

/* Says what is wrong, and keeps it for whoever asks later. */
__attribute__((format(printf, 3, 4)))
static enum tentd_exit fail(struct tentd_options *o, enum tentd_exit rc, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(o->error, sizeof(o->error), format, args);
	va_end(args);
	tentd_say("%s", o->error);
	return rc;
}

static enum tentd_exit judge(struct tentd_options *o, const struct config_report *r, int error)
{
	show_warnings(r->warnings);
	return error ? fail(o, TENTD_CONFIG, "%s", r->error) : TENTD_OK;
}

static enum tentd_exit apply_file(struct tentd_options *o, const char *path)
{
	struct config_report r;

	return judge(o, &r, engine_config_apply_file(&o->config, path, &r));
}

static enum tentd_exit apply_key(struct tentd_options *o, const char *key, const char *value)
{
	struct config_report r;

	return judge(o, &r, engine_config_apply_key(&o->config, key, value, &r));
}

static enum tentd_exit apply_pair(struct tentd_options *o, const char *pair)
{
	const char *equals = strchr(pair, '=');
	enum tentd_exit rc;
	char *key;

	if (!equals)
		return fail(o, TENTD_USAGE, "-o %s: expected KEY=VALUE", pair);
	key = strndup(pair, (size_t)(equals - pair));
	if (!key)
		return fail(o, TENTD_FAILED, "out of memory");
	rc = apply_key(o, key, equals + 1);
	free(key);
	return rc;
}

/* Settings that make sense in a program, but not in a daemon. */
static enum tentd_exit check_daemon(struct tentd_options *o)
{
	const struct engine_config *c = &o->config;

	if (c->caller_mode || c->attach_path[0])
		return fail(o, TENTD_CONFIG, "engine is %s%s; allowed in tentd: thread",
			    c->attach_path[0] ? "unix:" : "caller", c->attach_path);
	if (!c->shm_enable && !c->null_enable)
		return fail(o, TENTD_CONFIG, "transports/shm/enable is false; allowed: true, "
			    "with no other transport enabled");
	return TENTD_OK;
}

static enum tentd_exit apply_option(struct tentd_options *o, int option)
{
	switch (option) {
	case 's':
		return apply_key(o, "daemon/socket", optarg);
	case 'o':
		return apply_pair(o, optarg);
	case OPT_MODE:
		return apply_key(o, "engine/idle", optarg);
	case OPT_CHECK:
		o->check_only = true;
		return TENTD_OK;
	default:		/* 'c' is through; help and version ended before */
		return TENTD_OK;
	}
}

/* First pass: what needs no configuration, and where the file is. */
static enum tentd_exit read_first(struct tentd_options *o, int argc, char **argv)
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
			o->file = optarg;
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
	enum tentd_exit rc;
	int option;

	*o = (struct tentd_options) { .argc = argc, .argv = argv };
	engine_config_default(&o->config);
	optind = 0;	/* from the beginning */
	rc = read_first(o, argc, argv);
	if (rc || o->done)
		return rc;
	if (o->file)
		rc = apply_file(o, o->file);
	optind = 1;
	while (!rc && (option = getopt_long(argc, argv, short_options, long_options, NULL)) != -1)
		rc = apply_option(o, option);
	if (!rc)
		rc = check_daemon(o);
	o->config.contain_sigbus = o->config.daemon = true;
	o->config.metered = o->config.metrics_enable;
	return rc;
}
