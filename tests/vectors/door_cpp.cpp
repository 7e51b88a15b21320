/* SPDX-License-Identifier: Apache-2.0 */
/* door_cpp.cpp - tent.hpp: typed requests, an optional policy, Status and Result. */
#include <optional>
#include <string>
#include <vector>

extern "C" {
#include "tests/vectors/door.h"
}
#include <tent/tent.hpp>

namespace {

struct Scene {
	tent::Engine engine;
	tent::Buffer a, b;
	tent::Segment file, peer;
};

std::optional<Scene> scene;

template <typename T> T need(tent::Result<T> result, const char *what)
{
	if (!result)
		door_die(what, result.status().message());
	return std::move(*result);
}

void open_cpp(struct door_places *p, bool peer)
{
	scene.emplace();
	scene->engine = need(tent::Engine::create(), "engine");
	scene->a = need(scene->engine.allocate(DOOR_SIZE), "a");
	scene->b = need(scene->engine.allocate(DOOR_SIZE), "b");
	p->a = scene->a.address();
	p->b = scene->b.address();
	if (door_file_segment()) {
		scene->file = need(scene->engine.open_segment(door_file_segment()), "file");
		p->file = scene->file.id();
	}
	if (peer) {
		scene->peer = need(scene->engine.open_segment(door_peer_segment(p)), "peer");
		p->peer = scene->peer.id();
	}
}

void close_cpp()
{
	scene.reset();
}

tent::Request request_of(const door_batch *b, size_t i)
{
	const tent_request_v1_t from = door_request(b, door_entry(b, i));
	tent::Request r;

	r.opcode = tent::Opcode(from.opcode);
	r.source = from.source;
	r.target_id = from.target_id;
	r.target_offset = from.target_offset;
	r.length = from.length;
	r.intent.intent_type = tent::IntentType(from.intent_type);
	r.intent.requested_priority = tent::Priority(from.requested_priority);
	r.intent.deadline_ns = from.deadline_ns;
	if (from.policy_name)
		r.intent.policy_name = from.policy_name;
	r.intent.transport_hint = tent::TransportType(from.transport_hint);
	r.intent.flags = from.flags;
	return r;
}

/* As C has it, so that door.c can tell of it. */
tent_normalized_t plain(const tent::NormalizedIntent &from)
{
	const std::string name = from.intent.policy_name.value_or("");
	tent_normalized_t n = {};

	n.opcode = int32_t(from.opcode);
	n.intent_type = int32_t(from.intent.intent_type);
	n.requested_priority = int32_t(from.intent.requested_priority);
	n.deadline_ns = from.intent.deadline_ns;
	n.transport_hint = int32_t(from.intent.transport_hint);
	name.copy(n.policy_name, sizeof(n.policy_name) - 1);
	return n;
}

json_t *ends_of(const door_batch *b, const tent::Batch &batch)
{
	json_t *list = json_array();

	need(batch.wait(), "wait");
	for (size_t i = 0; i < b->count; i++) {
		const tent::TaskStatus s = need(batch.status(i), "status");
		const tent::TaskError e = need(batch.error(i), "error");

		json_array_append_new(list, door_end(int(s.state), int(e.status.code()),
						     e.status.field(), e.flags));
	}
	return list;
}

json_t *differing(json_t *answer, json_t *differs)
{
	if (differs)
		json_object_set_new(answer, "differs", differs);
	return answer;
}

json_t *accepted(const door_batch *b, const std::vector<tent::Request> &requests,
		 const json_t *explain, const tent::Batch &batch)
{
	const auto mode = door_is_compat(explain) ? tent::ValidationMode::COMPAT :
						    tent::ValidationMode::STRICT;
	json_t *normalized = json_array();

	for (size_t i = 0; i < b->count; i++) {
		const tent_normalized_t n = plain(need(tent::normalize(requests[i], mode),
						       "normalize"));

		json_array_append_new(normalized, door_normalized(b, i, &n));
	}
	return differing(door_accepted(b, explain, normalized, ends_of(b, batch)),
			 door_explain_differs(explain, 0, "", 0));
}

json_t *ask_cpp(const door_batch *b)
{
	std::vector<tent::Request> requests;

	for (size_t i = 0; i < b->count; i++)
		requests.push_back(request_of(b, i));

	const std::string text = need(scene->engine.explain(requests), "explain");
	tent::Batch batch = need(scene->engine.allocate_batch(64), "batch");
	const tent::Status status = batch.submit(requests);
	json_t *explain = json_loads(text.c_str(), 0, nullptr), *answer;

	if (status)
		answer = accepted(b, requests, explain, batch);
	else
		answer = differing(door_refused(int(status.code()), status.field(), status.index()),
				   door_explain_differs(explain, int(status.code()),
							status.field(), status.index()));
	json_decref(explain);
	return answer;
}

} /* namespace */

int main(int argc, char **argv)
{
	static const door cpp = { open_cpp, ask_cpp, close_cpp };

	return door_main(argc, argv, &cpp);
}
