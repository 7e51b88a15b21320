/* SPDX-License-Identifier: Apache-2.0 */
/* engine.cpp - Engine and Segment. */
#include "python/src/module.h"

#include <pybind11/stl.h>

namespace {

using Share = std::shared_ptr<EngineShare>;
using Texts = std::vector<std::pair<std::string, std::string>>;

/* tent_set_config() is for all engines that the thread creates from then on: a thread of
 * its own keeps one engine's settings from the next. */
Share create(const Texts &settings, const std::optional<std::string> &config_file)
{
	tent::Result<tent::Engine> engine = tent::Status();

	unlocked([&] {
		std::thread([&] {
			if (config_file)
				tent::load_config_from_file(*config_file);
			engine = tent::Engine::create(settings);
		}).join();
	});
	return std::make_shared<EngineShare>(std::move(engine).value());
}

/* By the handle: calls that are on their way find it stale. */
void close_engine(EngineShare &share)
{
	if (share.views) {
		PyErr_Format(PyExc_BufferError, "%zu views of this engine's memory are in use",
			     share.views);
		throw py::error_already_set();
	}
	share.is_closed = true;
	unlocked([&] { tent_destroy_engine(share.engine.handle()); });
}

tent::MemoryOptions options_of(const std::string &location, int permission, bool internal)
{
	tent::MemoryOptions o;

	o.location = location;
	o.permission = tent::Permission(permission);
	o.internal = internal;
	return o;
}

std::shared_ptr<PyBuffer> allocate(py::object self, size_t size, const std::string &location,
				   int permission, bool internal)
{
	Share share = py::cast<Share>(self);
	tent::MemoryOptions o = options_of(location, permission, internal);
	tent::Buffer buffer = unlocked([&] { return share->engine.allocate(size, o).value(); });

	auto made = std::make_shared<PyBuffer>(share, std::move(buffer), true, nullptr);
	made->engine = std::move(self);
	return made;
}

std::shared_ptr<PyBuffer> register_memory(py::object self, py::object memory,
					  std::optional<size_t> size, const std::string &location,
					  int permission, bool internal)
{
	Share share = py::cast<Share>(self);
	tent::MemoryOptions o = options_of(location, permission, internal);
	Span span = span_of(std::move(memory), size);

	try {
		tent::Buffer buffer = unlocked([&] {
			return share->engine.register_memory(span.data, span.size, o).value();
		});

		auto made = std::make_shared<PyBuffer>(share, std::move(buffer), false,
						       span.release);
		made->engine = std::move(self);
		return made;
	} catch (...) {
		span.release();
		throw;
	}
}

std::shared_ptr<PySegment> open_segment(py::object self, const std::string &name)
{
	Share share = py::cast<Share>(self);
	tent::Segment s = unlocked([&] { return share->engine.open_segment(name).value(); });

	auto made = std::make_shared<PySegment>(share, name, std::move(s));
	made->engine = std::move(self);
	return made;
}

std::shared_ptr<PyBatch> allocate_batch(const Share &share, size_t size)
{
	tent::Batch b = unlocked([&] { return share->engine.allocate_batch(size).value(); });

	return std::make_shared<PyBatch>(share, std::move(b));
}

void notify(const Share &share, tent_segment_id_t target, const std::string &name,
	    const std::string &message)
{
	whole(name);
	whole(message);
	unlocked([&] { share->engine.notify(target, name, message).check(); });
}

py::list notifications(const Share &share)
{
	py::list out;

	for (const tent::Notification &n : unlocked([&] {
			return share->engine.notifications().value(); }))
		out.append(py::make_tuple(py::bytes(n.name), py::bytes(n.message)));
	return out;
}

py::object explain(const Share &share, py::object from)
{
	std::vector<tent::Request> plain;
	std::string json;

	std::vector<PyRequest> requests = requests_of(std::move(from));
	for (const PyRequest &r : requests)
		plain.push_back(r.request);
	json = unlocked([&] { return share->engine.explain(plain).value(); });
	return py::module_::import("json").attr("loads")(json);
}

py::object info_of(const PySegment &s)
{
	py::module_ types = py::module_::import("tent.types");
	std::shared_ptr<tent::Segment> segment = s.get();
	tent::SegmentInfo info = unlocked([&] { return segment->info().value(); });
	py::list buffers;

	for (const tent::BufferInfo &b : info.buffers)
		buffers.append(types.attr("BufferInfo")(b.base, b.length, b.location));
	return types.attr("SegmentInfo")(member_of("SegmentType", int32_t(info.type)), buffers);
}

void connect(const PySegment &s, uint64_t timeout_ns)
{
	std::shared_ptr<tent::Segment> segment = s.get();

	unlocked([&] {
		segment->connect(std::chrono::nanoseconds(timeout_ns)).check();
	});
}

template <typename Class> void bind_memory_of(Class &c)
{
	c.def("allocate", allocate, py::arg("size"), py::kw_only(), py::arg("location") = "*",
	      py::arg("permission") = int(TENT_PERM_GLOBAL_READ_WRITE),
	      py::arg("internal") = false)
		.def("register", register_memory, py::arg("memory"), py::arg("size") = py::none(),
		     py::kw_only(), py::arg("location") = "*",
		     py::arg("permission") = int(TENT_PERM_GLOBAL_READ_WRITE),
		     py::arg("internal") = false);
}

} /* namespace */

/* Without the lock: an engine ends every request first. */
EngineShare::~EngineShare()
{
	unlocked([&] { engine = tent::Engine(); });
}

void PySegment::close()
{
	std::shared_ptr<tent::Segment> last = std::move(segment_);

	unlocked([&] { last.reset(); });
}

std::shared_ptr<tent::Segment> PySegment::get() const
{
	if (!segment_)
		throw py::value_error("this segment has been closed");
	return segment_;
}

static void bind_segments(py::module_ &m)
{
	py::class_<PySegment, std::shared_ptr<PySegment>>(m, "Segment")
		.def_readonly("name", &PySegment::name)
		.def_property_readonly("id", &PySegment::id)
		.def_readonly("engine", &PySegment::engine)
		.def("info", info_of)
		.def("range", [](py::object self, py::object offset, py::object length) {
			return py::module_::import("tent.types").attr("Range")(self, offset, length);
		}, py::arg("offset"), py::arg("length"))
		.def("connect", connect, py::arg("timeout_ns") = 0)
		.def("close", &PySegment::close)
		.def("__enter__", [](py::object self) { return self; })
		.def("__exit__", [](PySegment &s, const py::args &) { s.close(); });
}

void bind_engine(py::module_ &m)
{
	py::class_<EngineShare, Share> engine(m, "Engine");

	engine.def(py::init(&create), py::arg("settings"), py::arg("config_file"))
		.def("check", [](const Share &s) {
			unlocked([&] { s->engine.status().check(); }); })
		.def("segment_name", [](const Share &s) {
			return unlocked([&] { return s->engine.segment_name().value(); }); })
		.def("open_segment", open_segment, py::arg("name") = "")
		.def("allocate_batch", allocate_batch, py::arg("size"))
		.def("explain", explain, py::arg("requests"))
		.def("notify", notify, py::arg("target"), py::arg("name"), py::arg("message"))
		.def("notifications", notifications)
		.def("completion_fd", [](const Share &s) {
			return unlocked([&] { return s->engine.completion_fd().value(); }); })
		.def("close", close_engine)
		.def("__enter__", [](py::object self) { return self; })
		.def("__exit__", [](EngineShare &s, const py::args &) { close_engine(s); });
	bind_memory_of(engine);
	bind_segments(m);
	m.def("api_version", tent::api_version);
	m.def("monotonic_now_ns", tent::monotonic_now_ns);
	m.def("deadline_after_ns", [](py::object budget_ns) {
		uint64_t deadline_ns = 0;

		tent::Status::of(tent_deadline_after_ns(u64_of(budget_ns), &deadline_ns)).check();
		return deadline_ns;
	}, py::arg("budget_ns"));
}
