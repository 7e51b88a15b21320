/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uverbs.h - the kernel's side of /dev/infiniband/uverbsN: what ioctl(RDMA_VERBS_IOCTL)
 * means, as ib_uverbs and mlx5_ib answer it. It turns commands into calls of the engine.
 *
 * The caller serialises everything here, together with the engine. Nothing here knows how
 * the program's calls arrive; descriptors and the world outside come through uverbs_env.
 */
#ifndef TENT_SIM_HCA_UVERBS_H
#define TENT_SIM_HCA_UVERBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/hca/engine/engine.h"

struct uverbs_file;
struct event_queue;

#define UVERBS_PAGE 4096
/* mmap offsets of the device's file, in pages. */
#define UVERBS_CLOCK_PAGE 0x700
#define UVERBS_FIRST_UAR_PAGE 0x100000
#define UVERBS_MAX_UARS 512
#define UVERBS_FILE_BYTES \
	((uint64_t)(UVERBS_FIRST_UAR_PAGE + UVERBS_MAX_UARS) * UVERBS_PAGE)

/* What can change about a port while programs run. */
struct uverbs_port {
	bool is_ethernet, is_up;
	uint32_t active_mtu_bytes;	/* 256 to 4096 */
	uint16_t lid;			/* InfiniBand */
};

/* Called with the caller's serialisation held. */
struct uverbs_env {
	void *ctx;
	/* A new descriptor for the program, which reads q; takes over one reference. */
	int (*event_open)(void *ctx, struct event_queue *q);
	/* Takes back a descriptor that the program never got to know. */
	void (*event_abandon)(void *ctx, int fd);
	/* The queue behind a descriptor of the program, or NULL. */
	struct event_queue *(*event_of)(void *ctx, int fd);
	void (*port)(void *ctx, unsigned port, struct uverbs_port *out);
	/* False: the table has no such entry, or it is empty. */
	bool (*gid)(void *ctx, unsigned port, unsigned index, uint8_t gid[16]);
	/* Of one memory region, as the device says now. */
	uint64_t (*max_mr_bytes)(void *ctx);
	/* Faults that refuse this registration, this queue pair: 0 or -errno. */
	int (*refuse_mr)(void *ctx);
	int (*refuse_qp)(void *ctx);
	/* It registers dma-bufs; memory of other devices by its address. */
	bool (*takes_dma_bufs)(void *ctx);
	bool (*takes_peers)(void *ctx);
	/* A program may have mapped UAR pages; called before an object needs them. */
	void (*uars_used)(void *ctx);
	/* This page is no longer given out. */
	void (*uar_freed)(void *ctx, unsigned page);
};

/* One card as this process sees it. */
struct uverbs_device {
	struct hca *hca;
	const struct uverbs_env *env;
	uint64_t node_guid;		/* host order */
	unsigned nr_ports;
	bool is_removed;		/* commands answer -EIO */
	struct uverbs_file *files;
	uint64_t uars[UVERBS_MAX_UARS / 64]; /* bit: page is given out */
};

/* One open(). Its objects go when it is closed. */
int uverbs_open(struct uverbs_file **out, struct uverbs_device *d);
void uverbs_close(struct uverbs_file *f);

/* ioctl(fd, request, argument): 0 or -errno. */
int uverbs_ioctl(struct uverbs_file *f, unsigned long request, uint64_t argument);

/* Whether an mmap() of the device's file is one that a driver would allow: 0 or -errno. */
int uverbs_check_mmap(const struct uverbs_file *f, uint64_t offset, uint64_t length,
		      bool is_writable);

/* What hca_env.cq_event and hca_env.async_event hand on. */
void uverbs_cq_event(void *cq_cookie);
void uverbs_async_event(enum hca_event event, void *cookie);
/* An event of a port, or of the whole device (IBV_EVENT_DEVICE_FATAL, port 0), to every
 * file of the device. */
void uverbs_port_event(struct uverbs_device *d, int ibv_event, unsigned port);

/* The engine's part of the data sheet. */
void uverbs_fill_config(struct hca_config *c);

#endif /* TENT_SIM_HCA_UVERBS_H */
