/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pin.c - rings that hold nothing but pins. To get at pinned pages, one request moves bytes
 * between them and a small file of ours, which is mapped. No library: this is preloaded
 * into programs that may have another version of it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "sim/hca/mem/pin.h"
#include "sim/hca/mem/sys.h"

#define PINS_PER_RING 16384		/* what the kernel allows */
#define RINGS_MAX 64
#define STAGE_BYTES (256u << 10)
#define MAPPED_RING_BYTES 4096		/* of a ring with one entry */

struct ring {
	int fd;
	uint8_t *queues;		/* both */
	struct io_uring_sqe *sqe;	/* the only one */
	uint8_t *stage;			/* the file that requests move bytes through */
	struct io_uring_params params;
	uint32_t nr_free;
	uint16_t free[PINS_PER_RING];
};

static struct ring *rings[RINGS_MAX];
static bool is_refused;			/* there is no io_uring for us */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- making a ring ------------------------------------------------------------------ */

static int register_with(const struct ring *r, unsigned what, const void *arg, unsigned n)
{
	long rc = syscall(SYS_io_uring_register, r->fd, what, arg, n);

	return rc < 0 ? -errno : (int)rc;
}

static void *map(size_t n, int fd, uint64_t offset)
{
	void *p = sys_map_shared(n, PROT_READ | PROT_WRITE, MAP_POPULATE, fd, offset);

	return p == MAP_FAILED ? NULL : p;
}

static int map_queues(struct ring *r)
{
	if (!(r->params.features & IORING_FEAT_SINGLE_MMAP))
		return -EOPNOTSUPP;
	r->queues = map(MAPPED_RING_BYTES, r->fd, IORING_OFF_SQ_RING);
	r->sqe = map(sizeof(*r->sqe), r->fd, IORING_OFF_SQES);
	return r->queues && r->sqe ? 0 : -ENOMEM;
}

/* Registered, so that it does not depend on a number that the program may close. */
static int make_stage(struct ring *r)
{
	int fd = (int)syscall(SYS_memfd_create, "tent-hca-stage", MFD_CLOEXEC), rc;

	if (fd < 0)
		return -errno;
	if (syscall(SYS_ftruncate, fd, (long)STAGE_BYTES) < 0)
		rc = -errno;
	else
		rc = register_with(r, IORING_REGISTER_FILES, &fd, 1);
	if (!rc) {
		r->stage = map(STAGE_BYTES, fd, 0);
		rc = r->stage ? 0 : -ENOMEM;
	}
	syscall(SYS_close, fd);
	return rc;
}

static void ring_destroy(struct ring *r)
{
	if (r->queues)
		sys_unmap(r->queues, MAPPED_RING_BYTES);
	if (r->sqe)
		sys_unmap(r->sqe, sizeof(*r->sqe));
	if (r->stage)
		sys_unmap(r->stage, STAGE_BYTES);
	if (r->fd >= 0)
		syscall(SYS_close, r->fd);
	free(r);
}

static int ring_fill(struct ring *r)
{
	struct io_uring_rsrc_register table = { .nr = PINS_PER_RING,
						.flags = IORING_RSRC_REGISTER_SPARSE };
	int rc;

	r->fd = (int)syscall(SYS_io_uring_setup, 1, &r->params);
	if (r->fd < 0)
		return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? -ENOMEM : -EOPNOTSUPP;
	r->fd = sys_move_up(r->fd);
	rc = map_queues(r);
	if (!rc)
		rc = make_stage(r);
	if (!rc)
		rc = register_with(r, IORING_REGISTER_BUFFERS2, &table, sizeof(table));
	/* A kernel before 5.19 knows no table with holes. */
	return rc == -EINVAL ? -EOPNOTSUPP : rc;
}

static int ring_create(struct ring **out)
{
	struct ring *r = calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return -ENOMEM;
	rc = ring_fill(r);
	if (rc) {
		ring_destroy(r);
		return rc;
	}
	for (uint32_t i = 0; i < PINS_PER_RING; i++)
		r->free[i] = (uint16_t)(PINS_PER_RING - 1 - i);
	r->nr_free = PINS_PER_RING;
	*out = r;
	return 0;
}

static void refuse(void)
{
	is_refused = true;
	dprintf(2, "tent-hca: no io_uring with registered buffers here, so memory is not "
		"pinned: a region must be deregistered before its pages are unmapped\n");
}

/* The first ring that has room, made if need be; its number, or -errno. */
static int ring_with_room(void)
{
	int i = 0, rc;

	while (i < RINGS_MAX && rings[i] && !rings[i]->nr_free)
		i++;
	if (i == RINGS_MAX)
		return -ENOMEM;
	if (rings[i])
		return i;
	rc = is_refused ? -EOPNOTSUPP : ring_create(&rings[i]);
	if (rc == -EOPNOTSUPP && !is_refused)
		refuse();
	return rc ? rc : i;
}

/* ---- pins ------------------------------------------------------------------------------ */

/* No address: the pin goes. */
static int ring_update(const struct ring *r, uint32_t slot, uint64_t address, uint64_t length)
{
	struct iovec buffer = { (void *)(uintptr_t)address, length };
	struct io_uring_rsrc_update2 update = { .offset = slot, .nr = 1,
						.data = (uintptr_t)&buffer };
	int rc = register_with(r, IORING_REGISTER_BUFFERS_UPDATE, &update, sizeof(update));

	return rc < 0 ? rc : 0;
}

static int add(uint64_t address, uint64_t length)
{
	int index = ring_with_room(), rc;
	struct ring *r;
	uint32_t slot;

	if (index < 0)
		return index;
	r = rings[index];
	slot = r->free[r->nr_free - 1];
	rc = ring_update(r, slot, address, length);
	if (rc)
		/* What older kernels say of a mapped file. */
		return rc == -EOPNOTSUPP ? -EFAULT : rc;
	r->nr_free--;
	return (int)(index * PINS_PER_RING + slot);
}

int pin_add(uint64_t address, uint64_t length)
{
	int rc;

	pthread_mutex_lock(&lock);
	rc = add(address, length);
	pthread_mutex_unlock(&lock);
	return rc;
}

void pin_remove(int pin)
{
	struct ring *r;

	pthread_mutex_lock(&lock);
	r = rings[pin / PINS_PER_RING];
	ring_update(r, pin % PINS_PER_RING, 0, 0);
	r->free[r->nr_free++] = pin % PINS_PER_RING;
	pthread_mutex_unlock(&lock);
}

/* ---- moving bytes ------------------------------------------------------------------------ */

static uint32_t *word_at(const struct ring *r, uint32_t offset)
{
	return (uint32_t *)(r->queues + offset);
}

/* One request at a time, so its result is the only one there is. */
static int run(struct ring *r)
{
	const struct io_sqring_offsets *sq = &r->params.sq_off;
	const struct io_cqring_offsets *cq = &r->params.cq_off;
	uint32_t tail = *word_at(r, sq->tail), head = *word_at(r, cq->head);
	unsigned to_submit = 1;
	int res;

	*word_at(r, sq->array) = 0;
	__atomic_store_n(word_at(r, sq->tail), tail + 1, __ATOMIC_RELEASE);
	while (__atomic_load_n(word_at(r, cq->tail), __ATOMIC_ACQUIRE) == head) {
		long rc = syscall(SYS_io_uring_enter, r->fd, to_submit, 1,
				  IORING_ENTER_GETEVENTS, NULL, 0);

		if (rc < 0 && errno != EINTR && errno != EAGAIN && errno != EBUSY) {
			__atomic_store_n(word_at(r, sq->tail), tail, __ATOMIC_RELEASE);
			return -errno;
		}
		to_submit -= rc > 0;
	}
	res = ((struct io_uring_cqe *)(r->queues + cq->cqes))[head & *word_at(r, cq->ring_mask)].res;
	__atomic_store_n(word_at(r, cq->head), head + 1, __ATOMIC_RELEASE);
	return res;
}

/* n bytes between the start of the stage and the pin. */
static int move(int pin, uint8_t opcode, uint64_t address, uint32_t n)
{
	struct ring *r = rings[pin / PINS_PER_RING];
	uint32_t done = 0;

	while (done < n) {
		int rc;

		*r->sqe = (struct io_uring_sqe) {
			.opcode = opcode, .flags = IOSQE_FIXED_FILE, .off = done,
			.addr = address + done, .len = n - done,
			.buf_index = (uint16_t)(pin % PINS_PER_RING),
		};
		rc = run(r);
		if (rc <= 0)
			return -EFAULT;
		done += (uint32_t)rc;
	}
	return 0;
}

static uint32_t piece(uint64_t n)
{
	return n < STAGE_BYTES ? (uint32_t)n : STAGE_BYTES;
}

int pin_read(int pin, uint64_t address, void *to, uint64_t n)
{
	uint8_t *t = to;
	int rc = 0;

	pthread_mutex_lock(&lock);
	for (uint32_t k; n && !rc; n -= k, address += k, t += k) {
		k = piece(n);
		rc = move(pin, IORING_OP_WRITE_FIXED, address, k);
		if (!rc)
			memcpy(t, rings[pin / PINS_PER_RING]->stage, k);
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

int pin_write(int pin, uint64_t address, const void *from, uint64_t n)
{
	const uint8_t *f = from;
	int rc = 0;

	pthread_mutex_lock(&lock);
	for (uint32_t k; n && !rc; n -= k, address += k, f += k) {
		k = piece(n);
		memcpy(rings[pin / PINS_PER_RING]->stage, f, k);
		rc = move(pin, IORING_OP_READ_FIXED, address, k);
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

/* ---- fork --------------------------------------------------------------------------------- */

void pin_fork_prepare(void)
{
	pthread_mutex_lock(&lock);
}

void pin_fork_parent(void)
{
	pthread_mutex_unlock(&lock);
}

/* The rings are the parent's, whose pins they would keep alive here. */
void pin_fork_child(void)
{
	for (int i = 0; i < RINGS_MAX && rings[i]; i++) {
		ring_destroy(rings[i]);
		rings[i] = NULL;
	}
	pthread_mutex_unlock(&lock);
}
