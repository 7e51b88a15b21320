/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_long.c - requests that are longer than numbers of 30 and of 32 bits, by every
 * transport that moves bytes. What is read from is a few pages that are mapped again and
 * again; what is written to is as long as it looks, and is compared in full.
 *
 * 4 GiB and a byte always, but to files by threads, which share all but the last call with
 * io_uring; that, 1 GiB and a byte and 5 GiB in `make soak`. Under a sanitizer, which keeps
 * books on every byte, only what is longer than all that a transport has on its way at once.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/common/soak.h"
#include "tests/test_tcp_fix.h"

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)
#define PAGE 4096u
#define FOLD (4093u * PAGE)	/* a prime: no chunk in another's place looks right */
#define MARGIN 8192u
#define AT 4093u		/* where a request begins */

struct ends {
	struct tent_client *owner, *user;	/* of tcp two, else the same */
	struct tent_ring *ring;
	tent_segment_id_t id;
	uint64_t size;
	uint8_t *folded, *real;			/* both size bytes */
};

/* ---- memory ------------------------------------------------------------ */

/* A word says where it belongs. */
static void number(uint8_t *p, uint64_t size)
{
	for (uint64_t i = 0; i < size; i += 8) {
		uint64_t word = (i + 8) * 0x9e3779b97f4a7c15u;

		memcpy(p + i, &word, 8);
	}
}

static uint8_t *map_folded(uint64_t size)
{
	int fd = memfd_create("folded", MFD_CLOEXEC);
	uint8_t *at = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(fd >= 0 && at != MAP_FAILED);
	assert_int_equal(ftruncate(fd, FOLD), 0);
	for (uint64_t i = 0; i < size; i += FOLD)
		assert_ptr_equal(mmap(at + i, size - i < FOLD ? size - i : FOLD,
				      PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0),
				 at + i);
	close(fd);
	number(at, FOLD);
	return at;
}

/* Zeros, at a place of the kernel's choice or, where there is some, in the place of it. */
static uint8_t *map_real(uint8_t *there, uint64_t size)
{
	uint8_t *at = mmap(there, size, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | (there ? MAP_FIXED : 0), -1, 0);

	assert_ptr_not_equal(at, MAP_FAILED);
	madvise(at, size, MADV_HUGEPAGE);	/* faster to come by, where there are some */
	return at;
}

static void own(struct tent_client *c, uint8_t *p, uint64_t size)
{
	assert_int_equal(tent_client_register(c, p, size, TENT_PERM_GLOBAL_READ_WRITE, NULL, 0),
			 0);
}

static void ends_open(struct ends *e, bool far, uint64_t n)
{
	e->size = n + MARGIN;
	e->folded = map_folded(e->size);
	e->real = map_real(NULL, e->size);
	e->user = engine_fix_local(&one);
	e->owner = far ? engine_fix_local(&two) : e->user;
	own(e->user, e->folded, e->size);
	own(e->user, e->real, e->size);
	e->id = TENT_LOCAL_SEGMENT;
	if (far) {
		own(e->owner, e->folded, e->size);
		own(e->owner, e->real, e->size);
		e->id = far_open_it(e->user, tent_client_segment(e->owner));
	}
	e->ring = engine_fix_ring(e->user);
}

static void ends_close(struct ends *e)
{
	tent_ring_close(e->ring);
	tent_client_detach(e->user);
	if (e->owner != e->user)
		tent_client_detach(e->owner);
	munmap(e->folded, e->size);
	munmap(e->real, e->size);
}

struct word {
	uint64_t bytes;
} __attribute__((packed, may_alias));

/* What orders the engine's writes before these reads is a ring that is mapped twice, and
 * tsan does not see it. */
__attribute__((no_sanitize("thread")))
static bool is_same(const uint8_t *a, const uint8_t *b, uint64_t n)
{
	uint64_t differs = 0, i = 0;

	for (; i + 8 <= n; i += 8)
		differs |= ((const struct word *)(a + i))->bytes ^
			   ((const struct word *)(b + i))->bytes;
	for (; i < n; i++)
		differs |= a[i] ^ b[i];
	return !differs;
}

/* The bytes around stay as they were; then all are. */
static void arrived(struct ends *e, uint64_t n)
{
	assert_true(is_zero(e->real, AT) && is_zero(e->real + AT + n, e->size - AT - n));
	assert_true(is_same(e->real + AT, e->folded + AT, n));
	map_real(e->real, e->size);
}

static void moved_by(struct tent_completion done, uint64_t n, uint8_t transport)
{
	completed(done, n);
	assert_int_equal(done.transport, transport);
}

/* ---- between memory and memory ----------------------------------------- */

static void write_and_read(bool far, uint64_t n)
{
	uint8_t transport = far ? TENT_TRANSPORT_TCP : TENT_TRANSPORT_SHM;
	struct ends e;

	ends_open(&e, far, n);
	moved_by(engine_fix_move(e.ring, TENT_OPCODE_WRITE, e.folded + AT, e.id, e.real + AT, n),
		 n, transport);
	arrived(&e, n);
	moved_by(engine_fix_move(e.ring, TENT_OPCODE_READ, e.real + AT, e.id, e.folded + AT, n),
		 n, transport);
	arrived(&e, n);
	ends_close(&e);
}

/* ---- between memory and a file ------------------------------------------ */

static void same_as_file(const struct ends *e, int fd, uint64_t n)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, AT + n);
	for (uint64_t i = 0; i < n; i += GIB / 4) {
		uint64_t length = n - i < GIB / 4 ? n - i : GIB / 4;
		off_t at = (off_t)((AT + i) & ~(uint64_t)(PAGE - 1));
		uint64_t skip = AT + i - (uint64_t)at;
		uint8_t *p = mmap(NULL, length + skip, PROT_READ, MAP_SHARED, fd, at);

		assert_ptr_not_equal(p, MAP_FAILED);
		assert_int_equal(memcmp(p + skip, e->folded + AT + i, length), 0);
		munmap(p, length + skip);
	}
}

static void by_file(uint64_t n)
{
	char name[64] = "file:///var/tmp/tent-long-XXXXXX";
	char *path = name + strlen("file://");
	int fd = mkstemp(path);
	struct ends e;

	assert_true(fd >= 0);
	ends_open(&e, false, n);
	e.id = far_open_it(e.user, name);
	unlink(path);	/* nothing is left of it, whatever happens */
	moved_by(engine_fix_move(e.ring, TENT_OPCODE_WRITE, e.folded + AT, e.id, (void *)AT, n),
		 n, TENT_TRANSPORT_IOURING);
	same_as_file(&e, fd, n);
	moved_by(engine_fix_move(e.ring, TENT_OPCODE_READ, e.real + AT, e.id, (void *)AT, n), n,
		 TENT_TRANSPORT_IOURING);
	arrived(&e, n);
	ends_close(&e);
	close(fd);
}

/* ---- lengths ----------------------------------------------------------- */

#define LENGTHS(by)								\
static void more_than_the_window_arrives_##by(void **s) { (void)s; by(96 * MIB + 1); }	\
static void four_gib_and_a_byte_arrive_##by(void **s) { (void)s; by(4 * GIB + 1); }	\
static void one_gib_and_a_byte_arrive_##by(void **s) { (void)s; by(GIB + 1); }		\
static void five_gib_arrive_##by(void **s) { (void)s; by(5 * GIB); }			\
static const struct CMUnitTest lengths_##by[] = {						\
	cmocka_unit_test(more_than_the_window_arrives_##by),				\
	cmocka_unit_test(four_gib_and_a_byte_arrive_##by),				\
	cmocka_unit_test(one_gib_and_a_byte_arrive_##by),				\
	cmocka_unit_test(five_gib_arrive_##by),					\
};

static void by_shm(uint64_t n) { write_and_read(false, n); }
static void by_tcp(uint64_t n) { write_and_read(true, n); }
LENGTHS(by_shm)
LENGTHS(by_tcp)
LENGTHS(by_file)

/* ---- engines ----------------------------------------------------------- */

static void tune_patient(struct engine_config *c)
{
	tune_uring(c);
	wire_set(c, "engine/request_timeout_ms", "3600000");
}

static void tune_patient_without(struct engine_config *c)
{
	tune_patient(c);
	wire_set(c, "transports/tcp/io_uring", "false");
	wire_set(c, "transports/file/io_uring", "false");
}

static int patient(void **state)
{
	(void)state;
	return start(tune_patient);
}

static int patient_without(void **state)
{
	(void)state;
	return start(tune_patient_without);
}

/* Alone: the kernel's threads for files count as one's until it ends. */
static int alone(void **state)
{
	(void)state;
	engine_fix_start(&one, tune_patient);
	return 0;
}

static int alone_without(void **state)
{
	(void)state;
	engine_fix_start(&one, tune_patient_without);
	return 0;
}

static int alone_no_more(void **state)
{
	(void)state;
	engine_fix_stop(&one);
	return 0;
}

/* The first nr of them, of more in `make soak` and of fewer under a sanitizer. */
#define RUN(group, nr, means, setup, teardown)					\
	_cmocka_run_group_tests(means, group, is_soak() ? NR(group) : IS_SANITIZED ? 1 : nr, \
				setup, teardown)

int main(void)
{
	int failed = 0;

	failed += RUN(lengths_by_shm, 2, "shm", alone, alone_no_more);
	failed += RUN(lengths_by_tcp, 2, "tcp, io_uring", patient, without);
	failed += RUN(lengths_by_tcp, 2, "tcp, epoll", patient_without, without);
	failed += RUN(lengths_by_file, 2, "file, io_uring", alone, alone_no_more);
	failed += RUN(lengths_by_file, 1, "file, threads", alone_without, alone_no_more);
	return failed;
}
