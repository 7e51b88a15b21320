/* SPDX-License-Identifier: Apache-2.0 */
/* requests.cpp - Request, and normalize(). */
#include "python/src/module.h"

#include <pybind11/stl.h>

namespace {

/* An address: a number, or what has one and is kept. */
uint64_t address_of(py::object from, py::object &held)
{
	if (!py::isinstance<PyBuffer>(from))
		return u64_of(from);
	held = from;
	return py::cast<const PyBuffer &>(from).address();
}

uint64_t target_of(py::handle from)
{
	return py::isinstance<PySegment>(from) ? py::cast<const PySegment &>(from).id() :
						 u64_of(from);
}

std::optional<std::string> policy_of(py::handle name)
{
	if (name.is_none())
		return std::nullopt;
	if (!py::isinstance<py::str>(name))
		throw py::type_error("policy_name is a str, or None");
	return py::cast<std::string>(name);
}

void set_field(PyRequest &r, const std::string &name, py::object value)
{
	tent::Intent &intent = r.request.intent;

	if (name == "opcode")
		r.request.opcode = tent::Opcode(i32_of(value));
	else if (name == "source")
		r.request.source = reinterpret_cast<void *>(
			uintptr_t(address_of(value, r.source)));
	else if (name == "target_id")
		r.request.target_id = target_of(value);
	else if (name == "target_offset")
		r.request.target_offset = address_of(value, r.target);
	else if (name == "length")
		r.request.length = u64_of(value);
	else if (name == "intent_type")
		intent.intent_type = tent::IntentType(i32_of(value));
	else if (name == "requested_priority")
		intent.requested_priority = tent::Priority(i32_of(value));
	else if (name == "deadline_ns")
		intent.deadline_ns = u64_of(value);
	else if (name == "policy_name")
		intent.policy_name = policy_of(value);
	else if (name == "transport_hint")
		intent.transport_hint = tent::TransportType(i32_of(value));
	else if (name == "flags")
		intent.flags = u64_of(value);
	else
		throw py::type_error("a request has no field '" + name + "'");
}

bool is_member(const char *enumeration, int32_t number)
{
	try {
		member_of(enumeration, number);
		return true;
	} catch (py::error_already_set &e) {
		if (!e.matches(PyExc_ValueError))
			throw;
		return false;
	}
}

/* An engine in compat mode would take them; Python does not. The library says what is
 * wrong. */
void refuse_unknown_numbers(const tent::Request &r)
{
	if (is_member("Opcode", int32_t(r.opcode)) &&
	    is_member("IntentType", int32_t(r.intent.intent_type)) &&
	    is_member("Priority", int32_t(r.intent.requested_priority)) &&
	    is_member("TransportType", int32_t(r.intent.transport_hint)))
		return;
	(void)tent::normalize(r, tent::ValidationMode::STRICT).value();
}

PyRequest request_from(const py::handle &from)
{
	if (py::isinstance<PyRequest>(from))
		return py::cast<PyRequest>(from);
	return request_of(py::reinterpret_borrow<py::kwargs>(py::dict(
		py::reinterpret_borrow<py::object>(from))), true);
}

/* What was refused by itself was entry 0, "entry 0: ...", and is another one's here. */
[[noreturn]] void throw_at(const tent::Status &status, size_t index)
{
	const char *sentence = std::strchr(status.message(), ':');
	tent_error_info_t info = {};

	info.error = int32_t(status.code());
	info.rule = status.rule();
	info.index = uint32_t(index);
	snprintf(info.field, sizeof(info.field), "%s", status.field());
	snprintf(info.message, sizeof(info.message), "entry %zu%s", index, sentence);
	throw tent::Error(tent::Status(info));
}

/* A fault of an earlier request comes first, as in the library. */
[[noreturn]] void throw_first(const std::vector<PyRequest> &earlier, const tent::Status &status)
{
	for (size_t i = 0; i < earlier.size(); i++) {
		auto n = tent::normalize(earlier[i].request, tent::ValidationMode::STRICT);

		if (!n)
			throw_at(n.status(), i);
	}
	throw_at(status, earlier.size());
}

py::dict normalize(py::object from, int mode)
{
	tent::Request r = py::isinstance<PyRequest>(from) ?
		py::cast<PyRequest>(from).request :
		request_of(py::reinterpret_borrow<py::kwargs>(py::dict(from)), false).request;
	tent::NormalizedIntent n = tent::normalize(r, tent::ValidationMode(mode)).value();
	py::dict out;

	out["opcode"] = member_of("Opcode", int32_t(n.opcode));
	out["intent_type"] = member_of("IntentType", int32_t(n.intent.intent_type));
	out["requested_priority"] = member_of("Priority", int32_t(n.intent.requested_priority));
	out["deadline_ns"] = n.intent.deadline_ns;
	out["policy_name"] = n.intent.policy_name;
	out["transport_hint"] = member_of("TransportType", int32_t(n.intent.transport_hint));
	out["downgrades"] = n.downgrades;
	return out;
}

} /* namespace */

PyRequest request_of(const py::kwargs &fields, bool refuse_unknown)
{
	PyRequest r;

	for (const auto &field : fields)
		set_field(r, py::cast<std::string>(field.first),
			  py::reinterpret_borrow<py::object>(field.second));
	if (!fields.contains("length") && r.source)
		r.request.length = py::cast<const PyBuffer &>(r.source).size();
	if (refuse_unknown)
		refuse_unknown_numbers(r.request);
	return r;
}

std::vector<PyRequest> requests_of(py::object requests)
{
	std::vector<PyRequest> all;

	if (py::isinstance<PyRequest>(requests) || py::isinstance<py::dict>(requests))
		return { request_from(requests) };
	for (const py::handle &from : requests) {
		try {
			all.push_back(request_from(from));
		} catch (const tent::Error &e) {
			throw_first(all, e.status());
		}
	}
	return all;
}

void bind_requests(py::module_ &m)
{
	py::class_<PyRequest>(m, "Request")
		.def(py::init([](const py::kwargs &fields) { return request_of(fields, true); }))
		.def_property_readonly("opcode", [](const PyRequest &r) {
			return member_of("Opcode", int32_t(r.request.opcode)); })
		.def_property_readonly("source", [](const PyRequest &r) {
			return uint64_t(reinterpret_cast<uintptr_t>(r.request.source)); })
		.def_property_readonly("target_id", [](const PyRequest &r) {
			return r.request.target_id; })
		.def_property_readonly("target_offset", [](const PyRequest &r) {
			return r.request.target_offset; })
		.def_property_readonly("length", [](const PyRequest &r) {
			return r.request.length; })
		.def_property_readonly("intent_type", [](const PyRequest &r) {
			return member_of("IntentType", int32_t(r.request.intent.intent_type)); })
		.def_property_readonly("requested_priority", [](const PyRequest &r) {
			return member_of("Priority",
					 int32_t(r.request.intent.requested_priority)); })
		.def_property_readonly("deadline_ns", [](const PyRequest &r) {
			return r.request.intent.deadline_ns; })
		.def_property_readonly("policy_name", [](const PyRequest &r) {
			return r.request.intent.policy_name; })
		.def_property_readonly("transport_hint", [](const PyRequest &r) {
			return member_of("TransportType",
					 int32_t(r.request.intent.transport_hint)); })
		.def_property_readonly("flags", [](const PyRequest &r) {
			return r.request.intent.flags; });
	m.def("normalize", normalize, py::arg("request"),
	      py::arg("mode") = int(TENT_VALIDATION_STRICT));
}
