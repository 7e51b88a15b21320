/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_cpp.cpp - tent.hpp: owners, types and errors, by real transfers in-process and
 * through a tentd. What a request may say is tested in C; here that it arrives as said.
 */
#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
extern "C" {
#include <cmocka.h>
#include "tests/common/lib_fix.h"
}
#include <array>
#include <tent/tent.hpp>
#include <type_traits>

using namespace tent;

namespace {

constexpr size_t SIZE = 65536, HALF = SIZE / 2;

/* What the group runs on: TENT_ENGINE points there while it does. */
lib_fix fix;

int start(lib_mode mode)
{
	lib_fix_start(&fix, mode, 0, nullptr);
	return 0;
}

int start_thread(void **) { return start(LIB_THREAD); }
int start_caller(void **) { return start(LIB_CALLER); }
int start_daemon(void **) { return start(LIB_DAEMON); }
int stop(void **) { lib_fix_stop(&fix); return 0; }

/* An engine, and its memory: a pattern, then as many zeros. */
struct Scene {
	Engine engine = Engine::create().value();
	Buffer memory = engine.allocate(SIZE).value();

	Scene() { lib_fix_pattern(bytes(), HALF, 7); }

	uint8_t *bytes() const { return memory.as<uint8_t>(); }
	Batch batch(size_t size = 8) { return engine.allocate_batch(size).value(); }

	Request write(size_t length = HALF) const
	{
		Request r;

		r.opcode = Opcode::WRITE;
		r.source = memory.data();
		r.target_offset = memory.address() + HALF;
		r.length = length;
		return r;
	}

	void assert_copied(size_t length = HALF) const
	{
		assert_memory_equal(bytes() + HALF, bytes(), length);
	}
};

/* ---- transfers ---------------------------------------------------------- */

void a_write_moves_its_bytes(void **)
{
	Scene s;
	Batch batch = s.batch();

	batch.submit(s.write()).check();
	assert_true(batch.wait()->completed());
	assert_int_equal(batch.status()->transferred_bytes, HALF);
	assert_true(batch.outcome().ok());
	s.assert_copied();
}

void a_read_fetches_from_another_clients_segment(void **)
{
	Scene owner, reader;
	Segment segment = reader.engine.open_segment(owner.engine.segment_name().value()).value();
	Batch batch = reader.batch();
	Request r;

	std::memset(reader.bytes(), 0, SIZE);
	segment.connect(std::chrono::seconds(1)).check();
	r.opcode = Opcode::READ;
	r.source = reader.memory.data();
	r.target_id = segment.id();
	r.target_offset = segment.info().value().buffers.at(0).base;
	r.length = HALF;
	batch.submit(r).check();
	assert_true(batch.wait()->completed());
	assert_memory_equal(reader.bytes(), owner.bytes(), HALF);
}

void memory_of_the_program_serves_while_it_is_registered(void **)
{
	Scene s;
	static std::array<uint8_t, HALF> mine;
	Buffer registered = s.engine.register_memory(mine.data(), mine.size()).value();
	Request r = s.write();

	r.target_offset = registered.address();
	{
		Batch batch = s.batch();

		batch.submit(r).check();
		assert_true(batch.wait()->completed());
	}
	assert_memory_equal(mine.data(), s.bytes(), HALF);
	registered.release().check();
	assert_null(registered.data());
	assert_true(s.batch().submit(r).code() == ErrorCode::ADDRESS);
}

void several_submits_share_the_tasks_of_a_batch(void **)
{
	Scene s;
	Batch batch = s.batch(4);

	batch.submit({ s.write(100), s.write(200) }).check();
	batch.submit(s.write(300)).check();
	assert_true(batch.wait()->completed());
	assert_int_equal(batch.status(1)->transferred_bytes, 200);
	assert_int_equal(batch.status(2)->transferred_bytes, 300);
	assert_int_equal(batch.status()->transferred_bytes, 600);
	assert_true(batch.submit({ s.write(), s.write() }).code() == ErrorCode::CAPACITY);
	assert_true(batch.status(3).status().code() == ErrorCode::ARGUMENTS);
}

void entries_of_c_go_as_they_are(void **)
{
	Scene s;
	Request r = s.write(64);
	const Entries entries(&r, 1);
	Batch batch = s.batch();

	batch.submit(entries.data(), 1).check();
	batch.submit(static_cast<const void *>(entries.data()), 1, 48, 1).code();
	assert_true(batch.wait()->completed());
	assert_true(batch.submit(entries.data(), 1, 44, 1).code() == ErrorCode::LAYOUT);
	s.assert_copied(64);
}

void a_zero_timeout_looks_once(void **)
{
	Scene s;
	Batch batch = s.batch();

	batch.submit(s.write()).check();
	assert_true(batch.wait(std::chrono::nanoseconds(0)).ok());
	assert_true(batch.wait()->ended());
	batch.cancel(0).check();	/* it has ended: nothing changes */
	assert_true(batch.status(0)->completed());
}

/* ---- what a request says ------------------------------------------------ */

void every_field_arrives_at_the_judge(void **)
{
	Scene s;
	Request r = s.write();
	std::string json;

	r.intent = { IntentType::MIGRATION, Priority::LOW, 1, "kv.hot", TransportType::SHM, 0 };
	json = s.engine.explain({ r }).value();
	for (const char *word : { "\"migration\"", "\"low\"", "\"kv.hot\"", "\"shm\"", "\"write\"" })
		if (json.find(word) == std::string::npos)
			fail_msg("%s is not in %s", word, json.c_str());
}

void a_refusal_names_entry_field_and_sentence(void **)
{
	Scene s;
	Batch batch = s.batch();
	Request bad = s.write();
	Status status;

	bad.intent.requested_priority = Priority(9);
	status = batch.submit({ s.write(), bad });
	assert_false(status.ok());
	assert_true(status.code() == ErrorCode::ENUM);
	assert_int_equal(status.index(), 1);
	assert_int_equal(status.rule(), TENT_RULE_PRIORITY);
	assert_string_equal(status.field(), "requested_priority");
	assert_non_null(std::strstr(status.message(), "is 9; allowed"));
	assert_int_equal(s.bytes()[HALF], 0);
}

/* Each reaches the library: none is refused, cut or mended on the way. */
void bad_texts_are_the_librarys_to_refuse(void **)
{
	Scene s;
	Request r = s.write();

	for (const std::string &name : { std::string(), std::string(64, 'x'), std::string("a b"),
					 std::string("kv\0hot", 6) }) {
		r.intent.policy_name = name;
		assert_true(s.batch().submit(r).code() == ErrorCode::LAYOUT);
	}
	r.intent.policy_name = "nobody";
	assert_true(s.batch().submit(r).code() == ErrorCode::POLICY_UNKNOWN);
	r.intent.policy_name.reset();
	s.batch().submit(r).check();
}

void options_of_memory_are_the_librarys_to_refuse(void **)
{
	Scene s;
	MemoryOptions o;

	o.location = std::string(64, 'c');
	assert_true(s.engine.allocate(4096, o).status().code() == ErrorCode::ENUM);
	o.location = "cpu:0";
	o.permission = Permission(3);
	assert_true(s.engine.allocate(4096, o).status().code() == ErrorCode::ENUM);
	o.permission = Permission::GLOBAL_READ_ONLY;
	o.transport_type = TransportType::MNNVL;
	assert_true(s.engine.allocate(4096, o).status().code() == ErrorCode::UNSUPPORTED);
	o.transport_type = TransportType::RDMA;
	assert_non_null(s.engine.allocate(4096, o).value().data());
}

void normalize_tells_strict_from_compat(void **)
{
	Scene s;
	Request r = s.write();
	Result<NormalizedIntent> n = Status();

	r.intent.intent_type = IntentType(77);
	r.intent.policy_name = "kv.hot";
	n = normalize(r, ValidationMode::STRICT);
	assert_true(n.status().code() == ErrorCode::ENUM);
	n = normalize(r, ValidationMode::COMPAT);
	assert_true(n.value().intent.intent_type == IntentType::UNSPEC);
	assert_int_equal(n->downgrades, TENT_CQE_F_INTENT_DOWNGRADED);
	assert_true(n->intent.policy_name == "kv.hot");
	r.intent = {};
	assert_false(normalize(r, ValidationMode::STRICT).value().intent.policy_name.has_value());
	assert_true(normalize(r, ValidationMode(2)).status().code() == ErrorCode::ARGUMENTS);
}

void deadlines_are_of_the_monotonic_clock(void **)
{
	uint64_t before = monotonic_now_ns();
	uint64_t deadline_ns = deadline_after(std::chrono::milliseconds(5)).value();

	assert_true(deadline_ns >= before + 5000000);
	assert_true(deadline_after(std::chrono::nanoseconds(-1)).status().code() ==
		    ErrorCode::DEADLINE);
	assert_true(deadline_after(std::chrono::hours(366 * 24)).status().code() ==
		    ErrorCode::DEADLINE);
}

/* ---- owners ------------------------------------------------------------- */

static_assert(std::is_nothrow_move_constructible_v<Engine> &&
	      std::is_nothrow_move_assignable_v<Batch> && !std::is_copy_constructible_v<Segment> &&
	      !std::is_copy_assignable_v<Buffer>, "owners move and do not copy");

void what_was_moved_from_owns_nothing(void **)
{
	Scene s;
	Batch first = s.batch(), second = std::move(first);
	Buffer memory = std::move(s.memory);

	assert_int_equal(first.id(), TENT_INVALID_BATCH);
	assert_true(first.status().status().code() == ErrorCode::STALE_HANDLE);
	assert_null(s.memory.data());
	s.memory = std::move(memory);
	second.submit(s.write()).check();
	second = s.batch();	/* frees the batch it had */
	assert_int_equal(second.wait()->transferred_bytes, 0);
}

void freeing_a_batch_makes_its_id_stale(void **)
{
	Scene s;
	tent_batch_id_t id;
	tent_status_t status;

	{
		Batch batch = s.batch();

		id = batch.id();
		assert_int_equal(tent_overall_status(s.engine.handle(), id, &status), 0);
	}
	assert_int_equal(tent_overall_status(s.engine.handle(), id, &status),
			 TENT_ERR_STALE_HANDLE);
}

/* One name has one handle: the first of two may not close the other's. */
void a_segment_stays_open_for_its_last_user(void **)
{
	Scene s;
	std::string path = "file:///proc/self/exe";
	Segment first = s.engine.open_segment(path).value();
	tent_segment_id_t id = first.id();

	{
		Segment second = s.engine.open_segment(path).value();

		assert_int_equal(second.id(), id);
		assert_true(second.info().value().type == SegmentType::FILE);
	}
	assert_true(first.info().ok());
	first = Segment();
	assert_int_equal(tent_connect_segment(s.engine.handle(), id, 0), TENT_ERR_STALE_HANDLE);
}

void what_outlives_its_engine_is_stale(void **)
{
	Engine engine = Engine::create().value();
	Buffer memory = engine.allocate(4096).value();
	Batch batch = engine.allocate_batch(1).value();
	Segment own = engine.open_segment("").value();

	engine = Engine();
	assert_true(batch.status().status().code() == ErrorCode::STALE_HANDLE);
	assert_true(own.info().status().code() == ErrorCode::STALE_HANDLE);
	assert_true(memory.release().code() == ErrorCode::STALE_HANDLE);
	assert_true(engine.status().code() == ErrorCode::STALE_HANDLE);
	assert_true(engine.open_segment("").status().code() == ErrorCode::STALE_HANDLE);
	assert_true(engine.allocate(1).status().code() == ErrorCode::STALE_HANDLE);
}

/* ---- errors ------------------------------------------------------------- */

void exceptions_come_only_where_they_were_asked_for(void **)
{
	Engine none;
	Result<Batch> batch = none.allocate_batch(1);
	std::string said;

	assert_false(batch.ok());
	try {
		(void)std::move(batch).value();
	} catch (const Error &error) {
		said = error.what();
		assert_true(error.code() == ErrorCode::STALE_HANDLE);
		assert_string_equal(error.status().field(), "engine");
	}
	assert_string_equal(said.c_str(), batch.status().message());
	Status().check();
}

void a_failed_task_says_why(void **)
{
	Scene s;
	Segment file = s.engine.open_segment("file:///proc/self/exe").value();
	Batch batch = s.batch();
	Request r;

	r.source = s.memory.data();
	r.target_id = file.id();
	r.target_offset = uint64_t(1) << 40;	/* past its end */
	r.length = 4096;
	batch.submit({ s.write(64), r }).check();
	assert_true(batch.wait()->state == TaskState::FAILED);
	assert_true(batch.error(0)->status.ok());
	assert_true(batch.outcome().code() == ErrorCode::RUNTIME);
	assert_int_equal(batch.outcome().index(), 1);
	assert_int_equal(batch.outcome().rule(), TENT_RULE_FILE_END);
}

void an_engine_that_does_not_start_says_why(void **)
{
	Result<Engine> engine = Status();

	setenv("TENT_ENGINE", "unix:/nowhere/tentd.sock", 1);
	engine = Engine::create();
	setenv("TENT_ENGINE", fix.word, 1);
	assert_true(engine.status().code() == ErrorCode::ENGINE_LOST);
}

void the_completion_fd_is_there_where_the_engine_has_one(void **)
{
	Scene s;
	Result<int> fd = s.engine.completion_fd();

	if (fix.mode == LIB_CALLER)
		assert_true(fd.status().code() == ErrorCode::UNSUPPORTED);
	else
		assert_true(fd.value() >= 0);
}

/* Behind its data, and alone. */
void a_notification_comes_as_it_was_sent(void **)
{
	std::vector<Notification> all;
	Scene s;

	assert_true(s.batch().submit({ s.write() }, "name", "text").ok());
	while (all.empty())
		all = s.engine.notifications().value();
	assert_true(all.size() == 1 && all[0].name == "name" && all[0].message == "text");
	assert_true(s.engine.notify(TENT_LOCAL_SEGMENT, "", "alone").ok());
	all = s.engine.notifications().value();
	assert_true(all.size() == 1 && all[0].name.empty() && all[0].message == "alone");
	assert_true(s.engine.notify(99, "n", "m").code() == ErrorCode::STALE_HANDLE);
	assert_true(s.engine.notify(TENT_LOCAL_SEGMENT, std::string(256, 'n'), "").code() ==
		    ErrorCode::ARGUMENTS);
}

const CMUnitTest tests[] = {
	cmocka_unit_test(a_write_moves_its_bytes),
	cmocka_unit_test(memory_of_the_program_serves_while_it_is_registered),
	cmocka_unit_test(several_submits_share_the_tasks_of_a_batch),
	cmocka_unit_test(entries_of_c_go_as_they_are),
	cmocka_unit_test(a_zero_timeout_looks_once),
	cmocka_unit_test(every_field_arrives_at_the_judge),
	cmocka_unit_test(a_refusal_names_entry_field_and_sentence),
	cmocka_unit_test(bad_texts_are_the_librarys_to_refuse),
	cmocka_unit_test(options_of_memory_are_the_librarys_to_refuse),
	cmocka_unit_test(normalize_tells_strict_from_compat),
	cmocka_unit_test(deadlines_are_of_the_monotonic_clock),
	cmocka_unit_test(what_was_moved_from_owns_nothing),
	cmocka_unit_test(freeing_a_batch_makes_its_id_stale),
	cmocka_unit_test(a_segment_stays_open_for_its_last_user),
	cmocka_unit_test(what_outlives_its_engine_is_stale),
	cmocka_unit_test(exceptions_come_only_where_they_were_asked_for),
	cmocka_unit_test(a_failed_task_says_why),
	cmocka_unit_test(an_engine_that_does_not_start_says_why),
	cmocka_unit_test(the_completion_fd_is_there_where_the_engine_has_one),
	cmocka_unit_test(a_notification_comes_as_it_was_sent),
};

/* Engines in one process do not meet; clients of a tentd do. */
const CMUnitTest tests_of_two[] = {
	cmocka_unit_test(a_read_fetches_from_another_clients_segment),
};

} /* namespace */

int main()
{
	return cmocka_run_group_tests_name("an engine thread", tests, start_thread, stop) |
	       cmocka_run_group_tests_name("caller mode", tests, start_caller, stop) |
	       cmocka_run_group_tests_name("a tentd", tests, start_daemon, stop) |
	       cmocka_run_group_tests_name("two clients", tests_of_two, start_daemon, stop);
}
