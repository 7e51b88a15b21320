/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_ring.c - any bytes as submission slots and cells, against the whole engine in
 * caller mode with the shm backend. Whatever comes: every published batch is answered
 * or ends the ring, no byte outside the client's memory changes (asan sees to the
 * rest), and the honest client beside it still gets its copy.
 *
 * Input: blocks of one control byte, 128 bytes of slot and 64 of cell. The control
 * byte says how much of it is made plausible, or random slots would never get past
 * the first check.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <tent/tentring.h>

#include "engine/engine.h"
#include "io/backends.h"

#define MEMORY 65536u
#define SLOTS 8u

enum { REAL_SOURCE = 1, REAL_TARGET = 2, REAL_HEADER = 4, RAW_FIRST = 8, DRIVE = 16 };

struct side {
	struct tent_client *client;
	struct tent_ring *ring;
	uint8_t *memory;
};

static struct engine *engine;
static struct side hostile, honest;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool ok)
{
	if (!ok)
		abort();
}

static void open_side(struct side *s, const char *name)
{
	void *memory;

	need(!tent_client_attach_fd(engine_attach_local(engine), name, &s->client));
	need(!tent_client_alloc(s->client, MEMORY, "*", &memory));
	need(!tent_client_register(s->client, memory, MEMORY, TENT_PERM_GLOBAL_READ_WRITE, NULL,
				   0));
	need(!tent_ring_open(s->client, SLOTS, 4 * SLOTS, &s->ring));
	s->memory = memory;
}

static void start(void)
{
	static const struct backend *const backends[] = { &shm_backend, &null_backend, NULL };
	struct engine_config config;
	char error[256];

	engine_config_default(&config);
	config.caller_mode = true;
	need(!engine_create(&engine, &config, backends, error, sizeof(error)));
	open_side(&hostile, "hostile");
	open_side(&honest, "honest");
}

/* Fills slot i of the batch; what control asks for is overwritten with sense. */
static void fill(uint32_t i, uint8_t control, const uint8_t *block)
{
	struct tent_slot *slot = tent_ring_slot(hostile.ring, i);
	struct tent_request_v1 *r = &slot->request;

	memcpy(slot, block, sizeof(*slot));
	memcpy(tent_ring_cell(hostile.ring, i), block + sizeof(*slot), TENT_CELL_SIZE);
	if (control & REAL_HEADER) {
		r->struct_size = TENT_REQUEST_V1_SIZE;
		r->schema_version = TENT_REQUEST_SCHEMA_V1;
		r->opcode &= 1;
		r->resv0 = 0;
	}
	r->length &= control & RAW_FIRST ? UINT64_MAX : 0x1fff;
	if (control & REAL_SOURCE)
		r->source = hostile.memory + ((uintptr_t)r->source & 0x7fff);
	if (control & REAL_TARGET) {
		r->target_id = 0;
		r->target_offset = (uintptr_t)hostile.memory + (r->target_offset & 0x7fff);
	}
}

static void drive(struct side *s)
{
	struct tent_completion done[SLOTS];

	for (int turn = 0; turn < 64; turn++) {
		if (!engine_drive(engine))
			break;
	}
	while (tent_ring_poll(s->ring, done, SLOTS))
		;
}

/* A ring that broke its protocol was ended; its client opens another. */
static void renew(void)
{
	drive(&hostile);
	if (!tent_ring_end_rule(hostile.ring))
		return;
	tent_ring_close(hostile.ring);
	need(!tent_ring_open(hostile.client, SLOTS, 4 * SLOTS, &hostile.ring));
}

static void check_honest(void)
{
	static uint8_t round;
	struct tent_completion done;
	struct tent_request_v1 r = {
		.struct_size = TENT_REQUEST_V1_SIZE,
		.schema_version = TENT_REQUEST_SCHEMA_V1,
		.opcode = TENT_OPCODE_WRITE,
		.source = honest.memory,
		.target_offset = (uintptr_t)honest.memory + MEMORY / 2,
		.length = 256,
	};

	memset(honest.memory, ++round, 256);
	need(!tent_ring_submit(honest.ring, &r, 1, sizeof(r), 0, 0));
	while (!tent_ring_poll(honest.ring, &done, 1))
		engine_drive(engine);
	need(done.status == TENT_STATUS_COMPLETED && done.bytes == 256);
	need(!memcmp(honest.memory, honest.memory + MEMORY / 2, 256));
	for (size_t i = MEMORY / 2 + 256; i < MEMORY; i++)
		need(!honest.memory[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const size_t block = 1 + sizeof(struct tent_slot) + TENT_CELL_SIZE;
	uint32_t nr = 0;

	if (!engine)
		start();
	for (; size >= block; data += block, size -= block) {
		fill(nr++, data[0], data + 1);
		if (nr < SLOTS && nr < tent_ring_room(hostile.ring) && !(data[0] & DRIVE))
			continue;
		tent_ring_publish(hostile.ring, nr, data[0] >> 6, (uint16_t)(data[0] >> 4 & 3));
		nr = 0;
		renew();
	}
	check_honest();
	return 0;
}
