/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peercred.c - the process behind a socket. The order matters: the pidfd first; then
 * what is found by pid under /proc; then, is the pidfd's process still alive? If it
 * is, nobody else can have had its pid in between, and what was opened is its own.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/peercred.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

int peer_read(int sock, struct peer *p)
{
	struct ucred cred;
	socklen_t size = sizeof(cred);

	*p = (struct peer){ .pidfd = -1, .mem_fd = -1 };
	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &size) < 0)
		return -errno;
	p->pid = cred.pid;
	p->uid = cred.uid;
	return 0;
}

bool peer_is_alive(int pidfd)
{
	struct pollfd f = { .fd = pidfd, .events = POLLIN };

	return poll(&f, 1, 0) == 0;
}

/* Before Linux 6.5: by number. The pid may have changed hands since the connection;
 * the newcomer must at least be of the same user, or nothing is opened. */
static int open_pidfd_by_number(const struct peer *p)
{
	int pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0);
	char path[64];
	struct stat st;

	if (pidfd < 0)
		return -errno;
	snprintf(path, sizeof(path), "/proc/%d", (int)p->pid);
	if (stat(path, &st) == 0 && st.st_uid == p->uid && peer_is_alive(pidfd))
		return pidfd;
	close(pidfd);
	return -ESRCH;
}

static int open_pidfd(int sock, const struct peer *p)
{
	socklen_t size = sizeof(int);
	int pidfd;

	if (getsockopt(sock, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) == 0)
		return pidfd;
	if (errno != ENOPROTOOPT)	/* EINVAL, ESRCH: it was reaped */
		return errno == EINVAL || errno == ESRCH ? -ESRCH : -errno;
	return p->pid > 0 ? open_pidfd_by_number(p) : -ENOENT;
}

int peer_open_memory(pid_t pid, int pidfd)
{
	char path[64];
	int fd;

	if (pid <= 0 || pidfd < 0)
		return -ENOENT;
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (peer_is_alive(pidfd))
		return fd;
	close(fd);
	return -ESRCH;
}

static bool same_file(const char *a, const char *b)
{
	struct stat sa, sb;

	return stat(a, &sa) == 0 && stat(b, &sb) == 0 && sa.st_dev == sb.st_dev &&
	       sa.st_ino == sb.st_ino;
}

static bool same_text(const char *a, const char *b)
{
	FILE *fa = fopen(a, "re"), *fb = fopen(b, "re");
	char ta[256] = "", tb[256] = "";
	bool same = fa && fb && fread(ta, 1, sizeof(ta) - 1, fa) > 0 &&
		    fread(tb, 1, sizeof(tb) - 1, fb) > 0 && strcmp(ta, tb) == 0;

	if (fa)
		fclose(fa);
	if (fb)
		fclose(fb);
	return same;
}

/* The namespace's file needs ptrace rights; the offsets of the one that its children
 * get may be read by everybody, and are the same unless it is up to something. */
bool peer_shares_clock(pid_t pid)
{
	char path[64];

	if (pid <= 0)
		return false;
	if (access("/proc/self/ns/time", F_OK) < 0 && errno == ENOENT)
		return access("/proc/self/status", F_OK) == 0;	/* no such namespaces */
	snprintf(path, sizeof(path), "/proc/%d/ns/time", (int)pid);
	if (access(path, F_OK) == 0)
		return same_file("/proc/self/ns/time", path);
	snprintf(path, sizeof(path), "/proc/%d/timens_offsets", (int)pid);
	return same_text("/proc/self/timens_offsets", path);
}

/*
 * A process that executed a set-user-ID or set-group-ID program since it connected is no
 * longer one that its user may look into, whoever holds its socket now. The kernel then
 * gives its files in /proc to root; an exec after the open leaves us a dead memory.
 */
static bool is_its_users(const struct peer *p)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d", (int)p->pid);
	return stat(path, &st) == 0 && st.st_uid == p->uid;
}

int peer_open(int sock, struct peer *p)
{
	int rc = open_pidfd(sock, p);

	if (rc == -ESRCH)
		return rc;
	p->pidfd = rc < 0 ? -1 : rc;
	p->mem_error = ENOENT;
	p->other_clock = true;
	if (p->pidfd < 0)
		return 0;
	p->other_clock = !peer_shares_clock(p->pid);
	p->mem_fd = peer_open_memory(p->pid, p->pidfd);
	if (p->mem_fd >= 0 && !is_its_users(p)) {
		close(p->mem_fd);
		p->mem_fd = -EPERM;
	}
	p->mem_error = p->mem_fd < 0 ? -p->mem_fd : 0;
	if (peer_is_alive(p->pidfd))
		return 0;
	peer_close(p);
	return -ESRCH;
}

void peer_close(struct peer *p)
{
	if (p->pidfd >= 0)
		close(p->pidfd);
	if (p->mem_fd >= 0)
		close(p->mem_fd);
	p->pidfd = p->mem_fd = -1;
}
