/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tentd_reload.c - reads the configuration again, the file and the options as at the
 * start. What is wrong is said once here, and to whoever asked; nothing has changed then.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/config_table.h"
#include "engine/engine.h"
#include "ring/clock.h"
#include "tools/tentd.h"

/* The control thread's: somebody asks. */
static void ask(void *context)
{
	const uint64_t one = 1;
	const struct tentd_reload *r = context;
	ssize_t n = write(r->fd, &one, sizeof(one));

	(void)n;	/* the counter is far from full */
}

int tentd_reload_open(struct tentd_reload *r, struct engine *e)
{
	*r = (struct tentd_reload){ .engine = e, .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
	if (r->fd < 0)
		return -errno;
	engine_on_reload(e, ask, r);
	return 0;
}

void tentd_reload_close(struct tentd_reload *r)
{
	close(r->fd);
}

/* Settings that only a new start changes: a line each, here and in later. */
static void note_later(const struct engine_config *old, const struct engine_config *new,
		       char *later, size_t size)
{
	const struct config_key *k;
	size_t used = 0;

	later[0] = '\0';
	for (unsigned int i = 0; (k = config_key_at(i)); i++) {
		char was[512], is[512];

		config_value_text(k, old, was, sizeof(was));
		config_value_text(k, new, is, sizeof(is));
		if (strcmp(was, is) == 0)
			continue;
		tentd_say("warning: %s has changed: that holds from the next start on", k->path);
		if (used < size)
			used += (size_t)snprintf(later + used, size - used, "%s\n", k->path);
	}
}

static void read_again(struct tentd_reload *r, const struct tentd_options *running)
{
	static struct tentd_options fresh;
	char later[1024];

	if (!running->file) {
		tentd_say("not reloaded: there is no file to read again");
		engine_refuse_reload(r->engine, "tentd was started without a file to read again "
				     "(-c)", r->asked);
		return;
	}
	if (tentd_options_read(&fresh, running->argc, running->argv)) {
		tentd_say("not reloaded: all is as it was");
		engine_refuse_reload(r->engine, fresh.error, r->asked);
		return;
	}
	note_later(&running->config, &fresh.config, later, sizeof(later));
	if (engine_reload(r->engine, &fresh.config, later, r->asked))
		tentd_say("not reloaded: out of memory");
	else
		tentd_say("reloaded %s", running->file);
}

/* The service manager is told of its own wishes only: it need not read what others'
 * wishes would fill its socket with, and the daemon would wait. */
void tentd_reload(struct tentd_reload *r, const struct tentd_options *running, bool by_signal)
{
	char state[64];
	uint64_t more;

	if (read(r->fd, &more, sizeof(more)) == sizeof(more))
		r->asked += more;
	snprintf(state, sizeof(state), "RELOADING=1\nMONOTONIC_USEC=%llu",
		 (unsigned long long)(clock_monotonic_ns() / 1000));
	if (by_signal)
		tentd_notify(state);
	read_again(r, running);
	if (by_signal)
		tentd_notify("READY=1");
}
