/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tentd.c - the daemon's life: read the configuration, start the engine, listen,
 * say so, wait for a signal, end cleanly. All work is the engine's.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/engine.h"
#include "lib/backends.h"
#include "tools/tentd.h"
#include "tools/tentd_metrics.h"

void tentd_say(const char *format, ...)
{
	char line[2048];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	fprintf(stderr, "tentd: %s\n", line);
}

/* Blocks what is for us, in every thread the engine will start, and returns a
 * descriptor that reads it; -errno. */
static int open_signals(void)
{
	sigset_t ends;
	int fd;

	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGHUP);	/* reads its configuration again */
	signal(SIGPIPE, SIG_IGN);	/* a client that left is -EPIPE, no more */
	if (sigprocmask(SIG_BLOCK, &ends, NULL) < 0)
		return -errno;
	fd = signalfd(-1, &ends, SFD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Returns the signal that came, 0 when somebody asks for a reload, or -errno. */
static int await(int signals, const struct tentd_reload *r)
{
	struct pollfd p[] = { { .fd = signals, .events = POLLIN },
			      { .fd = r->fd, .events = POLLIN } };
	struct signalfd_siginfo info;

	while (poll(p, 2, -1) < 0)
		if (errno != EINTR)
			return -errno;
	if (!p[0].revents)
		return 0;
	return read(signals, &info, sizeof(info)) == (ssize_t)sizeof(info) ?
	       (int)info.ssi_signo : -errno;
}

/* Every client holds descriptors: take all that we may have. */
static void raise_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

/* The last folder of the socket's path, for everybody to enter. */
static enum tentd_exit make_folder(const char *socket_path)
{
	char folder[sizeof(((struct engine_config *)0)->socket_path)];
	char *slash;

	snprintf(folder, sizeof(folder), "%s", socket_path);
	slash = strrchr(folder, '/');
	if (slash == folder)
		return TENTD_OK;
	*slash = '\0';
	if (mkdir(folder, 0755) == 0 || errno == EEXIST)
		return TENTD_OK;
	tentd_say("mkdir of %s for daemon/socket failed: %s", folder, strerror(errno));
	return TENTD_FAILED;
}

static enum tentd_exit start_listening(struct engine *e, const char *path)
{
	enum tentd_exit made = make_folder(path);
	int rc;

	if (made)
		return made;
	rc = engine_listen(e, path);
	if (rc == 0)
		return TENTD_OK;
	if (rc == -EADDRINUSE)
		tentd_say("%s: another tentd serves this socket; stop it, or choose another "
			  "with -s", path);
	else
		tentd_say("cannot listen at %s: %s", path, strerror(-rc));
	return TENTD_FAILED;
}

static void notify(const char *state)
{
	int rc = tentd_notify(state);

	if (rc)
		tentd_say("warning: cannot tell the service manager %s: %s", state,
			  strerror(-rc));
}

static bool metrics_are_asked_for(const struct engine_config *c)
{
	return engine_config_is_set(c, "metrics/enabled") ||
	       engine_config_is_set(c, "metrics/http_host") ||
	       engine_config_is_set(c, "metrics/http_port");
}

/* What nobody asked for is not worth failing for. */
static enum tentd_exit start_metrics(struct metrics **m, struct engine *e,
				     const struct engine_config *c)
{
	char text[512];

	*m = NULL;
	if (!c->metrics_enable)
		return TENTD_OK;
	if (metrics_start(m, e, c, text, sizeof(text)) == 0) {
		metrics_address(*m, text);
		tentd_say("metrics at %s", text);
		return TENTD_OK;
	}
	if (metrics_are_asked_for(c)) {
		tentd_say("cannot serve metrics: %s", text);
		return TENTD_FAILED;
	}
	tentd_say("warning: metrics are not served: %s", text);
	return TENTD_OK;
}

static void serve(int signals, struct tentd_reload *r, const struct tentd_options *o)
{
	int signal_number;

	tentd_say("ready at %s", o->config.socket_path);
	notify("READY=1");
	while ((signal_number = await(signals, r)) == 0 || signal_number == SIGHUP)
		tentd_reload(r, o, signal_number == SIGHUP);
	tentd_say("%s: ending", signal_number > 0 ? strsignal(signal_number) :
		  strerror(-signal_number));
	notify("STOPPING=1");
}

/* What the engine found out about itself, a line at a time. */
static void say_notices(const char *notices)
{
	while (*notices) {
		int length = (int)strcspn(notices, "\n");

		tentd_say("%.*s", length, notices);
		notices += length + (notices[length] == '\n');
	}
}

static enum tentd_exit listen_and_serve(struct engine *e, struct tentd_reload *r, int signals,
					const struct tentd_options *o)
{
	struct metrics *metrics = NULL;
	enum tentd_exit rc = start_listening(e, o->config.socket_path);

	if (rc == TENTD_OK)
		rc = start_metrics(&metrics, e, &o->config);
	if (rc == TENTD_OK)
		serve(signals, r, o);
	metrics_stop(metrics);
	return rc;
}

static enum tentd_exit run(const struct tentd_options *o)
{
	const struct engine_config *c = &o->config;
	struct tentd_reload reload;
	struct engine *e;
	enum tentd_exit rc;
	char error[512];
	int signals = open_signals(), error_number;

	if (signals < 0) {
		tentd_say("cannot take signals: %s", strerror(-signals));
		return TENTD_FAILED;
	}
	raise_file_limit();
	tentd_advise(c);
	if (engine_create(&e, c, all_backends, error, sizeof(error))) {
		tentd_say("cannot start: %s", error);
		close(signals);
		return TENTD_FAILED;
	}
	say_notices(engine_notices(e));
	error_number = tentd_reload_open(&reload, e);
	if (error_number < 0) {
		tentd_say("no descriptor for reloads: %s", strerror(-error_number));
		rc = TENTD_FAILED;
	} else {
		rc = listen_and_serve(e, &reload, signals, o);
	}
	engine_destroy(e);	/* removes the socket file while it is still ours */
	if (error_number == 0)
		tentd_reload_close(&reload);
	close(signals);
	return rc;
}

int main(int argc, char **argv)
{
	static struct tentd_options o;
	enum tentd_exit rc;

	umask(022);
	rc = tentd_options_read(&o, argc, argv);
	if (rc || o.done)
		return rc;
	if (o.check_only) {
		puts("tentd: the configuration is good");
		return TENTD_OK;
	}
	return run(&o);
}
