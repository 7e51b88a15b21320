/* SPDX-License-Identifier: Apache-2.0 */
/* foe.c - see foe.h. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/common/foe.h"

void foe_open(struct foe *f, struct arena *a)
{
	memset(f, 0, sizeof(*f));
	raw_attach(&f->raw, a->tentd.socket, NULL);
	raw_buffer(&f->raw, FOE_MEMORY, &f->memory);
	need(raw_ring_open(&f->raw, FOE_SLOTS, &f->ring) == 0);
}

void foe_reopen(struct foe *f)
{
	struct ctl_message m = { .nr_fds = 0 };

	((struct tent_ctl_id *)m.bytes)->id = f->ring.id;
	need(raw_call(&f->raw, &m, TENT_CTL_RING_CLOSE, sizeof(struct tent_ctl_id)) == 0);
	raw_ring_forget(&f->ring);
	need(raw_ring_open(&f->raw, FOE_SLOTS, &f->ring) == 0);
}

void foe_wake(struct foe *f)
{
	uint64_t one = 1;

	need(write(f->ring.wake_fd, &one, sizeof(one)) == sizeof(one));
}

struct tent_slot *foe_request(struct foe *f, uint32_t i, uint64_t length)
{
	return raw_request(&f->ring, i, TENT_OPCODE_WRITE, f->memory.addr, 0,
			   (uintptr_t)f->memory.addr + FOE_MEMORY / 2, length);
}

void foe_complete(struct foe *f, uint32_t nr)
{
	struct tent_completion c;

	for (uint32_t i = 0; i < nr; i++)
		need(raw_wait(&f->ring, &c));
}

struct tent_completion foe_copy(struct foe *f, int opcode, const void *address,
				uint64_t length)
{
	struct tent_completion c = { .status = 0 };

	raw_request(&f->ring, 0, opcode, f->memory.addr, 0, (uintptr_t)address, length);
	raw_publish(&f->ring, 1);
	if (!raw_wait(&f->ring, &c))
		c.rule = (uint16_t)raw_end_rule(&f->ring);
	return c;
}

void need_service(struct arena *a)
{
	struct raw_memory m;
	struct raw r;

	raw_attach(&r, a->tentd.socket, NULL);
	raw_buffer(&r, 4096, &m);
	close(r.sock);
	munmap(m.addr, m.length);
	close(m.fd);
}

int foe_memfd(unsigned flags, uint64_t size, int seals)
{
	int fd = memfd_create("foe", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);

	need(fd >= 0);
	need(ftruncate(fd, (off_t)size) == 0);
	need(!seals || fcntl(fd, F_ADD_SEALS, seals) == 0);
	return fd;
}
