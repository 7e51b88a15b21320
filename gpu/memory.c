/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c - looks at addresses, chunk by chunk, and pins those of the host. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "gpu/memory.h"

/* What the driver says of a byte. It writes as many bytes of a value as it pleases. */
struct place {
	uint64_t type, device, is_managed, is_mapped, start;
};

static bool look(const struct cuda_api *cuda, uint64_t address, struct place *p)
{
	cuda_enum attributes[] = { CUDA_POINTER_MEMORY_TYPE, CUDA_POINTER_DEVICE,
				   CUDA_POINTER_IS_MANAGED, CUDA_POINTER_MAPPED,
				   CUDA_POINTER_RANGE_START };
	void *values[] = { &p->type, &p->device, &p->is_managed, &p->is_mapped, &p->start };

	*p = (struct place){ .type = 0 };
	return cuda->cuPointerGetAttributes(5, attributes, values, address) == CUDA_OK;
}

/* Managed memory is the CPU's too. */
static bool is_device(const struct place *p)
{
	return p->type == CUDA_MEMORY_DEVICE && !p->is_managed && p->device < GPUS_MAX;
}

int gpu_memory_device(uint64_t address)
{
	const struct cuda_api *cuda = gpu_driver();
	struct place p;

	return cuda && look(cuda, address, &p) && is_device(&p) ? (int)p.device : -1;
}

/* ---- memory of a device ------------------------------------------------- */

static int refuse_at(uint64_t at, const char *what, char *why, size_t size)
{
	snprintf(why, size, "0x%" PRIx64 " is %s", at, what);
	return -EFAULT;
}

/* Is the rest of a range, from here, of the same allocation as its first byte? */
static int check_place(const struct place *first, const struct place *p, uint64_t at, char *why,
		       size_t size)
{
	if (!is_device(p) || !p->is_mapped)
		return refuse_at(at, "a hole, without memory of a GPU", why, size);
	if (p->device != first->device)
		return refuse_at(at, "memory of another GPU", why, size);
	if (p->start != first->start)
		return refuse_at(at, "where another allocation begins", why, size);
	return 0;
}

/* In the context of the device. How many chunks; -EFAULT. */
static int count_chunks(const struct cuda_api *cuda, const struct place *first, uint64_t base,
			uint64_t end, char *why, size_t size)
{
	const unsigned int yes = 1;
	cuda_address chunk;
	struct place p;
	size_t bytes;
	int nr = 0, rc;

	for (uint64_t at = base; at < end; at = chunk + bytes, nr++) {
		rc = look(cuda, at, &p) ? check_place(first, &p, at, why, size) :
		     refuse_at(at, "an address that the driver does not know", why, size);
		if (rc)
			return rc;
		if (cuda->cuMemGetAddressRange_v2(&chunk, &bytes, at) != CUDA_OK ||
		    chunk > at || !bytes || chunk + bytes <= at)
			return refuse_at(at, "in no allocation", why, size);
		/* Else copies that the program waits for may still be on their way then. A
		 * chunk that has no such attribute is none of theirs. */
		cuda->cuPointerSetAttribute(&yes, CUDA_POINTER_SYNC_MEMOPS, at);
	}
	return nr;
}

static void describe(const struct cuda_api *cuda, struct device_memory *m, int chunks)
{
	char id[16] = "?";

	cuda->cuDeviceGetPCIBusId(id, sizeof(id), (int)m->number);
	snprintf(m->how, sizeof(m->how), "GPU %u at %s, %d chunk%s: copies of the driver",
		 m->number, id, chunks, chunks == 1 ? "" : "s");
}

int gpu_memory_find(struct device_memory *m, uint64_t base, uint64_t length, char *why,
		    size_t size)
{
	const struct cuda_api *cuda = gpu_driver();
	struct place first, last;
	char text[40];
	cuda_result rc;
	int chunks;

	if (!cuda || !look(cuda, base, &first) || !look(cuda, base + length - 1, &last))
		return 0;
	if (!is_device(&first))
		return is_device(&last) ? refuse_at(base, "no memory of a GPU, where its end is",
						    why, size) : 0;
	rc = gpu_enter(cuda, (int)first.device);
	if (rc != CUDA_OK) {
		snprintf(why, size, "GPU %d: %s", (int)first.device, gpu_error(cuda, rc, text));
		return -EFAULT;
	}
	chunks = count_chunks(cuda, &first, base, base + length, why, size);
	gpu_leave(cuda, (int)first.device);
	if (chunks < 0)
		return chunks;
	m->number = (uint32_t)first.device;
	describe(cuda, m, chunks);
	return 1;
}

/* ---- pinned memory ------------------------------------------------------ */

/* A range that was pinned once for all regions that lie in it. */
struct pin {
	LIST_ENTRY(pin) all;
	uint64_t base, end;
	uint32_t refs;
	int device;		/* whose context it is pinned by */
};

struct gpu_pins {
	LIST_HEAD(, pin) all;
};

struct gpu_pins *gpu_pins_create(void)
{
	struct gpu_pins *p = calloc(1, sizeof(*p));

	if (p)
		LIST_INIT(&p->all);
	return p;
}

void gpu_pins_destroy(struct gpu_pins *p)
{
	free(p);
}

static struct pin *find_pin(struct gpu_pins *p, uint64_t base, uint64_t end)
{
	struct pin *pin;

	LIST_FOREACH(pin, &p->all, all)
		if (pin->base <= base && end <= pin->end)
			return pin;
	return NULL;
}

/* What the program pinned by itself, in one piece as far as its ends show. */
static bool is_pinned(const struct cuda_api *cuda, uint64_t base, uint64_t end)
{
	struct place first, last;

	return look(cuda, base, &first) && look(cuda, end - 1, &last) &&
	       first.type == CUDA_MEMORY_HOST && last.type == CUDA_MEMORY_HOST &&
	       first.start == last.start;
}

enum pinned { PIN_FAILED, PIN_MADE, PIN_FOREIGN };

static enum pinned make_pin(const struct cuda_api *cuda, const struct pin *pin)
{
	void *memory = (void *)(uintptr_t)pin->base;
	cuda_context context;
	cuda_result rc;

	if (gpu_enter(cuda, pin->device) != CUDA_OK)
		return PIN_FAILED;
	rc = cuda->cuMemHostRegister_v2(memory, pin->end - pin->base, CUDA_REGISTER_PORTABLE);
	if (rc == CUDA_OK) {
		cuda->cuCtxPopCurrent_v2(&context);	/* held until it is unpinned */
		return PIN_MADE;
	}
	gpu_leave(cuda, pin->device);
	return rc == CUDA_ALREADY_REGISTERED && is_pinned(cuda, pin->base, pin->end) ?
	       PIN_FOREIGN : PIN_FAILED;
}

/* What the program pinned by itself stays its own. */
bool gpu_pin(struct gpu_pins *p, uint64_t base, uint64_t end, int device)
{
	const struct cuda_api *cuda = gpu_driver();
	struct pin *pin = find_pin(p, base, end);
	enum pinned pinned;

	if (pin) {
		pin->refs++;
		return true;
	}
	pin = cuda ? calloc(1, sizeof(*pin)) : NULL;
	if (!pin)
		return false;
	*pin = (struct pin){ .base = base, .end = end, .refs = 1, .device = device };
	pinned = make_pin(cuda, pin);
	if (pinned == PIN_MADE)
		LIST_INSERT_HEAD(&p->all, pin, all);
	else
		free(pin);
	return pinned != PIN_FAILED;
}

void gpu_unpin(struct gpu_pins *p, uint64_t base, uint64_t end)
{
	const struct cuda_api *cuda = gpu_driver();
	struct pin *pin = find_pin(p, base, end);

	if (!pin || --pin->refs)
		return;
	if (gpu_enter(cuda, pin->device) == CUDA_OK) {
		cuda->cuMemHostUnregister((void *)(uintptr_t)pin->base);
		gpu_leave(cuda, pin->device);
	}
	cuda->cuDevicePrimaryCtxRelease_v2(pin->device);
	LIST_REMOVE(pin, all);
	free(pin);
}
