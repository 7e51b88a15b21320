/* SPDX-License-Identifier: Apache-2.0 */
/* types.hpp - what tent.hpp is made of: enumerations, errors, requests. Include that. */
#ifndef TENT_TYPES_HPP
#define TENT_TYPES_HPP

#include <algorithm>
#include <cstdint>
#include <forward_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <tent/tent.h>

namespace tent {

/* ---- types of the fields ----------------------------------------------- */

enum class Opcode : int32_t { READ = TENT_OPCODE_READ, WRITE = TENT_OPCODE_WRITE };

enum class IntentType : int32_t {
	UNSPEC = TENT_INTENT_UNSPEC,
	FOREGROUND_GET = TENT_INTENT_FOREGROUND_GET,
	BACKGROUND_PREFETCH = TENT_INTENT_BACKGROUND_PREFETCH,
	MIGRATION = TENT_INTENT_MIGRATION,
	CHECKPOINT = TENT_INTENT_CHECKPOINT,
	WEIGHT_LOADING = TENT_INTENT_WEIGHT_LOADING,
	STAGING_INTERNAL = TENT_INTENT_STAGING_INTERNAL	/* refused: the engine's own */
};

enum class Priority : int32_t {
	UNSPEC = TENT_PRIORITY_UNSPEC,
	HIGH = TENT_PRIORITY_HIGH,
	MEDIUM = TENT_PRIORITY_MEDIUM,
	LOW = TENT_PRIORITY_LOW
};

enum class TransportType : int32_t {
	UNSPEC = TENT_TRANSPORT_UNSPEC,
	RDMA = TENT_TRANSPORT_RDMA,
	MNNVL = TENT_TRANSPORT_MNNVL,
	SHM = TENT_TRANSPORT_SHM,
	NVLINK = TENT_TRANSPORT_NVLINK,
	GDS = TENT_TRANSPORT_GDS,
	IOURING = TENT_TRANSPORT_IOURING,
	TCP = TENT_TRANSPORT_TCP,
	ASCEND_DIRECT = TENT_TRANSPORT_ASCEND_DIRECT,
	SUNRISE_LINK = TENT_TRANSPORT_SUNRISE_LINK,
	TPU = TENT_TRANSPORT_TPU,
	UB = TENT_TRANSPORT_UB,
	MPCOMM = TENT_TRANSPORT_MPCOMM
};

enum class Permission : int {
	LOCAL_READ_WRITE = TENT_PERM_LOCAL_READ_WRITE,
	GLOBAL_READ_ONLY = TENT_PERM_GLOBAL_READ_ONLY,
	GLOBAL_READ_WRITE = TENT_PERM_GLOBAL_READ_WRITE
};

enum class SegmentType : int { MEMORY = TENT_SEGMENT_MEMORY, FILE = TENT_SEGMENT_FILE };

enum class TaskState : int {
	WAITING = TENT_STATUS_WAITING,
	PENDING = TENT_STATUS_PENDING,
	INVALID = TENT_STATUS_INVALID,
	CANCELED = TENT_STATUS_CANCELED,
	COMPLETED = TENT_STATUS_COMPLETED,
	TIMEOUT = TENT_STATUS_TIMEOUT,
	FAILED = TENT_STATUS_FAILED
};

enum class ValidationMode : int {
	STRICT = TENT_VALIDATION_STRICT,
	COMPAT = TENT_VALIDATION_COMPAT
};

enum class ErrorCode : int32_t {
	OK = TENT_OK,
	ARGUMENTS = TENT_ERR_ARGUMENTS,
	SCHEMA = TENT_ERR_SCHEMA,
	LAYOUT = TENT_ERR_LAYOUT,
	ENUM = TENT_ERR_ENUM,
	FLAGS = TENT_ERR_FLAGS,
	POLICY_UNKNOWN = TENT_ERR_POLICY_UNKNOWN,
	POLICY_DENIED = TENT_ERR_POLICY_DENIED,
	DEADLINE = TENT_ERR_DEADLINE,
	UNSUPPORTED = TENT_ERR_UNSUPPORTED,
	ADDRESS = TENT_ERR_ADDRESS,
	TRANSPORT = TENT_ERR_TRANSPORT,
	CAPACITY = TENT_ERR_CAPACITY,
	STALE_HANDLE = TENT_ERR_STALE_HANDLE,
	PEER_UNREACHABLE = TENT_ERR_PEER_UNREACHABLE,
	ENGINE_LOST = TENT_ERR_ENGINE_LOST,
	RUNTIME = TENT_ERR_RUNTIME,
	CANCELED = TENT_ERR_CANCELED,
	TIMEOUT = TENT_ERR_TIMEOUT,
	OWNER_GONE = TENT_ERR_OWNER_GONE,
	PROTOCOL = TENT_ERR_PROTOCOL,
	CONFIG = TENT_ERR_CONFIG
};

/* ---- errors ------------------------------------------------------------ */

/* What a call said: OK, or why not, as struct tent_error_info has it. Heap memory is
 * taken for failures only. */
class [[nodiscard]] Status {
public:
	Status() = default;

	/* What a function of tent.h returned; negative: this thread's last error. */
	static Status of(int rc)
	{
		tent_error_info_t info = {};

		if (rc >= 0)
			return Status();
		info.size = sizeof(info);
		tent_last_error(&info);
		return Status(info);
	}

	explicit Status(const tent_error_info_t &info)
		: info_(info.error ? std::make_shared<const tent_error_info_t>(info) : nullptr)
	{
	}

	bool ok() const noexcept { return !info_; }
	explicit operator bool() const noexcept { return ok(); }
	ErrorCode code() const noexcept { return info_ ? ErrorCode(info_->error) : ErrorCode::OK; }
	uint32_t index() const noexcept { return info_ ? info_->index : 0; } /* of the entry */
	uint32_t rule() const noexcept { return info_ ? info_->rule : 0; } /* of rules.h */
	const char *field() const noexcept { return info_ ? info_->field : ""; }
	const char *message() const noexcept { return info_ ? info_->message : ""; }

#ifdef __cpp_exceptions
	void check() const;	/* throws Error unless ok() */
#endif

private:
	std::shared_ptr<const tent_error_info_t> info_;
};

#ifdef __cpp_exceptions
class Error : public std::runtime_error {
public:
	explicit Error(Status status)
		: std::runtime_error(status.message()), status_(std::move(status))
	{
	}

	const Status &status() const noexcept { return status_; }
	ErrorCode code() const noexcept { return status_.code(); }

private:
	Status status_;
};

inline void Status::check() const
{
	if (!ok())
		throw Error(*this);
}
#endif

/* A T, or the Status that says why there is none. */
template <typename T> class [[nodiscard]] Result {
public:
	Result(T value) : value_(std::move(value)) {}
	Result(Status status) : status_(std::move(status)) {}

	bool ok() const noexcept { return value_.has_value(); }
	explicit operator bool() const noexcept { return ok(); }
	const Status &status() const noexcept { return status_; }

	/* only when ok() */
	T &operator*() & noexcept { return *value_; }
	const T &operator*() const & noexcept { return *value_; }
	T &&operator*() && noexcept { return std::move(*value_); }
	T *operator->() noexcept { return &*value_; }
	const T *operator->() const noexcept { return &*value_; }

#ifdef __cpp_exceptions
	/* throw Error unless ok() */
	T &value() & { status_.check(); return *value_; }
	const T &value() const & { status_.check(); return *value_; }
	T value() && { status_.check(); return std::move(*value_); }
#endif

private:
	std::optional<T> value_;
	Status status_;
};

/* ---- requests ---------------------------------------------------------- */

/* RFC "Transfer Intent v1 semantic model". */
struct Intent {
	IntentType intent_type = IntentType::UNSPEC;
	Priority requested_priority = Priority::UNSPEC;
	uint64_t deadline_ns = 0;	/* 0, or absolute CLOCK_MONOTONIC */
	std::optional<std::string> policy_name = std::nullopt;
	TransportType transport_hint = TransportType::UNSPEC;
	uint64_t flags = 0;		/* must be 0 */
};

struct Request {
	Opcode opcode = Opcode::READ;
	void *source = nullptr;		/* inside a Buffer of this program */
	tent_segment_id_t target_id = TENT_LOCAL_SEGMENT; /* Segment::id() */
	uint64_t target_offset = 0;	/* an address inside one of its buffers; file: bytes */
	uint64_t length = 0;		/* bytes */
	Intent intent = {};
};

/* What an intent is to every engine; see tent_normalize_request(). */
struct NormalizedIntent {
	Opcode opcode = Opcode::READ;
	Intent intent;
	uint32_t downgrades = 0;	/* TENT_CQE_F_DOWNGRADES of what compat changed */
};

/* Requests as the library takes them. They name texts of the requests, which must stay. */
class Entries {
public:
	Entries(const Request *requests, size_t count) : entries_(count)
	{
		for (size_t i = 0; i < count; i++)
			load(requests[i], entries_[i]);
	}

	/* An empty list is no NULL, which the library refuses. */
	const tent_request_v1_t *data() const noexcept
	{
		static const tent_request_v1_t none = {};

		return entries_.empty() ? &none : entries_.data();
	}
	size_t size() const noexcept { return entries_.size(); }

private:
	void load(const Request &from, tent_request_v1_t &to)
	{
		to = {};
		to.struct_size = sizeof(to);
		to.schema_version = TENT_REQUEST_SCHEMA_V1;
		to.opcode = int32_t(from.opcode);
		to.source = from.source;
		to.target_id = from.target_id;
		to.target_offset = from.target_offset;
		to.length = from.length;
		to.intent_type = int32_t(from.intent.intent_type);
		to.requested_priority = int32_t(from.intent.requested_priority);
		to.deadline_ns = from.intent.deadline_ns;
		to.policy_name = from.intent.policy_name ? text(*from.intent.policy_name) : nullptr;
		to.transport_hint = int32_t(from.intent.transport_hint);
		to.flags = from.intent.flags;
	}

	/* A text of C ends at its first NUL, and would be another policy's name: a byte
	 * that the library refuses takes the NUL's place. */
	const char *text(const std::string &name)
	{
		if (name.find('\0') == std::string::npos)
			return name.c_str();
		texts_.push_front(name);
		std::replace(texts_.front().begin(), texts_.front().end(), '\0', '?');
		return texts_.front().c_str();
	}

	std::vector<tent_request_v1_t> entries_;
	std::forward_list<std::string> texts_;
};

} /* namespace tent */

#endif /* TENT_TYPES_HPP */
