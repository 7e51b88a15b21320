/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "sim/hca/front/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sim/hca/front/clock.h"

/* Written under the lock; looked at without, to tell the many that are not ours. */
static struct descriptor *table[DESCRIPTOR_MAX];
static int nr_seen;			/* no entry lies at or behind */

/* Past our own close(), which would look the number up again. */
static void plain_close(int fd)
{
	syscall(SYS_close, fd);
}

bool descriptor_is_plain(int fd)
{
	return fd < 0 || fd >= DESCRIPTOR_MAX ||
	       !__atomic_load_n(&table[fd], __ATOMIC_RELAXED);
}

static void set(int fd, struct descriptor *d)
{
	__atomic_store_n(&table[fd], d, __ATOMIC_RELAXED);
	if (fd >= nr_seen)
		nr_seen = fd + 1;
}

struct descriptor *descriptor_get(int fd)
{
	struct descriptor *d;

	if (descriptor_is_plain(fd))
		return NULL;
	card_lock();
	d = table[fd];
	if (d)
		d->references++;
	card_unlock();
	return d;
}

/* ---- the last reference --------------------------------------------------------- */

static void close_device(struct card_file *f)
{
	if (f->uverbs) {
		uverbs_close(f->uverbs);
		card_settle(f->card);
	}
	if (f->fd >= 0)
		plain_close(f->fd);
}

/* Returns the channel that is to be closed outside the lock. */
static struct cm_channel *drop_locked(struct descriptor *d)
{
	struct cm_channel *cm = NULL;

	if (--d->references)
		return NULL;
	if (d->kind == DESCRIPTOR_DEVICE)
		close_device(&d->device);
	else if (d->kind == DESCRIPTOR_EVENTS)
		event_queue_drop(d->events);
	else
		cm = d->cm;
	free(d);
	return cm;
}

void descriptor_put(struct descriptor *d)
{
	struct cm_channel *cm;

	card_lock();
	cm = drop_locked(d);
	card_unlock();
	if (cm)
		cm_channel_close(cm);
}

void descriptor_forget(int fd)
{
	struct cm_channel *cm = NULL;

	if (descriptor_is_plain(fd) || !process_is_ours())
		return;
	card_lock();
	if (table[fd]) {
		struct descriptor *d = table[fd];

		set(fd, NULL);
		cm = drop_locked(d);
	}
	card_unlock();
	if (!cm)
		return;
	card_send_first();		/* the holder is about to disconnect what is left */
	cm_channel_close(cm);
}

void descriptor_copy(int from, int to)
{
	if (descriptor_is_plain(from) || to < 0 || to >= DESCRIPTOR_MAX || !process_is_ours())
		return;
	card_lock();
	if (table[from] && !table[to]) {
		table[from]->references++;
		set(to, table[from]);
	}
	card_unlock();
}

/* ---- new ones -------------------------------------------------------------------- */

static struct descriptor *make(enum descriptor_kind kind, int fd)
{
	struct descriptor *d = fd < DESCRIPTOR_MAX ? calloc(1, sizeof(*d)) : NULL;

	if (d) {
		d->kind = kind;
		d->references = 1;
	}
	return d;
}

/* The device's file: as long as its mmap offsets reach, and empty but for the clock. It
 * must stay so long, or our own looks at it would fault. */
static int make_device_file(unsigned index)
{
	char name[] = "uverbs00";
	int fd, rc;

	name[6] = (char)('0' + index / 10);
	name[7] = (char)('0' + index % 10);
	fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)UVERBS_FILE_BYTES) || clock_write(fd) || fchmod(fd, 0666) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
		rc = -errno;
		plain_close(fd);
		return rc;
	}
	return fd;
}

static int open_device_locked(unsigned index, int flags)
{
	int error = 0, fd;
	struct card *card = card_get(index, &error);
	struct descriptor *d;

	if (!card)
		return error;
	if (card_is_forbidden(card))
		return -EACCES;
	fd = make_device_file(index);
	if (fd < 0)
		return fd;
	if (!(flags & O_CLOEXEC))
		fcntl(fd, F_SETFD, 0);
	d = make(DESCRIPTOR_DEVICE, fd);
	if (!d) {
		plain_close(fd);
		return -ENOMEM;
	}
	d->device.card = card;
	d->device.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	error = d->device.fd < 0 ? -errno : uverbs_open(&d->device.uverbs, &card->uverbs);
	if (error) {
		drop_locked(d);
		plain_close(fd);
		return error;
	}
	set(fd, d);
	return fd;
}

/* Gives the holder its ends of a new channel. */
static int open_cm(struct cm_channel **out)
{
	int ends[2], rc = process_join();

	if (!rc)
		rc = cm_channel_open(out, ends);
	if (rc)
		return rc;
	rc = host_give_channel(process.host, ends);
	plain_close(ends[0]);
	plain_close(ends[1]);
	return rc;
}

static int open_cm_locked(int flags)
{
	struct cm_channel *cm = NULL;
	struct descriptor *d;
	int rc = open_cm(&cm), fd;

	if (rc && !cm)
		return rc;
	fd = cm_channel_fd(cm);
	d = rc ? NULL : make(DESCRIPTOR_CM, fd);
	if (!d) {
		plain_close(fd);
		cm_channel_close(cm);
		return rc ? rc : -ENOMEM;
	}
	if (!(flags & O_CLOEXEC))
		fcntl(fd, F_SETFD, 0);
	if (flags & O_NONBLOCK)
		fcntl(fd, F_SETFL, O_NONBLOCK);
	d->cm = cm;
	set(fd, d);
	return fd;
}

int descriptor_open_node(enum path_node node, unsigned index, int tree_fd, int flags)
{
	struct stat st;
	int rc;

	/* Root passes any mode; a node that nobody may open is one that a test took away. */
	rc = fstat(tree_fd, &st) ? -errno : st.st_mode & 0666 ? 0 : -EACCES;
	plain_close(tree_fd);
	if (!rc) {
		card_lock();
		rc = node == PATH_UVERBS ? open_device_locked(index, flags) :
					   open_cm_locked(flags);
		card_unlock();
	}
	if (rc >= 0)
		return rc;
	errno = -rc;
	return -1;
}

int descriptor_open_events(struct event_queue *q)
{
	int fd = fcntl(event_queue_fd(q), F_DUPFD_CLOEXEC, 0);
	struct descriptor *d;

	if (fd < 0)
		return -errno;
	d = make(DESCRIPTOR_EVENTS, fd);
	if (!d) {
		plain_close(fd);
		return -ENOMEM;
	}
	d->events = q;
	set(fd, d);
	return fd;
}

struct event_queue *descriptor_events(int fd)
{
	struct descriptor *d = descriptor_is_plain(fd) ? NULL : table[fd];

	return d && d->kind == DESCRIPTOR_EVENTS ? d->events : NULL;
}

void descriptor_abandon_events(int fd)
{
	struct descriptor *d = table[fd];

	set(fd, NULL);
	drop_locked(d);
	plain_close(fd);
}

enum path_node descriptor_node(int fd, unsigned *index)
{
	struct descriptor *d = descriptor_get(fd);
	enum path_node node = PATH_NO_NODE;

	*index = 0;
	if (!d)
		return node;
	if (d->kind == DESCRIPTOR_DEVICE) {
		node = PATH_UVERBS;
		*index = d->device.card->index;
	} else if (d->kind == DESCRIPTOR_CM) {
		node = PATH_RDMA_CM;
	}
	descriptor_put(d);
	return node;
}

/* ---- all of them ------------------------------------------------------------------ */

void descriptor_each_file(void (*fn)(struct card_file *f, void *argument), void *argument)
{
	for (int fd = 0; fd < nr_seen; fd++)
		if (table[fd] && table[fd]->kind == DESCRIPTOR_DEVICE &&
		    table[fd]->device.uverbs)
			fn(&table[fd]->device, argument);
}

/* The card stayed with the parent: what the child inherits of it is dead. The connection
 * manager is the holder's, and serves both. */
void descriptor_inherit(void)
{
	for (int fd = 0; fd < nr_seen; fd++) {
		struct descriptor *d = table[fd];

		if (d && d->kind == DESCRIPTOR_CM)
			cm_channel_inherit(d->cm);
		if (!d || d->is_inherited)
			continue;
		d->is_inherited = true;
		if (d->kind == DESCRIPTOR_DEVICE) {
			d->device.uverbs = NULL;
			if (d->device.fd >= 0)
				plain_close(d->device.fd);
			d->device.fd = -1;
		}
	}
}
