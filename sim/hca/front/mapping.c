/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mapping.c - libc's functions that change what lies at an address: a device's pages are
 * mapped, and registered memory may lose the program's view of it.
 */
#undef _FORTIFY_SOURCE
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <sys/mman.h>

#include "sim/hca/front/descriptor.h"
#include "sim/hca/front/interpose.h"

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24		/* Linux 5.18 */
#endif

void mapping_goes(const void *start, size_t length)
{
	if (!process.host)
		return;
	length += -length % UVERBS_PAGE;	/* whole pages go, whatever was asked */
	card_lock();
	uar_range_goes(start, length);
	card_unlock();
	umem_range_goes(start, length);
}

static void *map_device(struct card_file *f, void *address, size_t length, int protection,
			int flags, int fd, off_t offset)
{
	bool is_uar = (uint64_t)offset / UVERBS_PAGE >= UVERBS_FIRST_UAR_PAGE;
	void *at;
	int rc;

	card_lock();
	rc = f->uverbs ? uverbs_check_mmap(f->uverbs, (uint64_t)offset, length,
					   protection & PROT_WRITE) : -EIO;
	if (!rc && !(flags & (MAP_SHARED | MAP_SHARED_VALIDATE)))
		rc = -EINVAL;
	at = rc ? MAP_FAILED : NEXT(mmap)(address, length, protection, flags, fd, offset);
	if (at != MAP_FAILED && is_uar) {
		rc = uar_mapped(f, at, (uint64_t)offset);
		if (rc)
			NEXT(munmap)(at, length);
	}
	card_unlock();
	if (!rc)
		return at;
	errno = -rc;
	return MAP_FAILED;
}

static void *map(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	struct descriptor *d = flags & MAP_ANONYMOUS ? NULL : descriptor_get(fd);
	void *at;

	if (flags & MAP_FIXED)
		mapping_goes(address, length);
	if (d && d->kind == DESCRIPTOR_DEVICE)
		at = map_device(&d->device, address, length, protection, flags, fd, offset);
	else
		at = NEXT(mmap)(address, length, protection, flags, fd, offset);
	if (d)
		descriptor_put(d);
	return at;
}

INTERPOSE void *mmap(void *address, size_t length, int protection, int flags, int fd,
		     off_t offset)
{
	return map(address, length, protection, flags, fd, offset);
}

INTERPOSE void *mmap64(void *address, size_t length, int protection, int flags, int fd,
		       off64_t offset)
{
	return map(address, length, protection, flags, fd, offset);
}

INTERPOSE int munmap(void *address, size_t length)
{
	mapping_goes(address, length);
	return NEXT(munmap)(address, length);
}

INTERPOSE void *mremap(void *address, size_t old_length, size_t new_length, int flags, ...)
{
	void *target = NULL;

	if (flags & MREMAP_FIXED) {
		va_list args;

		va_start(args, flags);
		target = va_arg(args, void *);
		va_end(args);
		mapping_goes(target, new_length);
	}
	mapping_goes(address, old_length);
	return NEXT(mremap)(address, old_length, new_length, flags, target);
}

/* Advice that makes the kernel give back pages. */
INTERPOSE int madvise(void *address, size_t length, int advice)
{
	if (advice == MADV_DONTNEED || advice == MADV_DONTNEED_LOCKED || advice == MADV_FREE ||
	    advice == MADV_REMOVE)
		mapping_goes(address, length);
	return NEXT(madvise)(address, length, advice);
}
