/* SPDX-License-Identifier: Apache-2.0 */
/* uring.c - kernel rings on liburing. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/uio.h>

#include "io/uring.h"
#include "ring/order.h"

/* kernel.io_uring_disabled: 1 forbids it to the unprivileged, 2 to all. */
static int read_disabled(void)
{
	FILE *f = fopen("/proc/sys/kernel/io_uring_disabled", "re");
	int value = 0;

	if (!f)
		return 0;
	if (fscanf(f, "%d", &value) != 1)
		value = 0;
	fclose(f);
	return value;
}

/* EPERM comes from that setting or from a filter of system calls; ENOSYS from the latter
 * too; ENOMEM from the limit on locked memory, on old kernels. */
static int explain(int rc, char *why, size_t size)
{
	int disabled = rc == -EPERM ? read_disabled() : 0;
	struct rlimit l = { 0 };

	if (disabled) {
		snprintf(why, size, "io_uring is not permitted: kernel.io_uring_disabled is %d",
			 disabled);
	} else if (rc == -EPERM || rc == -EACCES) {
		snprintf(why, size, "io_uring is not permitted to this process: a seccomp filter "
			 "or a security module refuses it (%s)", strerror(-rc));
	} else if (rc == -ENOSYS) {
		snprintf(why, size, "io_uring is not in this kernel, or a seccomp filter hides it");
	} else if (rc == -ENOMEM) {
		getrlimit(RLIMIT_MEMLOCK, &l);
		snprintf(why, size, "io_uring gets no memory: RLIMIT_MEMLOCK is %llu bytes",
			 (unsigned long long)l.rlim_cur);
	} else {
		snprintf(why, size, "io_uring cannot be set up: %s", strerror(-rc));
	}
	return rc;
}

static int check_ops(struct kring *k, const uint8_t *ops, char *why, size_t size)
{
	struct io_uring_probe *probe;
	int rc = 0;

	if (!ops)
		return 0;
	probe = io_uring_get_probe_ring(&k->ring);
	if (!probe) {
		snprintf(why, size, "io_uring of this kernel cannot be probed: too old");
		return -EOPNOTSUPP;
	}
	for (; *ops && rc == 0; ops++) {
		if (io_uring_opcode_supported(probe, *ops))
			continue;
		snprintf(why, size, "io_uring of this kernel lacks operation %d", *ops);
		rc = -EOPNOTSUPP;
	}
	io_uring_free_probe(probe);
	return rc;
}

/* Tables are a gain, not a need: without them entries name descriptors and memory. */
static void make_tables(struct kring *k, const struct kring_options *o)
{
	k->has_files = o->files && io_uring_register_files_sparse(&k->ring, o->files) == 0;
	k->has_buffers = o->buffers &&
			 io_uring_register_buffers_sparse(&k->ring, o->buffers) == 0;
}

int kring_open(struct kring *k, const struct kring_options *o, char *why, size_t size)
{
	struct io_uring_params p = {
		.flags = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP, .cq_entries = 2 * o->entries,
	};
	int rc;

	*k = (struct kring){ .enters = 0 };
	if (o->sqpoll_ms) {
		p.flags |= IORING_SETUP_SQPOLL;
		p.sq_thread_idle = o->sqpoll_ms;
	}
	rc = io_uring_queue_init_params(o->entries, &k->ring, &p);
	if (rc < 0)
		return explain(rc, why, size);
	io_uring_ring_dontfork(&k->ring);
	rc = check_ops(k, o->ops, why, size);
	if (rc == 0 && o->event_fd >= 0) {
		rc = io_uring_register_eventfd(&k->ring, o->event_fd);
		if (rc < 0)
			explain(rc, why, size);
	}
	if (rc < 0) {
		kring_close(k);
		return rc;
	}
	make_tables(k, o);
	return 0;
}

void kring_close(struct kring *k)
{
	io_uring_queue_exit(&k->ring);
}

int kring_probe(const uint8_t *ops, char *why, size_t size)
{
	const struct kring_options o = { .entries = 2, .event_fd = -1, .ops = ops };
	struct kring k;
	int rc = kring_open(&k, &o, why, size);

	if (rc == 0)
		kring_close(&k);
	return rc;
}

int kring_set_file(struct kring *k, uint32_t place, int fd)
{
	int rc = io_uring_register_files_update(&k->ring, place, &fd, 1);

	return rc < 0 ? rc : 0;
}

int kring_set_buffer(struct kring *k, uint32_t place, void *memory, size_t length)
{
	struct iovec v = { length ? memory : NULL, length };
	__u64 tag = 0;
	int rc = io_uring_register_buffers_update_tag(&k->ring, place, &v, &tag, 1);

	return rc < 0 ? rc : 0;
}

/* With a polling thread liburing enters only to wake it. */
static bool will_enter(const struct kring *k)
{
	return !(k->ring.flags & IORING_SETUP_SQPOLL) ||
	       (*k->ring.sq.kflags & IORING_SQ_NEED_WAKEUP);
}

void kring_submit(struct kring *k)
{
	int rc;

	store_relaxed(&k->enters, k->enters + will_enter(k));
	rc = io_uring_submit(&k->ring);
	if (rc > 0)
		store_relaxed(&k->submitted, k->submitted + (uint64_t)rc);
}

struct io_uring_cqe *kring_peek(struct kring *k)
{
	struct io_uring_cqe *cqe = NULL;

	if (!io_uring_cq_ready(&k->ring)) {
		if (!(*k->ring.sq.kflags & IORING_SQ_CQ_OVERFLOW))
			return NULL;
		store_relaxed(&k->enters, k->enters + 1);
	}
	return io_uring_peek_cqe(&k->ring, &cqe) == 0 ? cqe : NULL;
}
