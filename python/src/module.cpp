/* SPDX-License-Identifier: Apache-2.0 */
/* module.cpp - tent._tent: the numbers of tent.h, and who raises what. */
#include "python/src/module.h"

namespace {

struct Number {
	const char *name;
	long value;
};

#define N(name) { #name, TENT_##name }
const Number numbers[] = {
	N(OPCODE_READ), N(OPCODE_WRITE),
	N(INTENT_UNSPEC), N(INTENT_FOREGROUND_GET), N(INTENT_BACKGROUND_PREFETCH),
	N(INTENT_MIGRATION), N(INTENT_CHECKPOINT), N(INTENT_WEIGHT_LOADING),
	N(INTENT_STAGING_INTERNAL),
	N(PRIORITY_UNSPEC), N(PRIORITY_HIGH), N(PRIORITY_MEDIUM), N(PRIORITY_LOW),
	N(TRANSPORT_UNSPEC), N(TRANSPORT_RDMA), N(TRANSPORT_MNNVL), N(TRANSPORT_SHM),
	N(TRANSPORT_NVLINK), N(TRANSPORT_GDS), N(TRANSPORT_IOURING), N(TRANSPORT_TCP),
	N(TRANSPORT_ASCEND_DIRECT), N(TRANSPORT_SUNRISE_LINK), N(TRANSPORT_TPU),
	N(TRANSPORT_UB), N(TRANSPORT_MPCOMM),
	N(PERM_LOCAL_READ_WRITE), N(PERM_GLOBAL_READ_ONLY), N(PERM_GLOBAL_READ_WRITE),
	N(SEGMENT_MEMORY), N(SEGMENT_FILE),
	N(STATUS_WAITING), N(STATUS_PENDING), N(STATUS_INVALID), N(STATUS_CANCELED),
	N(STATUS_COMPLETED), N(STATUS_TIMEOUT), N(STATUS_FAILED),
	N(VALIDATION_STRICT), N(VALIDATION_COMPAT),
	N(ERR_ARGUMENTS), N(ERR_SCHEMA), N(ERR_LAYOUT), N(ERR_ENUM), N(ERR_FLAGS),
	N(ERR_POLICY_UNKNOWN), N(ERR_POLICY_DENIED), N(ERR_DEADLINE), N(ERR_UNSUPPORTED),
	N(ERR_ADDRESS), N(ERR_TRANSPORT), N(ERR_CAPACITY), N(ERR_STALE_HANDLE),
	N(ERR_PEER_UNREACHABLE), N(ERR_ENGINE_LOST), N(ERR_RUNTIME), N(ERR_CANCELED),
	N(ERR_TIMEOUT), N(ERR_OWNER_GONE), N(ERR_PROTOCOL), N(ERR_CONFIG),
	N(CQE_F_INTENT_DOWNGRADED), N(CQE_F_PRIORITY_DOWNGRADED), N(CQE_F_POLICY_DOWNGRADED),
	N(CQE_F_TAIL_IGNORED), N(CQE_F_DEADLINE_MISSED), N(CQE_F_TARGET_UNFENCED),
	N(CQE_F_FAILED_OVER),
};
#undef N

/* tent.errors has a class for each category. */
py::object exception_of(const tent::Status &status)
{
	return py::module_::import("tent.errors").attr("of")(
		int32_t(status.code()), status.index(), status.field(), status.message(),
		status.rule());
}

void raise_error(std::exception_ptr thrown)
{
	try {
		std::rethrow_exception(thrown);
	} catch (const tent::Error &error) {
		py::object exception = exception_of(error.status());

		PyErr_SetObject(py::type::handle_of(exception).ptr(), exception.ptr());
	}
}

} /* namespace */

uint64_t u64_of(py::handle number)
{
	py::object index = py::reinterpret_steal<py::object>(PyNumber_Index(number.ptr()));
	uint64_t value = index ? PyLong_AsUnsignedLongLong(index.ptr()) : 0;

	if (PyErr_Occurred())
		throw py::error_already_set();
	return value;
}

int32_t i32_of(py::handle number)
{
	py::object index = py::reinterpret_steal<py::object>(PyNumber_Index(number.ptr()));
	long value = index ? PyLong_AsLong(index.ptr()) : 0;

	if (PyErr_Occurred())
		throw py::error_already_set();
	if (value == int32_t(value))
		return int32_t(value);
	PyErr_Format(PyExc_OverflowError, "%ld does not fit 32 bits", value);
	throw py::error_already_set();
}

py::object member_of(const char *enumeration, int32_t number)
{
	return py::module_::import("tent.enums").attr(enumeration)(number);
}


PYBIND11_MODULE(_tent, m)
{
	m.doc() = "The Transfer Intent API of libtent. Import tent.";
	for (const Number &n : numbers)
		m.attr(n.name) = n.value;
	py::register_exception_translator(raise_error);
	bind_memory(m);
	bind_requests(m);
	bind_batches(m);
	bind_engine(m);
}
