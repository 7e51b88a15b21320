/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem.c - memfds that two processes share. What is checked here is what makes it
 * safe to touch another process's file: seals that read back, and enough bytes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "ring/mem.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

#define HUGE_PAGE_USUAL (2u << 20)

size_t huge_page_size(void)
{
	char line[128];
	unsigned long kib = 0;
	FILE *f = fopen("/proc/meminfo", "re");

	if (!f)
		return HUGE_PAGE_USUAL;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "Hugepagesize: %lu kB", &kib) == 1)
			break;
	}
	fclose(f);
	return kib ? (size_t)kib << 10 : HUGE_PAGE_USUAL;
}

/* Kernels since 6.3 want the exec bit decided, older ones do not know the flag. */
static int open_memfd(const char *name, unsigned int flags)
{
	int fd;

	flags |= MFD_CLOEXEC | MFD_ALLOW_SEALING;
	fd = memfd_create(name, flags | MFD_NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(name, flags);
	return fd < 0 ? -errno : fd;
}

/* A child must neither reach a ring after fork() nor make the parent copy pages. */
static int map_shared(struct shared_mem *m, int prot)
{
	void *addr = mmap(NULL, m->size, prot, MAP_SHARED, m->fd, 0);

	if (addr == MAP_FAILED)
		return -errno;
	if (madvise(addr, m->size, MADV_DONTFORK) < 0) {
		int rc = -errno;

		munmap(addr, m->size);
		return rc;
	}
	m->addr = addr;
	return 0;
}

/* Takes every page of a huge mapping now: a pool that is too small answers here and
 * not by SIGBUS later. Kernels before 5.14 allocate through the file instead. */
static int populate(const struct shared_mem *m)
{
	if (madvise(m->addr, m->size, MADV_POPULATE_WRITE) == 0)
		return 0;
	if (errno != EINVAL)
		return -errno;
	return fallocate(m->fd, 0, 0, (off_t)m->size) < 0 ? -errno : 0;
}

/* Writable mappings that exist stay writable under FUTURE_WRITE; new ones cannot be
 * made by anybody. */
static int seal(const struct shared_mem *m, bool reader_only)
{
	int seals = SEALS_SIZE | (reader_only ? F_SEAL_FUTURE_WRITE : 0);

	return fcntl(m->fd, F_ADD_SEALS, seals) < 0 ? -errno : 0;
}

static int create_pages(struct shared_mem *m, const char *name, size_t size,
			size_t page, bool reader_only)
{
	bool huge = m->page_kind == TENT_PAGE_HUGE;
	int rc;

	m->size = page_round_up(size, page);
	if (!m->size)
		return -EOVERFLOW;
	m->fd = open_memfd(name, huge ? MFD_HUGETLB : 0);
	if (m->fd < 0)
		return m->fd;
	rc = ftruncate(m->fd, (off_t)m->size) < 0 ? -errno : 0;
	if (rc == 0)
		rc = map_shared(m, PROT_READ | PROT_WRITE);
	if (rc == 0 && huge)
		rc = populate(m);
	if (rc == 0)
		rc = seal(m, reader_only);
	if (rc < 0)
		shared_mem_destroy(m);
	return rc;
}

int shared_mem_create(struct shared_mem *m, const char *name, size_t size,
		      bool reader_only)
{
	size_t huge = huge_page_size();
	int32_t reason = 0;

	*m = (struct shared_mem){ .fd = -1 };
	if (!size)
		return -EINVAL;
	if (size >= huge / 2) {
		m->page_kind = TENT_PAGE_HUGE;
		reason = -create_pages(m, name, size, huge, reader_only);
		if (!reason)
			return 0;
	}
	*m = (struct shared_mem){ .fd = -1, .page_reason = reason };
	return create_pages(m, name, size, (size_t)sysconf(_SC_PAGESIZE), reader_only);
}

/* The page size of a memfd: hugetlbfs tells its own, tmpfs uses base pages. */
static int page_of(int fd, size_t *page, uint32_t *kind)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return -errno;
	*kind = (uint32_t)fs.f_type == HUGETLBFS_MAGIC ? TENT_PAGE_HUGE : TENT_PAGE_BASE;
	*page = *kind == TENT_PAGE_HUGE ? (size_t)fs.f_bsize : (size_t)sysconf(_SC_PAGESIZE);
	return !*page || *page & (*page - 1) ? -EINVAL : 0;
}

/* Seals first: only then is the size a promise. */
static int check_foreign(struct shared_mem *m, int fd, size_t size, int required_seals)
{
	int seals = fcntl(fd, F_GET_SEALS), rc;
	struct stat st;
	size_t page = 0;

	if (seals < 0)
		return -EINVAL;
	if ((seals & required_seals) != required_seals)
		return -EPERM;
	rc = page_of(fd, &page, &m->page_kind);
	if (rc < 0)
		return rc;
	m->size = page_round_up(size, page);
	if (fstat(fd, &st) < 0)
		return -errno;
	return !m->size || (uint64_t)st.st_size < m->size ? -EINVAL : 0;
}

int shared_mem_map(struct shared_mem *m, int fd, size_t size, bool writable,
		   int required_seals)
{
	int rc;

	*m = (struct shared_mem){ .fd = -1 };
	rc = check_foreign(m, fd, size, required_seals);
	if (rc == 0) {
		m->fd = fd;
		rc = map_shared(m, PROT_READ | (writable ? PROT_WRITE : 0));
	}
	if (rc < 0)
		*m = (struct shared_mem){ .fd = -1 };
	return rc;
}

void shared_mem_destroy(struct shared_mem *m)
{
	if (m->addr)
		munmap(m->addr, m->size);
	m->addr = NULL;
	fd_close(&m->fd);
}

int memfd_read(int fd, void *to, size_t size, off_t offset)
{
	while (size) {
		ssize_t n = pread(fd, to, size, offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -ENODATA;
		to = (char *)to + n;
		offset += n;
		size -= (size_t)n;
	}
	return 0;
}

void fd_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}
