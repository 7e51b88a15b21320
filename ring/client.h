/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.h - a client inside: its connection, what it holds, how it fails.
 *
 * Everything here is the client's own process; nothing in it is shared. Control
 * calls are served one at a time under lock; what the lists hold is guarded by it
 * too. After fork() only the process that attached may use it (pid).
 */
#ifndef TENT_RING_CLIENT_H
#define TENT_RING_CLIENT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <tent/tentring.h>

#include "ring/ctl_io.h"
#include "ring/mem.h"

/* Shareable memory from MEM_ALLOC. */
struct client_mapping {
	struct client_mapping *next;
	uint64_t buffer_id;
	struct shared_mem mem;
};

/* What a ring holds, out of the reach of the fork that wipes struct tent_ring. */
struct ring_record {
	struct ring_record *next;
	struct tent_ring *ring;
	struct shared_mem client_mem, engine_mem;
	uint32_t id;		/* ring_id of RING_OPEN_REPLY */
	int wake_fd;		/* wakes the engine */
	int completion_fd;	/* the engine wakes us */
};

struct tent_client {
	pthread_mutex_t lock;
	pid_t pid;		/* of the process that attached */
	int fd;
	int pidfd;		/* of the engine; -1: itself, or the kernel has none */
	bool in_process;	/* the engine is this process */
	bool broken;		/* the connection is out of step: no call works any more */
	bool barrier;		/* wake_barrier() of the engine reaches this process */
	uint32_t id;
	uint64_t epoch;
	uint64_t cookie;	/* of the last request */
	char segment[TENT_CTL_NAME_SIZE];
	struct client_mapping *mappings;
	struct ring_record *rings;
	struct {		/* of the notifications it was sent */
		pthread_mutex_t lock;	/* taken before the client's */
		struct shared_mem mem;	/* addr NULL: not opened yet */
		uint64_t taken;		/* positions, see struct tent_inbox */
		uint32_t data_size;
	} inbox;
};

/* Attaches over a socket of the engine's, which this takes over, as an observer. */
int client_observe_fd(int fd, struct tent_client **client);

/* One request and its reply. m holds the request from byte 16 on, and its fds (which
 * stay the caller's); then the reply of reply_size bytes and reply_fds descriptors,
 * now the caller's to close. 0 or the negative enum tent_error of client_fail*(). */
int client_call(struct tent_client *c, struct ctl_message *m, uint16_t type, size_t size,
		size_t reply_size, int reply_fds);

/* The same for the three requests that carry one id and get a plain reply. */
int client_call_id(struct tent_client *c, uint16_t type, uint64_t id);

/* Is this the process that attached? Otherwise fails with ENGINE_STALE. */
int client_check_process(const struct tent_client *c);

/* Unmaps and closes what a ring holds; the engine has closed it before. */
void ring_record_release(struct ring_record *record);

/* Copies a text into a message field; fails with rule when it does not fit. */
int client_copy_text(char *to, size_t size, const char *text, uint32_t rule);

/* The calling thread's last failure. Each returns the rule's enum tent_error. */
int client_fail(uint32_t rule, int64_t value);	/* its sentence is made when asked for */
int client_fail_null(const char *argument);
int client_fail_text(uint32_t rule, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
int client_fail_status(const struct tent_ctl_status *status); /* the engine's words */
/* "<what>: <errno text>", rule SYSTEM; rc is a negative errno. */
int client_fail_system(const char *what, int rc);

/* Copies into a caller's struct of to->size bytes, which holds error, index and rule at
 * least; a text that its size cuts still ends in it. */
void error_info_copy(struct tent_error_info *to, const struct tent_error_info *from);

/* The call arguments of everything that takes an array of entries. */
int client_check_entries(const void *entries, size_t count, size_t entry_stride);

#endif /* TENT_RING_CLIENT_H */
