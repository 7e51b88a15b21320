/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "sim/hca/mem/user.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* Some sandboxes forbid it. */
static bool is_forbidden(ssize_t done)
{
	return done < 0 && (errno == ENOSYS || errno == EPERM);
}

/* The kernel looks at the addresses, so that a wrong one is an error and not a signal. */

int user_read(void *to, uint64_t from, size_t n)
{
	struct iovec ours = { to, n }, theirs = { (void *)(uintptr_t)from, n };
	ssize_t done = n ? process_vm_readv(getpid(), &ours, 1, &theirs, 1, 0) : 0;

	if (!is_forbidden(done))
		return done == (ssize_t)n ? 0 : -EFAULT;
	memcpy(to, theirs.iov_base, n);
	return 0;
}

int user_write(uint64_t to, const void *from, size_t n)
{
	struct iovec ours = { (void *)(uintptr_t)from, n };
	struct iovec theirs = { (void *)(uintptr_t)to, n };
	ssize_t done = n ? process_vm_writev(getpid(), &ours, 1, &theirs, 1, 0) : 0;

	if (!is_forbidden(done))
		return done == (ssize_t)n ? 0 : -EFAULT;
	memcpy(theirs.iov_base, from, n);
	return 0;
}
