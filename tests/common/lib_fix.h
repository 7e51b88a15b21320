/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib_fix.h - what the tests of libtent share: an engine of each kind, and memory in
 * it.
 */
#ifndef TENT_TESTS_LIB_FIX_H
#define TENT_TESTS_LIB_FIX_H

#include <stddef.h>
#include <stdint.h>
#include <tent/rules.h>
#include <tent/transfer_engine.h>

enum lib_mode { LIB_THREAD, LIB_CALLER, LIB_DAEMON };

struct lib_fix {
	enum lib_mode mode;
	struct tentd *tentd;		/* LIB_DAEMON, else NULL */
	char word[108];			/* what TENT_ENGINE is set to */
	tent_engine_t engine;
	uint8_t *memory;		/* registered */
	size_t size;
};

/* Starts a tentd (LIB_DAEMON), sets TENT_ENGINE, makes an engine with size bytes of
 * allocated and registered memory. Fails the test when anything does not work.
 * options: of tentd or tent_set_config(), "key=value" texts, NULL-terminated; may be
 * NULL. */
void lib_fix_start(struct lib_fix *f, enum lib_mode mode, size_t size,
		   const char *const *options);
void lib_fix_stop(struct lib_fix *f);

/* The tentd alone: lib_fix_start() and lib_fix_stop() call them. */
void lib_fix_tentd(struct lib_fix *f, const char *const *options);
void lib_fix_kill(struct lib_fix *f, int signal_number);

/* A request within f's memory, offsets in bytes from its start. */
struct tent_request_v1 lib_fix_request(const struct lib_fix *f, int opcode, size_t source,
				       size_t target, size_t length);

/* Polls until the batch has ended and returns its status. */
tent_status_t lib_fix_wait(tent_engine_t engine, tent_batch_id_t batch);

/* The calling thread's last error. */
tent_error_info_t lib_fix_error(void);

/* Deterministic bytes. */
void lib_fix_pattern(uint8_t *to, size_t size, uint32_t seed);

/* Of a void name(enum lib_mode mode): a test with each kind of engine, and their rows. */
#define LIB_TESTS(name)								\
static void name##_in_a_thread(void **state) { (void)state; name(LIB_THREAD); }	\
static void name##_in_a_caller(void **state) { (void)state; name(LIB_CALLER); }	\
static void name##_in_a_daemon(void **state) { (void)state; name(LIB_DAEMON); }
#define LIB_ROWS(name)								\
	cmocka_unit_test(name##_in_a_thread), cmocka_unit_test(name##_in_a_caller), \
	cmocka_unit_test(name##_in_a_daemon),

/* Path of something built beside the running test program ("tools/tentd"). */
void lib_fix_path(const char *name, char *path, size_t size);

#endif /* TENT_TESTS_LIB_FIX_H */
