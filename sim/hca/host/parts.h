/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parts.h - what the holder is made of.
 */
#ifndef TENT_SIM_HCA_HOST_PARTS_H
#define TENT_SIM_HCA_HOST_PARTS_H

#include <sys/types.h>

#include "sim/hca/host/protocol.h"

/* ---- ports.c: the UDP sockets, one for each slot ----------------------------- */

struct ports {
	int fds[HOST_NR_SLOTS];
	uint64_t freed_at[HOST_NR_SLOTS]; /* orders the free slots; 0: taken */
	uint64_t clock;
};

/* 0 or -errno: -EADDRINUSE when others than a host that is just ending have the port. */
int ports_open(struct ports *p);
void ports_close(struct ports *p);
/* The slot that has been free for longest, so that late packets for its last user are
 * rare; 0: none is free. */
uint32_t ports_take(struct ports *p);
void ports_free(struct ports *p, uint32_t slot);

/* ---- devices.c: the table ---------------------------------------------------- */

/* Fills in devices, ports and GIDs from the interfaces of this network namespace. 0 or
 * -errno and a text. */
int devices_find(struct host_table *t, const struct holder_config *c, char *text);
/* Follows the interface that carries a port: whether it is up, and on Ethernet the addresses
 * that came and went. Bits of kept_gids say which places others have filled. False: it
 * could not be found out. */
bool devices_follow(struct host_port *p, uint32_t kept_gids, bool *is_up, bool *has_new_gids);
/* A netlink socket, nonblocking, that is readable when interfaces or addresses change; and
 * to empty it. */
int devices_watch(void);
void devices_watched(int fd);

/* Which port has this address as GID, or as the carrier of its LID. */
bool devices_have_address(const struct host_table *t, const uint8_t ip[16], uint32_t *device,
			  uint32_t *port);

/* ---- folder.c: the discovery tree on disk ------------------------------------ */

struct folder {
	int lock_fd;
	char parent[48];
};

/* Makes the tree and writes its name to the table. */
int folder_make(struct folder *f, struct host_table *t);
int folder_update(const struct host_table *t, uint32_t device);
int folder_remove_device(const struct host_table *t);
void folder_remove(struct folder *f, const struct host_table *t);

/* ---- knobs.c: names and values of what can be set ---------------------------- */

enum knob_kind {
	KNOB_COUNT,		/* a plain number */
	KNOB_RATE,		/* 1% or 500ppm */
	KNOB_TIME,		/* 10us; at most 2^32 ns */
	KNOB_SPEED,		/* 10gbit */
	KNOB_BYTES,		/* 64K */
	KNOB_PERCENT,
	KNOB_SWITCH,		/* on or off */
	KNOB_REMOVED,		/* on; there is no way back */
	KNOB_LINK,		/* up or down; of a port, like all that follow */
	KNOB_MTU,
	KNOB_INTERFACE,		/* there or gone */
	KNOB_GID,		/* an address, or none */
};

struct knob {
	const char *name;
	enum knob_kind kind;
	size_t offset;		/* in struct host_memory_device */
	size_t bytes;		/* 4 or 8; 0: does not lie there */
	const char *help;
};

extern const struct knob knobs[];
extern const unsigned nr_knobs;

struct knob_setting {
	const struct knob *knob;
	uint32_t port;		/* 0: all */
	uint32_t index;		/* KNOB_GID */
	uint64_t value;
	uint8_t gid[16];
};

/* "[PORT/]NAME=VALUE", "gid.INDEX=ADDRESS". 0 or -EINVAL and a text of HOST_TEXT_BYTES that
 * names the value and what was allowed. */
int knob_parse(const char *setting, struct knob_setting *out, char *text);
void knob_store(struct host_memory_device *m, const struct knob_setting *s);
uint64_t knob_load(const struct host_memory_device *m, const struct knob *k);
/* As it would be written. */
void knob_print(const struct knob *k, uint64_t value, char *out, size_t n);
/* What values a kind takes, in words. */
const char *knob_values(enum knob_kind kind);

#endif /* TENT_SIM_HCA_HOST_PARTS_H */
