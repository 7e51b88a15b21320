/* SPDX-License-Identifier: Apache-2.0 */
/* meters.c - see meters.h. The bounds are those of the existing engine. */
#include "engine/meters.h"

#include "engine/hot.h"

const struct meter_scale meter_latency = {
	METER_US, 9, { 100, 500, 1000, 5000, 10000, 50000, 100000, 500000, 1000000 }
};
const struct meter_scale meter_stage = {
	METER_US, 10, { 10, 50, 100, 500, 1000, 5000, 10000, 50000, 100000, 500000 }
};
const struct meter_scale meter_size = {
	METER_BYTES, 11, { 1u << 10, 4u << 10, 16u << 10, 64u << 10, 256u << 10, 1u << 20,
			   4u << 20, 16u << 20, 64u << 20, 256u << 20, 1u << 30 }
};
const struct meter_scale meter_load = {
	METER_PERMILLE, 10, { 100, 250, 500, 750, 900, 1000, 1250, 1500, 2000, 5000 }
};

static uint32_t bucket_of(const struct meter_scale *scale, uint64_t value)
{
	uint32_t i = 0;

	while (i < scale->nr && value > scale->bounds[i])
		i++;
	return i;
}

struct mark {
	uint32_t bucket;
	uint64_t value;
};

static struct mark mark_of(const struct meter_scale *scale, uint64_t value)
{
	return (struct mark){ bucket_of(scale, value), value };
}

static inline void observe(struct histogram *h, struct mark mark)
{
	stat_add(&h->buckets[mark.bucket], 1);
	stat_add(&h->sum, mark.value);
}

/* When transfers came, were posted and ended. Most of a run share it. */
struct times {
	const struct tick_clock *clock;
	uint64_t device_ticks, published_ticks;
	/* of the last one */
	uint64_t seen_ticks;
	uint32_t posted_ticks;
	bool staged;			/* the transport ended it after it was posted */
	struct mark latency, queue_wait, transport;
};

/* Rounded up: what took longer than a bound is not below it. */
static uint64_t us_of(const struct tick_clock *clock, uint64_t ticks)
{
	return (ticks_delta_to_ns(clock, ticks) + 999) / 1000;
}

static __attribute__((noinline)) void set_times(struct times *k, const struct transfer *t)
{
	uint64_t device_age = k->device_ticks - t->seen_ticks;

	k->seen_ticks = t->seen_ticks;
	k->posted_ticks = t->posted_ticks;
	k->latency = mark_of(&meter_latency,
			     us_of(k->clock, k->published_ticks - t->seen_ticks));
	k->staged = t->posted_ticks <= device_age;
	if (!k->staged)
		return;
	k->queue_wait = mark_of(&meter_stage, us_of(k->clock, t->posted_ticks));
	k->transport = mark_of(&meter_stage, us_of(k->clock, device_age - t->posted_ticks));
}

/* How much of the time that it had, from when it was seen, a request took. One whose
 * deadline had passed then had none. */
static void observe_load(struct meters *m, const struct times *k, const struct transfer *t)
{
	uint64_t seen_ns = ticks_to_ns(k->clock, t->seen_ticks);
	uint64_t took_ns = ticks_delta_to_ns(k->clock, k->published_ticks - t->seen_ticks);

	if (t->deadline_ns > seen_ns)
		observe(&m->load, mark_of(&meter_load, (uint64_t)
			((double)took_ns * 1000 / (double)(t->deadline_ns - seen_ns))));
}

static void count_completed(struct meters *m, struct times *k, const struct transfer *t,
			    struct transport_meter *x)
{
	if (unlikely(t->seen_ticks != k->seen_ticks) ||
	    unlikely(t->posted_ticks != k->posted_ticks))
		set_times(k, t);
	observe(&x->latency, k->latency);
	if (likely(t->attempts && k->staged)) {
		observe(&m->queue_wait, k->queue_wait);
		observe(&m->transport, k->transport);
	}
	if (t->deadline_ns)
		observe_load(m, k, t);
}

static void count(struct meters *m, struct times *k, const struct transfer *t)
{
	struct transport_meter *x = &m->transports[t->transport][t->opcode];
	bool completed = t->status == TENT_STATUS_COMPLETED;

	stat_add(&x->requests, 1);
	stat_add(&x->bytes, t->done);
	stat_add(&x->attempts, t->attempts);	/* of hops those are counted already */
	stat_add(&x->attempt_failures, t->attempts - (t->attempts && completed));
	observe(&x->size, mark_of(&meter_size, t->length));
	if (likely(completed))
		count_completed(m, k, t, x);
	else
		stat_add(&x->failures, 1);
}

void meters_count_hop(struct meters *m, const struct transfer *t, uint8_t from)
{
	struct transport_meter *x = &m->transports[from][t->opcode];

	stat_add(&x->attempts, 1);
	stat_add(&x->attempt_failures, 1);
	stat_add(&m->failovers[from][t->transport], 1);
}

void meters_count(struct meters *m, const struct tick_clock *clock,
		  struct transfer *const *ended, uint32_t n, uint64_t device_ticks,
		  uint64_t published_ticks)
{
	struct times k = {
		.clock = clock, .device_ticks = device_ticks,
		.published_ticks = published_ticks,
	};

	if (n)
		set_times(&k, ended[0]);
	for (uint32_t i = 0; i < n; i++)
		count(m, &k, ended[i]);
}

_Static_assert(sizeof(struct meters) % sizeof(uint64_t) == 0, "all of it is counters");

void meters_add(struct meters *sum, const struct meters *m)
{
	const uint64_t *from = (const uint64_t *)m;
	uint64_t *to = (uint64_t *)sum;

	for (size_t i = 0; i < sizeof(*m) / sizeof(*from); i++)
		to[i] += load_relaxed(&from[i]);
}
