/* SPDX-License-Identifier: Apache-2.0 */
/* lib_far.c - see lib_far.h. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/common/lib_far.h"
#include "tests/common/tentd.h"

static const char *const patient[] = { LIB_FAR_PATIENT, NULL };

void lib_far_own(struct lib_far *f)
{
	void *memory;

	assert_int_equal(tent_client_attach(f->there.tentd->socket, "kv", &f->owner), 0);
	assert_int_equal(tent_client_alloc(f->owner, 2 * LIB_FAR_SIZE, NULL, &memory), 0);
	assert_int_equal(tent_client_register(f->owner, memory, LIB_FAR_SIZE,
					      TENT_PERM_GLOBAL_READ_WRITE, NULL, 0), 0);
	f->memory = memory;
}

void lib_far_open(struct lib_far *f, enum lib_mode mode, const char *const *options)
{
	options = options ? options : patient;
	memset(f, 0, sizeof(*f));
	lib_fix_tentd(&f->there, options);
	lib_far_own(f);
	lib_fix_start(&f->here, mode, LIB_FAR_SIZE, options);
	assert_int_equal(tent_open_segment(f->here.engine, &f->id,
					   tent_client_segment(f->owner)), 0);
}

void lib_far_close(struct lib_far *f)
{
	lib_fix_stop(&f->here);
	tent_client_detach(f->owner);
	lib_fix_kill(&f->there, SIGTERM);
}
