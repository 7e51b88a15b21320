/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frozen_client.c - a program of the first published headers, on the library of today:
 * frozen.sh builds it in the common subset of C99 and C++11. It finds v1 by looking, as a
 * program does that also runs on libraries which lack it.
 *
 *   frozen_client strict|compat
 *
 * What the engine does with bytes behind what it knows is its choice, not ours.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tent/transfer_engine.h>

#define SIZE 4096u

typedef int (*submit_fn)(tent_engine_t, tent_batch_id_t, const void *, size_t, size_t, uint32_t);
typedef int (*schema_fn)(uint32_t, size_t *, size_t *);

static tent_engine_t engine;
static unsigned char *memory;
static submit_fn submit;
static int failed;

static void expect(const char *what, size_t number, int got, int wanted)
{
	if (got == wanted)
		return;
	fprintf(stderr, "frozen_client: %s %u: %d, not %d\n", what, (unsigned)number, got, wanted);
	failed = 1;
}

/* Two entries of struct_size bytes in an array of stride, shifted; the byte at dirty is
 * not zero. What submit says, or -100 when the bytes did not arrive. */
static int transfer(uint32_t struct_size, size_t stride, size_t shift, size_t dirty)
{
	unsigned char *array = (unsigned char *)calloc(1, 2 * stride + 16), *at = array + shift;
	tent_batch_id_t batch = tent_allocate_batch(engine, 2);
	tent_status_t status = { 0, 0 };
	tent_request_v1_t r;
	int rc, i;

	memset(memory + SIZE, 0, SIZE);
	memset(&r, 0, sizeof(r));
	r.struct_size = struct_size;
	r.schema_version = TENT_REQUEST_SCHEMA_V1;
	r.opcode = TENT_OPCODE_WRITE;
	r.source = memory;
	r.target_offset = (uint64_t)(uintptr_t)(memory + SIZE);
	r.length = SIZE;
	for (i = 0; i < 2; i++)
		memcpy(at + (size_t)i * stride, &r, stride < sizeof(r) ? stride : sizeof(r));
	if (dirty)
		at[stride + dirty] = 1;
	rc = submit(engine, batch, at, 2, stride, TENT_REQUEST_SCHEMA_V1);
	while (!rc && status.status < STATUS_INVALID)
		rc = tent_overall_status(engine, batch, &status);
	if (!rc && (status.status != STATUS_COMPLETED || memcmp(memory, memory + SIZE, SIZE)))
		rc = -100;
	tent_free_batch(engine, batch);
	free(array);
	return rc;
}

static void check_layouts(int compat)
{
	size_t stride, shift;

	expect("minimum size", 48, transfer(48, 48, 0, 0), 0);
	expect("known size", 88, transfer(88, 88, 0, 0), 0);
	expect("larger, zero tail", 128, transfer(128, 128, 0, 0), 0);
	expect("larger, tail not zero", 128, transfer(128, 128, 0, 100),
	       compat ? 0 : TENT_ERR_LAYOUT);
	expect("not zero behind the entry", 128, transfer(88, 128, 0, 100), 0);
	expect("larger than its stride", 96, transfer(96, 88, 0, 0), TENT_ERR_LAYOUT);
	expect("too small", 44, transfer(44, 48, 0, 0), TENT_ERR_LAYOUT);
	for (stride = 48; stride <= 4096; stride += 8)
		expect("stride", stride, transfer(48, stride, 0, 0), 0);
	expect("stride", 4104, transfer(48, 4104, 0, 0), TENT_ERR_LAYOUT);
	for (shift = 1; shift < 8; shift++)
		expect("misaligned by", shift, transfer(88, 88, shift, 0), TENT_ERR_LAYOUT);
}

static void check_schemas(schema_fn schema_info)
{
	size_t minimum = 0, known = 0;
	uint32_t schema;

	expect("schema", 1, schema_info(TENT_REQUEST_SCHEMA_V1, &minimum, &known), 0);
	expect("minimum", 1, (int)minimum, (int)TENT_REQUEST_V1_MIN_SIZE);
	if (known < TENT_REQUEST_V1_SIZE)
		expect("known", 1, (int)known, (int)TENT_REQUEST_V1_SIZE);
	schema = 1000;	/* of a library to come */
	expect("schema", schema, schema_info(schema, &minimum, &known), TENT_ERR_SCHEMA);
	expect("schema", schema, submit(engine, tent_allocate_batch(engine, 1), memory, 1, 88,
					schema), TENT_ERR_SCHEMA);
}

static void *find(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}

int main(int argc, char **argv)
{
	void *at = NULL, *submit_at = find("tent_submit_requests");
	void *schema_at = find("tent_get_request_schema_info");
	schema_fn schema_info;

	if (!submit_at || !schema_at) {
		printf("frozen_client: this library has no v1\n");
		return 3;
	}
	memcpy(&submit, &submit_at, sizeof(submit));
	memcpy(&schema_info, &schema_at, sizeof(schema_info));
	engine = tent_create_engine();
	if (!tent_available(engine) || tent_allocate_memory(engine, &at, 2 * SIZE, "*") ||
	    tent_register_memory(engine, at, 2 * SIZE)) {
		fprintf(stderr, "frozen_client: no engine or no memory\n");
		return 1;
	}
	memory = (unsigned char *)at;
	memset(memory, 0x5a, SIZE);
	check_layouts(argc > 1 && !strcmp(argv[1], "compat"));
	check_schemas(schema_info);
	tent_destroy_engine(engine);
	return failed;
}
