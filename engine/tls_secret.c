/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tls_secret.c - the secret that engines share, from its file. Whoever can read it can be
 * an engine of ours, and whoever can write it chooses who is.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/tls.h"

struct reading {
	const char *path;
	char *error;
	size_t size;
};

__attribute__((format(printf, 2, 3)))
static size_t fail(const struct reading *r, const char *format, ...)
{
	char what[128];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	snprintf(r->error, r->size, "peers/secret_file is %s: %s; allowed: a regular file of "
		 "this user or of root, mode 0600 or less, that holds %u to %u printable "
		 "characters without spaces in one line", r->path, what, TLS_SECRET_MIN,
		 TLS_SECRET_MAX);
	return 0;
}

static bool judge_file(const struct reading *r, int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return fail(r, "%s", strerror(errno));
	if (!S_ISREG(st.st_mode))
		return fail(r, "it is no regular file");
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return fail(r, "it is the file of user %u", st.st_uid);
	if (st.st_mode & 077)
		return fail(r, "its mode is %04o, others can use it", st.st_mode & 07777);
	return true;
}

/* A byte more than is allowed, and the end of its line, tell that it is too long. */
static size_t read_line(int fd, uint8_t line[TLS_SECRET_MAX + 2])
{
	size_t used = 0;
	ssize_t n;

	do {
		n = read(fd, line + used, TLS_SECRET_MAX + 2 - used);
		used += n > 0 ? (size_t)n : 0;
	} while (n > 0 || (n < 0 && errno == EINTR));
	return used && line[used - 1] == '\n' ? used - 1 : used;
}

/* Says nothing of what it holds. */
static size_t judge_secret(const struct reading *r, const uint8_t *line, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (line[i] <= ' ' || line[i] > '~')
			return fail(r, "its character %zu is not one of these", i + 1);
	if (length < TLS_SECRET_MIN)
		return fail(r, "it holds %zu characters", length);
	if (length > TLS_SECRET_MAX)
		return fail(r, "it holds more than %u characters", TLS_SECRET_MAX);
	return length;
}

size_t tls_secret_read(const char *path, uint8_t secret[TLS_SECRET_MAX], char *error,
		       size_t size)
{
	const struct reading r = { .path = path, .error = error, .size = size };
	uint8_t line[TLS_SECRET_MAX + 2];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	size_t length = 0;

	if (fd < 0)
		return fail(&r, "%s", strerror(errno));
	if (judge_file(&r, fd))
		length = judge_secret(&r, line, read_line(fd, line));
	close(fd);
	memcpy(secret, line, length);
	explicit_bzero(line, sizeof(line));
	return length;
}
