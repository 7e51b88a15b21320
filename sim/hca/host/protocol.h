/* SPDX-License-Identifier: Apache-2.0 */
/*
 * protocol.h - what goes over the holder's socket (SOCK_SEQPACKET): one struct per
 * message. A client asks, the holder answers each request but HOST_GIVE_CHANNEL; events
 * come unasked, to those who have joined.
 */
#ifndef TENT_SIM_HCA_PROTOCOL_H
#define TENT_SIM_HCA_PROTOCOL_H

#include <stddef.h>

#include "sim/hca/host/holder.h"
#include "sim/hca/host/host.h"

/* Changes with the layout of what is shared. */
#define HOST_VERSION ((uint32_t)(0x01000000 + sizeof(struct host_table) + sizeof(struct host_memory)))
#define HOST_TEXT_BYTES 240

enum host_request_type {
	HOST_JOIN = 1,			/* answer: slot; fds: table, memory, UDP socket */
	/* Keeps the host alive; fds: table, memory. -ERESTART: the host is ending, ask the next
	 * one. */
	HOST_ATTACH = 2,
	HOST_SET = 3,			/* text: "name=value" for a device or all */
	HOST_GIVE_CHANNEL = 4,		/* with two fds */
};

struct host_request {
	uint32_t type;
	uint32_t version;
	uint32_t device;		/* HOST_SET; HOST_ALL_DEVICES */
	struct holder_config config;	/* HOST_ATTACH: must be what the host is */
	char text[HOST_TEXT_BYTES];
};

#define HOST_ALL_DEVICES UINT32_MAX

enum host_answer_type {
	HOST_ANSWER = 1,
	HOST_EVENT = 2,
};

struct host_answer {
	uint32_t type;
	int32_t error;			/* 0 or -errno, and then text says why */
	uint32_t slot;
	struct host_event event;
	char text[HOST_TEXT_BYTES];
};

enum { HOST_FD_TABLE, HOST_FD_MEMORY, HOST_FD_UDP, HOST_MAX_FDS };

/* Sends one message with nr fds. 0 or -errno; flags as of sendmsg(). */
int host_put(int socket, const void *message, size_t n, const int *fds, int nr, int flags);
/* Takes one message of exactly n bytes and up to HOST_MAX_FDS fds, close-on-exec, -1 where
 * there is none. 0, -EAGAIN, -EPIPE: the other end is gone; -EBADMSG: of another size,
 * then no fd is kept. */
int host_take(int socket, void *message, size_t n, int fds[HOST_MAX_FDS], int flags);
/* A connection to the holder of this network namespace, or -errno; -ENOENT: none. */
int host_connect(void);

/* The longer way to join: with what the host has to be, NULL for anything. HOST_ATTACH
 * gets no slot. The text, of HOST_TEXT_BYTES, says what is wrong, in words. */
int host_open(struct host **out, enum host_request_type type, const struct holder_config *c,
	      char *text);
int host_set(struct host *h, uint32_t device, const char *setting, char *text);

/* host_wire_devices() of the holder itself. */
uint32_t host_describe_wire(const struct host_table *t, struct host_memory *m, uint32_t slot,
			    struct wire_device *devices);

#endif /* TENT_SIM_HCA_PROTOCOL_H */
