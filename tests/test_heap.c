/* SPDX-License-Identifier: Apache-2.0 */
/* test_heap.c - heaps: their order, what is taken from anywhere, how deep walks are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/heap.h"
#include "tests/common/random.h"

#define NODES 1024

struct node {
	struct heap_link link;	/* first: a link is its node */
	uint32_t key;
	bool inside;
};

static struct node nodes[NODES];

static uint32_t key_of(const struct heap_link *l)
{
	return ((const struct node *)(const void *)l)->key;
}

static bool has_less(const struct heap_link *a, const struct heap_link *b)
{
	return key_of(a) < key_of(b);
}

static struct node *least(void)
{
	struct node *found = NULL;

	for (int i = 0; i < NODES; i++)
		if (nodes[i].inside && (!found || nodes[i].key < found->key))
			found = &nodes[i];
	return found;
}

static void the_top_is_the_least_whatever_comes_and_goes(void **state)
{
	struct heap h = { .before = has_less };
	uint64_t seed = 7;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		struct node *n = &nodes[random_next(&seed) % NODES];

		if (n->inside) {
			heap_remove(&h, &n->link);
		} else {
			n->key = random_next(&seed);
			heap_add(&h, &n->link);
		}
		n->inside = !n->inside;
		assert_ptr_equal(h.top, least());
	}
	while (h.top) {
		((struct node *)(void *)h.top)->inside = false;
		heap_remove(&h, h.top);
		assert_ptr_equal(h.top, least());
	}
}

static void of_equals_the_one_that_was_there_stays_on_top(void **state)
{
	struct heap h = { .before = has_less };

	(void)state;
	nodes[0].key = nodes[1].key = 5;
	heap_add(&h, &nodes[0].link);
	heap_add(&h, &nodes[1].link);
	assert_ptr_equal(h.top, &nodes[0]);
}

static void one_whose_key_changed_can_be_taken_out(void **state)
{
	struct heap h = { .before = has_less };

	(void)state;
	for (uint32_t i = 0; i < 100; i++) {
		nodes[i].key = i;
		heap_add(&h, &nodes[i].link);
	}
	nodes[0].key = 1000;
	heap_remove(&h, &nodes[0].link);
	heap_add(&h, &nodes[0].link);
	for (uint32_t i = 1; i < 100; i++) {
		assert_int_equal(key_of(h.top), i);
		heap_remove(&h, h.top);
	}
	assert_int_equal(key_of(h.top), 1000);
}

static uint32_t compared;

static bool has_less_counted(const struct heap_link *a, const struct heap_link *b)
{
	compared++;
	return has_less(a, b);
}

/* Rising, falling and equal keys make lists of trees that do not balance. */
static void no_order_of_keys_makes_it_slow(void **state)
{
	static const int steps[] = { 1, -1, 0 };

	(void)state;
	for (int s = 0; s < 3; s++) {
		struct heap h = { .before = has_less_counted, .coins = 99 };

		compared = 0;
		for (int i = 0; i < NODES; i++) {
			nodes[i].key = (uint32_t)(NODES + i * steps[s]);
			heap_add(&h, &nodes[i].link);
		}
		while (h.top)
			heap_remove(&h, h.top);
		assert_in_range(compared, 0, NODES * 3 * 10);	/* 10: log2 of them */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_top_is_the_least_whatever_comes_and_goes),
		cmocka_unit_test(of_equals_the_one_that_was_there_stays_on_top),
		cmocka_unit_test(one_whose_key_changed_can_be_taken_out),
		cmocka_unit_test(no_order_of_keys_makes_it_slow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
