/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "sim/hca/host/host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sim/hca/host/protocol.h"

struct host {
	int socket;
	int udp;
	uint32_t slot;
	const struct host_table *table;
	struct host_memory *memory;
};

/* ---- requests ---------------------------------------------------------------- */

static int ask(struct host *h, const struct host_request *r, struct host_answer *a,
	       int fds[HOST_MAX_FDS], char *text)
{
	int rc = host_put(h->socket, r, sizeof(*r), NULL, 0, 0);

	if (!rc)
		rc = host_take(h->socket, a, sizeof(*a), fds, 0);
	if (rc == -EPIPE)
		rc = -ENOENT;	/* it ended in this moment */
	if (rc || !a->error)
		return rc;
	if (text) {
		memcpy(text, a->text, HOST_TEXT_BYTES);
		text[HOST_TEXT_BYTES - 1] = '\0';
	}
	return a->error < 0 ? a->error : -EPROTO;
}

static void *map(int fd, size_t n, int protection)
{
	void *p = mmap(NULL, n, protection, MAP_SHARED, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

static int take_answer(struct host *h, const struct host_answer *a, int fds[HOST_MAX_FDS],
		       bool wants_slot)
{
	if (fds[HOST_FD_TABLE] < 0 || fds[HOST_FD_MEMORY] < 0 ||
	    (wants_slot && (fds[HOST_FD_UDP] < 0 || a->slot >= HOST_NR_SLOTS)))
		return -EPROTO;
	h->table = map(fds[HOST_FD_TABLE], sizeof(*h->table), PROT_READ);
	h->memory = map(fds[HOST_FD_MEMORY], sizeof(*h->memory), PROT_READ | PROT_WRITE);
	if (!h->table || !h->memory)
		return -ENOMEM;
	h->slot = a->slot;
	if (wants_slot) {
		h->udp = fds[HOST_FD_UDP];
		fds[HOST_FD_UDP] = -1;
	}
	return 0;
}

static int greet(struct host *h, enum host_request_type type, const struct holder_config *c,
		 char *text)
{
	struct host_request r = { .type = type, .version = HOST_VERSION };
	int fds[HOST_MAX_FDS] = { -1, -1, -1 };
	struct host_answer a;
	int rc;

	if (c)
		r.config = *c;
	rc = ask(h, &r, &a, fds, text);
	if (!rc)
		rc = take_answer(h, &a, fds, type == HOST_JOIN);
	for (int i = 0; i < HOST_MAX_FDS; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	return rc;
}

int host_open(struct host **out, enum host_request_type type, const struct holder_config *c,
	      char *text)
{
	struct host *h = calloc(1, sizeof(*h));
	int rc;

	if (!h)
		return -ENOMEM;
	h->udp = -1;
	h->socket = host_connect();
	rc = h->socket < 0 ? h->socket : greet(h, type, c, text);
	if (rc) {
		host_leave(h);
		return rc;
	}
	*out = h;
	return 0;
}

int host_join(struct host **out)
{
	return host_open(out, HOST_JOIN, NULL, NULL);
}

void host_leave(struct host *h)
{
	if (h->memory)
		munmap(h->memory, sizeof(*h->memory));
	if (h->table)
		munmap((void *)h->table, sizeof(*h->table));
	if (h->udp >= 0)
		close(h->udp);
	if (h->socket >= 0)
		close(h->socket);
	free(h);
}

int host_set(struct host *h, uint32_t device, const char *setting, char *text)
{
	struct host_request r = {
		.type = HOST_SET, .version = HOST_VERSION, .device = device,
	};
	int fds[HOST_MAX_FDS] = { -1, -1, -1 };
	struct host_answer a;

	if (strlen(setting) >= sizeof(r.text))
		return -E2BIG;
	strcpy(r.text, setting);
	return ask(h, &r, &a, fds, text);
}

int host_give_channel(struct host *h, const int holder_fds[2])
{
	struct host_request r = { .type = HOST_GIVE_CHANNEL, .version = HOST_VERSION };

	return host_put(h->socket, &r, sizeof(r), holder_fds, 2, 0);
}

/* ---- what is known ----------------------------------------------------------- */

uint32_t host_slot(const struct host *h)
{
	return h->slot;
}

int host_udp_fd(const struct host *h)
{
	return h->udp;
}

int host_fd(const struct host *h)
{
	return h->socket;
}

const struct host_table *host_table(const struct host *h)
{
	return h->table;
}

struct host_memory *host_memory(const struct host *h)
{
	return h->memory;
}

bool host_gid(const struct host_table *t, uint32_t device, uint32_t port, uint32_t index,
	      uint8_t gid[16])
{
	if (device >= HOST_MAX_DEVICES || port - 1 >= HOST_MAX_PORTS ||
	    device >= t->nr_devices || port > t->devices[device].nr_ports)
		return false;
	return wire_gid_get(&t->devices[device].ports[port - 1].wire.gids, index, gid);
}

uint32_t host_describe_wire(const struct host_table *t, struct host_memory *m, uint32_t slot,
			    struct wire_device *devices)
{
	uint32_t nr = t->nr_devices < HOST_MAX_DEVICES ? t->nr_devices : HOST_MAX_DEVICES;

	for (uint32_t i = 0; i < nr; i++)
		devices[i] = (struct wire_device){
			.ports = { &t->devices[i].ports[0].wire, &t->devices[i].ports[1].wire },
			.nr_ports = t->devices[i].nr_ports,
			.faults = &m->devices[i].wire,
			.counters = &m->devices[i].slots[slot].wire,
		};
	return nr;
}

uint32_t host_wire_devices(const struct host *h, struct wire_device *devices)
{
	return host_describe_wire(h->table, h->memory, h->slot, devices);
}

/* ---- events ------------------------------------------------------------------ */

int host_read(struct host *h, struct host_event *out)
{
	int fds[HOST_MAX_FDS], rc;
	struct host_answer a;

	rc = host_take(h->socket, &a, sizeof(a), fds, MSG_DONTWAIT);
	if (rc)
		return rc;
	if (a.type != HOST_EVENT)
		return -EAGAIN;
	*out = a.event;
	return 0;
}
