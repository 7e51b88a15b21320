/* SPDX-License-Identifier: Apache-2.0 */
/* spsc.c - a textbook single-producer ring: head, tail, cached opposites. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <tent/ring.h>

#include "perf/common/machine.h"
#include "perf/common/spsc.h"
#include "ring/clock.h"
#include "ring/copy_in.h"
#include "ring/order.h"

struct spsc {
	_Alignas(128) uint64_t tail;	/* the producer writes */
	_Alignas(128) uint64_t head;	/* the consumer writes */
	_Alignas(128) struct tent_slot *slots;
	uint64_t mask, batch, count;
	uint64_t sum;			/* keeps the copies alive */
	int core;
};

static void *consume(void *arg)
{
	struct spsc *r = arg;
	_Alignas(16) struct tent_slot copy;
	uint64_t head = 0, tail = 0, sum = 0;

	while (head < r->count) {
		while (tail == head)
			tail = load_acquire(&r->tail);	/* pairs with produce()'s store */
		for (; head < tail; head++) {
			tent_copy_in(&copy, &r->slots[head & r->mask], sizeof(copy));
			sum += copy.user_data + copy.request.length;
		}
		store_release(&r->head, head);	/* pairs with wait_room()'s load */
	}
	r->sum = sum;
	return NULL;
}

static void wait_room(struct spsc *r, uint64_t tail, uint64_t *head)
{
	while (tail + r->batch - *head > r->mask + 1)
		*head = load_acquire(&r->head);		/* pairs with consume()'s store */
}

static void produce(struct spsc *r)
{
	struct tent_slot slot = { .request = { .length = 64 } };
	uint64_t tail = 0, head = 0;

	while (tail < r->count) {
		wait_room(r, tail, &head);
		for (uint64_t i = 0; i < r->batch; i++) {
			slot.user_data = tail + i;
			slot.request.target_offset = tail + i;
			memcpy(&r->slots[(tail + i) & r->mask], &slot, sizeof(slot));
		}
		tail += r->batch;
		store_release(&r->tail, tail);	/* pairs with consume()'s load */
	}
}

static double run(struct spsc *r)
{
	uint64_t begin = clock_monotonic_ns();
	pthread_t thread;

	if (machine_start_on(r->core, &thread, consume, r))
		return 0;
	produce(r);
	pthread_join(thread, NULL);
	return (double)r->count * 1e9 / (double)(clock_monotonic_ns() - begin);
}

double spsc_rate(int core, uint32_t slots, uint32_t batch, uint64_t count)
{
	struct spsc r = { .mask = slots - 1, .batch = batch, .core = core };
	double rate;

	r.count = count / batch * batch;
	r.slots = aligned_alloc(4096, slots * sizeof(*r.slots));
	if (!r.slots)
		return 0;
	memset(r.slots, 0, slots * sizeof(*r.slots));
	rate = run(&r);
	free(r.slots);
	return rate;
}
