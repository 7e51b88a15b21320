/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tent.hpp - tent.h for C++17: owners, types, and errors that cannot be overlooked.
 *
 * Header only, and it judges nothing: each request goes to the library as it is, and
 * what the library says comes back. What tent.h says of a function holds here too.
 *
 *  - What may fail returns a Status, or a Result: a value or a Status. Neither throws.
 *    Who wants exceptions says so at the call: Status::check() and Result::value()
 *    throw tent::Error. Compiled without exceptions the header lacks these two.
 *  - Engine, Segment, Buffer and Batch own what they stand for, move, and do not copy.
 *    Destroying one may block as the function of tent.h does that ends it.
 *  - An engine should go last. What outlives it is harmless but useless: every call
 *    answers STALE_HANDLE, and memory that the engine allocated is gone.
 *  - Any thread may use an object, but moving and destroying one is for one alone.
 */
#ifndef TENT_TENT_HPP
#define TENT_TENT_HPP

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <tent/notify.h>
#include <tent/types.hpp>

namespace tent {

/* ---- library ----------------------------------------------------------- */

inline uint32_t api_version() noexcept { return tent_get_api_version(); }
inline uint64_t monotonic_now_ns() noexcept { return tent_monotonic_now_ns(); }

/* A deadline_ns: now and budget. */
inline Result<uint64_t> deadline_after(std::chrono::nanoseconds budget)
{
	uint64_t deadline_ns = 0;
	int rc = tent_deadline_after_ns(uint64_t(budget.count()), &deadline_ns);

	return rc ? Result<uint64_t>(Status::of(rc)) : deadline_ns;
}

/* For the engines that this thread creates from now on. */
inline void set_config(const std::string &key, const std::string &value)
{
	tent_set_config(key.c_str(), value.c_str());
}

inline void load_config_from_file(const std::string &path)
{
	tent_load_config_from_file(path.c_str());
}

inline Result<NormalizedIntent> normalize(const Request &request, ValidationMode mode)
{
	const Entries entries(&request, 1);
	tent_normalized_t n = {};
	NormalizedIntent out;
	int rc;

	n.size = sizeof(n);
	rc = tent_normalize_request(entries.data(), sizeof(tent_request_v1_t),
				    TENT_REQUEST_SCHEMA_V1, int(mode), &n);
	if (rc)
		return Status::of(rc);
	out.opcode = Opcode(n.opcode);
	out.intent.intent_type = IntentType(n.intent_type);
	out.intent.requested_priority = Priority(n.requested_priority);
	out.intent.deadline_ns = n.deadline_ns;
	if (n.policy_name[0])
		out.intent.policy_name = n.policy_name;
	out.intent.transport_hint = TransportType(n.transport_hint);
	out.downgrades = n.flags;
	return out;
}

/* ---- batches ----------------------------------------------------------- */

struct TaskStatus {
	TaskState state = TaskState::WAITING;
	uint64_t transferred_bytes = 0;

	bool ended() const noexcept { return state >= TaskState::INVALID; }
	bool completed() const noexcept { return state == TaskState::COMPLETED; }
};

/* Why a task failed, and its TENT_CQE_F_*, however it ended. */
struct TaskError {
	Status status;
	uint32_t flags = 0;
};

/* Requests that end one by one; from Engine::allocate_batch(). Destroying it does not
 * end them. */
class Batch {
public:
	Batch() = default;
	Batch(Batch &&from) noexcept { swap(from); }
	Batch &operator=(Batch &&from) noexcept { Batch(std::move(from)).swap(*this); return *this; }
	~Batch()
	{
		if (id_ != TENT_INVALID_BATCH)
			tent_free_batch(engine_, id_);
	}

	tent_batch_id_t id() const noexcept { return id_; }

	/* All or none. */
	Status submit(const Request *requests, size_t count)
	{
		const Entries entries(requests, count);

		return submit(entries.data(), entries.size());
	}
	Status submit(const Request &request) { return submit(&request, 1); }
	Status submit(const std::vector<Request> &requests)
	{
		return submit(requests.data(), requests.size());
	}
	/* For who fills entries in place: no copy, no heap. */
	Status submit(const tent_request_v1_t *entries, size_t count)
	{
		return submit(entries, count, sizeof(*entries), TENT_REQUEST_SCHEMA_V1);
	}
	/* Entries of any size that the schema allows. */
	Status submit(const void *entries, size_t count, size_t entry_stride,
		      uint32_t schema_version)
	{
		return Status::of(tent_submit_requests(engine_, id_, entries, count, entry_stride,
						       schema_version));
	}
	/* When all completed, the owner of each target gets the notification once. */
	Status submit(const std::vector<Request> &requests, const std::string &name,
		      const std::string &message)
	{
		const Entries entries(requests.data(), requests.size());

		return Status::of(tent_submit_v1_notif(engine_, id_, entries.data(), entries.size(),
						       name.c_str(), message.c_str()));
	}

	/* Of all tasks together, and of one: the i-th that was submitted. */
	Result<TaskStatus> status() const
	{
		tent_status_t s = {};
		int rc = tent_overall_status(engine_, id_, &s);

		return rc ? Result<TaskStatus>(Status::of(rc)) : of(s);
	}
	Result<TaskStatus> status(size_t task) const
	{
		tent_status_t s = {};
		int rc = tent_task_status(engine_, id_, task, &s);

		return rc ? Result<TaskStatus>(Status::of(rc)) : of(s);
	}
	Result<TaskError> error(size_t task) const
	{
		tent_error_info_t info = {};
		int rc;

		info.size = sizeof(info);
		rc = tent_task_error(engine_, id_, task, &info);
		if (rc)
			return Status::of(rc);
		return TaskError{ Status(info), info.flags };
	}

	Status cancel(size_t task) { return Status::of(tent_cancel_task(engine_, id_, task)); }

	/* Polls, and lets others run in between, until all tasks ended or the time has
	 * passed: then the status is still PENDING. */
	Result<TaskStatus> wait() const
	{
		return poll([] { return true; });
	}
	Result<TaskStatus> wait(std::chrono::nanoseconds timeout) const
	{
		const auto began = std::chrono::steady_clock::now();

		return poll([=] { return std::chrono::steady_clock::now() - began < timeout; });
	}

	/* After wait(): OK when every task completed, or why the first did not. */
	Status outcome() const
	{
		for (size_t task = 0;; task++) {
			Result<TaskError> e = error(task);

			if (!e)	/* no such task: it was the last */
				return e.status().code() == ErrorCode::ARGUMENTS ? Status() : e.status();
			if (!e->status)
				return e->status;
		}
	}

private:
	friend class Engine;
	Batch(tent_engine_t engine, tent_batch_id_t id) noexcept : engine_(engine), id_(id) {}

	static TaskStatus of(const tent_status_t &s) noexcept
	{
		return { TaskState(s.status), s.transferred_bytes };
	}

	template <typename GoOn> Result<TaskStatus> poll(GoOn go_on) const
	{
		for (;;) {
			Result<TaskStatus> s = status();

			if (!s || s->ended() || !go_on())
				return s;
			std::this_thread::yield();
		}
	}

	void swap(Batch &other) noexcept
	{
		std::swap(engine_, other.engine_);
		std::swap(id_, other.id_);
	}

	tent_engine_t engine_ = nullptr;
	tent_batch_id_t id_ = TENT_INVALID_BATCH;
};

/* ---- memory ------------------------------------------------------------ */

struct MemoryOptions {
	std::string location = "*";	/* "*", "cpu" or "cpu:N" */
	Permission permission = Permission::GLOBAL_READ_WRITE;
	TransportType transport_type = TransportType::UNSPEC;
	bool internal = false;		/* hidden from SegmentInfo */
};

/* Memory that requests may name: the engine's from Engine::allocate(), or the program's
 * from Engine::register_memory(). */
class Buffer {
public:
	Buffer() = default;
	Buffer(Buffer &&from) noexcept { swap(from); }
	Buffer &operator=(Buffer &&from) noexcept { Buffer(std::move(from)).swap(*this); return *this; }
	~Buffer() { (void)release(); }

	void *data() const noexcept { return data_; }
	size_t size() const noexcept { return size_; }	/* bytes */
	template <typename T> T *as() const noexcept { return static_cast<T *>(data_); }
	/* What a target_offset of its segment counts from. */
	uint64_t address() const noexcept { return uint64_t(reinterpret_cast<uintptr_t>(data_)); }

	/* What destroying it does, with the answer. It is empty then. */
	Status release()
	{
		void *data = std::exchange(data_, nullptr);
		size_t size = std::exchange(size_, 0);

		if (!data)
			return Status();
		return Status::of(is_ours_ ? tent_free_memory(engine_, data) :
				  tent_unregister_memory(engine_, data, size));
	}

private:
	friend class Engine;
	Buffer(tent_engine_t engine, void *data, size_t size, bool is_ours) noexcept
		: engine_(engine), data_(data), size_(size), is_ours_(is_ours)
	{
	}

	void swap(Buffer &other) noexcept
	{
		std::swap(engine_, other.engine_);
		std::swap(data_, other.data_);
		std::swap(size_, other.size_);
		std::swap(is_ours_, other.is_ours_);
	}

	tent_engine_t engine_ = nullptr;
	void *data_ = nullptr;
	size_t size_ = 0;
	bool is_ours_ = false;	/* allocated by the engine */
};

/* ---- segments ---------------------------------------------------------- */

struct BufferInfo {
	uint64_t base, length;		/* in the owner's address space, bytes */
	std::string location;
};

struct SegmentInfo {
	SegmentType type;
	std::vector<BufferInfo> buffers;
};

/* The library has one handle per name, which closing ends for all: how many Segments of
 * an Engine share each. */
struct OpenSegments {
	std::mutex lock;
	std::map<tent_segment_id_t, size_t> users;
};

/* An open segment, from Engine::open_segment(); closed with the last of its name. */
class Segment {
public:
	Segment() = default;
	Segment(Segment &&from) noexcept { swap(from); }
	Segment &operator=(Segment &&from) noexcept { Segment(std::move(from)).swap(*this); return *this; }
	~Segment()
	{
		if (!open_ || id_ == TENT_LOCAL_SEGMENT)
			return;
		std::lock_guard<std::mutex> locked(open_->lock);

		if (--open_->users[id_])
			return;
		open_->users.erase(id_);
		tent_close_segment(engine_, id_);
	}

	tent_segment_id_t id() const noexcept { return id_; }

	Status connect(std::chrono::nanoseconds timeout) const
	{
		return Status::of(tent_connect_segment(engine_, id_, uint64_t(timeout.count())));
	}

	Result<SegmentInfo> info() const
	{
		tent_segment_info_t found = {};
		SegmentInfo info = {};
		int rc = tent_get_segment_info(engine_, id_, &found);

		if (rc)
			return Status::of(rc);
		std::unique_ptr<tent_segment_info_t, void (*)(tent_segment_info_t *)> owner(
			&found, tent_free_segment_info);
		info.type = SegmentType(found.type);
		for (int i = 0; i < found.num_buffers; i++)
			info.buffers.push_back({ found.buffers[i].base, found.buffers[i].length,
						 found.buffers[i].location });
		return info;
	}

private:
	friend class Engine;
	Segment(tent_engine_t engine, tent_segment_id_t id, std::shared_ptr<OpenSegments> open)
		: engine_(engine), id_(id), open_(std::move(open))
	{
	}

	void swap(Segment &other) noexcept
	{
		std::swap(engine_, other.engine_);
		std::swap(id_, other.id_);
		std::swap(open_, other.open_);
	}

	tent_engine_t engine_ = nullptr;
	tent_segment_id_t id_ = TENT_LOCAL_SEGMENT;
	std::shared_ptr<OpenSegments> open_;
};

/* ---- notifications ----------------------------------------------------- */

struct Notification {
	std::string name, message;
};

/* ---- engine ------------------------------------------------------------ */

using Settings = std::vector<std::pair<std::string, std::string>>;

class Engine {
public:
	/* Starts one, or attaches to a tentd, by the thread's configuration; settings are
	 * set first, as set_config() does. */
	static Result<Engine> create(const Settings &settings = {})
	{
		for (const auto &setting : settings)
			set_config(setting.first, setting.second);

		Engine e(tent_create_engine());
		Status s = e.status();

		return s ? Result<Engine>(std::move(e)) : s;
	}

	Engine() = default;
	Engine(Engine &&from) noexcept { swap(from); }
	Engine &operator=(Engine &&from) noexcept { Engine(std::move(from)).swap(*this); return *this; }
	~Engine() { tent_destroy_engine(handle_); }

	tent_engine_t handle() const noexcept { return handle_; }

	/* OK while it works. */
	Status status() const { return Status::of(tent_available(handle_) ? 0 : -1); }

	Result<std::string> segment_name() const
	{
		char name[256];
		int rc = tent_segment_name(handle_, name, sizeof(name));

		return rc ? Result<std::string>(Status::of(rc)) : std::string(name);
	}

	/* "" and the own name: what this program registered. */
	Result<Segment> open_segment(const std::string &name)
	{
		tent_segment_id_t id = TENT_LOCAL_SEGMENT;
		std::shared_ptr<OpenSegments> open = open_;
		int rc;

		if (!open)
			return Status::of(tent_open_segment(handle_, &id, name.c_str()));
		std::lock_guard<std::mutex> locked(open->lock);

		rc = tent_open_segment(handle_, &id, name.c_str());
		if (rc)
			return Status::of(rc);
		if (id != TENT_LOCAL_SEGMENT)
			open->users[id]++;
		return Segment(handle_, id, open);
	}

	/* Shareable memory, zeroed and registered. */
	Result<Buffer> allocate(size_t size, const MemoryOptions &options = {})
	{
		tent_memory_options_t o = of(options);
		void *data = nullptr;
		int rc = tent_allocate_memory_ex(handle_, &data, size, &o);

		if (rc)
			return Status::of(rc);
		Buffer buffer(handle_, data, size, true);

		rc = tent_register_memory_ex(handle_, data, size, &o);
		return rc ? Result<Buffer>(Status::of(rc)) : std::move(buffer);
	}

	/* Memory of the program, which must stay until the Buffer has gone. */
	Result<Buffer> register_memory(void *data, size_t size, const MemoryOptions &options = {})
	{
		tent_memory_options_t o = of(options);
		int rc = tent_register_memory_ex(handle_, data, size, &o);

		return rc ? Result<Buffer>(Status::of(rc)) : Buffer(handle_, data, size, false);
	}

	Result<Batch> allocate_batch(size_t batch_size)
	{
		tent_batch_id_t id = tent_allocate_batch(handle_, batch_size);

		return id == TENT_INVALID_BATCH ? Result<Batch>(Status::of(-1)) : Batch(handle_, id);
	}

	/* To the owner of a segment; OK when it is there, see tent_send_notifs(). */
	Status notify(const Segment &target, const std::string &name, const std::string &message)
	{
		return notify(target.id(), name, message);
	}
	Status notify(tent_segment_id_t target, const std::string &name,
		      const std::string &message)
	{
		return Status::of(tent_send_notifs(handle_, target, name.c_str(),
						   message.c_str()));
	}

	/* All that came since the last time, oldest first. */
	Result<std::vector<Notification>> notifications()
	{
		std::vector<Notification> out;
		tent_notifi_info info = {};
		int rc = tent_recv_notifs(handle_, &info);
		std::unique_ptr<tent_notifi_info, void (*)(tent_notifi_info *)> owner(
			&info, tent_free_notifs);

		if (rc)
			return Status::of(rc);
		for (int i = 0; i < info.num_records; i++)
			out.push_back({ info.records[i].name, info.records[i].msg });
		return out;
	}

	/* JSON, see tent_explain_requests(). */
	Result<std::string> explain(const std::vector<Request> &requests) const
	{
		const Entries entries(requests.data(), requests.size());
		char *json = nullptr;
		int rc = tent_explain_requests(handle_, entries.data(), entries.size(),
					       sizeof(tent_request_v1_t), TENT_REQUEST_SCHEMA_V1,
					       &json);
		std::unique_ptr<char, void (*)(void *)> owner(json, std::free);

		return rc ? Result<std::string>(Status::of(rc)) : std::string(json);
	}

	/* For poll() and epoll, the engine's: see tent_completion_fd(). */
	Result<int> completion_fd() const
	{
		int fd = tent_completion_fd(handle_);

		return fd < 0 ? Result<int>(Status::of(fd)) : fd;
	}

private:
	explicit Engine(tent_engine_t handle)
		: handle_(handle), open_(std::make_shared<OpenSegments>())
	{
	}

	/* One that is too long has no end: the library says so. */
	static tent_memory_options_t of(const MemoryOptions &from) noexcept
	{
		tent_memory_options_t o = {};

		std::memcpy(o.location, from.location.data(),
			    std::min(from.location.size(), sizeof(o.location)));
		o.permission = int(from.permission);
		o.transport_type = int(from.transport_type);
		o.internal = from.internal;
		return o;
	}

	void swap(Engine &other) noexcept
	{
		std::swap(handle_, other.handle_);
		std::swap(open_, other.open_);
	}

	tent_engine_t handle_ = nullptr;
	std::shared_ptr<OpenSegments> open_;
};

} /* namespace tent */

#endif /* TENT_TENT_HPP */
