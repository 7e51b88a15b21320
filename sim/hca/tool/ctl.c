/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sim/hca/host/parts.h"
#include "sim/hca/tool/show.h"
#include "sim/hca/tool/tool.h"

static const char help[] =
	"usage: tent-sim ctl [DEVICE] show [--json]\n"
	"       tent-sim ctl [DEVICE] set [PORT/]NAME=VALUE...\n"
	"\n"
	"Shows the devices of this network namespace, their faults and counters, or changes\n"
	"them while programs run. DEVICE is mlx5_0, mlx5_1.. or 0, 1..; without it, all.\n"
	"PORT/ goes with the first three. The settings:\n"
	"\n";

static void print_help(void)
{
	fputs(help, stdout);
	for (unsigned i = 0; i < nr_knobs; i++)
		printf("  %-22s %s\n  %22s %s\n", knobs[i].name, knobs[i].help, "",
		       knob_values(knobs[i].kind));
}

static int connect_to_host(struct host **out)
{
	char text[HOST_TEXT_BYTES] = "";
	int rc = host_open(out, HOST_ATTACH, NULL, text);

	if (rc == -ENOENT || rc == -ERESTART)
		return tool_fail(1, "no devices here: they live as long as a command of tent-sim's "
				    "runs in this network namespace");
	return rc ? tool_fail(1, "%s", *text ? text : strerror(-rc)) : 0;
}

static int set_all(uint32_t device, char **settings)
{
	struct host *h;
	int rc;

	if (!*settings)
		return tool_fail(EXIT_USAGE, "ctl set: NAME=VALUE is missing, see ctl --help");
	rc = connect_to_host(&h);
	if (rc)
		return rc;
	for (; *settings && !rc; settings++) {
		char text[HOST_TEXT_BYTES] = "";

		rc = host_set(h, device, *settings, text);
		if (rc)
			rc = tool_fail(1, "%s", *text ? text : strerror(-rc));
	}
	host_leave(h);
	return rc;
}

static int show(uint32_t device, char **arguments)
{
	bool json = *arguments && !strcmp(*arguments, "--json");
	struct host *h;
	int rc;

	if (*arguments && (!json || arguments[1]))
		return tool_fail(EXIT_USAGE, "ctl show %s: only --json may follow",
				 arguments[json]);
	rc = connect_to_host(&h);
	if (rc)
		return rc;
	if (device != HOST_ALL_DEVICES && device >= host_table(h)->nr_devices)
		rc = tool_fail(1, "there is no device %u: this host has 0 to %u", device,
			       host_table(h)->nr_devices - 1);
	else if (json)
		show_json(host_table(h), host_memory(h), device);
	else
		show_text(host_table(h), host_memory(h), device);
	host_leave(h);
	return rc;
}

int tool_ctl(int argc, char **argv)
{
	uint32_t device = HOST_ALL_DEVICES;

	if (!argc)
		return tool_fail(EXIT_USAGE, "ctl: show or set, see ctl --help");
	if (!strcmp(*argv, "--help") || !strcmp(*argv, "-h")) {
		print_help();
		return 0;
	}
	if (tool_device(*argv, &device))
		argv++;
	if (*argv && !strcmp(*argv, "show"))
		return show(device, argv + 1);
	if (*argv && !strcmp(*argv, "set"))
		return set_all(device, argv + 1);
	return tool_fail(EXIT_USAGE, "ctl %s: a device (mlx5_0 to mlx5_%d), show or set",
			 *argv ? *argv : "", HOST_MAX_DEVICES - 1);
}
