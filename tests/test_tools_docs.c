/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tools_docs.c - the manual pages and the protocol say what the code does:
 * every key with its default and range, every error number, every offset.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <tent/ctl.h>
#include <tent/ring.h>

#include "engine/config_table.h"

static char page[131072];

/* Tests run in the source tree. */
static void read_page(const char *path)
{
	FILE *f = fopen(path, "re");
	size_t length;

	if (!f)
		fail_msg("%s is missing; run tests from the top of the source tree", path);
	length = fread(page, 1, sizeof(page) - 1, f);
	fclose(f);
	assert_in_range(length, 1, sizeof(page) - 2);
	page[length] = '\0';
}

static void line_at(char line[512], const char *at)
{
	snprintf(line, 512, "%.*s", (int)strcspn(at, "\n"), at);
}

static void expect(const char *line, const char *text)
{
	if (!strstr(line, text))
		fail_msg("\"%s\" lacks \"%s\"", line, text);
}

/* How the page writes a default. */
static void default_text(char text[128], const struct config_key *k)
{
	bool is_word = k->type == CONFIG_CHOICE || k->type == CONFIG_TEXT ||
		       k->type == CONFIG_ENGINE;

	if (k->initial[0] == '\0')
		snprintf(text, 128, "default empty");
	else
		snprintf(text, 128, is_word ? "default Qo %s Qc" : "default %s", k->initial);
}

static void every_key_is_in_the_manual_with_its_default_and_range(void **state)
{
	const struct config_key *k;

	(void)state;
	read_page("docs/tent.conf.5");
	for (unsigned int i = 0; (k = config_key_at(i)); i++) {
		char text[128], line[512];
		const char *at;

		snprintf(text, sizeof(text), ".It Cm %s Pq", k->path);
		at = strstr(page, text);
		if (!at)
			fail_msg("tent.conf.5 lacks %s", k->path);
		line_at(line, at);
		default_text(text, k);
		expect(line, text);
		if (k->type != CONFIG_UINT)
			continue;
		snprintf(text, sizeof(text), "%llu..%llu", (unsigned long long)k->min,
			 (unsigned long long)k->max);
		expect(line, text);
	}
}

/* In the part that lists them an entry is a key, several with commas between, or part of
 * a list inside one. */
static void every_key_of_the_manual_is_one_that_is_read(void **state)
{
	const char *at, *end;
	unsigned int found = 0;

	(void)state;
	read_page("docs/tent.conf.5");
	at = strstr(page, "\n.Sh KEYS\n");
	end = strstr(page, "\n.Sh CONTRACTS\n");
	assert_true(at && end);
	while ((at = strstr(at + 1, "\n.It Cm ")) && at < end) {
		char key[128];

		assert_int_equal(sscanf(at, "\n.It Cm %127s", key), 1);
		if (strncmp(at + 8 + strlen(key), " Pq ", 4) != 0)
			continue;
		if (!config_key_find(key))
			fail_msg("tent.conf.5 has %s, which is no key", key);
		found++;
	}
	assert_non_null(config_key_at(found - 1));
	assert_null(config_key_at(found));
}

static void every_choice_is_in_the_manual(void **state)
{
	const struct config_key *k;

	(void)state;
	read_page("docs/tent.conf.5");
	for (unsigned int i = 0; (k = config_key_at(i)); i++) {
		char text[128], line[512];

		if (k->type != CONFIG_CHOICE)
			continue;
		snprintf(text, sizeof(text), ".It Cm %s Pq", k->path);
		line_at(line, strstr(page, text));
		for (const char *word = k->choices; *word; word += *word == '|') {
			size_t len = strcspn(word, "|");

			snprintf(text, sizeof(text), "Qo %.*s Qc", (int)len, word);
			expect(line, text);
			word += len;
		}
	}
}

static void every_upstream_section_is_in_the_manual(void **state)
{
	const struct config_foreign *f;

	(void)state;
	read_page("docs/tent.conf.5");
	for (unsigned int i = 0; (f = config_foreign_at(i)); i++) {
		const char *from = f->path;
		char name[64];

		if (strncmp(from, "transports/", 11) == 0)
			from += 11;
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(from, "/"), from);
		expect(page, name);
	}
}

static void every_error_number_is_in_the_overview(void **state)
{
	(void)state;
	read_page("docs/tent.7");
	for (int error = TENT_ERR_ARGUMENTS; error >= TENT_ERR_CONFIG; error--) {
		char text[32];

		snprintf(text, sizeof(text), "\n.It %d ", error);
		if (!strstr(page, text))
			fail_msg("tent.7 lacks error %d", error);
	}
}

static void the_protocol_lists_every_message_with_its_sizes(void **state)
{
	static const struct { const char *name; int type; size_t request, reply; } messages[] = {
#define MESSAGE(name, request, reply) \
		{ #name, TENT_CTL_##name, sizeof(struct tent_ctl_##request), \
		  sizeof(struct tent_ctl_##reply) }
		MESSAGE(HELLO, hello, hello_reply),
		MESSAGE(RING_OPEN, ring_open, ring_open_reply),
		MESSAGE(RING_CLOSE, id, plain_reply),
		MESSAGE(MEM_ALLOC, mem_alloc, mem_alloc_reply),
		MESSAGE(MEM_FREE, id, plain_reply),
		MESSAGE(MEM_REGISTER, mem_register, plain_reply),
		MESSAGE(MEM_UNREGISTER, mem_unregister, plain_reply),
		MESSAGE(SEGMENT_OPEN, segment_open, segment_open_reply),
		MESSAGE(SEGMENT_CLOSE, id, plain_reply),
		MESSAGE(SEGMENT_INFO, segment_info, segment_info_reply),
		MESSAGE(QUERY, query, query_reply),
	};

	(void)state;
	read_page("docs/protocol.md");
	for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
		char text[128];

		snprintf(text, sizeof(text), "\n| %s | %d | %zu | %zu |", messages[i].name,
			 messages[i].type, messages[i].request, messages[i].reply);
		if (!strstr(page, text))
			fail_msg("protocol.md lacks \"%s\"", text + 1);
	}
}

/* "| offset | size | name", in the part of the page that starts with a heading. */
static void expect_field(const char *heading, size_t offset, size_t size, const char *name)
{
	const char *part = strstr(page, heading), *end;
	char text[128], *at;

	assert_non_null(part);
	end = strstr(part + 1, "\n## ");
	snprintf(text, sizeof(text), "| %zu | %zu | %s", offset, size, name);
	at = strstr(part, text);
	if (!at || (end && at > end))
		fail_msg("protocol.md, \"%s\", lacks \"%s\"", heading, text);
}

#define FIELD(heading, type, field)						\
	expect_field(heading, offsetof(struct type, field),			\
		     sizeof(((struct type *)0)->field), #field)

static void the_protocol_has_the_offsets_of_shared_memory(void **state)
{
	(void)state;
	read_page("docs/protocol.md");
	FIELD("## 2.", tent_ring_header, magic);
	FIELD("## 2.", tent_ring_header, abi_major);
	FIELD("## 2.", tent_ring_header, abi_minor);
	FIELD("## 2.", tent_ring_header, features);
	FIELD("## 2.", tent_ring_header, header_size);
	FIELD("## 2.", tent_ring_header, first_position);
	FIELD("## 2.", tent_ring_header, slot_count);
	FIELD("## 2.", tent_ring_header, slot_stride);
	FIELD("## 2.", tent_ring_header, completion_count);
	FIELD("## 2.", tent_ring_header, completion_stride);
	FIELD("## 2.", tent_ring_header, client_size);
	FIELD("## 2.", tent_ring_header, slots_offset);
	FIELD("## 2.", tent_ring_header, cells_offset);
	FIELD("## 2.", tent_ring_header, client_line_offset);
	FIELD("## 2.", tent_ring_header, engine_size);
	FIELD("## 2.", tent_ring_header, engine_line_offset);
	FIELD("## 2.", tent_ring_header, completions_offset);
	FIELD("## 2.", tent_ring_header, epoch);
	FIELD("## 2.", tent_ring_header, tick_origin);
	FIELD("## 2.", tent_ring_header, ns_origin);
	FIELD("## 2.", tent_ring_header, tick_mult);
	FIELD("## 2.", tent_ring_header, page_kind);
	FIELD("## 3.", tent_slot, seq);
	FIELD("## 3.", tent_slot, nr);
	FIELD("## 3.", tent_slot, user_data);
	FIELD("## 3.", tent_slot, op);
	FIELD("## 3.", tent_slot, flags);
	FIELD("## 3.", tent_slot, cq_head);
	expect_field("## 3.", offsetof(struct tent_slot, request), 88, "`tent_request_v1`");
	expect_field("## 3.", offsetof(struct tent_slot, tail_offset), 4, "offset of");
	expect_field("## 3.", offsetof(struct tent_slot, entry_stride), 4, "stride");
}

static void the_protocol_has_the_offsets_of_completions_and_requests(void **state)
{
	(void)state;
	read_page("docs/protocol.md");
	FIELD("## 4.", tent_completion, seq);
	FIELD("## 4.", tent_completion, flags);
	FIELD("## 4.", tent_completion, status);
	FIELD("## 4.", tent_completion, transport);
	FIELD("## 4.", tent_completion, user_data);
	FIELD("## 4.", tent_completion, bytes);
	FIELD("## 4.", tent_completion, error);
	FIELD("## 4.", tent_completion, index);
	FIELD("## 4.", tent_completion, count);
	FIELD("## 4.", tent_completion, credits);
	FIELD("## 4.", tent_completion, seen_ticks);
	FIELD("## 4.", tent_completion, posted_ticks);
	FIELD("## 4.", tent_completion, device_ticks);
	FIELD("## 4.", tent_completion, published_ticks);
	FIELD("## 4.", tent_completion, rule);
	FIELD("## 4.", tent_completion, rail);
	FIELD("## 4.", tent_completion, attempts);
	FIELD("## 6.", tent_request_v1, struct_size);
	FIELD("## 6.", tent_request_v1, schema_version);
	FIELD("## 6.", tent_request_v1, opcode);
	expect_field("## 6.", offsetof(struct tent_request_v1, source), 8, "source");
	FIELD("## 6.", tent_request_v1, target_id);
	FIELD("## 6.", tent_request_v1, target_offset);
	FIELD("## 6.", tent_request_v1, length);
	FIELD("## 6.", tent_request_v1, intent_type);
	FIELD("## 6.", tent_request_v1, requested_priority);
	FIELD("## 6.", tent_request_v1, deadline_ns);
	expect_field("## 6.", offsetof(struct tent_request_v1, policy_name), 8, "policy_name");
	FIELD("## 6.", tent_request_v1, transport_hint);
	FIELD("## 6.", tent_request_v1, flags);
}

/* A field of a request as tent_submit_v1(3) has it. */
static void expect_row(const char *name, size_t offset)
{
	char row[64];

	snprintf(row, sizeof(row), ".It Fa %s Ta %zu Ta ", name, offset);
	expect(page, row);
}

static void the_page_of_a_request_has_its_offsets(void **state)
{
	(void)state;
	read_page("docs/tent_submit_v1.3");
#define ROW(field) expect_row(#field, offsetof(struct tent_request_v1, field))
	ROW(struct_size);
	ROW(schema_version);
	ROW(opcode);
	ROW(resv0);
	ROW(source);
	ROW(target_id);
	ROW(target_offset);
	ROW(length);
	ROW(intent_type);
	ROW(requested_priority);
	ROW(deadline_ns);
	ROW(policy_name);
	ROW(transport_hint);
	ROW(reserved0);
	ROW(flags);
#undef ROW
}

static void every_operation_and_flag_of_a_slot_is_in_the_page_of_rings(void **state)
{
	static const char *const words[] = {
		"TENT_OP_REQUEST", "TENT_OP_CANCEL", "TENT_OP_NOP", "TENT_OP_INDIRECT",
		"TENT_OP_NOTIFY", "TENT_SLOT_F_ONE_COMPLETION", "TENT_CQE_F_REJECTED",
		"TENT_ENGINE_NEED_WAKE", "TENT_ENGINE_SPIN_YIELD", "TENT_ENGINE_ENDED",
		"TENT_RING_F_CLIENT_FENCE",
	};

	(void)state;
	read_page("docs/tent_ring.7");
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		expect(page, words[i]);
}

static void manual_pages_pass_their_linter(void **state)
{
	(void)state;
	if (system("command -v mandoc > /dev/null") != 0)
		skip();
	assert_int_equal(system("mandoc -T lint -W warning docs/*.[13578]"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_key_is_in_the_manual_with_its_default_and_range),
		cmocka_unit_test(every_key_of_the_manual_is_one_that_is_read),
		cmocka_unit_test(every_choice_is_in_the_manual),
		cmocka_unit_test(every_upstream_section_is_in_the_manual),
		cmocka_unit_test(every_error_number_is_in_the_overview),
		cmocka_unit_test(the_protocol_lists_every_message_with_its_sizes),
		cmocka_unit_test(the_protocol_has_the_offsets_of_shared_memory),
		cmocka_unit_test(the_protocol_has_the_offsets_of_completions_and_requests),
		cmocka_unit_test(the_page_of_a_request_has_its_offsets),
		cmocka_unit_test(every_operation_and_flag_of_a_slot_is_in_the_page_of_rings),
		cmocka_unit_test(manual_pages_pass_their_linter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
