/* SPDX-License-Identifier: Apache-2.0 */
/* tentd.c - see tentd.h. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/common/tentd.h"

static void check(int good, const char *what)
{
	if (good)
		return;
	perror(what);
	abort();
}

void tentd_prepare(struct tentd *t)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	memset(t, 0, sizeof(*t));
	t->program.status = 0;
	strcpy(t->folder, "/tmp/tent-test-XXXXXX");
	check(mkdtemp(t->folder) != NULL, "mkdtemp");
	check(chmod(t->folder, 0755) == 0, "chmod");
	snprintf(t->socket, sizeof(t->socket), "%s/tentd.sock", t->folder);
	snprintf(t->notify_path, sizeof(t->notify_path), "%s/notify", t->folder);
	t->notify = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	check(t->notify >= 0, "socket");
	strcpy(a.sun_path, t->notify_path);
	check(bind(t->notify, (struct sockaddr *)&a, sizeof(a)) == 0, "bind");
}

void tentd_configure(struct tentd *t, const char *json)
{
	FILE *f;

	snprintf(t->config, sizeof(t->config), "%s/tentd.json", t->folder);
	f = fopen(t->config, "we");
	check(f && fputs(json, f) >= 0 && fclose(f) == 0, t->config);
}

void tentd_start(struct tentd *t, const char *const *args)
{
	const char *argv[PROGRAM_ARGS_MAX + 1];
	char env[128], old[256], path[4096];
	int nr = 0;

	for (const char *const *o = t->sim; o && *o; o++)
		argv[nr++] = *o;
	if (t->sim) {
		program_path(path, "tools/tentd");
		argv[nr++] = path;
		/* The runtime comes with what tent-sim preloads, not before it. */
		setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 0);
	}
	argv[nr++] = "--socket";
	argv[nr++] = t->socket;
	while (recv(t->notify, old, sizeof(old), MSG_DONTWAIT) >= 0)
		;	/* what an earlier tentd said */
	if (t->config[0]) {
		argv[nr++] = "--config";
		argv[nr++] = t->config;
	}
	while (args && *args && nr < PROGRAM_ARGS_MAX)
		argv[nr++] = *args++;
	snprintf(env, sizeof(env), "NOTIFY_SOCKET=%s", t->notify_path);
	argv[nr] = NULL;
	program_start(&t->program, t->sim ? "tent-sim" : "tools/tentd", argv, env, 0);
}

const char *tentd_message(struct tentd *t)
{
	struct pollfd p[2] = { { .fd = t->notify, .events = POLLIN },
			       { .fd = t->program.pidfd, .events = POLLIN } };
	static char text[256];
	ssize_t length;

	while (poll(p, 2, -1) < 0)
		check(errno == EINTR, "poll");
	length = recv(t->notify, text, sizeof(text) - 1, MSG_DONTWAIT);
	text[length < 0 ? 0 : length] = '\0';
	return text;
}

void tentd_start_ready(struct tentd *t, const char *const *args)
{
	const char *message;

	tentd_start(t, args);
	message = tentd_message(t);
	if (strcmp(message, "READY=1") == 0)
		return;
	fprintf(stderr, "tentd said \"%s\" to the service manager, not READY=1\n%s", message,
		program_errors(&t->program));
	abort();
}

int tentd_end(struct tentd *t, int signal_number)
{
	int status;

	kill(t->program.pid, signal_number);
	status = program_wait(&t->program);
	if (signal_number == SIGTERM && status != 0)
		fprintf(stderr, "tentd ended with status %#x\n%s", (unsigned int)status,
			program_errors(&t->program));
	return status;
}

void tentd_cleanup(struct tentd *t)
{
	char command[96];

	if (t->program.status < 0)
		tentd_end(t, SIGKILL);
	close(t->notify);
	snprintf(command, sizeof(command), "rm -rf %s", t->folder);
	check(system(command) == 0, t->folder);
}
