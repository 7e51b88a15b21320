/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_agent.h - a program with GPUs and a card, on a host of its own: the running test again,
 * which does what the test asks of it. Memory of a GPU is nobody else's, so an engine of the
 * program has it; and nobody looks at it but by copies of the driver.
 */
#ifndef TENT_TESTS_GPU_AGENT_H
#define TENT_TESTS_GPU_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/common/hosts.h"

struct gpu_agent {
	int sock;
	pid_t pid;
};

/* First in main(): an agent does not return from it. */
void gpu_agent_main(char **argv);

/* On that host, with these options of tent-sim beside its GPUs, which are two; NULL-terminated.
 * A failure of an agent is one of the test. */
void gpu_agent_start(struct gpu_agent *a, const struct hosts *h, int host,
		     const char *const *sim);
void gpu_agent_end(struct gpu_agent *a);

/* An engine at the host's address, which peers may use; options as "key=value" texts with
 * blanks between, beside those. Its segment's name: static. */
const char *gpu_agent_engine(struct gpu_agent *a, int host, const char *options);
void gpu_agent_engine_end(struct gpu_agent *a);

/* Memory of a GPU, or of the host with gpu -1, by its engine; chunks: of GPU 0, behind each other. */
uint64_t gpu_agent_allocate(struct gpu_agent *a, int gpu, uint64_t size);
uint64_t gpu_agent_chunks(struct gpu_agent *a, int nr);
void gpu_agent_free(struct gpu_agent *a, int gpu, uint64_t address);
/* What tent_register_memory() and tent_unregister_memory() answer. */
int gpu_agent_register(struct gpu_agent *a, uint64_t address, uint64_t size);
int gpu_agent_unregister(struct gpu_agent *a, uint64_t address, uint64_t size);

/* Bytes that the seed decides; are they there? */
void gpu_agent_fill(struct gpu_agent *a, int gpu, uint64_t address, uint64_t size, uint32_t seed);
bool gpu_agent_has(struct gpu_agent *a, int gpu, uint64_t address, uint64_t size, uint32_t seed);

/* Requests to a segment of another engine: opened, explained, submitted, ended. */
struct gpu_request {
	int opcode;
	uint64_t source, target, length;
};
uint64_t gpu_agent_open(struct gpu_agent *a, const char *segment);
/* Its plan, or why it is refused, as JSON: static. */
const char *gpu_agent_explain(struct gpu_agent *a, uint64_t id, const struct gpu_request *r);
/* The batch; or an enum tent_error, and its sentence in *why: static, or NULL. */
int64_t gpu_agent_submit(struct gpu_agent *a, uint64_t id, const struct gpu_request *r,
			 const char **why);
/* How it ended: enum tent_task_state, and if it failed a sentence in *why: static, or why is
 * NULL. */
int gpu_agent_wait(struct gpu_agent *a, int64_t batch, const char **why);

/* Calls of the driver: how often; and what its devices do (sim/cuda/control.h). */
uint64_t gpu_agent_calls(struct gpu_agent *a, int call);
enum gpu_agent_knob { GPU_NO_DMA_BUF, GPU_NO_ORDERING };
void gpu_agent_set(struct gpu_agent *a, int gpu, enum gpu_agent_knob knob, bool on);
void gpu_agent_fail(struct gpu_agent *a, int call, uint32_t result);

#endif /* TENT_TESTS_GPU_AGENT_H */
