/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stat.c - libc's functions that tell about a file: a card's nodes and descriptors are
 * character devices to the program. The names with __ are what programs call that were
 * linked with a glibc before 2.33.
 */
#undef _FORTIFY_SOURCE
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "sim/hca/front/descriptor.h"
#include "sim/hca/front/interpose.h"
#include "sim/hca/front/path.h"

int __xstat(int version, const char *path, struct stat *st);
int __xstat64(int version, const char *path, struct stat64 *st);
int __lxstat(int version, const char *path, struct stat *st);
int __lxstat64(int version, const char *path, struct stat64 *st);
int __fxstat(int version, int fd, struct stat *st);
int __fxstat64(int version, int fd, struct stat64 *st);
int __fxstatat(int version, int dir, const char *path, struct stat *st, int flags);
int __fxstatat64(int version, int dir, const char *path, struct stat64 *st, int flags);

_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "one layout on this CPU");

static bool is_empty(const char *path)
{
	return path && !path[0];
}

static int stat_at(int dir, const char *path, struct stat *st, int flags)
{
	char buffer[PATH_MAX];
	unsigned index;
	enum path_node node = path_node(path, &index);
	int rc;

	if (node == PATH_NO_NODE && flags & AT_EMPTY_PATH && is_empty(path))
		node = descriptor_node(dir, &index);
	rc = NEXT(fstatat)(dir, path_rewrite(path, buffer), st, flags);
	if (!rc)
		path_fake_stat(node, index, st);
	return rc;
}

static int stat_fd(int fd, struct stat *st)
{
	unsigned index;
	enum path_node node = descriptor_node(fd, &index);
	int rc = NEXT(fstat)(fd, st);

	if (!rc)
		path_fake_stat(node, index, st);
	return rc;
}

INTERPOSE int stat(const char *path, struct stat *st)
{
	return stat_at(AT_FDCWD, path, st, 0);
}

INTERPOSE int stat64(const char *path, struct stat64 *st)
{
	return stat_at(AT_FDCWD, path, (struct stat *)st, 0);
}

INTERPOSE int lstat(const char *path, struct stat *st)
{
	return stat_at(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
}

INTERPOSE int lstat64(const char *path, struct stat64 *st)
{
	return stat_at(AT_FDCWD, path, (struct stat *)st, AT_SYMLINK_NOFOLLOW);
}

INTERPOSE int fstatat(int dir, const char *path, struct stat *st, int flags)
{
	return stat_at(dir, path, st, flags);
}

INTERPOSE int fstatat64(int dir, const char *path, struct stat64 *st, int flags)
{
	return stat_at(dir, path, (struct stat *)st, flags);
}

INTERPOSE int fstat(int fd, struct stat *st)
{
	return stat_fd(fd, st);
}

INTERPOSE int fstat64(int fd, struct stat64 *st)
{
	return stat_fd(fd, (struct stat *)st);
}

INTERPOSE int __xstat(int version, const char *path, struct stat *st)
{
	(void)version;
	return stat_at(AT_FDCWD, path, st, 0);
}

INTERPOSE int __xstat64(int version, const char *path, struct stat64 *st)
{
	(void)version;
	return stat_at(AT_FDCWD, path, (struct stat *)st, 0);
}

INTERPOSE int __lxstat(int version, const char *path, struct stat *st)
{
	(void)version;
	return stat_at(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
}

INTERPOSE int __lxstat64(int version, const char *path, struct stat64 *st)
{
	(void)version;
	return stat_at(AT_FDCWD, path, (struct stat *)st, AT_SYMLINK_NOFOLLOW);
}

INTERPOSE int __fxstat(int version, int fd, struct stat *st)
{
	(void)version;
	return stat_fd(fd, st);
}

INTERPOSE int __fxstat64(int version, int fd, struct stat64 *st)
{
	(void)version;
	return stat_fd(fd, (struct stat *)st);
}

INTERPOSE int __fxstatat(int version, int dir, const char *path, struct stat *st, int flags)
{
	(void)version;
	return stat_at(dir, path, st, flags);
}

INTERPOSE int __fxstatat64(int version, int dir, const char *path, struct stat64 *st, int flags)
{
	(void)version;
	return stat_at(dir, path, (struct stat *)st, flags);
}

INTERPOSE int statx(int dir, const char *path, int flags, unsigned mask, struct statx *stx)
{
	char buffer[PATH_MAX];
	unsigned index;
	enum path_node node = path_node(path, &index);
	struct stat st = { 0 };
	int rc;

	if (node == PATH_NO_NODE && flags & AT_EMPTY_PATH && is_empty(path))
		node = descriptor_node(dir, &index);
	rc = NEXT(statx)(dir, path_rewrite(path, buffer), flags, mask, stx);
	if (rc || node == PATH_NO_NODE)
		return rc;
	st.st_mode = stx->stx_mode;
	path_fake_stat(node, index, &st);
	stx->stx_mode = (uint16_t)st.st_mode;
	stx->stx_rdev_major = major(st.st_rdev);
	stx->stx_rdev_minor = minor(st.st_rdev);
	stx->stx_size = 0;
	return 0;
}
