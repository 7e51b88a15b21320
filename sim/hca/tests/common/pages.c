/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/hca/tests/common/pages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>

#include <cmocka.h>

bool pages_pins_hold;

uint8_t *pages_map(size_t n)
{
	void *p = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

struct umem *pages_pin(void *p, uint64_t length)
{
	struct umem *m;

	assert_int_equal(umem_pin(&m, (uintptr_t)p, length, true), 0);
	return m;
}

int pages_try_pins(void **state)
{
	uint8_t *p = pages_map(1), got;
	struct umem *m = pages_pin(p, PAGE);

	(void)state;
	munmap(p, PAGE);
	pages_pins_hold = !umem_read(m, 0, &got, 1);
	umem_release(m);
	return 0;
}

void pages_need_pins(void)
{
	if (!pages_pins_hold)
		skip();
}
