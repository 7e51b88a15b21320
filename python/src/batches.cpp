/* SPDX-License-Identifier: Apache-2.0 */
/* batches.cpp - Batch: submit, look, wait. */
#include "python/src/module.h"

#include <pybind11/stl.h>

namespace {

using clock = std::chrono::steady_clock;

/* How long a wait goes without looking for signals, such as Ctrl-C. */
constexpr std::chrono::milliseconds SLICE(50);
/* Longer than anybody waits, and no overflow: a year. */
constexpr double LIMIT_S = 365 * 86400;

clock::time_point end_of(std::optional<double> timeout_s)
{
	double s = timeout_s ? std::min(std::max(*timeout_s, 0.0), LIMIT_S) : LIMIT_S;

	return clock::now() + std::chrono::duration_cast<clock::duration>(
		std::chrono::duration<double>(s));
}

py::tuple error_of(const PyBatch &b, size_t task)
{
	tent::TaskError e = unlocked([&] { return b.batch.error(task).value(); });
	py::object exception = py::none();

	if (!e.status)
		exception = py::module_::import("tent.errors").attr("of")(
			int32_t(e.status.code()), e.status.index(), e.status.field(),
			e.status.message(), e.status.rule());
	return py::make_tuple(exception, e.flags);
}

} /* namespace */

void PyBatch::submit(py::object from, std::optional<Texts> notification)
{
	const char *name = notification ? whole(notification->first) : nullptr;
	const char *message = notification ? whole(notification->second) : nullptr;
	std::vector<PyRequest> requests = requests_of(std::move(from));
	std::vector<tent::Request> plain;

	for (const PyRequest &r : requests)
		plain.push_back(r.request);
	/* before it is known whether they will be accepted: the engine may be done with them
	 * before the lock is ours again */
	for (PyRequest &r : requests) {
		held_.push_back(std::move(r.source));
		held_.push_back(std::move(r.target));
	}
	unlocked([&] {
		tent_batch_id_t id = batch.id();
		const tent::Entries entries(plain.data(), plain.size());

		tent_engine_t engine = share->engine.handle();

		tent::Status::of(name ? tent_submit_v1_notif(engine, id, entries.data(),
							     entries.size(), name, message) :
				 tent_submit_v1(engine, id, entries.data(), entries.size()))
			.check();
	});
}

tent::TaskStatus PyBatch::wait(std::optional<double> timeout_s)
{
	const clock::time_point end = end_of(timeout_s);

	for (;;) {
		clock::duration left = std::max(end - clock::now(), clock::duration(0));
		tent::TaskStatus status = unlocked([&] {
			return batch.wait(std::min<clock::duration>(left, SLICE)).value();
		});

		if (status.ended() || left == clock::duration(0))
			return status;
		if (PyErr_CheckSignals())
			throw py::error_already_set();
	}
}

void PyBatch::close()
{
	unlocked([&] { tent_free_batch(share->engine.handle(), batch.id()); });
}

void bind_batches(py::module_ &m)
{
	py::class_<tent::TaskStatus>(m, "TaskStatus")
		.def_property_readonly("state", [](const tent::TaskStatus &s) {
			return member_of("TaskState", int32_t(s.state)); })
		.def_readonly("transferred_bytes", &tent::TaskStatus::transferred_bytes)
		.def_property_readonly("ended", &tent::TaskStatus::ended)
		.def_property_readonly("completed", &tent::TaskStatus::completed)
		.def("__repr__", [](const tent::TaskStatus &s) {
			return py::str("<TaskStatus {}, {} bytes>").format(
				member_of("TaskState", int32_t(s.state)).attr("name"),
				s.transferred_bytes); });

	py::class_<PyBatch, std::shared_ptr<PyBatch>>(m, "Batch")
		.def_property_readonly("id", [](const PyBatch &b) { return b.batch.id(); })
		.def("submit", &PyBatch::submit, py::arg("requests"),
		     py::arg("notification") = py::none())
		.def("status", [](const PyBatch &b) {
			return unlocked([&] { return b.batch.status().value(); }); })
		.def("task_status", [](const PyBatch &b, size_t task) {
			return unlocked([&] { return b.batch.status(task).value(); });
		}, py::arg("task"))
		.def("error", error_of, py::arg("task"))
		.def("cancel", [](const PyBatch &b, size_t task) {
			unlocked([&] {
				tent::Status::of(tent_cancel_task(b.share->engine.handle(),
								  b.batch.id(), task)).check();
			});
		}, py::arg("task"))
		.def("wait", &PyBatch::wait, py::arg("timeout") = py::none())
		.def("raise_failure", [](const PyBatch &b) {
			unlocked([&] { b.batch.outcome().check(); }); })
		.def("close", &PyBatch::close)
		.def("__enter__", [](py::object self) { return self; })
		.def("__exit__", [](PyBatch &b, const py::args &) { b.close(); });
}
