/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.cpp - Python's memory for the engine, and the engine's memory for Python.
 *
 * What is registered stays: the object's view is held, so that it can be neither freed
 * nor resized. What the engine allocated is there while anybody looks at it: release()
 * and Engine.close() refuse as long as there are views.
 */
#include "python/src/module.h"

namespace {

/* ---- DLPack: the first version's capsule, as every producer still hands out ---- */

enum { DL_CPU = 1, DL_CUDA_HOST = 3 };

struct DLTensor {
	void *data;
	int32_t device_type, device_id;
	int32_t ndim;
	uint8_t type_code, type_bits;
	uint16_t type_lanes;
	int64_t *shape;
	int64_t *strides;	/* in elements, or NULL: in one piece */
	uint64_t byte_offset;
};

struct DLManagedTensor {
	DLTensor tensor;
	void *context;
	void (*deleter)(DLManagedTensor *self);
};
static_assert(sizeof(DLTensor) == 48 && sizeof(DLManagedTensor) == 64, "as DLPack has it");

bool is_in_one_piece(const DLTensor &t)
{
	int64_t step = 1;

	for (int32_t i = t.ndim; t.strides && i-- > 0;) {
		if (t.shape[i] > 1 && t.strides[i] != step)
			return false;
		step *= t.shape[i];
	}
	return true;
}

size_t bytes_of(const DLTensor &t)
{
	size_t elements = 1;

	for (int32_t i = 0; i < t.ndim; i++)
		elements *= size_t(t.shape[i]);
	return elements * ((size_t(t.type_bits) * t.type_lanes + 7) / 8);
}

void check_device(const py::object &object)
{
	py::tuple device = object.attr("__dlpack_device__")();
	int type = py::int_(device[0]);

	if (type != DL_CPU && type != DL_CUDA_HOST)
		throw py::value_error("memory of DLPack device " + std::to_string(type) +
				      "; allowed: 1 (CPU) and 3 (pinned by CUDA)");
}

Span span_of_dlpack(const py::object &object)
{
	check_device(object);

	py::capsule capsule = object.attr("__dlpack__")();
	auto *managed = static_cast<DLManagedTensor *>(
		PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
	Span span;

	if (!managed)
		throw py::error_already_set();
	if (!is_in_one_piece(managed->tensor))	/* the capsule frees it */
		throw py::value_error("a tensor with gaps; allowed: one in one piece");
	PyCapsule_SetName(capsule.ptr(), "used_dltensor");
	span.data = static_cast<char *>(managed->tensor.data) + managed->tensor.byte_offset;
	span.size = bytes_of(managed->tensor);
	span.release = [managed] {
		if (managed->deleter)
			managed->deleter(managed);
	};
	return span;
}

/* ---- the other two -------------------------------------------------------- */

Span span_of_view(const py::object &object)
{
	auto view = std::make_shared<Py_buffer>();
	Span span;

	if (PyObject_GetBuffer(object.ptr(), view.get(), PyBUF_CONTIG))
		throw py::error_already_set();
	span.data = view->buf;
	span.size = size_t(view->len);
	span.release = [view] { PyBuffer_Release(view.get()); };
	return span;
}

Span span_of_pointer(py::object object, std::optional<size_t> size)
{
	Span span;

	if (py::hasattr(object, "is_contiguous") && !py::bool_(object.attr("is_contiguous")()))
		throw py::value_error("a tensor with gaps; allowed: one in one piece");
	span.data = reinterpret_cast<void *>(uintptr_t(u64_of(object.attr("data_ptr")())));
	span.size = size ? *size : size_t(u64_of(object.attr("nbytes")));
	span.release = [held = std::move(object)]() mutable { held = py::none(); };
	return span;
}

/* ---- the buffer protocol of Buffer ------------------------------------------ */

int get_view(PyObject *self, Py_buffer *view, int flags)
{
	try {
		PyBuffer &buffer = py::cast<PyBuffer &>(py::handle(self));
		void *data = buffer.data();

		if (PyBuffer_FillInfo(view, self, data, Py_ssize_t(buffer.size()), 0, flags))
			return -1;
		buffer.add_view(1);
		return 0;
	} catch (const std::exception &e) {
		PyErr_SetString(PyExc_BufferError, e.what());
		return -1;
	}
}

void release_view(PyObject *self, Py_buffer *)
{
	py::cast<PyBuffer &>(py::handle(self)).add_view(-1);
}

/* pybind11's own has no say when a view ends. */
void set_buffer_protocol(py::handle type)
{
	auto *heap = reinterpret_cast<PyHeapTypeObject *>(type.ptr());

	heap->as_buffer.bf_getbuffer = get_view;
	heap->as_buffer.bf_releasebuffer = release_view;
	heap->ht_type.tp_as_buffer = &heap->as_buffer;
	PyType_Modified(&heap->ht_type);
}

} /* namespace */

Span span_of(py::object object, std::optional<size_t> size)
{
	if (PyObject_CheckBuffer(object.ptr()))
		return span_of_view(object);
	if (py::hasattr(object, "__dlpack__") && py::hasattr(object, "__dlpack_device__"))
		return span_of_dlpack(object);
	if (py::hasattr(object, "data_ptr"))
		return span_of_pointer(std::move(object), size);
	throw py::type_error("memory is a writable buffer, has __dlpack__(), or has data_ptr() and "
			     "nbytes");
}

PyBuffer::PyBuffer(std::shared_ptr<EngineShare> owner, tent::Buffer buffer, bool is_allocated,
		   Release release)
	: share(std::move(owner)), buffer_(std::move(buffer)), is_allocated_(is_allocated),
	  release_(std::move(release))
{
}

/* Nothing touches the memory any more when the library has unregistered it: only then
 * its owner may have it back. */
PyBuffer::~PyBuffer()
{
	tent::Buffer buffer = std::move(buffer_);

	unlocked([&] { (void)buffer.release(); });
	if (release_)
		release_();
}

void PyBuffer::release()
{
	if (views_) {
		PyErr_Format(PyExc_BufferError, "%zu views of this memory are in use", views_);
		throw py::error_already_set();
	}
	tent::Buffer buffer = std::move(buffer_);
	Release give_back = std::exchange(release_, nullptr);
	tent::Status status = unlocked([&] { return buffer.release(); });

	if (give_back)
		give_back();
	if (!share->is_closed)	/* else the engine has ended it all */
		status.check();
}

void PyBuffer::add_view(int by)
{
	views_ += size_t(by);
	if (is_allocated_)
		share->views += size_t(by);
}

bool PyBuffer::is_live() const
{
	return buffer_.data() && !(is_allocated_ && share->is_closed);
}

void *PyBuffer::data() const
{
	if (!is_live())
		throw py::value_error("this memory has been released");
	return buffer_.data();
}

void bind_memory(py::module_ &m)
{
	py::class_<PyBuffer, std::shared_ptr<PyBuffer>> buffer(m, "Buffer");

	buffer.def_property_readonly("address", &PyBuffer::address)
		.def_property_readonly("nbytes", &PyBuffer::size)
		.def("__len__", &PyBuffer::size)
		.def_readonly("engine", &PyBuffer::engine)
		.def("view", [](py::object self) { return py::memoryview(self); })
		.def("release", &PyBuffer::release)
		.def("__enter__", [](py::object self) { return self; })
		.def("__exit__", [](PyBuffer &b, const py::args &) { b.release(); });
	set_buffer_protocol(buffer);
}
