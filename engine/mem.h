/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem.h - what pollers and backends know about memory: regions, the tables that
 * find them, and segments. The control thread writes, pollers read.
 *
 * A region table is immutable. To change one, the control thread publishes a new
 * table (R7) and then sends POLLER_DROP_REGION to every poller; when all have
 * answered, no poller and no backend refers to the region, and it is unmapped.
 */
#ifndef TENT_ENGINE_MEM_H
#define TENT_ENGINE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <tent/ctl.h>
#include <tent/tent.h>

#include "ring/order.h"

#define LINK_KEY_SIZE 32u

/* Shows that we know the key of a link that is secret, over these bytes: two words that
 * stand in the place of the token. False: no memory. Any thread. */
typedef bool (*link_prove)(const uint8_t key[LINK_KEY_SIZE], const void *bytes, size_t size,
			   uint64_t proof[2]);

/* Another engine, as backends need to know it: where its data connections go. Constant;
 * it outlives every region that points to it. */
struct far_end {
	uint64_t own_epoch;		/* ours, as we told it */
	uint64_t epoch;			/* of the engine there: a new life is a new far_end */
	uint64_t token[2];		/* shows it that it has invited us */
	link_prove prove;		/* instead, by key; NULL: the token is shown */
	uint8_t key[LINK_KEY_SIZE];
	uint16_t data_port;		/* 0: it moves no bytes for others */
	uint32_t address_size;
	uint32_t refs;			/* control thread's */
	void *peer;			/* the backend's, from far_open() on; NULL: none */
	void *wired;			/* the same of one whose connections links set up */
	_Alignas(8) uint8_t address[128]; /* a struct sockaddr: of its control connection */
};

#define GUEST_SEGMENTS 256u

/* The same the other way round: an engine that uses segments of ours, and which. It is
 * known by its link, and with it the users that it may speak for. */
struct guest {
	uint64_t epoch, own_epoch;	/* of the engine there; ours */
	uint64_t kin;			/* same for all of a user here, of a host elsewhere */
	uint64_t token[2];		/* what its data connections show */
	link_prove prove;		/* or prove, by key; NULL: the token */
	uint8_t key[LINK_KEY_SIZE];
	struct segment *segments[GUEST_SEGMENTS]; /* R7/A7; NULL: not, or no more */
	uint32_t refs;			/* R15/A15: control thread and backend; see guest_put() */
	void *backend;			/* the backend's, and the rest; NULL: it has none */
	uint64_t newest;		/* of the names that data connections proved */
	uint64_t seen;			/* bit i: newest - i was one of them */
};

struct contract;
struct private_owner;	/* io/shm_private.c: copies through /proc/PID/mem */
struct segment;

/* A regular file that requests may name. The control thread opens and closes it; offsets
 * in it are addresses of its region, which reaches as far as a file can. */
struct file {
	int fd;
	int direct_fd;		/* the same file with O_DIRECT, or -1 */
	uint32_t direct_align;	/* of offset, length and memory for that, bytes; a power of two */
	uint32_t place;		/* in tables of the backend; FILE_NO_PLACE: in none */
	uint64_t dev, ino;
	bool writable;
};
#define FILE_NO_PLACE UINT32_MAX

/* How the cards of this host have memory of a GPU; where they differ, the worst of it. */
enum card_way { CARD_NONE, CARD_BY_ADDRESS, CARD_BY_DMA_BUF, CARD_WAYS };

/* Memory of a GPU, which no CPU touches; what else there is to it is its backend's. */
struct device_memory {
	uint32_t number;	/* of the GPU, as "cuda:N" has it */
	char how[160];		/* how it is reached, for people */
	/* How cards get it: what the control thread has for them until they have settled. */
	bool cards_may;		/* else card says why they may not */
	int fd;			/* a dma-buf of it, whose first byte is that at fd_base; or -1 */
	uint64_t fd_base;
	char no_fd[112];	/* why there is none, or "" */
	char card[400];		/* how cards have it or why they do not, for people; control's */
	enum card_way way;	/* the same; control's */
	/* What a card completed into it is there for its GPU once this was called. False: it
	 * is not. NULL: it is there by itself. Poller. */
	bool (*flush)(const struct device_memory *m);
	void *context;		/* its backend's: the GPU's, held for longer than this */
};

struct region {
	uint64_t base, end;	/* in the owner's address space, [base, end) */
	uint8_t *addr;		/* where this process sees base, or NULL: private, or a GPU's */
	struct private_owner *owner; /* for private memory, else NULL */
	struct file *file;	/* it is no memory: addr and owner are NULL */
	const struct far_end *far; /* memory of another engine, or NULL: of this host */
	struct segment *segment;
	uint32_t far_handle;	/* far: what its engine calls its segment */
	uint8_t permission;	/* enum tent_permission */
	bool internal;
	bool shareable;		/* addr is memory of a sealed memfd or of our own process */
	bool dropped;		/* POLLER_DROP_REGION is under way; control thread's */
	bool is_gpu;		/* what policies call "cuda", here or far away */
	uint32_t refs;		/* registrations of the same range; control thread's */
	char location[64];
	void *backing;		/* engine/memory.c: the mapping of a memory file, to release */
	void *wired;		/* keys of the backend that links set up; NULL: none */
	struct device_memory *device; /* it is a GPU's, of this process: addr and owner are NULL */
	uint32_t pinned;	/* with addr: GPUs copy from and to it; control thread sets it */
};

struct region_table {
	uint32_t nr;
	struct region_entry {
		uint64_t base, end;
		struct region *region;
		uint64_t max_end; /* of entries 0..this: overlaps end the search here */
	} entries[];		/* by base, then end */
};

struct segment {
	struct region_table *table;	/* R7/A7 */
	uint64_t epoch;
	uint32_t lost;			/* far: its engine does not answer; any thread */
	uint32_t tenant_uid;		/* constant */
	/* the rest is the control thread's */
	int32_t type;			/* enum tent_segment_type */
	struct client *owner;		/* NULL once it died; far ones have none */
	uint64_t version;		/* counts its tables */
	uint32_t followers;		/* links that want to know of each */
	bool is_far;			/* another engine's: engine/peers.h */
	char name[TENT_CTL_NAME_SIZE];	/* full name */
};

/* What one client can address: handle -> segment. Immutable, published like a
 * region table. Handle 0 is the client's own; closed handles are NULL. */
struct handle_table {
	uint32_t nr;
	struct segment *segments[];
};

/* What a poller knows about the client behind a ring. Lives until the client's
 * last ring is closed. */
struct client_space {
	struct handle_table *handles;	/* R7/A7; entry 0 is its own segment */
	const struct contract *contract; /* R7/A7; what its tenant may have, see contract.h */
	uint32_t client_id;
	uint32_t tenant_uid;
	bool compat;			/* the engine's choice, without a contract */
	uint8_t default_priority;	/* what UNSPEC stands for, the same */
	bool deadlines_refused;		/* another time namespace */
	uint32_t condemned;		/* set by the SIGBUS handler: end its rings */
	struct wake_account *wakes;	/* its tenant's */
};

/*
 * A buffer on loan to a backend that serves peers, for what they want of memory of GPUs:
 * engine/staging.h. Poller; is_open, which says whether there are buffers, any thread.
 */
struct loan {
	uint8_t *bytes;
	void *borrower;		/* the backend's */
};
struct lender {
	uint32_t is_open;	/* R19/A19 */
	/* At least so many bytes, at most LOAN_BYTES. NULL: they are not free now. */
	struct loan *(*borrow)(struct lender *l, uint32_t bytes);
	/* READ: into the buffer. Its end, loan_copied(), comes from the poller's turn. */
	void (*copy)(struct lender *l, struct loan *loan, enum tent_opcode opcode,
		     struct region *gpu, uint64_t address, uint32_t bytes);
	void (*give_back)(struct lender *l, struct loan *loan);
};
#define LOAN_BYTES (4u << 20)

/* The first of entries 0..last that reaches end; the caller knows there is one. max_end
 * never falls, and where it first reaches end it is that entry's own. Not a walk: a
 * client could nest its registrations to make a walk long for its neighbours. */
static inline struct region *region_first_fit(const struct region_table *t,
					      uint32_t last, uint64_t end)
{
	uint32_t low = 0;

	while (low < last) {
		uint32_t middle = low + (last - low) / 2;

		if (t->entries[middle].max_end < end)
			low = middle + 1;
		else
			last = middle;
	}
	return t->entries[low].region;
}

/* The region that holds [addr, addr + length), or NULL; *at is the last entry that
 * begins at or before addr, or 0. The caller has checked that the sum does not wrap. */
static inline struct region *region_find_at(const struct region_table *t, uint64_t addr,
					    uint64_t length, uint32_t *at)
{
	const struct region_entry *e = t->entries;

	*at = 0;
	if (t->nr == 0 || e->base > addr)
		return NULL;
	for (uint32_t nr = t->nr; nr > 1; ) { /* e[0..nr) has the last with base <= addr */
		uint32_t half = nr / 2;

		e = e[half].base <= addr ? e + half : e;
		nr -= half;
	}
	*at = (uint32_t)(e - t->entries);
	if (addr + length <= e->end)
		return e->region;
	return e->max_end < addr + length ? NULL : region_first_fit(t, *at, addr + length);
}

/* The same for those who do not ask where. */
static inline struct region *region_find(const struct region_table *t,
					 uint64_t addr, uint64_t length)
{
	uint32_t at;

	return region_find_at(t, addr, length, &at);
}

static inline const struct region_table *segment_table(const struct segment *s)
{
	return load_acquire(&s->table); /* A7, pairs with R7 in region_table.c */
}

/* Who comes last frees. */
static inline void guest_put(struct guest *g)
{
	if (fetch_add(&g->refs, -1u) == 1)	/* R15/A15 */
		free(g);
}

#endif /* TENT_ENGINE_MEM_H */
