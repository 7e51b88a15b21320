/* SPDX-License-Identifier: Apache-2.0 */
/* sim.c - see sim.h. Whatever goes wrong here is the test's own fault. */
#define _GNU_SOURCE
#include <net/if.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/common/sim.h"

#define OPTIONS "TENT_TEST_SIM"	/* what this run was started with */
#define ARGS_MAX 16

static void check(bool good, const char *what)
{
	if (good)
		return;
	perror(what);
	abort();
}

/* $build/tent-sim, where $build/tests/ holds the running test. */
static const char *tool(void)
{
	static char path[4096];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 16);

	check(length > 0, "readlink");
	path[length] = '\0';
	for (int up = 0; up < 2; up++)
		*strrchr(path, '/') = '\0';
	strcat(path, "/tent-sim");
	check(access(path, X_OK) == 0, path);
	return path;
}

/* Another test's devices are on another host then. */
static void move_out(void)
{
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int fd;

	if (unshare(CLONE_NEWNET) < 0)
		return;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	check(fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &lo) == 0, "lo");
	close(fd);
}

static void run_as(char **argv, const char *options)
{
	char *args[2 * ARGS_MAX] = { (char *)(uintptr_t)tool() }, *words = strdup(options);
	int nr = 1;

	setenv(OPTIONS, options, 1);
	/* The runtime comes with what tent-sim preloads, not before it. */
	setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 0);
	for (char *w = strtok(words, " "); w && nr < ARGS_MAX; w = strtok(NULL, " "))
		args[nr++] = w;
	while (*argv && nr < 2 * ARGS_MAX - 1)
		args[nr++] = *argv++;
	move_out();
	execv(args[0], args);
	_exit(127);
}

static int run(char **argv, const char *options)
{
	pid_t pid = fork();
	int status;

	check(pid >= 0, "fork");
	if (pid == 0)
		run_as(argv, options);
	check(waitpid(pid, &status, 0) == pid, "waitpid");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void sim_main(char **argv, const char *const *options)
{
	if (getenv(OPTIONS))
		return;
	for (; *options; options++) {
		int status;

		fprintf(stderr, "# tent-sim %s\n", *options);
		status = run(argv, *options);
		if (status)
			exit(status);
	}
	exit(0);
}

bool sim_has(const char *option)
{
	return strstr(getenv(OPTIONS), option) != NULL;
}

static void set(const char *device, const char *format, va_list args)
{
	char command[4352], what[128];

	vsnprintf(what, sizeof(what), format, args);
	snprintf(command, sizeof(command), "%s ctl %s set %s", tool(), device, what);
	check(system(command) == 0, command);
}

void sim_set(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	set("", format, args);
	va_end(args);
}

void sim_set_device(int device, const char *format, ...)
{
	char name[16];
	va_list args;

	snprintf(name, sizeof(name), "%d", device);
	va_start(args, format);
	set(name, format, args);
	va_end(args);
}

uint64_t sim_bytes_in_flight(void)
{
	char command[4352], line[256];
	unsigned long long bytes;
	uint64_t sum = 0;
	FILE *from;

	snprintf(command, sizeof(command), "%s ctl show", tool());
	from = popen(command, "re");
	check(from != NULL, command);
	while (fgets(line, sizeof(line), from))
		if (sscanf(line, " bytes_in_flight %llu", &bytes) == 1)
			sum += bytes;
	check(pclose(from) == 0, command);
	return sum;
}
