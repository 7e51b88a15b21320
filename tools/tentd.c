/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tentd.c - the daemon's life: read the configuration, start the engine, listen,
 * say so, wait for a signal, end cleanly. All work is the engine's.
 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/engine.h"
#include "io/backends.h"
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

/* Blocks what ends us, in every thread the engine will start, and returns a
 * descriptor that reads it; -errno. */
static int open_signals(void)
{
	sigset_t ends;
	int fd;

	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGHUP);	/* its terminal went away */
	signal(SIGPIPE, SIG_IGN);	/* a client that left is -EPIPE, no more */
	if (sigprocmask(SIG_BLOCK, &ends, NULL) < 0)
		return -errno;
	fd = signalfd(-1, &ends, SFD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Returns the signal that came. */
static int await_signal(int fd)
{
	struct signalfd_siginfo info;

	while (read(fd, &info, sizeof(info)) != (ssize_t)sizeof(info)) {
		if (errno != EINTR)
			return -errno;
	}
	return (int)info.ssi_signo;
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

static void serve(int signals, const char *path)
{
	int signal_number;

	tentd_say("ready at %s", path);
	notify("READY=1");
	signal_number = await_signal(signals);
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

static enum tentd_exit run(const struct engine_config *c)
{
	struct metrics *metrics = NULL;
	struct engine *e;
	enum tentd_exit rc;
	char error[512];
	int signals = open_signals();

	if (signals < 0) {
		tentd_say("cannot take signals: %s", strerror(-signals));
		return TENTD_FAILED;
	}
	raise_file_limit();
	tentd_advise(c);
	if (engine_create(&e, c, io_backends, error, sizeof(error))) {
		tentd_say("cannot start: %s", error);
		close(signals);
		return TENTD_FAILED;
	}
	say_notices(engine_notices(e));
	rc = start_listening(e, c->socket_path);
	if (rc == TENTD_OK)
		rc = start_metrics(&metrics, e, c);
	if (rc == TENTD_OK)
		serve(signals, c->socket_path);
	metrics_stop(metrics);
	engine_destroy(e);	/* removes the socket file while it is still ours */
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
	return run(&o.config);
}
