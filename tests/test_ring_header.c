/* SPDX-License-Identifier: Apache-2.0 */
/* test_ring_header.c - a client believes no header that it has not checked. */
#include "tests/ring_fake.h"

#include "ring/client_ring.h"

struct bad_field {
	const char *name;
	size_t offset, size;
	uint64_t value;
};

#define BAD(field, bad) { #field, offsetof(struct tent_ring_header, field), \
			  sizeof(((struct tent_ring_header *)0)->field), bad }
#define HUGE_OFFSET 0xffffffffffffff80u

/* Every field whose value can be wrong; 8 slots, 8 completions. What is missing
 * (abi_minor, first_position, tick_origin, ns_origin) has no wrong value. */
static const struct bad_field bad_fields[] = {
	BAD(magic, 0), BAD(magic, TENT_RING_MAGIC + 1),
	BAD(abi_major, 0), BAD(abi_major, 2),
	BAD(features, 4), BAD(features, 0x80000000),
	BAD(header_size, 0), BAD(header_size, 135), BAD(header_size, 1u << 30),
	BAD(header_size, UINT32_MAX),
	BAD(slot_count, 0), BAD(slot_count, 3), BAD(slot_count, 2 * TENT_SLOTS_MAX),
	BAD(slot_count, 1u << 31), BAD(slot_count, UINT32_MAX),
	BAD(slot_stride, 0), BAD(slot_stride, 64), BAD(slot_stride, 129),
	BAD(slot_stride, 8192), BAD(slot_stride, 1u << 31),
	BAD(completion_count, 0), BAD(completion_count, 5),
	BAD(completion_count, 2 * TENT_SLOTS_MAX), BAD(completion_count, UINT32_MAX),
	BAD(completion_stride, 0), BAD(completion_stride, 32), BAD(completion_stride, 65),
	BAD(completion_stride, 8192), BAD(completion_stride, 1u << 31),
	BAD(client_size, 0), BAD(client_size, 4095), BAD(client_size, UINT64_MAX),
	BAD(slots_offset, 1), BAD(slots_offset, 64), BAD(slots_offset, 4096),
	BAD(slots_offset, HUGE_OFFSET),
	BAD(cells_offset, 0), BAD(cells_offset, 8), BAD(cells_offset, 960),
	BAD(cells_offset, 4096), BAD(cells_offset, HUGE_OFFSET),
	BAD(client_line_offset, 0), BAD(client_line_offset, 896),
	BAD(client_line_offset, 1024), BAD(client_line_offset, 4096 - 64),
	BAD(client_line_offset, 4096), BAD(client_line_offset, HUGE_OFFSET),
	BAD(engine_size, 0), BAD(engine_size, 4095), BAD(engine_size, UINT64_MAX),
	BAD(engine_line_offset, 0), BAD(engine_line_offset, 128), BAD(engine_line_offset, 257),
	BAD(engine_line_offset, 4096), BAD(engine_line_offset, HUGE_OFFSET),
	BAD(completions_offset, 0), BAD(completions_offset, 256), BAD(completions_offset, 385),
	BAD(completions_offset, 4096 - 64), BAD(completions_offset, 4096),
	BAD(completions_offset, HUGE_OFFSET),
	BAD(epoch, 0), BAD(epoch, FAKE_EPOCH + 1),
	BAD(tick_mult, 0),
	BAD(page_kind, 2), BAD(page_kind, UINT32_MAX),
	BAD(page_reason, UINT32_MAX),
};
#define NR_BAD (sizeof(bad_fields) / sizeof(bad_fields[0]))

static int bad_index;

static void bend_field(struct ring_host *h)
{
	const struct bad_field *b = &bad_fields[bad_index];

	memcpy((uint8_t *)h->engine_mem.addr + b->offset, &b->value, b->size);
}

static void every_corrupt_field_is_refused_by_name(void **state)
{
	int before = count_fds();

	(void)state;
	for (bad_index = 0; bad_index < (int)NR_BAD; bad_index++) {
		struct fake *f = fake_start(fake_geometry(8, 8, 0, 0));
		struct tent_client *c = fake_attach(f);
		struct tent_ring *r = NULL;
		char sentence[128];

		snprintf(sentence, sizeof(sentence), "the ring header's %s is wrong",
			 bad_fields[bad_index].name);
		f->bend_ring = bend_field;
		assert_int_equal(tent_ring_open(c, 0, 0, &r), TENT_ERR_PROTOCOL);
		assert_null(r);
		assert_non_null(strstr(last_error().message, sentence));
		assert_int_equal(f->seen[TENT_CTL_RING_CLOSE], 1); /* given back */
		tent_client_detach(c);
		fake_stop(f);
	}
	assert_int_equal(count_fds(), before);
}

static bool inside(uint64_t offset, uint64_t size, uint64_t limit)
{
	return offset <= limit && size <= limit - offset;
}

/* All that the client ever touches, computed the long way. */
static bool is_harmless(const struct tent_ring_header *h, uint64_t client_size,
			uint64_t engine_size)
{
	return inside(h->slots_offset, (uint64_t)h->slot_count * h->slot_stride, client_size) &&
	       inside(h->cells_offset, (uint64_t)h->slot_count * 64, client_size) &&
	       inside(h->client_line_offset, 128, client_size) &&
	       inside(h->engine_line_offset, 128, engine_size) &&
	       inside(h->completions_offset,
		      (uint64_t)h->completion_count * h->completion_stride, engine_size) &&
	       h->slot_stride >= 128 && h->completion_stride >= 64 &&
	       !((h->slots_offset | h->client_line_offset | h->completions_offset |
		  h->engine_line_offset) % 8);
}

/* A good header, as the host writes it. */
static struct tent_ring_header good_header(uint64_t *client_size, uint64_t *engine_size)
{
	struct ring_geometry g = fake_geometry(8, 8, 0, TENT_RING_F_ADAPTIVE);
	struct tent_ring_header h;
	struct ring_host host;

	assert_int_equal(ring_host_create(&host, &g), 0);
	memcpy(&h, host.engine_mem.addr, sizeof(h));
	*client_size = host.client_mem.size;
	*engine_size = host.engine_mem.size;
	ring_host_destroy(&host);
	return h;
}

static void a_good_header_passes(void **state)
{
	uint64_t client_size, engine_size;
	struct tent_ring_header h = good_header(&client_size, &engine_size);

	(void)state;
	assert_null(ring_header_check(&h, client_size, engine_size, FAKE_EPOCH));
	h.abi_minor = 9;	/* a newer engine adds, it does not change */
	h.header_size = 256;
	assert_null(ring_header_check(&h, client_size, engine_size, FAKE_EPOCH));
}

static void random_corruption_is_refused_or_harmless(void **state)
{
	uint64_t client_size, engine_size, seed = 4;
	const struct tent_ring_header good = good_header(&client_size, &engine_size);
	uint32_t passed = 0;

	(void)state;
	for (uint32_t i = 0; i < 300000; i++) {
		struct tent_ring_header h = good;
		uint32_t flips = random_next(&seed) % 6 + 1;

		while (flips--) {
			uint32_t bit = random_next(&seed) % (sizeof(h) * 8);

			((uint8_t *)&h)[bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
		if (ring_header_check(&h, client_size, engine_size, FAKE_EPOCH))
			continue;
		passed++;
		assert_true(is_harmless(&h, client_size, engine_size));
	}
	assert_true(passed > 0);	/* else nothing was tested */
}

/* An engine with wider entries: the same memory, half as many of twice the size. */
static void widen(struct ring_host *h)
{
	struct tent_ring_header *d = h->engine_mem.addr;

	d->slot_count /= 2;
	d->slot_stride *= 2;
	d->completion_count /= 4;
	d->completion_stride *= 4;
}

static void wider_strides_are_honoured(void **state)
{
	struct fake *f = fake_start(fake_geometry(16, 32, 0, 0));
	struct tent_client *c = fake_attach(f);
	struct tent_request_v1 request[8] = { { .struct_size = 88, .length = 5 } };
	struct tent_completion done;
	struct ring_host *h;
	struct tent_ring *r;

	(void)state;
	f->bend_ring = widen;
	assert_int_equal(tent_ring_open(c, 0, 0, &r), 0);
	h = &f->hosts[0];
	assert_int_equal(tent_ring_room(r), 8);
	assert_ptr_equal((char *)tent_ring_slot(r, 1) - (char *)tent_ring_slot(r, 0), 256);
	assert_int_equal(tent_ring_submit(r, request, 8, 88, 30, 0), 0);
	for (uint32_t i = 0; i < 8; i++) {
		const struct tent_slot *s = (const void *)(h->slots + i * 256);

		assert_int_equal(s->seq, i + 1);
		assert_int_equal(s->user_data, 30 + i);
		assert_int_equal(s->request.length, i ? 0 : 5);
	}
	for (uint32_t i = 0; i < 8; i++) {
		struct tent_completion *to = (void *)(h->completions + i * 256);

		to->user_data = i;
		to->credits = 1;
		store_release((uint64_t *)to, i + 1);
		assert_int_equal(tent_ring_poll(r, &done, 1), 1);
		assert_int_equal(done.user_data, i);
	}
	tent_ring_close(r);
	tent_client_detach(c);
	fake_stop(f);
}

/* The header is copied once: what the engine does to it later changes nothing. */
static void a_header_that_changes_later_is_not_read_again(void **state)
{
	struct tent_request_v1 request = { .struct_size = 88 };
	struct tent_ring_header before;
	struct tent_completion done;
	struct pair p;

	(void)state;
	pair_open(&p, fake_geometry(8, 8, 0, 0));
	before = *tent_ring_header(p.ring);
	memset(p.host->engine_mem.addr, 0xff, sizeof(struct tent_ring_header));
	assert_memory_equal(tent_ring_header(p.ring), &before, sizeof(before));
	for (uint32_t i = 0; i < 20; i++) {
		assert_int_equal(tent_ring_submit(p.ring, &request, 1, 88, i, 0), 0);
		engine_take(p.host);
		engine_complete(p.host, i, 1);
		assert_int_equal(tent_ring_poll(p.ring, &done, 1), 1);
	}
	pair_close(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_corrupt_field_is_refused_by_name),
		cmocka_unit_test(a_good_header_passes),
		cmocka_unit_test(random_corruption_is_refused_or_harmless),
		cmocka_unit_test(wider_strides_are_honoured),
		cmocka_unit_test(a_header_that_changes_later_is_not_read_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
