/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_attack_memory.c - memory that is not what its owner said: files that shrink
 * or are none, holes, what goes away under a copy, and more of it than there may be.
 * tentd is real, and two honest processes verify all of their data meanwhile.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <tent/rules.h>

#include "ring/order.h"
#include "tests/common/foe.h"
#include "tests/common/soak.h"

static int setup(void **state)
{
	(void)state;
	arena_start(&arena, (const char *const[]){
		"-o", "limits/allocated_bytes_per_client=16777216",
		"-o", "limits/regions_per_client=512",
		"-o", "limits/rings_per_client=8", NULL });
	return 0;
}

/* ---- descriptors that are not sealed memfds -------------------------------------- */

static void need_refused(struct foe *f, int fd, uint64_t offset, uint64_t length)
{
	need(raw_register(&f->raw, TENT_MEM_FD, (void *)0x10000000, length, 0, fd, offset,
			  TENT_PERM_GLOBAL_READ_WRITE) < 0);
	need(f->raw.status.error != TENT_ERR_ENGINE_LOST);
	close(fd);
}

static int attack_descriptors(struct arena *a, void *arg)
{
	const int sealed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	int fds[2];
	struct foe f;

	(void)arg;
	foe_open(&f, a);
	need_refused(&f, foe_memfd(0, FOE_MEMORY, 0), 0, FOE_MEMORY);
	need(f.raw.status.rule == TENT_RULE_MEM_SEALS);
	need_refused(&f, foe_memfd(0, FOE_MEMORY, F_SEAL_GROW), 0, FOE_MEMORY);
	need(f.raw.status.rule == TENT_RULE_MEM_SEALS);
	need_refused(&f, foe_memfd(0, FOE_MEMORY, sealed | F_SEAL_WRITE), 0, FOE_MEMORY);
	need_refused(&f, foe_memfd(0, FOE_MEMORY, sealed | F_SEAL_FUTURE_WRITE), 0, FOE_MEMORY);
	need_refused(&f, foe_memfd(0, FOE_MEMORY, sealed), 0, FOE_MEMORY + 1);
	need_refused(&f, foe_memfd(0, FOE_MEMORY, sealed), FOE_MEMORY, 4096);
	need_refused(&f, foe_memfd(0, FOE_MEMORY, sealed), 4096, UINT64_MAX);
	need_refused(&f, foe_memfd(0, FOE_MEMORY, sealed), UINT64_MAX - 4095, 4096);
	need_refused(&f, foe_memfd(0, FOE_MEMORY, sealed), 1ull << 63, 4096);
	need_refused(&f, foe_memfd(0, FOE_MEMORY, sealed), 0, 0);
	need(pipe(fds) == 0);
	need_refused(&f, fds[0], 0, 4096);
	need_refused(&f, fds[1], 0, 4096);
	need(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
	need_refused(&f, fds[0], 0, 4096);
	need_refused(&f, fds[1], 0, 4096);
	need_refused(&f, epoll_create1(0), 0, 4096);
	need_refused(&f, open("/", O_RDONLY | O_DIRECTORY), 0, 4096);
	need_refused(&f, open("/proc/self/exe", O_PATH), 0, 4096);
	need_refused(&f, open("/proc/self/mem", O_RDWR), 0, 4096);
	need_refused(&f, open("/dev/zero", O_RDWR), 0, 4096);
	need_refused(&f, dup(f.raw.sock), 0, 4096);
	need_refused(&f, dup(f.ring.engine_fd), 0, 4096); /* tentd's word to us */
	need(raw_register(&f.raw, TENT_MEM_FD, (void *)0x10000000, 4096, 0, -1, 0, 2) < 0);
	need(foe_copy(&f, TENT_OPCODE_READ, f.memory.addr, 64).status == TENT_STATUS_COMPLETED);
	return 0;
}

static void what_is_no_sealed_memfd_is_refused(void **state)
{
	(void)state;
	assert_int_equal(arena_attack(&arena, attack_descriptors, NULL, 0), 0);
	arena_check(&arena);
}

/* A read-only descriptor of a memfd, and one made writable for nobody. */
static int attack_read_only(struct arena *a, void *arg)
{
	int fd = foe_memfd(0, FOE_MEMORY, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), ro;
	struct foe f;
	char path[64];
	void *p;

	(void)arg;
	foe_open(&f, a);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ro = open(path, O_RDONLY);
	p = mmap(NULL, FOE_MEMORY, PROT_READ, MAP_SHARED, ro, 0);
	need(p != MAP_FAILED);
	if (raw_register(&f.raw, TENT_MEM_FD, p, FOE_MEMORY, 0, ro, 0,
			 TENT_PERM_GLOBAL_READ_WRITE) == 0) {
		memset(f.memory.addr, 0xee, 4096);
		foe_copy(&f, TENT_OPCODE_WRITE, p, 4096);
		need(*(uint8_t *)p == 0); /* nobody who may only read it writes it so */
	}
	return 0;
}

static void a_read_only_descriptor_gives_no_way_to_write(void **state)
{
	(void)state;
	assert_int_equal(arena_attack(&arena, attack_read_only, NULL, 0), 0);
	arena_check(&arena);
}

/* The ring's own slots as a target: the foe may garble its own ring, and no more. */
static int attack_own_ring(struct arena *a, void *arg)
{
	struct foe f;

	(void)arg;
	foe_open(&f, a);
	if (raw_register(&f.raw, TENT_MEM_FD, f.ring.client, 4096, 0, f.ring.client_fd, 0,
			 TENT_PERM_GLOBAL_READ_WRITE))
		return 0;
	memset(f.memory.addr, 0x5a, 4096);
	foe_copy(&f, TENT_OPCODE_WRITE, f.ring.client, 4096);
	return 0;
}

static void a_ring_registered_as_memory_hurts_its_owner_only(void **state)
{
	(void)state;
	assert_int_equal(arena_attack(&arena, attack_own_ring, NULL, 0), 0);
	arena_check(&arena);
}

/* ---- holes ------------------------------------------------------------------------ */

struct puncher {
	int fd;
	uint64_t size;
	uint32_t stop;
};

static void *punch_main(void *arg)
{
	struct puncher *p = arg;
	uint64_t random = 3;

	while (!load_acquire(&p->stop))
		need(fallocate(p->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			       (off_t)(random_next(&random) % (p->size / 4096)) * 4096,
			       65536) == 0);
	return NULL;
}

static int attack_punch(struct arena *a, void *arg)
{
	struct puncher p = { .size = FOE_MEMORY };
	pthread_t thread;
	struct foe f;

	(void)arg;
	foe_open(&f, a);
	p.fd = f.memory.fd;
	need(pthread_create(&thread, NULL, punch_main, &p) == 0);
	for (uint32_t i = soak_rounds(600); i > 0; i--)
		need(foe_copy(&f, i & 1, f.memory.addr + FOE_MEMORY / 2, FOE_MEMORY / 2).status ==
		     TENT_STATUS_COMPLETED);
	store_release(&p.stop, 1u);
	pthread_join(thread, NULL);
	return 0;
}

static void holes_punched_under_a_copy_hurt_nobody(void **state)
{
	(void)state;
	assert_int_equal(arena_attack(&arena, attack_punch, NULL, 0), 0);
	arena_check(&arena);
}

/* ---- more than there may be -------------------------------------------------------------- */

static int attack_alloc_flood(struct arena *a, void *arg)
{
	struct raw_memory m;
	struct raw r;
	int got = 0;

	(void)arg;
	raw_attach(&r, a->tentd.socket, NULL);
	need(raw_alloc(&r, 1ull << 62, &m) < 0);
	need(raw_alloc(&r, UINT64_MAX, &m) < 0);
	need(raw_alloc(&r, UINT64_MAX - 4095, &m) < 0);
	need(raw_alloc(&r, 0, &m) < 0);
	while (raw_alloc(&r, FOE_MEMORY, &m) == 0) {
		close(m.fd);
		got++;
	}
	need(r.status.error == TENT_ERR_CAPACITY);
	need(got <= 16);
	return 0;
}

static void an_allocation_flood_ends_at_the_limit(void **state)
{
	(void)state;
	assert_int_equal(arena_attack(&arena, attack_alloc_flood, NULL, 0), 0);
	arena_check(&arena);
}

static int attack_register_flood(struct arena *a, void *arg)
{
	const int sealed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	struct raw r;
	uint64_t got = 0;

	raw_attach(&r, a->tentd.socket, NULL);
	for (;; got++) {
		void *base = (void *)(uintptr_t)(0x100000000 + got * 8192);
		int fd = arg ? foe_memfd(0, 8192, sealed) : -1;
		int rc = raw_register(&r, arg ? TENT_MEM_FD : TENT_MEM_PRIVATE, base, 8192, 0,
				      fd, 0, 2);

		if (fd >= 0)
			close(fd);
		if (rc)
			break;
	}
	need(r.status.error == TENT_ERR_CAPACITY);
	need(got <= 512);
	return 0;
}

static void a_registration_flood_ends_at_the_limit(void **state)
{
	(void)state;
	assert_int_equal(arena_attack(&arena, attack_register_flood, NULL, 0), 0);
	assert_int_equal(arena_attack(&arena, attack_register_flood, (void *)1, 0), 0);
	arena_check(&arena);
}

static int attack_ring_flood(struct arena *a, void *arg)
{
	struct raw_ring ring;
	struct raw r;
	int got = 0;

	(void)arg;
	raw_attach(&r, a->tentd.socket, NULL);
	need(raw_ring_open(&r, 3, &ring) < 0);
	need(raw_ring_open(&r, 1u << 31, &ring) < 0);
	need(raw_ring_open(&r, 131072, &ring) < 0);
	while (raw_ring_open(&r, 1024, &ring) == 0)
		got++;
	need(r.status.error == TENT_ERR_CAPACITY);
	need(got <= 8);
	return 0;
}

static void a_ring_flood_ends_at_the_limit(void **state)
{
	(void)state;
	assert_int_equal(arena_attack(&arena, attack_ring_flood, NULL, 0), 0);
	arena_check(&arena);
}

/* ---- memory that changes under requests ----------------------------------------------------- */

/* Unregisters, and registers again, while copies that name it are on their way; the
 * bytes of what ended must not change any more after unregister returned. With an
 * argument the copies have begun by then, and it goes on until some have ended for want of
 * their memory. */
static int attack_unregister(struct arena *a, void *arg)
{
	uint8_t *p = mmap(NULL, FOE_MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);
	uint32_t gone = 0;
	struct foe f;

	foe_open(&f, a);
	for (int i = 0; i < 50 || (arg && !gone); i++) {
		struct tent_completion c;

		memset(f.memory.addr, i, FOE_MEMORY);
		need(raw_register(&f.raw, TENT_MEM_PRIVATE, p, FOE_MEMORY, 0, -1, 0, 2) == 0);
		for (uint32_t k = 0; k < 16; k++)
			raw_request(&f.ring, k, TENT_OPCODE_WRITE, f.memory.addr, 0,
				    (uintptr_t)p, FOE_MEMORY);
		raw_publish(&f.ring, 16);
		if (arg)
			need(raw_wait_consumed(&f.ring));
		need(raw_unregister(&f.raw, p, FOE_MEMORY) == 0);
		memset(p, 0xfe, FOE_MEMORY);	/* ours alone from here on */
		for (uint32_t k = 0; k < 16; ) {
			need(raw_wait(&f.ring, &c));
			need(!(c.flags & TENT_CQE_F_TARGET_UNFENCED));
			gone += c.rule == TENT_RULE_SOURCE_GONE ||
				c.rule == TENT_RULE_TARGET_GONE;
			k += c.credits;
		}
		for (uint32_t k = 0; k < FOE_MEMORY; k += 509)
			need(p[k] == 0xfe);
	}
	printf("%u requests ended because their memory went\n", gone);
	fflush(stdout);
	return 0;
}

static void unregistered_memory_is_never_written_again(void **state)
{
	(void)state;
	assert_int_equal(arena_attack(&arena, attack_unregister, NULL, 0), 0);
	assert_int_equal(arena_attack(&arena, attack_unregister, (void *)1, 0), 0);
	arena_check(&arena);
}

/* The same address again, with other memory behind it: what the engine remembers of
 * an address must go with the memory. */
static int attack_rebind(struct arena *a, void *arg)
{
	const int sealed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	const uint32_t rounds = soak_rounds(300);
	void *at = (void *)0x200000000;
	uint8_t *old = NULL;
	struct foe f;

	(void)arg;
	foe_open(&f, a);
	for (uint32_t i = 0; i < rounds; i++) {
		int fd = foe_memfd(0, 65536, sealed);
		uint8_t *now = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		need(now != MAP_FAILED);
		need(raw_register(&f.raw, TENT_MEM_FD, at, 65536, 0, fd, 0, 2) == 0);
		memset(f.memory.addr, i, 65536);
		need(foe_copy(&f, TENT_OPCODE_WRITE, at, 65536).status ==
		     TENT_STATUS_COMPLETED);
		need(now[0] == (uint8_t)i && now[65535] == (uint8_t)i);
		need(!old || (old[0] == 0xee && old[65535] == 0xee));
		if (old)
			munmap(old, 65536);
		need(raw_unregister(&f.raw, at, 65536) == 0);
		memset(now, 0xee, 65536);
		need(foe_copy(&f, TENT_OPCODE_WRITE, at, 64).rule ==
		     TENT_RULE_TARGET_UNREGISTERED);
		old = now;
		close(fd);
	}
	return 0;
}

static void an_address_registered_again_reaches_its_new_memory_only(void **state)
{
	(void)state;
	assert_int_equal(arena_attack(&arena, attack_rebind, NULL, 0), 0);
	arena_check(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_no_sealed_memfd_is_refused),
		cmocka_unit_test(a_read_only_descriptor_gives_no_way_to_write),
		cmocka_unit_test(a_ring_registered_as_memory_hurts_its_owner_only),
		cmocka_unit_test(holes_punched_under_a_copy_hurt_nobody),
		cmocka_unit_test(an_allocation_flood_ends_at_the_limit),
		cmocka_unit_test(a_registration_flood_ends_at_the_limit),
		cmocka_unit_test(a_ring_flood_ends_at_the_limit),
		cmocka_unit_test(unregistered_memory_is_never_written_again),
		cmocka_unit_test(an_address_registered_again_reaches_its_new_memory_only),
	};

	return cmocka_run_group_tests(tests, setup, arena_teardown);
}
