/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tentctl_explain.c - attaches as a client with one buffer, and asks what tentd
 * would do with a request between two halves of it, or between it and the first buffer
 * of somebody's segment. Nothing is submitted.
 */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>

#include <tent/tentring.h>

#include "engine/words.h"
#include "ring/clock.h"
#include "tools/tentctl.h"

#define LENGTH_MAX (1ull << 30)	/* of the buffer that tentd allocates for us */

struct question {
	struct tent_request_v1 request;
	uint64_t budget_us;	/* 0: no deadline */
	const char *segment;	/* NULL: its own */
};

/* A number as it is (to ask about invalid ones), or what a name stands for. */
static bool parse_word(const char *text, enum word_kind kind, int32_t *value)
{
	char *end;
	long number = strtol(text, &end, 10);

	if (*text && *end == '\0' && number >= INT32_MIN && number <= INT32_MAX) {
		*value = (int32_t)number;
		return true;
	}
	return word_find(kind, text, value);
}

static bool parse_count(const char *text, uint64_t max, uint64_t *value)
{
	unsigned long long number;
	char *end;

	errno = 0;
	number = strtoull(text, &end, 10);
	*value = number;
	return *text >= '0' && *text <= '9' && *end == '\0' && !errno && number <= max;
}

static bool take(struct question *q, int option)
{
	struct tent_request_v1 *r = &q->request;

	switch (option) {
	case 'o':
		return parse_word(optarg, WORD_OPCODE, &r->opcode);
	case 'i':
		return parse_word(optarg, WORD_INTENT, &r->intent_type);
	case 'p':
		return parse_word(optarg, WORD_PRIORITY, &r->requested_priority);
	case 't':
		return parse_word(optarg, WORD_TRANSPORT, &r->transport_hint);
	case 'l': {
		uint64_t length = 0;
		bool ok = parse_count(optarg, LENGTH_MAX, &length);

		r->length = length;
		return ok;
	}
	case 'd':
		return parse_count(optarg, UINT64_MAX / 1000, &q->budget_us);
	case 'n':
		r->policy_name = optarg;
		return true;
	case 's':
		q->segment = optarg;
		return true;
	default:
		return false;
	}
}

static enum tentctl_exit read_question(struct question *q, int argc, char **argv)
{
	static const struct option options[] = {
		{ "opcode", required_argument, NULL, 'o' },
		{ "intent", required_argument, NULL, 'i' },
		{ "priority", required_argument, NULL, 'p' },
		{ "transport", required_argument, NULL, 't' },
		{ "length", required_argument, NULL, 'l' },
		{ "deadline-us", required_argument, NULL, 'd' },
		{ "policy", required_argument, NULL, 'n' },
		{ "segment", required_argument, NULL, 's' },
		{ NULL, 0, NULL, 0 }
	};
	int option, index = 0;

	optind = 0;	/* a new array */
	while ((option = getopt_long(argc, argv, "+", options, &index)) != -1) {
		if (option == '?')
			return TENTCTL_USAGE;
		if (take(q, option))
			continue;
		tentctl_say("--%s %s: not a value of it", options[index].name, optarg);
		return TENTCTL_USAGE;
	}
	if (optind == argc)
		return TENTCTL_OK;
	tentctl_say("explain: unexpected argument %s", argv[optind]);
	return TENTCTL_USAGE;
}

/* One without a buffer is asked about at 0, which says so. */
static int aim_at_segment(struct tent_client *client, struct question *q)
{
	tent_segment_info_t info = { 0 };
	int rc = tent_client_open_segment(client, q->segment, &q->request.target_id);

	if (rc == 0)
		rc = tent_client_segment_info(client, q->request.target_id, &info);
	q->request.target_offset = info.num_buffers ? info.buffers[0].base : 0;
	tent_free_segment_info(&info);
	return rc;
}

/* The first half of the buffer is the source, the second the target, so that a
 * length of 0 has addresses too. */
static int aim(struct tent_client *client, struct question *q)
{
	size_t half = q->request.length ? (size_t)q->request.length : 1;
	void *buffer;
	int rc;

	rc = tent_client_alloc(client, 2 * half, NULL, &buffer);
	if (rc == 0)
		rc = tent_client_register(client, buffer, 2 * half,
					  TENT_PERM_GLOBAL_READ_WRITE, NULL, 0);
	if (rc)
		return rc;
	q->request.source = buffer;
	q->request.target_id = TENT_LOCAL_SEGMENT;
	q->request.target_offset = (uint64_t)(uintptr_t)buffer + half;
	return q->segment ? aim_at_segment(client, q) : 0;
}

static void set_deadline(struct question *q)
{
	uint64_t deadline;

	if (!q->budget_us)
		return;
	if (__builtin_add_overflow(clock_monotonic_ns(), q->budget_us * 1000, &deadline))
		deadline = UINT64_MAX;
	q->request.deadline_ns = deadline;
}

/* Would the request be taken? */
static bool is_accepted(const char *json)
{
	json_t *root = json_loads(json, 0, NULL);
	bool yes = json_is_true(json_object_get(root, "accepted"));

	json_decref(root);
	return yes;
}

enum tentctl_exit tentctl_explain(const struct tentctl_options *o, int argc, char **argv)
{
	struct question q = { .request = {
		.struct_size = sizeof(struct tent_request_v1),
		.schema_version = TENT_REQUEST_SCHEMA_V1,
		.length = 4096,
	} };
	enum tentctl_exit rc = read_question(&q, argc, argv);
	struct tent_client *client;
	char *json;

	if (rc)
		return rc;
	if (tent_client_attach(o->socket, NULL, &client))
		return tentctl_say_error(o);
	set_deadline(&q);
	if (aim(client, &q) ||
	    tent_client_explain(client, &q.request, 1, sizeof(q.request), &json)) {
		rc = tentctl_say_error(o);
	} else {
		rc = tentctl_print(o, json);
		if (rc == TENTCTL_OK && !is_accepted(json))
			rc = TENTCTL_FAILED;
		free(json);
	}
	tent_client_detach(client);
	return rc;
}
