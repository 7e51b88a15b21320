/* SPDX-License-Identifier: Apache-2.0 */
/*
 * files.c - libc's functions that take a path, but for those that fill a struct stat.
 */
#undef _FORTIFY_SOURCE
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "sim/hca/front/descriptor.h"
#include "sim/hca/front/interpose.h"
#include "sim/hca/front/path.h"

/* What libc has without a declaration. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dir, const char *path, int flags);
int __openat64_2(int dir, const char *path, int flags);
ssize_t __readlink_chk(const char *path, char *to, size_t n, size_t room);
ssize_t __readlinkat_chk(int dir, const char *path, char *to, size_t n, size_t room);
char *__realpath_chk(const char *path, char *resolved, size_t room);
void __chk_fail(void) __attribute__((noreturn));

/* ---- open ------------------------------------------------------------------- */

static int open_path(int dir, const char *path, int flags, mode_t mode)
{
	char buffer[PATH_MAX];
	unsigned index;
	enum path_node node = path_node(path, &index);
	int fd = NEXT(openat)(dir, path_rewrite(path, buffer), flags, mode);

	if (fd >= 0)
		descriptor_forget(fd);	/* closed behind our back, as by fclose() */
	if (fd < 0 || node == PATH_NO_NODE || flags & O_PATH)
		return fd;
	return descriptor_open_node(node, index, fd, flags);
}

/* The mode is there only if the flags say so. */
#define MODE_OF(flags)							\
	({								\
		mode_t mode_ = 0;					\
		if ((flags) & O_CREAT || ((flags) & O_TMPFILE) == O_TMPFILE) { \
			va_list args_;					\
			va_start(args_, flags);				\
			mode_ = va_arg(args_, mode_t);			\
			va_end(args_);					\
		}							\
		mode_;							\
	})

INTERPOSE int open(const char *path, int flags, ...)
{
	return open_path(AT_FDCWD, path, flags, MODE_OF(flags));
}

INTERPOSE int open64(const char *path, int flags, ...)
{
	return open_path(AT_FDCWD, path, flags, MODE_OF(flags));
}

INTERPOSE int openat(int dir, const char *path, int flags, ...)
{
	return open_path(dir, path, flags, MODE_OF(flags));
}

INTERPOSE int openat64(int dir, const char *path, int flags, ...)
{
	return open_path(dir, path, flags, MODE_OF(flags));
}

INTERPOSE int __open_2(const char *path, int flags)
{
	return open_path(AT_FDCWD, path, flags, 0);
}

INTERPOSE int __open64_2(const char *path, int flags)
{
	return open_path(AT_FDCWD, path, flags, 0);
}

INTERPOSE int __openat_2(int dir, const char *path, int flags)
{
	return open_path(dir, path, flags, 0);
}

INTERPOSE int __openat64_2(int dir, const char *path, int flags)
{
	return open_path(dir, path, flags, 0);
}

INTERPOSE FILE *fopen(const char *path, const char *mode)
{
	char buffer[PATH_MAX];

	return NEXT(fopen)(path_rewrite(path, buffer), mode);
}

INTERPOSE FILE *fopen64(const char *path, const char *mode)
{
	char buffer[PATH_MAX];

	return NEXT(fopen64)(path_rewrite(path, buffer), mode);
}

/* ---- folders, links, permissions ----------------------------------------------- */

INTERPOSE DIR *opendir(const char *path)
{
	char buffer[PATH_MAX];

	return NEXT(opendir)(path_rewrite(path, buffer));
}

INTERPOSE int scandir(const char *path, struct dirent ***list,
		      int (*select)(const struct dirent *),
		      int (*compare)(const struct dirent **, const struct dirent **))
{
	char buffer[PATH_MAX];

	return NEXT(scandir)(path_rewrite(path, buffer), list, select, compare);
}

INTERPOSE int scandir64(const char *path, struct dirent64 ***list,
			int (*select)(const struct dirent64 *),
			int (*compare)(const struct dirent64 **, const struct dirent64 **))
{
	char buffer[PATH_MAX];

	return NEXT(scandir64)(path_rewrite(path, buffer), list, select, compare);
}

INTERPOSE int access(const char *path, int mode)
{
	char buffer[PATH_MAX];

	return NEXT(access)(path_rewrite(path, buffer), mode);
}

INTERPOSE int faccessat(int dir, const char *path, int mode, int flags)
{
	char buffer[PATH_MAX];

	return NEXT(faccessat)(dir, path_rewrite(path, buffer), mode, flags);
}

/* ls -l asks for these. */
INTERPOSE ssize_t getxattr(const char *path, const char *name, void *to, size_t n)
{
	char buffer[PATH_MAX];

	return NEXT(getxattr)(path_rewrite(path, buffer), name, to, n);
}

INTERPOSE ssize_t lgetxattr(const char *path, const char *name, void *to, size_t n)
{
	char buffer[PATH_MAX];

	return NEXT(lgetxattr)(path_rewrite(path, buffer), name, to, n);
}

INTERPOSE ssize_t readlink(const char *path, char *to, size_t n)
{
	char buffer[PATH_MAX];

	return NEXT(readlink)(path_rewrite(path, buffer), to, n);
}

INTERPOSE ssize_t readlinkat(int dir, const char *path, char *to, size_t n)
{
	char buffer[PATH_MAX];

	return NEXT(readlinkat)(dir, path_rewrite(path, buffer), to, n);
}

INTERPOSE ssize_t __readlink_chk(const char *path, char *to, size_t n, size_t room)
{
	if (n > room)
		__chk_fail();
	return readlink(path, to, n);
}

INTERPOSE ssize_t __readlinkat_chk(int dir, const char *path, char *to, size_t n, size_t room)
{
	if (n > room)
		__chk_fail();
	return readlinkat(dir, path, to, n);
}

INTERPOSE char *realpath(const char *path, char *resolved)
{
	char buffer[PATH_MAX];
	char *found = NEXT(realpath)(path_rewrite(path, buffer), resolved);

	if (found)
		path_hide_tree(found);
	return found;
}

INTERPOSE char *__realpath_chk(const char *path, char *resolved, size_t room)
{
	if (room < PATH_MAX)
		__chk_fail();
	return realpath(path, resolved);
}

INTERPOSE char *canonicalize_file_name(const char *path)
{
	return realpath(path, NULL);
}
