/* SPDX-License-Identifier: Apache-2.0 */
/* daemon.c - starts, awaits and stops a private tentd. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "perf/common/daemon.h"
#include "perf/common/machine.h"

#define WAIT_STEPS 1000		/* of 10 ms */
#define WORDS_MAX 16		/* of a command */

int daemon_program_path(const char *name, char *path, size_t size)
{
	char self[256];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n <= 0)
		return 0;
	self[n] = '\0';
	for (int up = 0; up < 2; up++) {	/* BUILD/perf/program -> BUILD */
		char *slash = strrchr(self, '/');

		if (!slash)
			return 0;
		*slash = '\0';
	}
	snprintf(path, size, "%s/%s", self, name);
	return 1;
}

/* Path of a program that was built beside this one ("tools/tentd"); false when it is
 * not there. */
static bool find_program(const char *name, char *path, size_t size)
{
	return daemon_program_path(name, path, size) && access(path, X_OK) == 0;
}

static bool accepts(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	bool ok;

	if (fd < 0)
		return false;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	ok = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
	close(fd);
	return ok;
}

static void print_log(const struct daemon *d)
{
	char path[128], line[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/log", d->folder);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		fputs(line, stderr);
	if (f)
		fclose(f);
}

static int write_config(const struct daemon *d, const char *config)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/tentd.json", d->folder);
	f = fopen(path, "we");
	if (!f)
		return -errno;
	fprintf(f, "{ \"daemon\": { \"socket\": \"%s\" }%s%s }\n", d->socket,
		*config ? ", " : "", config);
	return fclose(f) ? -errno : 0;
}

struct command {
	char program[320], tent_sim[320];
	const char *const *sim;	/* options of tent_sim; NULL: not by it */
};

static void exec_command(const struct command *c, char *config)
{
	char *words[WORDS_MAX + 5];
	int nr = 0;

	if (c->sim)
		words[nr++] = (char *)(uintptr_t)c->tent_sim;
	for (int i = 0; c->sim && c->sim[i] && nr < WORDS_MAX; i++)
		words[nr++] = (char *)(uintptr_t)c->sim[i];
	words[nr++] = (char *)(uintptr_t)c->program;
	words[nr++] = (char *)(uintptr_t)"--config";
	words[nr++] = config;
	words[nr] = NULL;
	execv(words[0], words);
	fprintf(stderr, "exec %s: %s\n", words[0], strerror(errno));
}

/* In the child: becomes tentd, or ends with 127. */
static void become_daemon(const struct daemon *d, const struct command *c)
{
	char config[128], log[128];
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	machine_unpin();
	snprintf(config, sizeof(config), "%s/tentd.json", d->folder);
	snprintf(log, sizeof(log), "%s/log", d->folder);
	fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
		_exit(127);
	exec_command(c, config);
	_exit(127);
}

static int await(struct daemon *d)
{
	static const struct timespec step = { .tv_nsec = 10000000 };
	int status;

	for (int i = 0; i < WAIT_STEPS; i++) {
		if (accepts(d->socket))
			return 0;
		if (waitpid(d->pid, &status, WNOHANG) == d->pid) {
			d->pid = 0;
			return -ECHILD;
		}
		nanosleep(&step, NULL);
	}
	return -ETIMEDOUT;
}

static int fail(struct daemon *d, const char *what, int error)
{
	fprintf(stderr, "tentd: %s: %s\n", what, strerror(-error));
	if (*d->folder)
		print_log(d);
	daemon_stop(d);
	return -1;
}

/* In TMPDIR, where the path of the socket in it is not too long for one. */
static int make_folder(struct daemon *d)
{
	static const char name[] = "tent-perf-XXXXXX";
	const char *tmp = getenv("TMPDIR");

	if (!tmp || strlen(tmp) + sizeof("/") + sizeof(name) > sizeof(d->folder))
		tmp = "/tmp";
	snprintf(d->folder, sizeof(d->folder), "%s/%s", tmp, name);
	if (mkdtemp(d->folder))
		return 0;
	d->folder[0] = '\0';
	return -errno;
}

int daemon_start_on(struct daemon *d, const char *config, const char *const *sim)
{
	struct command c = { .sim = sim };
	int rc;

	*d = (struct daemon) { 0 };
	if (!find_program("tools/tentd", c.program, sizeof(c.program)))
		return fail(d, "build/tools/tentd is not built", -ENOENT);
	if (sim && !find_program("tent-sim", c.tent_sim, sizeof(c.tent_sim)))
		return fail(d, "build/tent-sim is not built", -ENOENT);
	rc = make_folder(d);
	if (rc)
		return fail(d, "temporary folder", rc);
	snprintf(d->socket, sizeof(d->socket), "%s/sock", d->folder);
	snprintf(d->url, sizeof(d->url), "unix:%s", d->socket);
	rc = write_config(d, config);
	if (rc)
		return fail(d, "config file", rc);
	d->pid = fork();
	if (d->pid < 0)
		return fail(d, "fork", -errno);
	if (d->pid == 0)
		become_daemon(d, &c);
	rc = await(d);
	return rc ? fail(d, "it does not accept clients", rc) : 0;
}

int daemon_start(struct daemon *d, const char *config)
{
	return daemon_start_on(d, config, NULL);
}

static void remove_folder(const struct daemon *d)
{
	static const char *const names[] = { "tentd.json", "log", "sock" };
	char path[128];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		snprintf(path, sizeof(path), "%s/%s", d->folder, names[i]);
		unlink(path);
	}
	rmdir(d->folder);
}

int daemon_stop(struct daemon *d)
{
	int status = 0;

	if (d->pid > 0) {
		kill(d->pid, SIGTERM);
		while (waitpid(d->pid, &status, 0) < 0 && errno == EINTR)
			;
	}
	if (*d->folder)
		remove_folder(d);
	*d = (struct daemon) { 0 };
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
