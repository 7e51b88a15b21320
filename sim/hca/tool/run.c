/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/hca/host/tree.h"
#include "sim/hca/tool/tool.h"

#define MAX_FAULTS 64
#define LIBRARY "libtent-hca.so"
#define CUDA_FOLDER "sim/cuda"	/* it has a libcuda.so.1 */
#define MAX_GPUS 8		/* as that has it */
#define LEASE_FD 1000	/* or above: out of the way of programs that count theirs */

struct options {
	struct holder_config config;
	const char *doorbell, *trace;
	const char *faults[MAX_FAULTS];
	int nr_faults;
	uint32_t nr_gpus;	/* 0: what there is of CUDA stays */
	char **command;
};

static const char help[] =
	"usage: tent-sim [OPTION...] CMD [ARGUMENT...]\n"
	"       tent-sim hosts N [OPTION...] -- CMD [ARGUMENT...]\n"
	"       tent-sim ctl [DEVICE] show|set ...\n"
	"\n"
	"Runs CMD, and all that it starts, on software ConnectX devices. The devices belong to\n"
	"the network namespace and live as long as something that runs on them.\n"
	"\n"
	"  --devices N        how many: 1 to 8 (default 1)\n"
	"  --ports N          of each device: 1 or 2 (default 1)\n"
	"  --link roce|ib     Ethernet or InfiniBand (default roce)\n"
	"  --gpus N           and a stand-in for the CUDA driver, with so many GPUs: 1 to 8\n"
	"  --poll, --trap     how doorbells are seen: by a thread that looks, or by faults\n"
	"  --no-gso           one datagram for each packet, so that a capture shows them\n"
	"  --trace FILE       a line of text for each WQE, packet and CQE; - is stderr\n"
	"  --fault [DEVICE:]NAME=VALUE\n"
	"                     what goes wrong, see tent-sim ctl --help; may be given again\n"
	"  --help             this\n"
	"\n"
	"The n-th port is the n-th network interface with an address, or else 127.0.0.n.\n";

/* ---- options ----------------------------------------------------------------- */

static int number_option(const char *name, const char *value, uint32_t max, uint32_t *out)
{
	*out = tool_number(value, max);
	return *out ? 0 : tool_fail(EXIT_USAGE, "%s %s: a number from 1 to %u", name, value, max);
}

static int link_option(const char *value, uint32_t *out)
{
	*out = !strcmp(value, "roce") ? HOLDER_LINK_ROCE :
	       !strcmp(value, "ib")   ? HOLDER_LINK_IB :
					HOLDER_LINK_ANY;
	return *out ? 0 : tool_fail(EXIT_USAGE, "--link %s: roce or ib", value);
}

static int fault_option(struct options *o, const char *value)
{
	if (o->nr_faults == MAX_FAULTS)
		return tool_fail(EXIT_USAGE, "--fault %s: not more than %d", value, MAX_FAULTS);
	o->faults[o->nr_faults++] = value;
	return 0;
}

/* Those that stand alone; 1: it is not one. */
static int plain_option(struct options *o, const char *name)
{
	if (!strcmp(name, "--poll"))
		o->doorbell = "poll";
	else if (!strcmp(name, "--trap"))
		o->doorbell = "trap";
	else if (!strcmp(name, "--no-gso"))
		o->config.gso = HOLDER_GSO_OFF;
	else
		return 1;
	return 0;
}

static int value_option(struct options *o, const char *name, const char *value)
{
	if (!strcmp(name, "--devices"))
		return number_option(name, value, HOST_MAX_DEVICES, &o->config.nr_devices);
	if (!strcmp(name, "--ports"))
		return number_option(name, value, HOST_MAX_PORTS, &o->config.nr_ports);
	if (!strcmp(name, "--gpus"))
		return number_option(name, value, MAX_GPUS, &o->nr_gpus);
	if (!strcmp(name, "--link"))
		return link_option(value, &o->config.link);
	if (!strcmp(name, "--fault"))
		return fault_option(o, value);
	o->trace = value;
	return 0;
}

static bool takes_value(const char *name)
{
	static const char *const names[] = { "--devices", "--ports", "--gpus", "--link",
					     "--fault", "--trace" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

static int parse(struct options *o, char **argv)
{
	int rc = 0;

	for (; *argv && **argv == '-' && !rc; argv++) {
		if (!strcmp(*argv, "--")) {
			argv++;
			break;
		}
		if (takes_value(*argv)) {
			if (!argv[1])
				return tool_fail(EXIT_USAGE, "%s needs a value", *argv);
			rc = value_option(o, argv[0], argv[1]);
			argv++;
		} else if (plain_option(o, *argv)) {
			return tool_fail(EXIT_USAGE, "%s: there is no such option, see --help",
					 *argv);
		}
	}
	o->command = argv;
	if (!rc && !*argv)
		return tool_fail(EXIT_USAGE, "there is no command to run, see --help");
	return rc;
}

/* ---- environment ------------------------------------------------------------- */

static int set_env(const char *name, const char *value)
{
	return setenv(name, value, 1) ? tool_fail(1, "setenv: %m") : 0;
}

/* It lies beside this program, or in the lib beside its bin. */
static int find_beside(const char *name, char path[PATH_MAX])
{
	static const char *const places[] = { "", "../lib/" };
	char self[PATH_MAX - 64];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n < 0)
		return tool_fail(1, "/proc/self/exe: %m");
	self[n] = '\0';
	*(strrchr(self, '/') + 1) = '\0';
	for (int i = 0; i < 2; i++) {
		snprintf(path, PATH_MAX, "%s%s%s", self, places[i], name);
		if (!access(path, R_OK))
			return 0;
	}
	return tool_fail(1, "%s is neither in %s nor in %s../lib", name, self, self);
}

/* Before what is there, with a colon between. */
static int put_before(const char *variable, const char *path)
{
	const char *others = getenv(variable);
	char *all;
	int rc;

	if (others && strstr(others, path))
		return 0;	/* tent-sim within tent-sim */
	if (asprintf(&all, "%s%s%s", path, others && *others ? ":" : "", others ? others : "") < 0)
		return tool_fail(1, "out of memory");
	rc = set_env(variable, all);
	free(all);
	return rc;
}

static int preload(void)
{
	char path[PATH_MAX];
	int rc = find_beside(LIBRARY, path);

	if (rc)
		return rc;
	if (strpbrk(path, " :"))
		return tool_fail(1, "%s: LD_PRELOAD takes no path with a space or a colon", path);
	return put_before("LD_PRELOAD", path);
}

/* Programs look for the driver by its name. */
static int prepare_gpus(uint32_t nr)
{
	char path[PATH_MAX], number[12];
	int rc = find_beside(CUDA_FOLDER, path);

	if (rc)
		return rc;
	snprintf(number, sizeof(number), "%u", nr);
	rc = set_env(TOOL_ENV_GPUS, number);
	return rc ? rc : put_before("LD_LIBRARY_PATH", path);
}

/* Made anew and empty; processes add to it, wherever they are. */
static int prepare_trace(const char *file)
{
	char path[PATH_MAX];
	int fd;

	if (!strcmp(file, "-"))
		return set_env(TOOL_ENV_TRACE, "/dev/stderr");
	fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd < 0 || !realpath(file, path))
		return tool_fail(1, "--trace %s: %m", file);
	close(fd);
	return set_env(TOOL_ENV_TRACE, path);
}

static int prepare(const struct options *o, const struct host *h)
{
	int rc = set_env(TREE_ENV, host_table(h)->tree);

	if (!rc)
		rc = preload();
	if (!rc && o->nr_gpus)
		rc = prepare_gpus(o->nr_gpus);
	if (!rc && o->doorbell)
		rc = set_env(TOOL_ENV_DOORBELL, o->doorbell);
	if (!rc && o->trace)
		rc = prepare_trace(o->trace);
	return rc;
}

/* ---- running ----------------------------------------------------------------- */

static int set_fault(struct host *h, const char *fault)
{
	const char *colon = strchr(fault, ':'), *is = strchr(fault, '=');
	char text[HOST_TEXT_BYTES] = "", name[16] = "";
	uint32_t device = HOST_ALL_DEVICES;
	int rc;

	/* A colon behind the = is an address's. */
	if (colon && is && colon < is) {
		snprintf(name, sizeof(name), "%.*s", (int)(colon - fault), fault);
		if (!tool_device(name, &device))
			return tool_fail(EXIT_USAGE, "--fault %s: devices are mlx5_0 to mlx5_%u",
					 fault, host_table(h)->nr_devices - 1);
		fault = colon + 1;
	}
	rc = host_set(h, device, fault, text);
	if (rc)
		return tool_fail(EXIT_USAGE, "--fault %s", *text ? text : strerror(-rc));
	return 0;
}

/* What runs and all that it starts inherit the connection, which keeps the host alive. */
static int keep_lease(const struct host *h)
{
	int fd = fcntl(host_fd(h), F_DUPFD, LEASE_FD);

	if (fd < 0)
		fd = fcntl(host_fd(h), F_DUPFD, 3);
	return fd < 0 ? tool_fail(1, "fcntl: %m") : 0;
}

int tool_run(int argc, char **argv)
{
	struct options o = { 0 };
	struct host *h;
	int rc;

	if (argc && (!strcmp(argv[0], "--help") || !strcmp(argv[0], "-h"))) {
		fputs(help, stdout);
		return 0;
	}
	rc = parse(&o, argv);
	if (!rc)
		rc = tool_attach(&h, &o.config);
	for (int i = 0; i < o.nr_faults && !rc; i++)
		rc = set_fault(h, o.faults[i]);
	if (!rc)
		rc = prepare(&o, h);
	if (!rc)
		rc = keep_lease(h);
	if (rc)
		return rc;
	execvp(o.command[0], o.command);
	return tool_fail(errno == ENOENT ? 127 : 126, "%s: %m", o.command[0]);
}
