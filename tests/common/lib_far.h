/* SPDX-License-Identifier: Apache-2.0 */
/* lib_far.h - an engine of a program, and a segment "kv" of another engine that it opened. */
#ifndef TENT_TESTS_LIB_FAR_H
#define TENT_TESTS_LIB_FAR_H

#include <tent/tentring.h>

#include "tests/common/lib_fix.h"

#define LIB_FAR_SIZE 65536u	/* bytes of registered memory at either end */
/* Options that both need. */
#define LIB_FAR_PEERS "peers/enable=true", "rpc_server_hostname=127.0.0.1"
/* However slow the machine is, nobody is silent. */
#define LIB_FAR_PATIENT LIB_FAR_PEERS, "peers/keepalive_ms=20000"

struct lib_far {
	struct lib_fix here, there;	/* there: a tentd alone */
	struct tent_client *owner;
	uint8_t *memory;		/* the owner's; there is as much behind it, not registered */
	tent_segment_id_t id;
};

/* options: of both engines; NULL: LIB_FAR_PATIENT. */
void lib_far_open(struct lib_far *f, enum lib_mode mode, const char *const *options);
void lib_far_close(struct lib_far *f);
/* An owner comes: another one. */
void lib_far_own(struct lib_far *f);

#endif /* TENT_TESTS_LIB_FAR_H */
