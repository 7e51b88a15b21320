/* SPDX-License-Identifier: Apache-2.0 */
/*
 * accept.c - the socket that clients connect to. A flood of connections is answered
 * and closed; where this process has no descriptor left even for that, one is kept in
 * reserve; where that fails too, the listener rests a moment instead of spinning.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "engine/client.h"
#include "engine/errand.h"

#define ACCEPTS_PER_TURN 16
#define BACKLOG 128
#define FOLDER_LOCK_TRIES 200	/* of a millisecond */

/* ---- accepting --------------------------------------------------------- */

static bool hold_reserve(struct engine *e)
{
	if (e->reserve_fd < 0)
		e->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return e->reserve_fd >= 0;
}

/* True: one connection less in the backlog, answered by its end. */
static bool shed_one(struct engine *e, int listener)
{
	int fd;

	if (!hold_reserve(e))
		return false;
	close(e->reserve_fd);
	e->reserve_fd = -1;
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0 && errand_seal(fd))
		close(fd);
	else if (fd >= 0)
		errand_close_stray(fd);
	hold_reserve(e);
	return fd >= 0;
}

/* False: nothing more to accept now. */
static bool accept_one(struct engine *e, struct listener *l)
{
	int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0) {
		client_adopt(e, fd, false);
		return true;
	}
	if (errno == ECONNABORTED || errno == EINTR)
		return true;
	if (errno == EAGAIN)
		return false;
	l->paused = !shed_one(e, l->fd);
	return !l->paused;
}

static void listener_ready(struct engine *e, struct event_source *s)
{
	struct listener *l = (struct listener *)s;	/* its first member */
	int i;

	for (i = 0; i < ACCEPTS_PER_TURN && accept_one(e, l); i++)
		;
	if (!l->paused)
		control_rearm(e, s);
}

static void listener_arrives(struct engine *e, struct inbox_item *item)
{
	struct listener *l = (struct listener *)((char *)item - offsetof(struct listener, item));

	l->next = e->listeners;
	e->listeners = l;
	if (e->stopping || control_watch(e, &l->source, l->fd, listener_ready) == 0)
		return;
	l->paused = true;
}

void listener_stop(struct engine *e, struct listener *l)
{
	l->paused = false;
	control_unwatch(e, &l->source);
}

void listener_resume(struct engine *e, struct listener *l)
{
	l->paused = false;
	if (l->source.fd >= 0)
		control_rearm(e, &l->source);
	else
		l->paused = control_watch(e, &l->source, l->fd, listener_ready) < 0;
}

/* ---- making the socket ------------------------------------------------- */

/* Two daemons that start at once take turns. Who cannot have the lock goes on without:
 * it only narrows a window. */
static int lock_folder(const char *path)
{
	const struct timespec moment = { 0, 1000000 };
	char copy[sizeof(((struct listener *)0)->path)];
	int fd;

	snprintf(copy, sizeof(copy), "%s", path);
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; fd >= 0 && i < FOLDER_LOCK_TRIES; i++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			break;
		nanosleep(&moment, NULL);
	}
	return fd;
}

static void unlock_folder(int fd)
{
	if (fd >= 0)
		close(fd);
}

/* Does somebody listen there? 1, 0 (the file is stale, or there is none), -errno. */
static int is_live(const struct sockaddr_un *a)
{
	struct stat st;
	int fd, rc, error;

	if (lstat(a->sun_path, &st) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return -EEXIST;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	rc = connect(fd, (const struct sockaddr *)a, sizeof(*a));
	error = errno;
	close(fd);
	if (rc == 0 || error != ECONNREFUSED)
		return 1;
	return unlink(a->sun_path) < 0 ? -errno : 0;
}

static int bind_and_listen(struct listener *l, const struct sockaddr_un *a)
{
	struct stat st;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	l->fd = fd;
	if (bind(fd, (const struct sockaddr *)a, sizeof(*a)) < 0)
		return -errno;
	snprintf(l->path, sizeof(l->path), "%s", a->sun_path);
	if (lstat(l->path, &st) < 0)
		return -errno;
	l->dev = st.st_dev;
	l->ino = st.st_ino;
	/* Everybody may connect: who it is comes from peer credentials. */
	if (chmod(l->path, 0666) < 0 || listen(fd, BACKLOG) < 0)
		return -errno;
	return 0;
}

static int open_locked(struct listener *l, const struct sockaddr_un *a)
{
	int rc = is_live(a);

	if (rc)
		return rc > 0 ? -EADDRINUSE : rc;
	return bind_and_listen(l, a);
}

int listener_open(const char *path, struct listener **out)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct listener *l;
	int rc, folder;

	if (!*path || strlen(path) >= sizeof(a.sun_path))
		return -ENAMETOOLONG;
	strcpy(a.sun_path, path);
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->fd = l->source.fd = -1;
	l->item.arrive = listener_arrives;
	folder = lock_folder(path);
	rc = open_locked(l, &a);
	unlock_folder(folder);
	if (rc < 0) {
		listener_close(l);
		return rc;
	}
	*out = l;
	return 0;
}

void listener_close(struct listener *l)
{
	struct stat st;

	if (l->path[0] && lstat(l->path, &st) == 0 && st.st_dev == l->dev &&
	    st.st_ino == l->ino)
		unlink(l->path);
	if (l->fd >= 0)
		errand_close_stray(l->fd);	/* with all that was never accepted */
	free(l);
}
