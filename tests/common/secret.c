/* SPDX-License-Identifier: Apache-2.0 */
/* secret.c - see secret.h. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/common/secret.h"

static char folder[] = "/tmp/tent-tls-XXXXXX";
char secret_path[64];

void secret_write(const char *text, mode_t mode)
{
	int fd = open(secret_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

int secret_setup(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(secret_path, sizeof(secret_path), "%s/secret", folder);
	return 0;
}

int secret_teardown(void **state)
{
	(void)state;
	unlink(secret_path);
	return rmdir(folder);
}
