/* SPDX-License-Identifier: Apache-2.0 */
/*
 * explain.c - what would become of these entries, by the judge that intake uses. Each
 * is judged by itself, so that a bad one does not hide the others; whether they would
 * pass as a batch is said beside it. Nothing is submitted.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "engine/explain.h"
#include "engine/intent.h"
#include "engine/query.h"
#include "ring/rules.h"

/* Private copies of what the client asks about. */
struct question {
	uint32_t count;
	struct tent_slot *slots;
	char (*cells)[TENT_CELL_SIZE];
	struct transfer *transfers;
	struct transfer **list;	/* of all transfers */
	struct judge judge;
	struct planner planner;
	uint32_t kinds[KINDS];
	uint32_t attempts;	/* further ones of a request that a transport failed */
};

/* ---- reading ----------------------------------------------------------- */

/* A memfd only: reading other files may wait for somebody. -errno. */
static int question_read(struct question *q, int fd)
{
	size_t slots = q->count * sizeof(*q->slots), cells = q->count * sizeof(*q->cells);
	int rc;

	if (fcntl(fd, F_GET_SEALS) < 0)
		return -EINVAL;
	q->slots = aligned_alloc(64, slots ? slots : 64);
	q->cells = aligned_alloc(64, cells ? cells : 64);
	q->transfers = calloc(q->count + 1, sizeof(*q->transfers));
	q->list = calloc(q->count + 1, sizeof(*q->list));
	if (!q->slots || !q->cells || !q->transfers || !q->list)
		return -ENOMEM;
	for (uint32_t i = 0; i < q->count; i++)
		q->list[i] = &q->transfers[i];
	rc = memfd_read(fd, q->slots, slots, 0);
	return rc < 0 ? rc : memfd_read(fd, q->cells, cells, (off_t)slots);
}

static void question_free(struct question *q)
{
	free(q->slots);
	free(q->cells);
	free(q->transfers);
	free(q->list);
}

/* ---- what was asked ---------------------------------------------------- */

#define HAS(r, field)	((r)->struct_size >= offsetof(struct tent_request_v1, field) +	\
					     sizeof((r)->field))

static json_t *policy_json(const struct tent_request_v1 *r, const char *cell)
{
	uint64_t length;

	memcpy(&length, &r->policy_name, sizeof(length));
	if (!HAS(r, policy_name) || !length)
		return json_null();
	if (length > TENT_POLICY_NAME_MAX)
		return json_string("?");
	return json_stringn(cell, length) ?: json_string("?");
}

static int64_t priority_of(const struct tent_request_v1 *r, uint16_t flags)
{
	int64_t asked = HAS(r, requested_priority) ? r->requested_priority : 0;

	return flags & TENT_SLOT_F_LEGACY ? asked + TENT_PRIORITY_HIGH : asked;
}

static json_t *requested_json(const struct question *q, uint32_t i)
{
	const struct tent_request_v1 *r = &q->slots[i].request;

	return json_pack("{s:o,s:o,s:o,s:I,s:o,s:o,s:I}",
		"opcode", word_json(WORD_OPCODE, r->opcode),
		"intent", word_json(WORD_INTENT, HAS(r, intent_type) ? r->intent_type : 0),
		"priority", word_json(WORD_PRIORITY, priority_of(r, q->judge.slot_flags)),
		"deadline_ns", (json_int_t)(HAS(r, deadline_ns) ? r->deadline_ns : 0),
		"policy", policy_json(r, q->cells[i]),
		"transport_hint", word_json(WORD_TRANSPORT,
					    HAS(r, transport_hint) ? r->transport_hint : 0),
		"length", (json_int_t)r->length);
}

static bool is_compat(const struct question *q)
{
	return q->judge.contract ? q->judge.contract->compat : q->judge.space->compat;
}

/* The same with defaults filled in and unknown values replaced, as every engine in this
 * mode takes it. Of an entry whose fields have passed. */
static json_t *normalized_json(const struct question *q, uint32_t i)
{
	const struct tent_slot *s = &q->slots[i];
	struct refusal why;
	struct asked a = { 0 };

	judge_fields(s, q->cells[i], is_compat(q), q->judge.now_ns, &a, &why);
	if (q->judge.slot_flags & TENT_SLOT_F_LEGACY)
		a.priority += TENT_PRIORITY_HIGH;
	return json_pack("{s:o,s:o,s:o,s:I,s:o,s:o}",
		"opcode", word_json(WORD_OPCODE, a.opcode),
		"intent_type", word_json(WORD_INTENT, a.intent),
		"requested_priority", word_json(WORD_PRIORITY, a.priority),
		"deadline_ns", (json_int_t)a.deadline_ns,
		"policy_name", a.policy_length ? json_stringn(q->cells[i], a.policy_length) :
						 json_null(),
		"transport_hint", word_json(WORD_TRANSPORT, a.hint));
}

/* ---- what would be ----------------------------------------------------- */

/* The name of a policy is known here, where a rule's value has its length only. */
static json_t *sentence(const struct question *q, uint32_t i, uint16_t rule, int64_t value)
{
	const char *policy = NULL;
	json_t *name = NULL, *text;
	char described[256];

	if (rule >= TENT_RULE_POLICY_UNKNOWN && !strcmp(tent_rule_field(rule), "policy_name"))
		name = policy_json(&q->slots[i].request, q->cells[i]);
	policy = json_string_value(name);
	tent_rule_describe(rule, value, described, sizeof(described));
	text = policy ? json_sprintf("policy_name is \"%s\"; allowed: %s", policy,
				     rule_allowed(rule)) : json_string(described);
	json_decref(name);
	return text;
}

static void add_downgrade(const struct question *q, uint32_t i, json_t *list, uint16_t rule,
			  int64_t value, const char *instead)
{
	json_array_append_new(list, json_pack("{s:s,s:o,s:s}", "rule", tent_rule_name(rule),
					      "sentence", sentence(q, i, rule, value),
					      "instead", instead));
}

static struct explained explained_of(const struct question *q, uint32_t i)
{
	const struct tent_request_v1 *r = &q->slots[i].request;
	uint64_t length;

	memcpy(&length, &r->policy_name, sizeof(length));
	return (struct explained){
		.t = &q->transfers[i], .contract = q->judge.contract, .cell = q->cells[i],
		.name_length = HAS(r, policy_name) ? (uint32_t)length : 0,
		.hint = HAS(r, transport_hint) ? r->transport_hint : 0,
		.queues = q->judge.queues, .nr_queues = q->judge.nr_queues,
		.paths = q->planner.paths, .attempts = q->attempts,
	};
}

/* An unknown one counts as unspecified; a known one may be more than the contract gives. */
static void add_priority_downgrade(const struct question *q, uint32_t i, json_t *list)
{
	const struct tent_request_v1 *r = &q->slots[i].request;
	int64_t asked = priority_of(r, q->judge.slot_flags);

	if (asked > TENT_PRIORITY_UNSPEC && asked <= TENT_PRIORITY_LOW)
		add_downgrade(q, i, list, TENT_RULE_PRIORITY_DENIED, r->requested_priority,
			      word_name(WORD_PRIORITY, q->transfers[i].priority));
	else
		add_downgrade(q, i, list, TENT_RULE_PRIORITY, r->requested_priority,
			      "the default priority");
}

static json_t *downgrades_json(const struct question *q, uint32_t i)
{
	const struct explained x = explained_of(q, i);
	const struct tent_slot *s = &q->slots[i];
	uint16_t flags = q->transfers[i].flags;
	json_t *list = json_array();

	if (flags & TENT_CQE_F_INTENT_DOWNGRADED)
		add_downgrade(q, i, list, TENT_RULE_INTENT, s->request.intent_type, "unspec");
	if (flags & TENT_CQE_F_PRIORITY_DOWNGRADED)
		add_priority_downgrade(q, i, list);
	if (flags & TENT_CQE_F_POLICY_DOWNGRADED)
		add_downgrade(q, i, list, explained_name_rule(&x), 0, "the default policy");
	if (flags & TENT_CQE_F_TAIL_IGNORED)
		add_downgrade(q, i, list, TENT_RULE_TAIL, s->tail_offset, "the tail is ignored");
	return list;
}

static const char *kind_of(const struct region *r)
{
	return !r ? "none" : r->file ? "file" : r->device ? "gpu" : !r->addr ? "private" :
	       r->backing ? "shared" : "in_place";
}

static const char *why_planned(const struct tent_request_v1 *r, const struct transfer *t,
			       const struct contract *c)
{
	if (!r->length)
		return "nothing to move: it completes at once";
	if (HAS(r, transport_hint) && r->transport_hint)
		return "the hinted transport reaches both ends";
	if (c)
		return "the first authorized transport that reaches both ends";
	return t->local && t->local->owner ? "the first transport that reaches both ends; "
					     "private memory is copied by a worker" :
					     "the first transport that reaches both ends";
}

/* Of memory of GPUs: which one, how it is reached, and how cards have it. */
static void add_device(json_t *to, const char *key, const struct region *r)
{
	if (r && r->device)
		json_object_set_new(to, key, json_sprintf("%s; %s", r->device->how,
							  r->device->card));
}

static json_t *plan_json(const struct question *q, uint32_t i)
{
	const struct transfer *t = &q->transfers[i];
	const struct explained x = explained_of(q, i);

	json_t *plan = json_pack("{s:s,s:s,s:s,s:s,s:o,s:o}",
		"transport", t->queue ? t->queue->ops->name : "none",
		"local", kind_of(t->local), "remote", kind_of(t->remote),
		"why", why_planned(&q->slots[i].request, t, x.contract),
		"fallbacks", explained_fallbacks(&x), "others", explained_others(&x));

	if (t->queue && t->length && t->queue->ops->describe)
		t->queue->ops->describe(t->queue->inst, t, plan);
	add_device(plan, "local_memory", t->local);
	add_device(plan, "remote_memory", t->remote);
	return plan;
}

/* What it takes to meet it; how fast anything is now is for who asks to know. */
static json_int_t needed_rate(uint64_t length, uint64_t budget_ns)
{
	unsigned __int128 rate = ((unsigned __int128)length * 1000000000 + budget_ns - 1) /
				 budget_ns;

	return rate < INT64_MAX ? (json_int_t)rate : INT64_MAX;
}

/* An expired deadline is kept: the request is served, and counted as infeasible. */
static json_t *deadline_json(const struct question *q, uint32_t i)
{
	const struct transfer *t = &q->transfers[i];
	uint64_t now = q->judge.now_ns, ahead = t->deadline_ns > now ? t->deadline_ns - now : 0;
	json_t *to = json_pack("{s:s,s:I}", "state",
			       !t->deadline_ns ? "none" : ahead ? "ahead" : "expired",
			       "budget_us", (json_int_t)(ahead / 1000));

	if (t->deadline_ns)
		json_object_set_new(to, "feasible", json_boolean(ahead));
	if (ahead)
		json_object_set_new(to, "needs_bytes_per_second",
				    json_integer(needed_rate(t->length, ahead)));
	return to;
}

static json_t *error_json(const struct question *q, const struct refusal *why)
{
	return json_pack("{s:i,s:s,s:i,s:s,s:I,s:o}",
		"category", tent_rule_error(why->rule), "rule", tent_rule_name(why->rule),
		"index", (int)why->index, "field", tent_rule_field(why->rule),
		"value", (json_int_t)why->value, "message",
		sentence(q, why->index, why->rule, why->value));
}

static json_t *accepted_json(const struct question *q, uint32_t i)
{
	const struct explained x = explained_of(q, i);

	return json_pack("{s:o,s:o,s:o,s:o,s:o}",
		"normalized", normalized_json(q, i),
		"effective", explained_effective(&x),
		"downgrades", downgrades_json(q, i),
		"plan", plan_json(q, i),
		"deadline", deadline_json(q, i));
}

/* Of one that nobody reaches: why each does not. */
static void add_reasons(const struct question *q, uint32_t i, json_t *row)
{
	const struct explained x = explained_of(q, i);

	json_object_set_new(row, "others", explained_others(&x));
	add_device(row, "local_memory", q->transfers[i].local);
	add_device(row, "remote_memory", q->transfers[i].remote);
}

/* With LEGACY a request may be accepted and have failed already. */
static json_t *entry_json(const struct question *q, uint32_t i)
{
	const struct transfer *t = &q->transfers[i];
	struct refusal why = { 0 };
	bool ok = judge_batch(&q->judge, &q->slots[i], (const void *)&q->cells[i], 1,
			      &q->list[i], &why);
	json_t *row = json_pack("{s:i,s:o}", "index", (int)i, "requested", requested_json(q, i));

	if (ok && t->status == TENT_STATUS_FAILED)
		why.rule = t->rule;
	why.index = i;
	if (ok && !why.rule)
		json_object_update_new(row, accepted_json(q, i));
	else
		json_object_set_new(row, "error", error_json(q, &why));
	if (why.rule == TENT_RULE_NO_TRANSPORT)
		add_reasons(q, i, row);
	return row;
}

static json_t *answer_json(const struct question *q)
{
	struct refusal why = { 0 };
	bool ok = !q->count || judge_batch(&q->judge, q->slots, (const void *)q->cells, q->count,
					   q->list, &why);
	json_t *list = json_array();

	for (uint32_t i = 0; i < q->count; i++)
		json_array_append_new(list, entry_json(q, i));
	return json_pack("{s:s,s:b,s:o,s:o}",
		"validation", is_compat(q) ? "compat" : "strict",
		"accepted", ok, "refusal", ok ? json_null() : error_json(q, &why),
		"entries", list);
}

/* ---- QUERY ------------------------------------------------------------- */

static void judge_open(const struct engine *e, const struct client *c, struct question *q)
{
	const struct engine_poller *p = &e->pollers[c->tenant->nr_rings ? c->tenant->poller : 0];

	q->attempts = e->config.failover_attempts;
	q->judge = (struct judge){
		.space = &c->space, .handles = c->space.handles,
		.contract = c->space.contract, .queues = p->queues,
		.nr_queues = p->nr_queues, .now_ns = clock_monotonic_ns(),
		.slot_flags = q->count ? q->slots[0].flags & TENT_SLOT_F_LEGACY : 0,
	};
	q->planner.paths = poller_paths(p->poller);
	judge_settle(&q->judge, &q->planner, q->kinds);
}

void client_explain(struct engine *e, struct client *c, struct ctl_message *m)
{
	struct question q = { .count = ((const struct tent_ctl_query *)m->bytes)->count };
	int rc;

	if (c->observer) {
		client_refuse_text(e, c, TENT_RULE_CTL_MESSAGE, m->head.type,
				   "explain is not for observers: their requests have no "
				   "segment to be judged by");
		return;
	}
	if (q.count > TENT_EXPLAIN_MAX) {
		client_refuse_text(e, c, TENT_RULE_BATCH_FULL, q.count,
				   "count is %u; allowed: up to %u entries a query", q.count,
				   TENT_EXPLAIN_MAX);
		return;
	}
	rc = question_read(&q, m->fds[0]);
	if (rc == 0) {
		judge_open(e, c, &q);
		client_reply_json(e, c, answer_json(&q));
	} else if (rc == -ENOMEM) {
		client_refuse(e, c, TENT_RULE_SYSTEM, ENOMEM);
	} else {
		client_refuse_text(e, c, TENT_RULE_CTL_MESSAGE, q.count,
				   "the descriptor is no memfd of %u slots and cells", q.count);
	}
	question_free(&q);
}
