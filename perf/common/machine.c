/* SPDX-License-Identifier: Apache-2.0 */
/* machine.c - facts about the machine, and what else it was doing. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "perf/common/machine.h"
#include "ring/clock.h"
#include "ring/spin.h"

/* First line of a file into text, without the newline. False: not readable. */
static bool read_line(const char *path, char *text, uint32_t size)
{
	FILE *f = fopen(path, "re");
	bool ok;

	if (!f)
		return false;
	ok = fgets(text, (int)size, f) != NULL;
	fclose(f);
	if (ok)
		text[strcspn(text, "\n")] = '\0';
	return ok;
}

/* The affinity the program was started with: pinning must not shrink it. */
static const cpu_set_t *start_affinity(void)
{
	static cpu_set_t set;
	static bool known;

	if (!known && sched_getaffinity(getpid(), sizeof(set), &set))
		CPU_ZERO(&set);
	known = true;
	return &set;
}

uint32_t machine_cores(void)
{
	static uint32_t cores;	/* asked once, before anything is pinned */

	if (!cores)
		cores = spin_usable_cores();
	return cores;
}

/* Lowest CPU of the physical core that cpu belongs to, or cpu itself. */
static int core_leader(int cpu)
{
	char path[96], line[64];

	snprintf(path, sizeof(path),
		 "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
	return read_line(path, line, sizeof(line)) ? atoi(line) : cpu;
}

/* Do two CPUs share a physical core? */
static bool are_siblings(int a, int b)
{
	return a == b || core_leader(a) == core_leader(b);
}

int machine_core(uint32_t i)
{
	const cpu_set_t *set = start_affinity();

	for (int hyper = 0; hyper < 2; hyper++)
		for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
			if (CPU_ISSET(cpu, set) &&
			    (core_leader(cpu) != cpu) == hyper && i-- == 0)
				return cpu;
	return -1;
}

int machine_pin(int cpu)
{
	cpu_set_t set;

	if (cpu < 0)
		return 0;
	start_affinity();
	machine_cores();
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) ? -errno : 0;
}

int machine_start_on(int cpu, pthread_t *thread, void *(*body)(void *arg), void *arg)
{
	pthread_attr_t attr;
	cpu_set_t set;
	int rc = pthread_attr_init(&attr);

	if (rc)
		return -rc;
	CPU_ZERO(&set);
	if (cpu >= 0) {
		CPU_SET(cpu, &set);
		rc = pthread_attr_setaffinity_np(&attr, sizeof(set), &set);
	}
	if (!rc)
		rc = pthread_create(thread, &attr, body, arg);
	pthread_attr_destroy(&attr);
	return -rc;
}

void machine_unpin(void)
{
	sched_setaffinity(0, sizeof(cpu_set_t), start_affinity());
}

static bool cpuinfo_find(const char *key, char *value, uint32_t size)
{
	char line[4096];
	FILE *f = fopen("/proc/cpuinfo", "re");
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f)) {
		char *colon = strchr(line, ':');

		if (!colon || strncmp(line, key, strlen(key)))
			continue;
		line[strcspn(line, "\n")] = '\0';
		snprintf(value, size, "%s", colon + 1 + (colon[1] == ' '));
		found = true;
	}
	if (f)
		fclose(f);
	return found;
}

static bool is_virtual(void)
{
	char flags[4096];

	return cpuinfo_find("flags", flags, sizeof(flags)) && strstr(flags, " hypervisor");
}

uint64_t machine_memory_available(void)
{
	unsigned long long kib = 0;
	char line[128];
	FILE *f = fopen("/proc/meminfo", "re");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib * 1024;
}

void machine_facts(struct report *r)
{
	char model[128], source[32];
	struct utsname name;

	if (!cpuinfo_find("model name", model, sizeof(model)))
		snprintf(model, sizeof(model), "unknown");
	report_fact(r, "cpu", "%s, %u usable%s", model, machine_cores(),
		    is_virtual() ? ", virtual" : "");
	if (!uname(&name))
		report_fact(r, "kernel", "%s %s %s", name.sysname, name.release, name.machine);
	if (read_line("/sys/devices/system/clocksource/clocksource0/current_clocksource",
		      source, sizeof(source)))
		report_fact(r, "clocksource", "%s", source);
}

static void warn_governor(struct report *r)
{
	char governor[32];

	if (read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
		      governor, sizeof(governor)) &&
	    strcmp(governor, "performance"))
		report_warn(r, "the CPU frequency governor is '%s', not 'performance'", governor);
}

static void warn_load(struct report *r)
{
	char line[64];
	double load;

	if (read_line("/proc/loadavg", line, sizeof(line)) &&
	    sscanf(line, "%lf", &load) == 1 && load > 0.5)
		report_warn(r, "the machine is busy: load average %.2f over the last minute", load);
}

void machine_warn(struct report *r, uint32_t spinners)
{
	uint32_t cores = machine_cores();

	if (cores < spinners)
		report_warn(r, "%u spinning threads share %u usable cores", spinners, cores);
	else if (spinners > 1 && are_siblings(machine_core(0), machine_core(1)))
		report_warn(r, "CPUs %d and %d are hyperthreads of one core",
			    machine_core(0), machine_core(1));
	if (is_virtual())
		report_warn(r, "virtual machine: its CPUs can be taken away at any time");
	warn_governor(r);
	warn_load(r);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	report_warn(r, "built with a sanitizer");
#endif
#ifndef __OPTIMIZE__
	report_warn(r, "built without optimisation");
#endif
}

static uint64_t rusage_ticks(int who)
{
	uint64_t per_second = (uint64_t)sysconf(_SC_CLK_TCK);
	struct rusage u;

	if (getrusage(who, &u))
		return 0;
	return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * per_second +
	       (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * per_second / 1000000;
}

/* Clock ticks, over all CPUs. */
static void read_stat(uint64_t *busy, uint64_t *steal)
{
	unsigned long long user, nice, system, idle, wait, irq, soft, stolen;
	char line[256];

	*busy = *steal = 0;
	if (!read_line("/proc/stat", line, sizeof(line)) ||
	    sscanf(line, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system,
		   &idle, &wait, &irq, &soft, &stolen) != 8)
		return;
	*busy = user + nice + system;
	*steal = stolen;
}

void machine_watch_begin(struct machine_watch *w)
{
	read_stat(&w->busy, &w->steal);
	w->own = rusage_ticks(RUSAGE_SELF) + rusage_ticks(RUSAGE_CHILDREN);
	w->begin_ns = clock_monotonic_ns();
}

void machine_watch_end(const struct machine_watch *w, struct report *r)
{
	double seconds = (double)(clock_monotonic_ns() - w->begin_ns) / 1e9;
	double ticks = seconds * (double)sysconf(_SC_CLK_TCK);
	uint64_t busy, steal, own;
	double foreign, stolen;

	if (ticks < 20)		/* a fifth of a second says nothing */
		return;
	read_stat(&busy, &steal);
	own = rusage_ticks(RUSAGE_SELF) + rusage_ticks(RUSAGE_CHILDREN) - w->own;
	foreign = (double)(busy - w->busy) - (double)own;
	stolen = (double)(steal - w->steal);
	if (foreign > 0.05 * ticks)
		report_warn(r, "other programs used %.0f %% of a CPU during the run",
			    100 * foreign / ticks);
	if (stolen > 0.01 * ticks)
		report_warn(r, "the hypervisor took %.0f %% of a CPU during the run",
			    100 * stolen / ticks);
}
