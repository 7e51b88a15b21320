/* SPDX-License-Identifier: Apache-2.0 */
/* far.c - see far.h. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/common/engine_fix.h"
#include "tests/common/far.h"

#define PAUSE_MS 5		/* between two looks */
#define LOOKS_MANY 12000

uint32_t far_rule_of_open(struct tent_client *c, const char *name, tent_segment_id_t *id)
{
	return tent_client_open_segment(c, name, id) ? engine_fix_rule() : 0;
}

tent_segment_id_t far_open_it(struct tent_client *c, const char *name)
{
	struct tent_error_info info = { .size = sizeof(info) };
	tent_segment_id_t id = 0;

	if (tent_client_open_segment(c, name, &id)) {
		tent_client_error(&info);
		fail_msg("open of %s: %s", name, info.message);
	}
	return id;
}

int far_buffers(struct tent_client *c, tent_segment_id_t id)
{
	tent_segment_info_t info = { 0 };

	if (tent_client_segment_info(c, id, &info))
		return -(int)engine_fix_rule();
	free(info.buffers);
	return info.num_buffers;
}

void far_expect_buffers(struct tent_client *c, tent_segment_id_t id, int expected)
{
	for (int looks = 0, now; (now = far_buffers(c, id)) != expected; looks++) {
		if (looks == LOOKS_MANY)
			fprintf(stderr, "a segment has %d buffers, and not %d\n", now, expected);
		poll(NULL, 0, PAUSE_MS);
	}
}
