/* SPDX-License-Identifier: Apache-2.0 */
/* tentctl.c - looks into a running tentd, as a client that owns no segment. */
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tent/ctl.h>
#include <tent/tentring.h>

#include "tools/tentctl.h"

static const char help[] =
	"usage: tentctl [-s SOCKET] [--json] COMMAND\n"
	"\n"
	"  clients               who is attached, and what each holds\n"
	"  segments              what can be opened, and by whom\n"
	"  peers                 engines on other hosts, called and calling\n"
	"  stats                 what the engine has done\n"
	"  nics                  network interfaces that the engine drives, and their load\n"
	"  reload                has tentd read its configuration again\n"
	"  top [OPTION]...       what each client does, a picture every interval\n"
	"  explain [OPTION]...   what tentd would do with one request\n"
	"  config check FILE     say whether a configuration is good\n"
	"  config keys           every key, what it takes, and its default\n"
	"\n"
	"  -s, --socket PATH     of tentd; default " TENTD_SOCKET_DEFAULT "\n"
	"      --json            one line of JSON instead of tables\n"
	"  -h, --help            this text\n"
	"  -V, --version         the version\n"
	"\n"
	"Options of explain: --opcode read|write, --intent NAME, --priority NAME,\n"
	"--length BYTES, --deadline-us N, --policy NAME, --transport NAME,\n"
	"--segment NAME.\n"
	"Options of top: --interval SECONDS, --count N.\n"
	"\n"
	"Exit status: 0 success, 1 refused (explain: would be) or a bad configuration,\n"
	"2 bad command line, 3 nobody answers at the socket.\n";

void tentctl_say(const char *format, ...)
{
	va_list args;

	fputs("tentctl: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
}

enum tentctl_exit tentctl_say_error(const struct tentctl_options *o)
{
	struct tent_error_info info = { .size = sizeof(info) };

	tent_client_error(&info);
	tentctl_say("%s", info.message);
	if (info.error != TENT_ERR_ENGINE_LOST)
		return TENTCTL_FAILED;
	tentctl_say("is tentd running? Start it (systemctl start tentd, or tentd -s %s), or name "
		    "its socket with -s", o->socket);
	return TENTCTL_NO_TENTD;
}

static enum tentctl_exit query(const struct tentctl_options *o, uint32_t what)
{
	struct tent_client *client;
	enum tentctl_exit rc;
	char *json;

	if (tent_client_observe(o->socket, &client))
		return tentctl_say_error(o);
	if (tent_client_query(client, what, &json)) {
		rc = tentctl_say_error(o);
	} else {
		rc = tentctl_print(o, json);
		free(json);
	}
	tent_client_detach(client);
	return rc;
}

static const struct command {
	const char *name;
	uint32_t what;		/* enum tent_query, or 0: run */
	enum tentctl_exit (*run)(const struct tentctl_options *o, int argc, char **argv);
} commands[] = {
	{ "clients", TENT_QUERY_CLIENTS, NULL },
	{ "segments", TENT_QUERY_SEGMENTS, NULL },
	{ "peers", TENT_QUERY_PEERS, NULL },
	{ "stats", TENT_QUERY_STATS, NULL },
	{ "nics", TENT_QUERY_NICS, NULL },
	{ "reload", TENT_QUERY_RELOAD, NULL },
	{ "top", 0, tentctl_top },
	{ "explain", 0, tentctl_explain },
	{ "config", 0, tentctl_config },
};

static enum tentctl_exit usage_hint(void)
{
	fputs("try: tentctl --help\n", stderr);
	return TENTCTL_USAGE;
}

static enum tentctl_exit run_command(const struct tentctl_options *o, int argc, char **argv)
{
	if (argc == 0) {
		tentctl_say("no command");
		return usage_hint();
	}
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		const struct command *c = &commands[i];

		if (strcmp(c->name, argv[0]) != 0)
			continue;
		if (c->run)
			return c->run(o, argc, argv);
		if (argc == 1)
			return query(o, c->what);
		tentctl_say("%s takes no argument, not %s", c->name, argv[1]);
		return usage_hint();
	}
	tentctl_say("%s: unknown command", argv[0]);
	return usage_hint();
}

int main(int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "socket", required_argument, NULL, 's' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 }
	};
	struct tentctl_options o = { .socket = TENTD_SOCKET_DEFAULT };
	int option;

	/* '+': what follows the command is the command's */
	while ((option = getopt_long(argc, argv, "+s:hV", long_options, NULL)) != -1) {
		switch (option) {
		case 's':
			o.socket = optarg;
			break;
		case 'j':
			o.json = true;
			break;
		case 'h':
			fputs(help, stdout);
			return TENTCTL_OK;
		case 'V':
			puts("tentctl " TENT_VERSION);
			return TENTCTL_OK;
		default:
			return usage_hint();
		}
	}
	/* --json is as good behind the command's name */
	if (optind + 1 < argc && strcmp(argv[argc - 1], "--json") == 0) {
		o.json = true;
		argc--;
	}
	return run_command(&o, argc - optind, argv + optind);
}
