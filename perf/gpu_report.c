/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_report.c - what the GPUs of this machine are to tent: which memory it takes for
 * theirs, whether cards could reach it, and what moves between them and the host, every
 * byte verified, beside copies of the driver that nobody judges. It needs no NIC.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tent/tent.h>
#include <unistd.h>

#include "gpu/memory.h"
#include "perf/common/bench.h"
#include "perf/common/complain.h"
#include "perf/common/machine.h"
#include "perf/common/samples.h"
#include "ring/clock.h"

#define TITLE "memory of the GPUs of this machine: what it is, and how it moves"
#define HOST (-1)
#define PAGE 4096u
#define LIMIT 0.8	/* of the driver's own copy */

static struct {
	uint64_t size, runs, limit_gpus;
	bool json, check;
} options = { .size = 64 << 20, .runs = 9, .limit_gpus = 2 };

static const struct arg args[] = {
	{ "size", ARG_SIZE, &options.size, 1 << 20, 1ull << 32, NULL, "bytes of a transfer" },
	{ "runs", ARG_NUMBER, &options.runs, 1, 1000, NULL, "the table has their median" },
	{ "gpus", ARG_NUMBER, &options.limit_gpus, 1, GPUS_MAX, NULL, "so many at most" },
	{ "check", ARG_FLAG, &options.check, 0, 0, NULL,
	  "fail where large transfers take longer than 1.25 times the driver's copies" },
	ARG_JSON(&options.json),
	{ 0 },
};

/* Memory of one kind, twice the size of a transfer. */
struct place {
	int gpu;		/* or HOST: pinned */
	uint64_t address;
};

static struct {
	const struct cuda_api *cuda;
	cuda_stream stream;	/* of the first GPU */
	tent_engine_t engine;
	uint32_t nr_gpus;
	uint8_t *pattern, *seen; /* pinned, size bytes each */
	struct place host, gpus[GPUS_MAX];
	bool wrong;
} all;

/* ---- what it is ---------------------------------------------------------- */

static void fact(struct report *r, const char *what, int gpu, bool good, const char *detail)
{
	report_cell_text(r, what);
	if (gpu < 0)
		report_cell_none(r);
	else
		report_cell(r, 0, gpu);
	report_cell_text(r, good ? "yes" : "FAIL");
	report_cell_text(r, detail);
	all.wrong |= !good;
}

/* Is it taken for memory of this GPU, or of the host? */
static void kind(struct report *r, const char *what, int gpu, uint64_t address, uint64_t length,
		 int expected)
{
	struct device_memory m = { .number = 0 };
	char why[GPU_TEXT_SIZE] = "the host's";
	int rc = gpu_memory_find(&m, address, length, why, sizeof(why));

	fact(r, what, gpu, rc == expected && (rc != 1 || (int)m.number == gpu),
	     rc == 1 ? m.how : why);
}

static void kinds(struct report *r, const struct place *p)
{
	static char plain[PAGE];
	uint64_t size = 2 * options.size;

	kind(r, "memory of the program", p->gpu, (uintptr_t)plain, sizeof(plain), 0);
	kind(r, "pinned memory", p->gpu, all.host.address, size, 0);
	kind(r, "an allocation", p->gpu, p->address, size, 1);
	kind(r, "from within it", p->gpu, p->address + 4097, 99, 1);
	kind(r, "its last byte", p->gpu, p->address + size - 1, 1, 1);
	kind(r, "memory of the program, ending in a GPU's", p->gpu, p->address - (1ull << 40),
	     (1ull << 40) + 1, -EFAULT);
}

static int attribute(int gpu, cuda_enum what)
{
	int value = -1;

	all.cuda->cuDeviceGetAttribute(&value, what, gpu);
	return value;
}

/* A descriptor, or what the driver says. Either is an answer; a driver that says that it
 * can and cannot is none. */
static void dma_buf(struct report *r, const struct place *p)
{
	bool claims = attribute(p->gpu, CUDA_DEVICE_DMA_BUF) == 1;
	char text[40], detail[96];
	int fd = -1;
	cuda_result rc = gpu_enter(all.cuda, p->gpu);

	if (rc == CUDA_OK) {
		rc = all.cuda->cuMemGetHandleForAddressRange(&fd, p->address, 2 * options.size,
							     CUDA_RANGE_DMA_BUF, 0);
		gpu_leave(all.cuda, p->gpu);
	}
	snprintf(detail, sizeof(detail), "%s; the driver says that it %s",
		 rc == CUDA_OK ? "exported" : gpu_error(all.cuda, rc, text),
		 claims ? "can" : "cannot");
	fact(r, "dma-buf", p->gpu, claims == (rc == CUDA_OK && fd >= 0), detail);
	if (rc == CUDA_OK && fd >= 0)
		close(fd);
}

static void card_access(struct report *r, const struct place *p)
{
	char detail[96];

	snprintf(detail, sizeof(detail), "GPUDirect RDMA %d, ordering %d, flush options %d",
		 attribute(p->gpu, CUDA_DEVICE_RDMA), attribute(p->gpu, CUDA_DEVICE_ORDERING),
		 attribute(p->gpu, CUDA_DEVICE_FLUSH));
	fact(r, "for cards", p->gpu, attribute(p->gpu, CUDA_DEVICE_RDMA) >= 0, detail);
}

static void print_kinds(struct report *r)
{
	static const char *const columns[] = { "what", "gpu", "as_expected", "which_is" };

	report_table_begin(r, "memory", columns, 4);
	for (uint32_t i = 0; i < all.nr_gpus; i++) {
		kinds(r, &all.gpus[i]);
		dma_buf(r, &all.gpus[i]);
		card_access(r, &all.gpus[i]);
	}
	report_table_end(r);
}

/* ---- copies of the driver --------------------------------------------------- */

static cuda_result begin_copy(uint64_t to, int to_gpu, uint64_t from, int from_gpu, uint64_t size)
{
	if (to_gpu == HOST)
		return all.cuda->cuMemcpyDtoHAsync_v2((void *)(uintptr_t)to, from, size,
						      all.stream);
	if (from_gpu == HOST)
		return all.cuda->cuMemcpyHtoDAsync_v2(to, (const void *)(uintptr_t)from, size,
						      all.stream);
	return all.cuda->cuMemcpyDtoDAsync_v2(to, from, size, all.stream);
}

/* Waits for it. Addresses are the same in all contexts, so one stream does for all. */
static bool copy(uint64_t to, int to_gpu, uint64_t from, int from_gpu, uint64_t size)
{
	char text[40];
	cuda_result rc = begin_copy(to, to_gpu, from, from_gpu, size);

	if (rc == CUDA_OK)
		rc = all.cuda->cuStreamSynchronize(all.stream);
	if (rc != CUDA_OK)
		fprintf(stderr, "gpu_report: a copy of the driver: %s\n",
			gpu_error(all.cuda, rc, text));
	return rc == CUDA_OK;
}

static bool put(const struct place *p, uint64_t at, const uint8_t *bytes, uint64_t size)
{
	if (p->gpu != HOST)
		return copy(p->address + at, p->gpu, (uintptr_t)bytes, HOST, size);
	memcpy((void *)(uintptr_t)(p->address + at), bytes, size);
	return true;
}

static bool get(const struct place *p, uint64_t at, uint8_t *bytes, uint64_t size)
{
	if (p->gpu != HOST)
		return copy((uintptr_t)bytes, HOST, p->address + at, p->gpu, size);
	memcpy(bytes, (const void *)(uintptr_t)(p->address + at), size);
	return true;
}

/* ---- tent --------------------------------------------------------------------- */

static bool move(int opcode, uint64_t source, uint64_t target, uint64_t size)
{
	const tent_request_v1_t r = {
		.struct_size = TENT_REQUEST_V1_SIZE, .schema_version = TENT_REQUEST_SCHEMA_V1,
		.opcode = opcode, .source = (void *)(uintptr_t)source,
		.target_id = TENT_LOCAL_SEGMENT, .target_offset = target, .length = size,
	};
	tent_batch_id_t batch = tent_allocate_batch(all.engine, 1);
	tent_status_t status = { .status = TENT_STATUS_PENDING };

	if (tent_submit_v1(all.engine, batch, &r, 1)) {
		complain("submit");
		tent_free_batch(all.engine, batch);
		return false;
	}
	while (status.status == TENT_STATUS_PENDING || status.status == TENT_STATUS_WAITING)
		if (tent_task_status(all.engine, batch, 0, &status))
			break;
	tent_free_batch(all.engine, batch);
	return status.status == TENT_STATUS_COMPLETED;
}

/* ---- one way ------------------------------------------------------------------ */

struct way {
	const struct place *from, *to;
	struct samples tent_ns, driver_ns;
	bool verified;
};

static uint64_t target_of(const struct way *w)
{
	return w->to->address + options.size;
}

/* size bytes, from one odd place to another, and nothing beside them. */
static bool arrives(const struct way *w, int opcode, uint64_t skip, uint64_t size)
{
	uint64_t from = w->from->address + skip, to = target_of(w) + skip / 2;
	bool good;

	memset(all.seen, 0, options.size);
	good = put(w->from, 0, all.pattern, options.size) &&
	       put(w->to, options.size, all.seen, options.size) &&
	       (opcode == TENT_OPCODE_WRITE ? move(opcode, from, to, size) :
					      move(opcode, to, from, size)) &&
	       get(w->to, options.size, all.seen, options.size);
	for (uint64_t i = 0; good && i < options.size; i++) {
		bool moved = i >= skip / 2 && i < skip / 2 + size;

		good = all.seen[i] == (moved ? all.pattern[i - skip / 2 + skip] : 0);
	}
	return good;
}

static bool verify(const struct way *w)
{
	static const uint64_t sizes[] = { 1, 63, PAGE, PAGE + 1, (1 << 20) - 8 };
	bool good = true;

	for (int op = TENT_OPCODE_READ; op <= TENT_OPCODE_WRITE; op++) {
		good &= arrives(w, op, 0, options.size);
		for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
			good &= arrives(w, op, 7, sizes[i]);
	}
	return good;
}

static bool measure(struct way *w)
{
	bool good = true;

	for (uint64_t i = 0; good && i <= options.runs; i++) {
		uint64_t began = clock_monotonic_ns(), between;

		good = move(TENT_OPCODE_WRITE, w->from->address, target_of(w), options.size);
		between = clock_monotonic_ns();
		good = good && copy(target_of(w), w->to->gpu, w->from->address, w->from->gpu,
				    options.size);
		if (!i)
			continue;	/* it warms both up */
		samples_add(&w->tent_ns, between - began);
		samples_add(&w->driver_ns, clock_monotonic_ns() - between);
	}
	return good;
}

static double gib_per_s(struct samples *s)
{
	return (double)options.size / (double)samples_percentile(s, 0.5) * 1e9 / (1 << 30);
}

static void name_cell(struct report *r, const struct place *p)
{
	char text[16] = "host";

	if (p->gpu != HOST)
		snprintf(text, sizeof(text), "cuda:%d", p->gpu);
	report_cell_text(r, text);
}

/* The share of the driver's rate. */
static double row(struct report *r, struct way *w, bool measured)
{
	double share = measured ? gib_per_s(&w->tent_ns) / gib_per_s(&w->driver_ns) : 0;

	name_cell(r, w->from);
	name_cell(r, w->to);
	report_cell_text(r, w->verified ? "yes" : "FAIL");
	report_cell(r, 1, (double)options.size / (1 << 20));
	if (measured) {
		report_cell(r, 2, gib_per_s(&w->tent_ns));
		report_cell(r, 2, gib_per_s(&w->driver_ns));
		report_cell(r, 3, share);
	} else {
		for (int i = 0; i < 3; i++)
			report_cell_none(r);
	}
	return share;
}

static double one_way(struct report *r, const struct place *from, const struct place *to)
{
	struct way w = { .from = from, .to = to };
	double share;
	bool measured;

	samples_init(&w.tent_ns, options.runs);
	samples_init(&w.driver_ns, options.runs);
	w.verified = verify(&w);
	measured = measure(&w);
	all.wrong |= !w.verified || !measured;
	share = row(r, &w, measured);
	samples_free(&w.tent_ns);
	samples_free(&w.driver_ns);
	return share;
}

/* The worst share of those between the host and a GPU. */
static double print_ways(struct report *r)
{
	static const char *const columns[] = {
		"from", "to", "verified", "MiB", "tent_GiB/s", "driver_GiB/s", "share",
	};
	double worst = 1e9, share;

	report_table_begin(r, "moved", columns, 7);
	for (uint32_t i = 0; i < all.nr_gpus; i++) {
		share = one_way(r, &all.host, &all.gpus[i]);
		worst = share < worst ? share : worst;
		share = one_way(r, &all.gpus[i], &all.host);
		worst = share < worst ? share : worst;
		for (uint32_t k = 0; k < all.nr_gpus; k++)
			one_way(r, &all.gpus[i], &all.gpus[k]);
	}
	report_table_end(r);
	return worst;
}

/* ---- setup ---------------------------------------------------------------------- */

static int no_driver(const char *what, cuda_result rc)
{
	char text[40];

	fprintf(stderr, "gpu_report: %s: %s\n", what, gpu_error(all.cuda, rc, text));
	return -1;
}

static int pin(void **memory, uint64_t size)
{
	cuda_result rc = all.cuda->cuMemHostAlloc(memory, size, CUDA_HOST_PORTABLE);

	return rc == CUDA_OK ? 0 : no_driver("pinned memory", rc);
}

/* The context of the first GPU stays current: the stream is its own. */
static int open_driver(struct report *r)
{
	char why[GPU_TEXT_SIZE];
	int version = 0, nr = 0;
	cuda_result rc;

	all.cuda = gpu_driver_begin(why, sizeof(why));
	if (!all.cuda) {
		fprintf(stderr, "gpu_report: %s\n", why);
		return -1;
	}
	all.cuda->cuDriverGetVersion(&version);
	rc = all.cuda->cuDeviceGetCount(&nr);
	if (rc != CUDA_OK || nr < 1)
		return no_driver("GPUs", rc == CUDA_OK ? CUDA_NO_DEVICE : rc);
	report_fact(r, "driver", "CUDA %d.%d, %d GPUs", version / 1000, version % 1000 / 10, nr);
	all.nr_gpus = (uint32_t)nr < options.limit_gpus ? (uint32_t)nr :
						      (uint32_t)options.limit_gpus;
	rc = gpu_enter(all.cuda, 0);
	if (rc == CUDA_OK)
		rc = all.cuda->cuStreamCreate(&all.stream, CUDA_STREAM_NON_BLOCKING);
	return rc == CUDA_OK ? 0 : no_driver("stream", rc);
}

static int open_memory(struct report *r)
{
	void *host, *pattern, *seen;

	if (pin(&host, 2 * options.size) || pin(&pattern, options.size) ||
	    pin(&seen, options.size))
		return -1;
	all.host = (struct place){ HOST, (uintptr_t)host };
	all.pattern = pattern;
	all.seen = seen;
	for (uint64_t i = 0; i < options.size; i++)
		all.pattern[i] = (uint8_t)(i * 2654435761u >> 13 | 1); /* never 0 */
	if (tent_register_memory(all.engine, host, 2 * options.size))
		return complain("pinned memory");
	for (uint32_t i = 0; i < all.nr_gpus; i++) {
		char location[16], name[96] = "?", id[16] = "?";
		void *memory;

		snprintf(location, sizeof(location), "cuda:%u", i);
		if (tent_allocate_memory(all.engine, &memory, 2 * options.size, location) ||
		    tent_register_memory(all.engine, memory, 2 * options.size))
			return complain(location);
		all.gpus[i] = (struct place){ (int)i, (uintptr_t)memory };
		all.cuda->cuDeviceGetName(name, sizeof(name), (int)i);
		all.cuda->cuDeviceGetPCIBusId(id, sizeof(id), (int)i);
		report_fact(r, location, "%s at %s", name, id);
	}
	return 0;
}

static int judge(struct report *r, double worst)
{
	bool good = worst >= LIMIT;

	report_fact(r, "check", "%s: between host and GPU at least %.2f of the driver's own copy, "
		    "limit %.2f", good ? "pass" : "FAIL", worst, LIMIT);
	return good ? 0 : 1;
}

static int report_all(struct report *r)
{
	double worst;

	if (open_memory(r))
		return 2;
	machine_facts(r);
	print_kinds(r);
	worst = print_ways(r);
	if (all.wrong)
		return 1;
	return options.check ? judge(r, worst) : 0;
}

static int run(struct report *r)
{
	int rc = 2;

	if (open_driver(r))
		return 2;
	tent_set_config("peers/enable", "false");	/* nobody else is to reach it */
	all.engine = tent_create_engine();
	if (tent_available(all.engine))
		rc = report_all(r);
	else
		complain("engine");
	tent_destroy_engine(all.engine);
	return rc;
}

int main(int argc, char **argv)
{
	static const struct bench_program program = {
		.name = "gpu_report", .title = TITLE, .args = args, .json = &options.json,
		.cores = 2, .run = run,
	};

	return bench_main(&program, argc, argv);
}
