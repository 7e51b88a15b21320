/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tentd.h - the daemon's parts. tentd_options.c: command line and file to a
 * configuration; tentd_notify.c: the service manager; tentd_advice.c: what the
 * machine will not give; tentd_reload.c: the configuration, read again; tentd.c: the
 * daemon's life.
 */
#ifndef TENT_TOOLS_TENTD_H
#define TENT_TOOLS_TENTD_H

#include "engine/config.h"

struct engine;

/* Exit statuses, documented in tentd(8). The service manager shall not restart
 * after the last two: nothing would change. */
enum tentd_exit {
	TENTD_OK = 0,
	TENTD_FAILED = 1,	/* could not start */
	TENTD_USAGE = 2,	/* bad command line */
	TENTD_CONFIG = 78	/* bad configuration (EX_CONFIG) */
};

struct tentd_options {
	struct engine_config config;	/* what the file and the options came to */
	int argc;			/* the command line itself */
	char **argv;
	const char *file;		/* the last -c, or NULL */
	char error[1024];		/* the last thing that was wrong with it */
	bool check_only;
	bool done;			/* --help or --version was all */
};

/* Reads the command line and the file it names; says on stderr what is wrong. May be
 * repeated. */
enum tentd_exit tentd_options_read(struct tentd_options *o, int argc, char **argv);

/* The configuration, read again because of a signal or because somebody asks: fd is
 * readable then. */
struct tentd_reload {
	struct engine *engine;
	int fd;
	uint64_t asked;		/* how often, so far */
};
int tentd_reload_open(struct tentd_reload *r, struct engine *e);
void tentd_reload_close(struct tentd_reload *r);	/* the engine is gone */
void tentd_reload(struct tentd_reload *r, const struct tentd_options *running, bool by_signal);

/* Tells the service manager ("READY=1"), if there is one. 0 or -errno. */
int tentd_notify(const char *state);

/* Warns on stderr, once each, about what will make this daemon slow or refuse. */
void tentd_advise(const struct engine_config *c);

/* "tentd: " and a line on stderr. */
__attribute__((format(printf, 1, 2)))
void tentd_say(const char *format, ...);

#endif /* TENT_TOOLS_TENTD_H */
