/* SPDX-License-Identifier: Apache-2.0 */
/* files.c - judges descriptors of files, keeps and closes them. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "engine/errand.h"
#include "engine/files.h"

#define FILE_FDS 2u		/* what one file is charged for */
#define ALIGN_MIN 4096u		/* pages that O_DIRECT and buffered operations share */

struct owned_file {
	struct owned_region owned;	/* first */
	struct file file;
	bool foreign;
};

/* ---- judging ----------------------------------------------------------- */

static void refuse(struct file_offer *o, uint16_t rule, const char *is)
{
	o->rule = rule;
	snprintf(o->why, sizeof(o->why), "%s", is);
}

static const char *kind_of(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFDIR:
		return "the descriptor is a directory; allowed: a regular file";
	case S_IFIFO:
		return "the descriptor is a pipe; allowed: a regular file";
	case S_IFSOCK:
		return "the descriptor is a socket; allowed: a regular file";
	case S_IFBLK:
		return "the descriptor is a block device; allowed: a regular file";
	case S_IFCHR:
		return "the descriptor is a character device; allowed: a regular file";
	default:
		return "the descriptor is none of a file; allowed: a regular file";
	}
}

static const char *mode_fault(int flags)
{
	if (flags & O_PATH)
		return "the descriptor was opened with O_PATH; allowed: to read, or to read "
		       "and write";
	if ((flags & O_ACCMODE) == O_WRONLY)
		return "the descriptor was opened to write only; allowed: to read, or to read "
		       "and write";
	if (flags & O_APPEND)
		return "the descriptor was opened with O_APPEND; allowed: without, as it says "
		       "where bytes go";
	return NULL;
}

/* File systems whose files are data and whose answers come from this kernel or its
 * disks. Not: proc, sys and their like, where a write acts; FUSE and network file
 * systems, where somebody else decides whether an operation ever ends. */
static bool is_known_system(int fd)
{
	static const uint32_t known[] = {
		0xEF53, 0x58465342, 0x9123683E, 0xF2F52010, 0x01021994, 0x794C7630, 0x858458F6,
		0x2FC12FC1, 0xCA451A4E, 0x4D44, 0x2011BAB0, 0x7366746E, 0x3153464A, 0x52654973,
		0x73717368, 0xE0F5E1E2, 0x9660,
	};	/* ext, xfs, btrfs, f2fs, tmpfs, overlay, ramfs, zfs, bcachefs, vfat, exfat,
		 * ntfs, jfs, reiserfs, squashfs, erofs, iso9660 */
	struct statfs s;

	if (fstatfs(fd, &s) < 0)
		return false;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if ((uint32_t)s.f_type == known[i])
			return true;
	}
	return false;
}

/* The same file opened anew: flags that its owner changes later are not ours then. May
 * fail, as with a file that only its owner may open. */
static int reopen(int fd, int flags)
{
	char path[32];
	int new;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	new = open(path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);	/* leases wait else */
	if (new >= 0)
		fcntl(new, F_SETFL, flags & O_DIRECT);
	return new;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* 0: O_DIRECT is not for this file. */
static uint32_t direct_align(int fd)
{
	uint32_t align = ALIGN_MIN;
#ifdef STATX_DIOALIGN
	struct statx x;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &x) == 0 &&
	    x.stx_mask & STATX_DIOALIGN) {
		if (!x.stx_dio_offset_align)
			return 0;
		align = larger(align, larger(x.stx_dio_offset_align, x.stx_dio_mem_align));
	}
#endif
	return align & (align - 1) ? 0 : align;
}

static void open_own(struct file_offer *o, int fd, int access, bool direct)
{
	struct file *f = &o->file;

	f->fd = reopen(fd, access);
	if (f->fd < 0)
		f->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (f->fd < 0) {
		o->rule = TENT_RULE_SYSTEM;
		snprintf(o->why, sizeof(o->why), "the engine cannot keep the descriptor: %s",
			 strerror(errno));
		return;
	}
	f->direct_align = direct ? direct_align(fd) : 0;
	if (f->direct_align)
		f->direct_fd = reopen(fd, access | O_DIRECT);
}

void file_offer_judge(struct file_offer *o, int fd, const struct file_terms *t)
{
	int flags = fcntl(fd, F_GETFL);
	const char *fault = flags < 0 ? "the descriptor is not open" : mode_fault(flags);
	struct stat s;

	*o = (struct file_offer){ .file = { .fd = -1, .direct_fd = -1,
					    .place = FILE_NO_PLACE } };
	if (fault) {
		refuse(o, TENT_RULE_FILE_MODE, fault);
	} else if (fstat(fd, &s) < 0) {
		refuse(o, TENT_RULE_FILE_KIND, "the descriptor does not tell what it is");
	} else if (!S_ISREG(s.st_mode)) {
		refuse(o, TENT_RULE_FILE_KIND, kind_of(s.st_mode));
	} else if (t->foreign && !t->any_system && !is_known_system(fd)) {
		refuse(o, TENT_RULE_FILE_KIND, "the file is of a file system that this engine "
		       "does not take from others; allowed: one of a local disk or memory, or "
		       "transports/file/any_file_system");
	} else {
		o->file.dev = s.st_dev;
		o->file.ino = s.st_ino;
		o->file.writable = (flags & O_ACCMODE) == O_RDWR;
		open_own(o, fd, flags & O_ACCMODE, t->direct);
	}
}

void file_offer_close(struct file_offer *o)
{
	if (o->file.fd >= 0)
		close(o->file.fd);
	if (o->file.direct_fd >= 0)
		close(o->file.direct_fd);
	o->file.fd = o->file.direct_fd = -1;
}

void file_offer_stray(struct file_offer *o)
{
	if (o->file.fd >= 0)
		errand_close_stray(o->file.fd);
	if (o->file.direct_fd >= 0)
		errand_close_stray(o->file.direct_fd);
	o->file.fd = o->file.direct_fd = -1;
}

struct file_terms file_terms_of(const struct engine *e, const struct client *c)
{
	return (struct file_terms){
		.foreign = !c->local, .any_system = e->config.any_file_system,
		.direct = e->config.file.direct,
	};
}

/* ---- keeping ----------------------------------------------------------- */

static struct backend_instance *file_backend_of(const struct engine *e)
{
	for (uint32_t i = 0; i < e->nr_instances; i++) {
		if (e->instances[i]->ops->file_open)
			return e->instances[i];
	}
	return NULL;
}

/* A file that is slow to close is not waited for by others' requests. */
static void close_fd(int fd, bool foreign)
{
	if (fd >= 0 && foreign)
		errand_close_stray(fd);
	else if (fd >= 0)
		close(fd);
}

static struct owned_file *owned_create(struct client *c, struct file_offer *o,
				       struct segment *s)
{
	struct owned_file *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->file = o->file;
	f->foreign = !c->local;
	f->owned.region = (struct region){
		.end = INT64_MAX, .file = &f->file, .segment = s, .refs = 1,
		.permission = f->file.writable ? TENT_PERM_GLOBAL_READ_WRITE :
						 TENT_PERM_GLOBAL_READ_ONLY,
	};
	return f;
}

struct region *file_take(struct engine *e, struct client *c, struct file_offer *o,
			 struct segment *s)
{
	struct backend_instance *inst = file_backend_of(e);
	struct owned_file *f;
	int rc;

	if (!inst) {
		client_refuse_text(e, c, TENT_RULE_NOT_BUILT, 0, "no enabled transport moves "
				   "bytes of files; allowed: transports/file/enable");
		return NULL;
	}
	if (!client_charge(e, c, RESOURCE_FDS, FILE_FDS)) {
		client_refuse(e, c, TENT_RULE_MEM_LIMIT, c->tenant->used[RESOURCE_FDS]);
		return NULL;
	}
	f = owned_create(c, o, s);
	rc = f ? inst->ops->file_open(inst, &f->file) : -ENOMEM;
	if (rc < 0) {
		client_refund(e, c, RESOURCE_FDS, FILE_FDS);
		free(f);
		client_refuse(e, c, TENT_RULE_SYSTEM, (uint64_t)-rc);
		return NULL;
	}
	o->file.fd = o->file.direct_fd = -1;
	return &f->owned.region;
}

void file_release(struct engine *e, struct client *c, struct owned_region *r)
{
	struct owned_file *f = (struct owned_file *)r;
	struct backend_instance *inst = file_backend_of(e);

	inst->ops->file_close(inst, &f->file);
	close_fd(f->file.fd, f->foreign);
	close_fd(f->file.direct_fd, f->foreign);
	client_refund(e, c, RESOURCE_FDS, FILE_FDS);
	free(f);
}

uint64_t file_length(const struct file *f)
{
	struct statx x;

	if (statx(f->fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_SIZE, &x) < 0)
		return 0;
	return x.stx_size;
}
