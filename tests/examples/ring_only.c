/* SPDX-License-Identifier: Apache-2.0 */
/* ring_only.c - the ring itself in one page: needs libtentring, which needs libc only,
 * and a running tentd, whose socket is the first argument. */
#include <stdio.h>
#include <string.h>
#include <tent/tentring.h>

/* What the library has to say, and the exit status. */
static int fail(void)
{
	struct tent_error_info why = { .size = sizeof(why) };

	tent_client_error(&why);
	fprintf(stderr, "%s\n", why.message);
	return 1;
}

int main(int argc, char **argv)
{
	struct tent_client *client;
	struct tent_ring *ring;
	struct tent_completion done = { .status = TENT_STATUS_FAILED };
	void *memory;

	if (tent_client_attach(argc > 1 ? argv[1] : TENTD_SOCKET_DEFAULT, NULL, &client) ||
	    tent_client_alloc(client, 8192, "*", &memory) ||
	    tent_client_register(client, memory, 8192, TENT_PERM_LOCAL_READ_WRITE, NULL, 0) ||
	    tent_ring_open(client, 0, 0, &ring))
		return fail();
	strcpy(memory, "a KV block");

	struct tent_request_v1 write = {
		.struct_size = sizeof(write), .schema_version = TENT_REQUEST_SCHEMA_V1,
		.opcode = TENT_OPCODE_WRITE, .source = memory, .length = 4096,
		.target_id = TENT_LOCAL_SEGMENT, .target_offset = (uintptr_t)memory + 4096,
	};
	if (tent_ring_submit(ring, &write, 1, sizeof(write), 0, 0))
		return fail();
	while (tent_ring_poll(ring, &done, 1) == 0 && tent_ring_wait(ring, 1000000000) == 0)
		;
	printf("status %d: %s\n", done.status, (char *)memory + 4096);
	tent_client_detach(client);
	return done.status != TENT_STATUS_COMPLETED;
}
