/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_agent.c - see gpu_agent.h. One order at a time, one answer to each. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/common/gpu_agent.h"
#include "tests/common/gpu_fix.h"
#include "tests/common/lib_fix.h"
#include "tests/common/program.h"

#define MARK "TENT_TEST_GPU_AGENT"	/* the descriptor that orders come by */
#define ARGS_MAX 24

enum order_kind {
	ORDER_ENGINE, ORDER_ENGINE_END, ORDER_ALLOCATE, ORDER_CHUNKS, ORDER_FREE, ORDER_REGISTER,
	ORDER_UNREGISTER, ORDER_FILL, ORDER_HAS, ORDER_OPEN, ORDER_EXPLAIN, ORDER_SUBMIT,
	ORDER_WAIT, ORDER_CALLS, ORDER_SET, ORDER_FAIL
};

struct order {
	enum order_kind kind;
	int gpu;
	uint32_t seed;
	uint64_t address, size;
	struct gpu_request request;
	char text[512];
};

struct answer {
	int64_t value;
	char text[8192];
};

/* ---- the agent --------------------------------------------------------------- */

static struct lib_fix fix;

static void need(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "agent: %s does not work: %s\n", what, fix.engine ?
		lib_fix_error().message : "");
	abort();
}

static void *pointer(uint64_t address)
{
	return (void *)(uintptr_t)address;
}

static void start_engine(const struct order *o, struct answer *a)
{
	const char *options[16] = { NULL };
	char *words = strdup(o->text);
	int nr = 0;

	for (char *w = strtok(words, " "); w && nr < 15; w = strtok(NULL, " "))
		options[nr++] = w;
	lib_fix_start(&fix, LIB_THREAD, 0, options);
	need(tent_segment_name(fix.engine, a->text, sizeof(a->text)) == 0, "tent_segment_name");
	free(words);
}

static uint64_t allocate(const struct order *o)
{
	void *p;

	if (o->gpu >= 0)
		return gpu_fix_allocate(o->gpu, o->size);
	need(tent_allocate_memory(fix.engine, &p, o->size, "*") == 0, "tent_allocate_memory");
	return (uintptr_t)p;
}

static void release(const struct order *o)
{
	gpu_fix_enter(o->gpu);
	need(gpu_fix_cuda.cuMemFree_v2(o->address) == CUDA_OK, "cuMemFree");
	gpu_fix_leave(o->gpu);
}

static void fill(const struct order *o)
{
	uint8_t *bytes = malloc(o->size);

	lib_fix_pattern(bytes, o->size, o->seed);
	if (o->gpu < 0)
		memcpy(pointer(o->address), bytes, o->size);
	else
		gpu_fix_put(o->gpu, o->address, bytes, o->size);
	free(bytes);
}

static bool has(const struct order *o)
{
	uint8_t *expected = malloc(o->size), *got = malloc(o->size);
	bool same;

	lib_fix_pattern(expected, o->size, o->seed);
	if (o->gpu < 0)
		memcpy(got, pointer(o->address), o->size);
	else
		gpu_fix_get(o->gpu, got, o->address, o->size);
	same = !memcmp(got, expected, o->size);
	free(expected);
	free(got);
	return same;
}

static tent_request_v1_t request_of(const struct order *o)
{
	return (tent_request_v1_t){
		.struct_size = TENT_REQUEST_V1_SIZE, .schema_version = TENT_REQUEST_SCHEMA_V1,
		.opcode = o->request.opcode, .source = pointer(o->request.source),
		.target_id = o->address, .target_offset = o->request.target,
		.length = o->request.length,
	};
}

static void explain(const struct order *o, struct answer *a)
{
	tent_request_v1_t r = request_of(o);
	char *text;

	need(tent_explain_requests(fix.engine, &r, 1, sizeof(r), 1, &text) == 0, "explain");
	snprintf(a->text, sizeof(a->text), "%s", text);
	free(text);
}

static int64_t submit(const struct order *o, struct answer *a)
{
	tent_batch_id_t batch = tent_allocate_batch(fix.engine, 1);
	tent_request_v1_t r = request_of(o);
	int rc = tent_submit_v1(fix.engine, batch, &r, 1);

	if (!rc)
		return (int64_t)batch;
	snprintf(a->text, sizeof(a->text), "%s", lib_fix_error().message);
	tent_free_batch(fix.engine, batch);
	return rc;
}

static int64_t await(tent_batch_id_t batch, struct answer *a)
{
	tent_error_info_t why = { .size = sizeof(why) };
	int status = lib_fix_wait(fix.engine, batch).status;

	if (tent_task_error(fix.engine, batch, 0, &why) == 0)
		snprintf(a->text, sizeof(a->text), "%s", why.message);
	need(tent_free_batch(fix.engine, batch) == 0, "tent_free_batch");
	return status;
}

static int64_t open_segment(const struct order *o)
{
	tent_segment_id_t id;

	need(tent_open_segment(fix.engine, &id, o->text) == 0, "tent_open_segment");
	need(tent_connect_segment(fix.engine, id, 60000000000ull) == 0, "tent_connect_segment");
	return (int64_t)id;
}

static void set(const struct order *o)
{
	uint32_t *knobs[] = { &gpu_fix_control->gpus[o->gpu].no_dma_buf,
			      &gpu_fix_control->gpus[o->gpu].no_ordering };

	gpu_set(knobs[o->size], o->seed);
}

static int64_t obey(const struct order *o, struct answer *a)
{
	switch (o->kind) {
	case ORDER_ENGINE: start_engine(o, a); return 0;
	case ORDER_ENGINE_END: lib_fix_stop(&fix); return 0;
	case ORDER_ALLOCATE: return (int64_t)allocate(o);
	case ORDER_CHUNKS: return (int64_t)gpu_fix_chunks((int)o->size, -1);
	case ORDER_FREE: release(o); return 0;
	case ORDER_REGISTER:
		return tent_register_memory(fix.engine, pointer(o->address), o->size);
	case ORDER_UNREGISTER:
		return tent_unregister_memory(fix.engine, pointer(o->address), o->size);
	case ORDER_FILL: fill(o); return 0;
	case ORDER_HAS: return has(o);
	case ORDER_OPEN: return open_segment(o);
	case ORDER_EXPLAIN: explain(o, a); return 0;
	case ORDER_SUBMIT: return submit(o, a);
	case ORDER_WAIT: return await(o->address, a);
	case ORDER_CALLS: return (int64_t)gpu_calls(gpu_fix_control, (enum cu_call)o->gpu);
	case ORDER_SET: set(o); return 0;
	case ORDER_FAIL: gpu_fail(gpu_fix_control, (enum cu_call)o->gpu, 0, 1, o->seed); return 0;
	}
	return 0;
}

void gpu_agent_main(char **argv)
{
	const char *text = getenv(MARK);
	static struct answer a;
	struct order o;
	int sock;

	(void)argv;
	if (!text)
		return;
	sock = atoi(text);
	fcntl(sock, F_SETFD, FD_CLOEXEC);
	setenv("CMOCKA_TEST_ABORT", "1", 1);
	gpu_fix_load();
	while (recv(sock, &o, sizeof(o), 0) == (ssize_t)sizeof(o)) {
		a.text[0] = '\0';
		a.value = obey(&o, &a);
		need(send(sock, &a, sizeof(a), MSG_NOSIGNAL) == (ssize_t)sizeof(a), "send");
	}
	exit(0);
}

/* ---- who asks ------------------------------------------------------------------ */

static void run(int sock, const char *const *sim)
{
	const char *args[ARGS_MAX] = { NULL };
	char tool[4096], self[4096], number[12];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	int nr = 0;

	need(length > 0, "readlink");
	self[length] = '\0';
	program_path(tool, "tent-sim");
	args[nr++] = tool;
	args[nr++] = "--gpus";
	args[nr++] = "2";
	while (sim && *sim && nr < ARGS_MAX - 2)
		args[nr++] = *sim++;
	args[nr++] = self;
	snprintf(number, sizeof(number), "%d", sock);
	setenv(MARK, number, 1);
	/* The runtime comes with what tent-sim preloads, not before it. */
	setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 0);
	execv(tool, (char *const *)(uintptr_t)args);
	_exit(127);
}

void gpu_agent_start(struct gpu_agent *a, const struct hosts *h, int host, const char *const *sim)
{
	int ends[2], room = 1 << 20;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	hosts_enter(h, host);
	a->pid = fork();
	assert_true(a->pid >= 0);
	if (a->pid == 0) {
		fcntl(ends[1], F_SETFD, 0);
		run(ends[1], sim);
	}
	hosts_enter(h, -1);
	close(ends[1]);
	a->sock = ends[0];
}

void gpu_agent_end(struct gpu_agent *a)
{
	int status;

	close(a->sock);
	assert_int_equal(waitpid(a->pid, &status, 0), a->pid);
	if (status)
		fail_msg("an agent ended with %d", WIFEXITED(status) ? WEXITSTATUS(status) :
			 128 + WTERMSIG(status));
}

static const struct answer *ask(struct gpu_agent *agent, const struct order *o)
{
	static struct answer a;

	assert_int_equal(send(agent->sock, o, sizeof(*o), MSG_NOSIGNAL), sizeof(*o));
	if (recv(agent->sock, &a, sizeof(a), 0) != (ssize_t)sizeof(a))
		fail_msg("an agent ended in the middle of order %d", o->kind);
	return &a;
}

#define ASK(agent, ...) ask(agent, &(const struct order){ __VA_ARGS__ })

const char *gpu_agent_engine(struct gpu_agent *a, int host, const char *options)
{
	struct order o = { .kind = ORDER_ENGINE };

	snprintf(o.text, sizeof(o.text), "peers/enable=true peers/keepalive_ms=20000 "
		 "rpc_server_hostname=" HOSTS_IPV4 " transports/rdma/enable=true "
		 "transports/shm/enable=false %s", host + 1, options);
	return ask(a, &o)->text;
}

void gpu_agent_engine_end(struct gpu_agent *a)
{
	ASK(a, .kind = ORDER_ENGINE_END);
}

uint64_t gpu_agent_allocate(struct gpu_agent *a, int gpu, uint64_t size)
{
	return (uint64_t)ASK(a, .kind = ORDER_ALLOCATE, .gpu = gpu, .size = size)->value;
}

uint64_t gpu_agent_chunks(struct gpu_agent *a, int nr)
{
	return (uint64_t)ASK(a, .kind = ORDER_CHUNKS, .size = (uint64_t)nr)->value;
}

void gpu_agent_free(struct gpu_agent *a, int gpu, uint64_t address)
{
	ASK(a, .kind = ORDER_FREE, .gpu = gpu, .address = address);
}

int gpu_agent_register(struct gpu_agent *a, uint64_t address, uint64_t size)
{
	return (int)ASK(a, .kind = ORDER_REGISTER, .address = address, .size = size)->value;
}

int gpu_agent_unregister(struct gpu_agent *a, uint64_t address, uint64_t size)
{
	return (int)ASK(a, .kind = ORDER_UNREGISTER, .address = address, .size = size)->value;
}

void gpu_agent_fill(struct gpu_agent *a, int gpu, uint64_t address, uint64_t size, uint32_t seed)
{
	ASK(a, .kind = ORDER_FILL, .gpu = gpu, .address = address, .size = size, .seed = seed);
}

bool gpu_agent_has(struct gpu_agent *a, int gpu, uint64_t address, uint64_t size, uint32_t seed)
{
	return ASK(a, .kind = ORDER_HAS, .gpu = gpu, .address = address, .size = size,
		   .seed = seed)->value;
}

uint64_t gpu_agent_open(struct gpu_agent *a, const char *segment)
{
	struct order o = { .kind = ORDER_OPEN };

	snprintf(o.text, sizeof(o.text), "%s", segment);
	return (uint64_t)ask(a, &o)->value;
}

const char *gpu_agent_explain(struct gpu_agent *a, uint64_t id, const struct gpu_request *r)
{
	return ASK(a, .kind = ORDER_EXPLAIN, .address = id, .request = *r)->text;
}

int64_t gpu_agent_submit(struct gpu_agent *a, uint64_t id, const struct gpu_request *r,
			 const char **why)
{
	const struct answer *answer = ASK(a, .kind = ORDER_SUBMIT, .address = id, .request = *r);

	if (why)
		*why = answer->text;
	return answer->value;
}

int gpu_agent_wait(struct gpu_agent *a, int64_t batch, const char **why)
{
	const struct answer *answer = ASK(a, .kind = ORDER_WAIT, .address = (uint64_t)batch);

	if (why)
		*why = answer->text;
	return (int)answer->value;
}

uint64_t gpu_agent_calls(struct gpu_agent *a, int call)
{
	return (uint64_t)ASK(a, .kind = ORDER_CALLS, .gpu = call)->value;
}

void gpu_agent_set(struct gpu_agent *a, int gpu, enum gpu_agent_knob knob, bool on)
{
	ASK(a, .kind = ORDER_SET, .gpu = gpu, .size = knob, .seed = on);
}

void gpu_agent_fail(struct gpu_agent *a, int call, uint32_t result)
{
	ASK(a, .kind = ORDER_FAIL, .gpu = call, .seed = result);
}
