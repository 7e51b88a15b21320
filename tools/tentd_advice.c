/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tentd_advice.c - what an operator would want to know before the first client
 * comes: each line says what is missing, what follows, and what to do.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "io/uring.h"
#include "ring/spin.h"
#include "tools/tentd.h"

/* Opening another user's /proc/PID/mem takes both; bits of linux/capability.h. */
#define CAP_DAC_OVERRIDE_BIT 1
#define CAP_SYS_PTRACE_BIT 19

/* The number after "name" in a file of "name: number" lines, -1 when absent. */
static long long file_number(const char *path, const char *name, int base)
{
	FILE *f = fopen(path, "re");
	size_t length = strlen(name);
	long long number = -1;
	char line[256];

	while (f && number < 0 && fgets(line, sizeof(line), f)) {
		unsigned long long value;

		if (strncmp(line, name, length) != 0 || line[length] != ':')
			continue;
		if (sscanf(line + length + 1, base == 16 ? "%llx" : "%llu", &value) == 1)
			number = (long long)value;
	}
	if (f)
		fclose(f);
	return number;
}

static void advise_pages(void)
{
	if (file_number("/proc/meminfo", "HugePages_Total", 10) > 0)
		return;
	tentd_say("warning: no huge pages are reserved, so rings and buffers use 4 KiB pages "
		  "(to reserve some: sysctl vm.nr_hugepages)");
}

static void advise_cores(const struct engine_config *c)
{
	uint32_t usable = spin_usable_cores();

	if (usable >= c->nr_pollers + 1)
		return;
	tentd_say("warning: %u usable core%s for %u poller%s and a client that waits, so "
		  "spinning yields and latency suffers", usable, usable == 1 ? "" : "s",
		  c->nr_pollers, c->nr_pollers == 1 ? "" : "s");
}

/* The engine leaves such a poller unpinned. */
static void advise_pinning(const struct engine_config *c)
{
	cpu_set_t usable;

	if (sched_getaffinity(0, sizeof(usable), &usable) < 0)
		return;
	for (uint32_t i = 0; i < c->nr_pollers; i++) {
		if (c->cores[i] >= 0 && !CPU_ISSET(c->cores[i], &usable))
			tentd_say("warning: engine/cores: CPU %d is not usable by tentd, so "
				  "poller %u is not pinned", c->cores[i], i);
	}
}

static void advise_private_memory(void)
{
	long long caps = file_number("/proc/self/status", "CapEff", 16);

	if (caps >= 0 && (caps >> CAP_SYS_PTRACE_BIT & 1) && (caps >> CAP_DAC_OVERRIDE_BIT & 1))
		return;
	tentd_say("warning: without CAP_SYS_PTRACE and CAP_DAC_OVERRIDE only clients of "
		  "tentd's own user can register private memory");
}

/* Whoever uses it, the reason is one. */
static void advise_uring(const struct engine_config *c)
{
	bool files = c->file_enable && c->file.io_uring;
	bool peers = c->peers_enable && c->tcp_enable && c->tcp.io_uring;
	char why[256];

	if ((files || peers) && kring_probe(NULL, why, sizeof(why)) < 0)
		tentd_say("warning: %s; %s%s%s instead", why,
			  files ? "threads read and write files" : "",
			  files && peers ? ", and " : "",
			  peers ? "an epoll serves the data of peers" : "");
}

void tentd_advise(const struct engine_config *c)
{
	advise_pages();
	advise_cores(c);
	advise_pinning(c);
	advise_private_memory();
	advise_uring(c);
}
