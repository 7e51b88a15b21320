/* SPDX-License-Identifier: Apache-2.0 */
/*
 * desk.h - where the holder serves its clients: who they are, and what they ask for.
 * Nothing that a client does makes the holder wait or fail.
 */
#ifndef TENT_SIM_HCA_DESK_H
#define TENT_SIM_HCA_DESK_H

#include "sim/hca/host/parts.h"

#define DESK_MAX_CLIENTS 512
#define DESK_MAX_OF_USER 384	/* of one that is not the holder's own, nor root */

struct desk_client {
	int socket;			/* -1: no client */
	uint32_t slot;			/* 0: has none */
	uint32_t pid, uid;
};

/* What was set by hand, and does not follow the interface. */
struct desk_port {
	uint32_t gids;			/* a bit for each place */
	bool is_held_down;
};

struct host_cm;

struct desk {
	struct host_table *table;
	struct host_memory *memory;
	int table_fd, memory_fd;
	struct holder_config config;	/* without zeros */
	struct ports *ports;
	struct host_cm *cm;
	struct desk_port by_hand[HOST_MAX_DEVICES][HOST_MAX_PORTS];
	bool had_client;
	int nr_clients;
	struct desk_client clients[DESK_MAX_CLIENTS];
};

void desk_open(struct desk *d, const struct holder_config *c, struct ports *ports,
	       struct host_cm *cm);
/* The client's place, or -1: nobody came, or he was turned away. */
int desk_accept(struct desk *d, int listener);
/* The client has something to say, or is gone. */
void desk_serve(struct desk *d, int i);
void desk_drop(struct desk *d, int i);
/* Something has changed about the network's interfaces. False: it could not all be found out,
 * and is to be tried again. */
bool desk_follow(struct desk *d);

#endif /* TENT_SIM_HCA_DESK_H */
