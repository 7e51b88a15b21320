/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "sim/hca/host/holder.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "sim/hca/host/cm.h"
#include "sim/hca/host/desk.h"
#include "sim/hca/host/parts.h"

#define FIRST_CLIENT_MS 10000	/* whoever started the holder will be here by then */
#define FOLLOW_AGAIN_NS 100000000
#define MAX_BATCHES 16		/* of datagrams, before others get their turn */

struct holder {
	int epoll, signals, listener, network;
	uint64_t follow_at_ns;		/* the network, once more; UINT64_MAX: it was understood */
	struct desk desk;
	struct ports ports;
	struct folder folder;
	struct wire *wire;
	struct host_cm *cm;
};

/* What epoll tells; clients come behind. */
enum { WHO_SIGNAL, WHO_LISTENER, WHO_NETWORK, WHO_WIRE, WHO_CM, WHO_CLIENT };

static uint64_t now_ns(void *unused)
{
	struct timespec t;

	(void)unused;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- what is shared ---------------------------------------------------------- */

static void *share(const char *name, size_t n, int *fd)
{
	void *p;

	*fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (*fd < 0 || ftruncate(*fd, (off_t)n))
		return NULL;
	p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	return p == MAP_FAILED ? NULL : p;
}

static int share_memory(struct desk *d)
{
	d->table = share("tent-hca-table", sizeof(*d->table), &d->table_fd);
	d->memory = share("tent-hca-memory", sizeof(*d->memory), &d->memory_fd);
	if (!d->table || !d->memory)
		return -errno;
	/* Nobody can make it shorter under another, and only we write the table. */
	if (fcntl(d->memory_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) ||
	    fcntl(d->table_fd, F_ADD_SEALS,
		  F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL))
		return -errno;
	return 0;
}

/* ---- making ------------------------------------------------------------------ */

static int watch(struct holder *h, int fd, uint64_t who)
{
	struct epoll_event e = { .events = EPOLLIN, .data.u64 = who };

	return epoll_ctl(h->epoll, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

static int listen_socket(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	size_t n = strlen(HOST_SOCKET_NAME);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), rc;

	if (fd < 0)
		return -errno;
	memcpy(a.sun_path + 1, HOST_SOCKET_NAME, n);
	if (!bind(fd, (struct sockaddr *)&a,
		  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n)))
		return fd;
	rc = -errno;
	close(fd);
	return rc;
}

static int signal_fd(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int open_wire(struct holder *h)
{
	struct wire_device devices[HOST_MAX_DEVICES];
	struct wire_config c = {
		.fd = h->ports.fds[0], .devices = devices, .use_gso = h->desk.table->use_gso,
		.now_ns = now_ns,
	};

	c.nr_devices = host_describe_wire(h->desk.table, h->desk.memory, 0, devices);
	return wire_open(&h->wire, &c);
}

static int open_all(struct holder *h, const struct holder_config *c, char *text)
{
	int rc;

	h->epoll = epoll_create1(EPOLL_CLOEXEC);
	h->signals = signal_fd();
	if (h->epoll < 0 || h->signals < 0)
		return -errno;
	h->follow_at_ns = UINT64_MAX;
	/* Before the table is made, so that no change is missed. */
	h->network = devices_watch();
	if (h->network < 0)
		return h->network;
	rc = share_memory(&h->desk);
	if (rc || (rc = devices_find(h->desk.table, c, text)))
		return rc;
	rc = ports_open(&h->ports);
	if (rc == -EADDRINUSE)
		snprintf(text, HOST_TEXT_BYTES, "UDP port %u is taken by another program",
			 WIRE_UDP_PORT);
	if (rc || (rc = open_wire(h)) || (rc = folder_make(&h->folder, h->desk.table)))
		return rc;
	rc = host_cm_open(&h->cm, h->desk.table, h->desk.memory, h->wire);
	if (!rc)
		rc = watch(h, h->signals, WHO_SIGNAL);
	if (!rc)
		rc = watch(h, h->network, WHO_NETWORK);
	if (!rc)
		rc = watch(h, h->ports.fds[0], WHO_WIRE);
	if (!rc)
		rc = watch(h, host_cm_fd(h->cm), WHO_CM);
	return rc;
}

/* ---- running ----------------------------------------------------------------- */

static void take_packet(void *ctx, uint32_t device, const struct hca_packet *p)
{
	struct holder *h = ctx;

	if (p->dest_qpn == 1)
		host_cm_packet(h->cm, device, p);
}

static void take_packets(struct holder *h)
{
	for (int i = 0; i < MAX_BATCHES && wire_receive(h->wire, take_packet, h); i++)
		;
}

static void take_client(struct holder *h)
{
	int i = desk_accept(&h->desk, h->listener);

	if (i >= 0 && watch(h, h->desk.clients[i].socket, WHO_CLIENT + (uint64_t)i))
		desk_drop(&h->desk, i);
}

static void follow_network(struct holder *h)
{
	h->follow_at_ns = desk_follow(&h->desk) ? UINT64_MAX : now_ns(NULL) + FOLLOW_AGAIN_NS;
}

/* False: the holder's time is over. */
static bool handle(struct holder *h, uint64_t who)
{
	switch (who) {
	case WHO_SIGNAL:
		return false;
	case WHO_LISTENER:
		take_client(h);
		return true;
	case WHO_NETWORK:
		devices_watched(h->network);
		follow_network(h);
		return true;
	case WHO_WIRE:
		take_packets(h);
		return true;
	case WHO_CM:
		host_cm_run(h->cm);
		return true;
	default:
		desk_serve(&h->desk, (int)(who - WHO_CLIENT));
		return true;
	}
}

static uint64_t next_ns(const struct holder *h)
{
	uint64_t due = wire_next_ns(h->wire);

	return due < h->follow_at_ns ? due : h->follow_at_ns;
}

static int wait_ms(const struct holder *h)
{
	uint64_t now = now_ns(NULL), due = next_ns(h);

	if (due <= now)
		return 0;
	if (due == UINT64_MAX)
		return h->desk.had_client ? -1 : FIRST_CLIENT_MS;
	return (int)((due - now) / 1000000 + 1);
}

static void serve(struct holder *h)
{
	struct epoll_event events[32];
	bool goes_on = true;

	while (goes_on) {
		int n = epoll_wait(h->epoll, events, 32, wait_ms(h));

		if (!n && !h->desk.had_client && next_ns(h) == UINT64_MAX)
			return;
		for (int i = 0; i < n; i++)
			goes_on &= handle(h, events[i].data.u64);
		if (h->follow_at_ns <= now_ns(NULL))
			follow_network(h);
		wire_run(h->wire);
		wire_flush(h->wire);
		goes_on &= h->desk.nr_clients || !h->desk.had_client;
	}
}

/* Says in words why it could not begin, or nothing if it did. */
static void report(int fd, const char *text)
{
	if (write(fd, text, strlen(text) + 1) < 0)
		return;	/* nobody waits for it any more */
}

int holder_run(const struct holder_config *c, int report_fd)
{
	struct holder *h = calloc(1, sizeof(*h));
	char text[HOST_TEXT_BYTES] = "";
	struct holder_config full = {
		.nr_devices = c->nr_devices ? c->nr_devices : 1,
		.nr_ports = c->nr_ports ? c->nr_ports : 1,
		.link = c->link ? c->link : HOLDER_LINK_ROCE,
		.gso = c->gso ? c->gso : HOLDER_GSO_ON,
	};
	int rc;

	if (!h)
		return -ENOMEM;
	/* Whoever has this name is the holder; the others join him. */
	h->listener = listen_socket();
	if (h->listener < 0) {
		rc = h->listener;
		free(h);
		return rc;
	}
	rc = open_all(h, &full, text);
	if (!rc) {
		desk_open(&h->desk, &full, &h->ports, h->cm);
		rc = watch(h, h->listener, WHO_LISTENER);
	}
	if (!rc && listen(h->listener, SOMAXCONN))
		rc = -errno;
	if (rc) {
		report(report_fd, *text ? text : strerror(-rc));
	} else {
		report(report_fd, "");
		close(report_fd);
		serve(h);
	}
	/* From here on others find no holder, and start the next. */
	close(h->listener);
	if (h->desk.table && *h->desk.table->tree)
		folder_remove(&h->folder, h->desk.table);
	return rc;
}
