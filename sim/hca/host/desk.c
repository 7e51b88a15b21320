/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "sim/hca/host/desk.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sim/hca/host/cm.h"

#define MAX_REQUESTS 8	/* of one client, before others get their turn */

void desk_open(struct desk *d, const struct holder_config *c, struct ports *ports,
	       struct host_cm *cm)
{
	d->config = *c;
	d->ports = ports;
	d->cm = cm;
	for (int i = 0; i < DESK_MAX_CLIENTS; i++)
		d->clients[i].socket = -1;
}

/* ---- coming and going -------------------------------------------------------- */

static int free_place(const struct desk *d, uint32_t uid)
{
	int place = -1, same = 0;

	for (int i = 0; i < DESK_MAX_CLIENTS; i++) {
		if (d->clients[i].socket < 0)
			place = place < 0 ? i : place;
		else if (d->clients[i].uid == uid)
			same++;
	}
	/* One user cannot keep all others out. */
	return uid && uid != geteuid() && same >= DESK_MAX_OF_USER ? -1 : place;
}

int desk_accept(struct desk *d, int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), i;
	struct ucred who;
	socklen_t n = sizeof(who);

	if (fd < 0)
		return -1;
	i = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) ? -1 : free_place(d, who.uid);
	if (i < 0) {
		close(fd);
		return -1;
	}
	d->clients[i] = (struct desk_client){
		.socket = fd, .pid = (uint32_t)who.pid, .uid = who.uid,
	};
	d->nr_clients++;
	return i;
}

void desk_drop(struct desk *d, int i)
{
	struct desk_client *c = &d->clients[i];

	if (c->socket < 0)
		return;
	close(c->socket);
	c->socket = -1;
	d->nr_clients--;
	if (c->slot) {
		ports_free(d->ports, c->slot);
		d->table->users[c->slot] = (struct host_user){ 0 };
	}
}

/* ---- answers ----------------------------------------------------------------- */

static void answer(struct desk *d, int i, struct host_answer *a, const int *fds, int nr)
{
	a->type = HOST_ANSWER;
	/* One who does not read what he asked for is no client. */
	if (host_put(d->clients[i].socket, a, sizeof(*a), fds, nr, MSG_DONTWAIT))
		desk_drop(d, i);
}

__attribute__((format(printf, 4, 5))) static void refuse(struct desk *d, int i, int error,
							  const char *format, ...)
{
	struct host_answer a = { .error = error };
	va_list args;

	va_start(args, format);
	vsnprintf(a.text, sizeof(a.text), format, args);
	va_end(args);
	answer(d, i, &a, NULL, 0);
}

/* To all who have joined. Who has let hundreds of them lie misses this one. */
static void tell(struct desk *d, uint32_t device, uint32_t port, uint32_t ibv_event)
{
	struct host_answer a = {
		.type = HOST_EVENT,
		.event = { .device = device, .port = port, .ibv_event = ibv_event },
	};

	for (int i = 0; i < DESK_MAX_CLIENTS; i++)
		if (d->clients[i].socket >= 0 && d->clients[i].slot)
			host_put(d->clients[i].socket, &a, sizeof(a), NULL, 0, MSG_DONTWAIT);
}

/* ---- HOST_JOIN and HOST_ATTACH ----------------------------------------------- */

static void join(struct desk *d, int i)
{
	struct desk_client *c = &d->clients[i];
	struct host_answer a = { 0 };

	if (!c->slot)
		c->slot = ports_take(d->ports);
	if (!c->slot) {
		refuse(d, i, -EUSERS, "all %u places of this host are taken", HOST_NR_SLOTS - 1);
		return;
	}
	for (uint32_t k = 0; k < d->table->nr_devices; k++)
		memset(&d->memory->devices[k].slots[c->slot], 0, sizeof(struct host_slot_counters));
	d->table->users[c->slot] = (struct host_user){ c->pid, c->uid };
	d->had_client = true;
	a.slot = c->slot;
	answer(d, i, &a, (int[]){ d->table_fd, d->memory_fd, d->ports->fds[c->slot] }, 3);
}

static const char *const links[] = { "", "roce", "ib" };
static const char *const gsos[] = { "", "on", "off" };

/* The first of what is asked for that this host is not. */
static bool differs(const struct holder_config *is, const struct holder_config *asked, char *text)
{
	if (asked->nr_devices && asked->nr_devices != is->nr_devices)
		snprintf(text, HOST_TEXT_BYTES, "this host runs with --devices %u, not %u",
			 is->nr_devices, asked->nr_devices);
	else if (asked->nr_ports && asked->nr_ports != is->nr_ports)
		snprintf(text, HOST_TEXT_BYTES, "this host runs with --ports %u, not %u",
			 is->nr_ports, asked->nr_ports);
	else if (asked->link && asked->link != is->link)
		snprintf(text, HOST_TEXT_BYTES, "this host runs with --link %s, not %s",
			 links[is->link], asked->link < 3 ? links[asked->link] : "?");
	else if (asked->gso && asked->gso != is->gso)
		snprintf(text, HOST_TEXT_BYTES, "this host runs with GSO %s, not %s",
			 gsos[is->gso], asked->gso < 3 ? gsos[asked->gso] : "?");
	else
		return false;
	return true;
}

/* Clients whose end has not been served yet are no reason to call the host busy. */
static void drop_ended(struct desk *d, int but)
{
	for (int i = 0; i < DESK_MAX_CLIENTS; i++) {
		struct pollfd p = { .fd = d->clients[i].socket, .events = POLLRDHUP };

		if (i != but && p.fd >= 0 && poll(&p, 1, 0) > 0)
			desk_drop(d, i);
	}
}

static void attach(struct desk *d, int i, const struct holder_config *asked)
{
	char text[HOST_TEXT_BYTES];

	drop_ended(d, i);
	if (d->had_client && d->nr_clients == 1) {
		/* Each run finds a fresh host, not what the last one has left. */
		refuse(d, i, -ERESTART, "the host is ending");
		desk_drop(d, i);
	} else if (differs(&d->config, asked, text)) {
		refuse(d, i, -EBUSY, "%s", text);
	} else {
		d->had_client = true;
		answer(d, i, &(struct host_answer){ 0 }, (int[]){ d->table_fd, d->memory_fd }, 2);
	}
}

/* ---- HOST_SET ---------------------------------------------------------------- */

static void set_link(struct desk *d, uint32_t device, uint32_t port, bool is_up)
{
	struct host_port *p = &d->table->devices[device].ports[port - 1];

	if (!!p->wire.is_up == is_up)
		return;
	p->wire.is_up = is_up;
	p->state = is_up ? HOST_PORT_ACTIVE : HOST_PORT_DOWN;
	folder_update(d->table, device);
	tell(d, device, port, is_up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
}

static void set_mtu(struct desk *d, uint32_t device, uint32_t port, uint32_t bytes)
{
	uint32_t *active = &d->table->devices[device].ports[port - 1].active_mtu_bytes;

	__atomic_store_n(active, bytes, __ATOMIC_RELAXED);
}

static void tell_gids(struct desk *d, uint32_t device, uint32_t port)
{
	folder_update(d->table, device);
	tell(d, device, port, IBV_EVENT_GID_CHANGE);
}

static void set_gid(struct desk *d, uint32_t device, uint32_t port, const struct knob_setting *s)
{
	d->by_hand[device][port - 1].gids |= 1u << s->index;
	wire_gid_set(&d->table->devices[device].ports[port - 1].wire.gids, s->index, s->gid);
	tell_gids(d, device, port);
}

static void set_port(struct desk *d, uint32_t device, uint32_t port, const struct knob_setting *s)
{
	if (s->knob->kind == KNOB_LINK) {
		d->by_hand[device][port - 1].is_held_down = !s->value;
		set_link(d, device, port, s->value);
	} else if (s->knob->kind == KNOB_MTU) {
		set_mtu(d, device, port, (uint32_t)s->value);
	} else if (s->knob->kind == KNOB_INTERFACE) {
		d->table->devices[device].ports[port - 1].hides_interface = !s->value;
		tell_gids(d, device, port);
	} else if (s->knob->kind == KNOB_GID) {
		set_gid(d, device, port, s);
	}
}

static void remove_device(struct desk *d, uint32_t device)
{
	if (d->table->devices[device].is_removed)
		return;
	d->table->devices[device].is_removed = 1;
	for (uint32_t i = 0; i < HOST_MAX_PORTS; i++)
		d->table->devices[device].ports[i].wire.is_up = 0;
	folder_remove_device(d->table);
	host_cm_removed(d->cm, device);
	tell(d, device, 0, IBV_EVENT_DEVICE_FATAL);
}

static void apply(struct desk *d, uint32_t device, const struct knob_setting *s)
{
	uint32_t nr = d->table->devices[device].nr_ports;

	if (s->knob->kind == KNOB_REMOVED) {
		remove_device(d, device);
	} else if (s->knob->kind < KNOB_LINK) {
		knob_store(&d->memory->devices[device], s);
	} else {
		/* The same address at two ports makes no sense: one means the first. */
		uint32_t from = s->port ? s->port : 1;
		uint32_t to = s->port || s->knob->kind == KNOB_GID ? from : nr;

		for (uint32_t port = from; port <= to && port <= nr; port++)
			set_port(d, device, port, s);
	}
}

static bool follow_port(struct desk *d, uint32_t device, uint32_t port)
{
	const struct desk_port *by_hand = &d->by_hand[device][port - 1];
	bool is_up, has_new_gids;

	if (!devices_follow(&d->table->devices[device].ports[port - 1], by_hand->gids, &is_up,
			    &has_new_gids))
		return false;
	if (has_new_gids)
		tell_gids(d, device, port);
	if (!by_hand->is_held_down)
		set_link(d, device, port, is_up);
	return true;
}

bool desk_follow(struct desk *d)
{
	bool is_done = true;

	for (uint32_t k = 0; k < d->table->nr_devices; k++)
		for (uint32_t port = 1; port <= d->table->devices[k].nr_ports; port++)
			if (!d->table->devices[k].is_removed &&
			    strcmp(d->table->devices[k].ports[port - 1].ifname, "lo") != 0)
				is_done &= follow_port(d, k, port);
	return is_done;
}

static bool may_set(struct desk *d, int i)
{
	return !d->clients[i].uid || d->clients[i].uid == geteuid();
}

static void set(struct desk *d, int i, struct host_request *r)
{
	struct knob_setting s;
	char text[HOST_TEXT_BYTES];
	bool is_all = r->device == HOST_ALL_DEVICES;

	r->text[sizeof(r->text) - 1] = '\0';
	if (!may_set(d, i)) {
		refuse(d, i, -EPERM, "only root and user %u, who started this host, may change it",
		       geteuid());
	} else if (!is_all && r->device >= d->table->nr_devices) {
		refuse(d, i, -ENODEV, "there is no device %u: this host has 0 to %u", r->device,
		       d->table->nr_devices - 1);
	} else if (knob_parse(r->text, &s, text)) {
		refuse(d, i, -EINVAL, "%s", text);
	} else if (s.port > d->config.nr_ports) {
		refuse(d, i, -EINVAL, "%s: ports are 1 to %u", r->text, d->config.nr_ports);
	} else {
		for (uint32_t k = 0; k < d->table->nr_devices; k++)
			if (is_all || k == r->device)
				apply(d, k, &s);
		answer(d, i, &(struct host_answer){ 0 }, NULL, 0);
	}
}

/* ---- requests ---------------------------------------------------------------- */

static void close_all(int fds[HOST_MAX_FDS])
{
	for (int i = 0; i < HOST_MAX_FDS; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

static void give_channel(struct desk *d, int i, int fds[HOST_MAX_FDS])
{
	if (!d->clients[i].slot || fds[0] < 0 || fds[1] < 0)
		return;
	host_cm_channel(d->cm, fds);
	fds[0] = fds[1] = -1;
}

static void handle(struct desk *d, int i, struct host_request *r, int fds[HOST_MAX_FDS])
{
	if (r->version != HOST_VERSION)
		refuse(d, i, -EPROTO, "this host was started by another version of tent-sim");
	else if (r->type == HOST_JOIN)
		join(d, i);
	else if (r->type == HOST_ATTACH)
		attach(d, i, &r->config);
	else if (r->type == HOST_SET)
		set(d, i, r);
	else if (r->type == HOST_GIVE_CHANNEL)
		give_channel(d, i, fds);
	else
		refuse(d, i, -EOPNOTSUPP, "there is no request %u", r->type);
}

void desk_serve(struct desk *d, int i)
{
	struct host_request r;
	int fds[HOST_MAX_FDS], rc = 0;

	for (int n = 0; n < MAX_REQUESTS && d->clients[i].socket >= 0; n++) {
		rc = host_take(d->clients[i].socket, &r, sizeof(r), fds, MSG_DONTWAIT);
		if (rc)
			break;
		handle(d, i, &r, fds);
		close_all(fds);
	}
	if (rc && rc != -EAGAIN)
		desk_drop(d, i);
}
