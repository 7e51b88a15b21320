/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sim/hca/tool/tool.h"

#define MAX_HOSTS 64
#define MAX_WORDS 24
#define NETNS_FOLDER "/var/run/netns"
#define PREFIX "tent-sim-"	/* PREFIX PID - NUMBER; 0 is the switch */
#define SUBNET "10.77.0."
#define SUBNET6 "fd77::"
#define GRACE_S 2		/* between asking the others to end and killing them */

static const char help[] =
	"usage: tent-sim hosts N [OPTION...] -- CMD [ARGUMENT...]\n"
	"       tent-sim hosts N\n"
	"\n"
	"Makes N hosts, which are network namespaces on one switch (MTU 9000), runs CMD in each\n"
	"with the OPTIONs of tent-sim, and takes them down again when all have ended; if one\n"
	"fails, the others are ended. Without CMD it says what the hosts are called, for\n"
	"\"ip netns exec\", and keeps them until it is interrupted. Needs root. CMD sees\n"
	"\n"
	"  TENT_SIM_HOST       which host it is, from 1    TENT_SIM_HOSTS  how many there are\n"
	"  TENT_SIM_ADDRESS    its IPv4 address            TENT_SIM_ADDRESS_1, _2..  of all\n";

/* ---- ip(8) and names --------------------------------------------------------- */

/* Runs a command given as words between single spaces. True: it succeeded. */
__attribute__((format(printf, 1, 2))) static bool run(const char *format, ...)
{
	char line[256], *words[MAX_WORDS], *rest = line;
	int nr = 0, status;
	va_list args;
	pid_t pid;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	while (nr < MAX_WORDS - 1 && (words[nr] = strsep(&rest, " ")))
		nr++;
	words[nr] = NULL;
	pid = fork();
	if (!pid) {
		execvp(words[0], words);
		_exit(tool_fail(127, "%s: %m", words[0]));
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
	       !WEXITSTATUS(status);
}

struct name {
	char text[40];
};

static struct name host_name(pid_t owner, int number)
{
	struct name n;

	snprintf(n.text, sizeof(n.text), PREFIX "%d-%d", owner, number);
	return n;
}

/* ---- taking down ------------------------------------------------------------- */

/* To all that still runs in a namespace, its holder as well; returns how many. */
static int signal_inside(const char *name, int signal)
{
	char command[128], line[32];
	FILE *pids;
	int nr = 0;

	snprintf(command, sizeof(command), "ip netns pids %s 2> /dev/null", name);
	pids = popen(command, "re");
	if (!pids)
		return 0;
	while (fgets(line, sizeof(line), pids)) {
		pid_t pid = (pid_t)tool_number(strtok(line, "\n"), INT32_MAX);

		if (pid > 1 && !kill(pid, signal))
			nr++;
	}
	pclose(pids);
	return nr;
}

/* A holder that is asked to end takes its files along. */
static void end_inside(const char *name)
{
	struct timespec pause = { .tv_nsec = 10000000 };

	signal_inside(name, SIGTERM);
	for (int i = 0; i < 50 && signal_inside(name, 0); i++)
		nanosleep(&pause, NULL);
	signal_inside(name, SIGKILL);
}

static void remove_host(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), NETNS_FOLDER "/%s", name);
	if (access(path, F_OK))
		return;
	end_inside(name);
	run("ip netns del %s", name);
}

static void remove_hosts(pid_t owner, int nr)
{
	for (int i = 0; i <= nr; i++)
		remove_host(host_name(owner, i).text);
}

static bool is_alive(int pid)
{
	char path[32], exe[8];

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	return readlink(path, exe, sizeof(exe)) > 0;	/* a zombie has none */
}

/* What a tent-sim that was killed has left. */
static void clean_up(void)
{
	DIR *d = opendir(NETNS_FOLDER);
	struct dirent *e;

	if (!d)
		return;
	while ((e = readdir(d))) {
		int owner, number, end = 0;

		if (sscanf(e->d_name, PREFIX "%d-%d%n", &owner, &number, &end) == 2 &&
		    !e->d_name[end] && owner > 1 && !is_alive(owner))
			remove_host(e->d_name);
	}
	closedir(d);
}

/* ---- making ------------------------------------------------------------------ */

static bool make_switch(const char *name)
{
	return run("ip netns add %s", name) &&
	       run("ip -n %s link add name switch type bridge", name) &&
	       run("ip -n %s link set switch mtu 9000 up", name);
}

/* No link-local addresses and no duplicate detection: the GIDs are there at once, and the
 * same each time. */
static bool make_host(const char *name, const char *bridge, int i)
{
	return run("ip netns add %s", name) &&
	       run("ip link add eth0 netns %s mtu 9000 type veth peer name to%d netns %s mtu 9000",
		   name, i, bridge) &&
	       run("ip -n %s link set eth0 addrgenmode none", name) &&
	       run("ip -n %s link set to%d master switch up", bridge, i) &&
	       run("ip -n %s link set lo up", name) && run("ip -n %s link set eth0 up", name) &&
	       run("ip -n %s addr add " SUBNET "%d/24 dev eth0", name, i) &&
	       run("ip -n %s addr add " SUBNET6 "%x/64 dev eth0 nodad", name, i);
}

static int make_hosts(pid_t owner, int nr)
{
	struct name bridge = host_name(owner, 0);
	bool is_made = make_switch(bridge.text);

	for (int i = 1; i <= nr && is_made; i++)
		is_made = make_host(host_name(owner, i).text, bridge.text, i);
	return is_made ? 0 : tool_fail(1, "the hosts could not be made");
}

/* ---- running ----------------------------------------------------------------- */

static void set_number(const char *name, int value)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", value);
	setenv(name, text, 1);
}

static void set_addresses(int i, int nr)
{
	char name[32], address[32];

	set_number(TOOL_ENV_HOST, i);
	set_number(TOOL_ENV_HOSTS, nr);
	for (int k = 1; k <= nr; k++) {
		snprintf(name, sizeof(name), TOOL_ENV_ADDRESS "_%d", k);
		snprintf(address, sizeof(address), SUBNET "%d", k);
		setenv(name, address, 1);
		if (k == i)
			setenv(TOOL_ENV_ADDRESS, address, 1);
	}
}

/* ip netns exec NAME tent-sim ARGUMENT... */
static void become_host(pid_t owner, int i, int nr, int argc, char **argv,
			const sigset_t *signals)
{
	struct name name = host_name(owner, i);
	char **words = calloc((size_t)argc + 6, sizeof(*words)), self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (!words || n < 0)
		_exit(tool_fail(1, "%m"));
	self[n] = '\0';
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigprocmask(SIG_UNBLOCK, signals, NULL);
	set_addresses(i, nr);
	memcpy(words, (char *[]){ "ip", "netns", "exec", name.text, self }, 5 * sizeof(*words));
	memcpy(words + 5, argv, (size_t)argc * sizeof(*words));
	execvp(words[0], words);
	_exit(tool_fail(127, "ip: %m"));
}

struct team {
	pid_t pids[MAX_HOSTS + 1];
	int nr, alive;
	int status;		/* of the first that failed */
	bool is_ending;
};

static void tell_all(struct team *t, int signal)
{
	for (int i = 1; i <= t->nr; i++)
		if (t->pids[i])
			kill(t->pids[i], signal);
	t->is_ending = true;
}

static void reap(struct team *t)
{
	int status, code;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
		for (int i = 1; i <= t->nr; i++)
			if (t->pids[i] == pid) {
				t->pids[i] = 0;
				t->alive--;
			}
		if (code && !t->status)
			t->status = code;
		if (code && !t->is_ending)
			tell_all(t, SIGTERM);
	}
}

/* Until all have ended; returns the status to exit with. */
static int wait_for(struct team *t, const sigset_t *signals)
{
	struct timespec grace = { .tv_sec = GRACE_S };

	while (t->alive) {
		int s = t->is_ending ? sigtimedwait(signals, NULL, &grace) :
				       sigwaitinfo(signals, NULL);

		if (s == SIGCHLD) {
			reap(t);
		} else if (s > 0) {
			t->status = t->status ? t->status : 128 + s;
			tell_all(t, SIGTERM);
		} else if (errno == EAGAIN) {
			tell_all(t, SIGKILL);
		}
	}
	return t->status;
}

static int run_hosts(pid_t owner, int nr, int argc, char **argv, const sigset_t *signals)
{
	struct team t = { .nr = nr };

	for (int i = 1; i <= nr; i++) {
		t.pids[i] = fork();
		if (!t.pids[i])
			become_host(owner, i, nr, argc, argv, signals);
		if (t.pids[i] > 0)
			t.alive++;
	}
	return wait_for(&t, signals);
}

static int keep_hosts(pid_t owner, int nr, const sigset_t *signals)
{
	for (int i = 1; i <= nr; i++)
		printf("%s " SUBNET "%d\n", host_name(owner, i).text, i);
	fflush(stdout);
	while (sigwaitinfo(signals, NULL) == SIGCHLD)
		;
	return 0;
}

static void block_signals(sigset_t *signals)
{
	sigemptyset(signals);
	sigaddset(signals, SIGCHLD);
	sigaddset(signals, SIGINT);
	sigaddset(signals, SIGTERM);
	sigaddset(signals, SIGHUP);
	sigaddset(signals, SIGQUIT);
	sigprocmask(SIG_BLOCK, signals, NULL);
}

int tool_hosts(int argc, char **argv)
{
	uint32_t nr = argc ? tool_number(argv[0], MAX_HOSTS) : 0;
	sigset_t signals;
	int rc;

	if (argc && (!strcmp(argv[0], "--help") || !strcmp(argv[0], "-h"))) {
		fputs(help, stdout);
		return 0;
	}
	if (!nr)
		return tool_fail(EXIT_USAGE, "hosts %s: how many, from 1 to %d",
				 argc ? argv[0] : "", MAX_HOSTS);
	if (geteuid())
		return tool_fail(1, "hosts: network namespaces are made by root only");
	block_signals(&signals);
	clean_up();
	rc = make_hosts(getpid(), (int)nr);
	if (!rc)
		rc = argc > 1 ? run_hosts(getpid(), (int)nr, argc - 1, argv + 1, &signals) :
				keep_hosts(getpid(), (int)nr, &signals);
	remove_hosts(getpid(), (int)nr);
	return rc;
}
