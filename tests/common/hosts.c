/* SPDX-License-Identifier: Apache-2.0 */
/* hosts.c - see hosts.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/common/hosts.h"

static void check(bool good, const char *what)
{
	if (good)
		return;
	perror(what);
	abort();
}

__attribute__((format(printf, 1, 2)))
static void run(const char *format, ...)
{
	char command[256];
	va_list args;

	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	check(system(command) == 0, command);
}

static int here(void)
{
	int fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);

	check(fd >= 0, "/proc/thread-self/ns/net");
	return fd;
}

void hosts_enter(const struct hosts *h, int host)
{
	check(setns(host < 0 ? h->home : h->host[host], CLONE_NEWNET) == 0, "setns");
}

/* Names that only we and our children know. */
static void write_names(void)
{
	char path[] = "/tmp/tent-names-XXXXXX";
	int fd = mkostemp(path, O_CLOEXEC);

	check(fd >= 0, path);
	check(dprintf(fd, "127.0.0.1 localhost\n") > 0, path);
	for (int i = 1; i <= 2; i++)
		check(dprintf(fd, HOSTS_IPV4 " " HOSTS_NAME "\n", i, i) > 0, path);
	check(fchmod(fd, 0644) == 0, path);
	close(fd);
	check(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "private mounts");
	check(mount(path, "/etc/hosts", NULL, MS_BIND, NULL) == 0, "/etc/hosts");
	unlink(path);
}

/* Of the host this thread is on. */
static void give_addresses(int i)
{
	run("ip link set lo up");
	run("ip link set " HOSTS_PORT " addrgenmode none");
	run("echo 1 > /proc/sys/net/ipv6/conf/" HOSTS_PORT "/keep_addr_on_down");
	run("ip addr add " HOSTS_IPV4 "/24 dev " HOSTS_PORT, i);
	run("ip -6 addr add " HOSTS_IPV6 "/64 dev " HOSTS_PORT " nodad", i);
	run("ip -6 addr add " HOSTS_LINK_LOCAL "/64 dev " HOSTS_PORT " nodad", i);
	run("ip link set " HOSTS_PORT " up");
}

bool hosts_open(struct hosts *h)
{
	h->home = here();
	if (unshare(CLONE_NEWNS) < 0) {
		close(h->home);
		return false;
	}
	write_names();
	for (int i = 0; i < 2; i++) {
		check(unshare(CLONE_NEWNET) == 0, "unshare");
		h->host[i] = here();
	}
	hosts_enter(h, 0);
	run("ip link add " HOSTS_PORT " type veth peer name " HOSTS_PORT
	    " netns /proc/%d/fd/%d", getpid(), h->host[1]);
	for (int i = 0; i < 2; i++) {
		hosts_enter(h, i);
		give_addresses(i + 1);
	}
	hosts_enter(h, -1);
	return true;
}

void hosts_add_cable(struct hosts *h)
{
	hosts_enter(h, 0);
	run("ip link add " HOSTS_SECOND_PORT " type veth peer name " HOSTS_SECOND_PORT
	    " netns /proc/%d/fd/%d", getpid(), h->host[1]);
	for (int i = 0; i < 2; i++) {
		hosts_enter(h, i);
		run("ip addr add " HOSTS_SECOND_IPV4 "/24 dev " HOSTS_SECOND_PORT, i + 1);
		run("ip link set " HOSTS_SECOND_PORT " up");
	}
	hosts_enter(h, -1);
}

void hosts_close(struct hosts *h)
{
	hosts_enter(h, -1);
	for (int i = 0; i < 2; i++)
		close(h->host[i]);
	close(h->home);
}

/* Runs a command on that host, wherever this thread is. */
__attribute__((format(printf, 3, 4)))
static void run_on(const struct hosts *h, int host, const char *format, ...)
{
	int before = here();
	char command[256];
	va_list args;

	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	hosts_enter(h, host);
	run("%s", command);
	check(setns(before, CLONE_NEWNET) == 0, "setns");
	close(before);
}

void hosts_cut(const struct hosts *h)
{
	run_on(h, 0, "ip link set " HOSTS_PORT " down");
}

void hosts_heal(const struct hosts *h)
{
	run_on(h, 0, "ip link set " HOSTS_PORT " up");
}

void hosts_throttle(const struct hosts *h, uint32_t mbit_s)
{
	for (int i = 0; i < 2; i++)
		run_on(h, i, "tc qdisc replace dev " HOSTS_PORT " root tbf rate %umbit "
		       "burst 128kb latency 50ms", mbit_s);
}

void hosts_lose(const struct hosts *h, bool all)
{
	run_on(h, 1, "iptables -%c INPUT -i " HOSTS_PORT " -j DROP && "
	       "iptables -%c OUTPUT -o " HOSTS_PORT " -j DROP", all ? 'I' : 'D', all ? 'I' : 'D');
}

void hosts_lose_udp(const struct hosts *h, uint16_t port, bool all)
{
	for (int i = 0; i < 2; i++)
		run_on(h, i, "iptables -%c INPUT -i " HOSTS_PORT " -p udp --dport %u -j DROP",
		       all ? 'I' : 'D', port);
}
