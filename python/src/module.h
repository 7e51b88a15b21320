/* SPDX-License-Identifier: Apache-2.0 */
/*
 * module.h - what the files of the Python module share.
 *
 * tent.hpp does the work and the library judges; here is only what Python needs: its
 * numbers, its memory, its lifetimes. Everything that may block runs without the
 * interpreter's lock. An object may be closed by one thread while another is inside a
 * call on it: so calls take a share of what they use before they let go of the lock, and
 * engines and batches are ended by their handles, which then are stale.
 */
#ifndef TENT_PYTHON_MODULE_H
#define TENT_PYTHON_MODULE_H

#include <functional>
#include <memory>
#include <optional>
#include <pybind11/pybind11.h>
#include <string>
#include <vector>

#include <tent/tent.hpp>

namespace py = pybind11;

/* An engine, for all whose memory, segments and batches are its own. The fields beside
 * it are under the interpreter's lock. */
struct EngineShare {
	tent::Engine engine;
	size_t views = 0;	/* memoryviews and arrays over memory that it allocated */
	bool is_closed = false;

	explicit EngineShare(tent::Engine e) : engine(std::move(e)) {}
	~EngineShare();
};

/* Lets go of something of an object of another library: a view, a DLPack capsule. */
using Release = std::function<void()>;

/* What lies behind an object: bytes in one piece. */
struct Span {
	void *data = nullptr;
	size_t size = 0;
	Release release;	/* under the interpreter's lock */
};

/* By the buffer protocol, DLPack or data_ptr(). size: of the latter, where it has no
 * nbytes. Throws what Python should raise. */
Span span_of(py::object object, std::optional<size_t> size);

class PyBuffer {
public:
	PyBuffer(std::shared_ptr<EngineShare> owner, tent::Buffer buffer, bool is_allocated,
		 Release release);
	~PyBuffer();

	void release();		/* raises BufferError while there are views */
	void add_view(int by);
	bool is_live() const;
	void *data() const;	/* raises ValueError after release() */
	size_t size() const { return buffer_.size(); }
	uint64_t address() const { return uint64_t(reinterpret_cast<uintptr_t>(data())); }

	const std::shared_ptr<EngineShare> share;
	py::object engine;	/* the tent.Engine */

private:
	tent::Buffer buffer_;
	const bool is_allocated_;
	size_t views_ = 0;
	Release release_;
};

class PySegment {
public:
	PySegment(std::shared_ptr<EngineShare> owner, std::string its_name, tent::Segment segment)
		: share(std::move(owner)), name(std::move(its_name)),
		  segment_(std::make_shared<tent::Segment>(std::move(segment)))
	{
	}
	~PySegment() { close(); }

	void close();
	/* For a call that lets go of the lock; raises ValueError after close(). */
	std::shared_ptr<tent::Segment> get() const;
	uint64_t id() const { return get()->id(); }

	const std::shared_ptr<EngineShare> share;
	const std::string name;
	py::object engine;	/* the tent.Engine */

private:
	std::shared_ptr<tent::Segment> segment_;
};

/* A request, and the objects whose memory it names. */
struct PyRequest {
	tent::Request request;
	py::object source, target;
};

/* Of a notification: any bytes but zero. */
using Texts = std::pair<std::string, std::string>;

/* A C text ends at its first zero byte: one that would be cut is a ValueError. */
inline const char *whole(const std::string &text)
{
	if (text.find('\0') != std::string::npos)
		throw py::value_error("a notification has no zero bytes");
	return text.c_str();
}

class PyBatch {
public:
	PyBatch(std::shared_ptr<EngineShare> owner, tent::Batch allocated)
		: share(std::move(owner)), batch(std::move(allocated))
	{
	}

	/* notification: a name and a message, or none */
	void submit(py::object requests, std::optional<Texts> notification);
	tent::TaskStatus wait(std::optional<double> timeout_s);
	void close();

	const std::shared_ptr<EngineShare> share;
	const tent::Batch batch;

private:
	std::vector<py::object> held_;	/* what its requests name */
};

/* Numbers of Python for numbers of C: TypeError, OverflowError. */
uint64_t u64_of(py::handle number);
int32_t i32_of(py::handle number);
/* A member of tent.enums. */
py::object member_of(const char *enumeration, int32_t number);

/* From keyword arguments, or a mapping of them. Unknown numbers of an enumeration are
 * refused, as a strict engine does; or not, for normalize(). */
PyRequest request_of(const py::kwargs &fields, bool refuse_unknown);
std::vector<PyRequest> requests_of(py::object requests);

void bind_memory(py::module_ &m);
void bind_requests(py::module_ &m);
void bind_batches(py::module_ &m);
void bind_engine(py::module_ &m);

/* Runs without the interpreter's lock, and throws tent::Error with it. */
template <typename Call> auto unlocked(Call call)
{
	py::gil_scoped_release released;

	return call();
}

#endif /* TENT_PYTHON_MODULE_H */
