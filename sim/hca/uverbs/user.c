/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "sim/hca/uverbs/user.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

/* The kernel looks at the addresses, so that a wrong one is an error and not a signal. */

int user_read(void *to, uint64_t from, size_t n)
{
	struct iovec local = { to, n }, remote = { (void *)(uintptr_t)from, n };

	if (n && process_vm_readv(getpid(), &local, 1, &remote, 1, 0) != (ssize_t)n)
		return -EFAULT;
	return 0;
}

int user_write(uint64_t to, const void *from, size_t n)
{
	struct iovec local = { (void *)(uintptr_t)from, n };
	struct iovec remote = { (void *)(uintptr_t)to, n };

	if (n && process_vm_writev(getpid(), &local, 1, &remote, 1, 0) != (ssize_t)n)
		return -EFAULT;
	return 0;
}
