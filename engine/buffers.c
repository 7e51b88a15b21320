/* SPDX-License-Identifier: Apache-2.0 */
/* buffers.c - memory that we allocate for a client, and memfds that it brings. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/memory.h"
#include "ring/sigbus.h"

#define NODE_DIGITS 4u
#define NODES_MAX 1024

bool location_parse(const char *text, int *node)
{
	size_t digits;

	*node = -1;
	if (!*text || !strcmp(text, "*") || !strcmp(text, "cpu"))
		return true;
	if (strncmp(text, "cpu:", 4) != 0)
		return false;
	text += 4;
	digits = strspn(text, "0123456789");
	if (!digits || digits > NODE_DIGITS || text[digits])
		return false;
	*node = atoi(text);
	return true;
}

struct buffer *buffer_find(struct client *c, uint64_t id)
{
	struct buffer *b;

	for (b = c->buffers; b; b = b->next) {
		if (b->id && b->id == id)
			return b;
	}
	return NULL;
}

/* Its place in the limits, its SIGBUS guard, its place in the list. 0 or a rule. */
static uint16_t buffer_adopt(struct engine *e, struct client *c, struct buffer *b)
{
	uint64_t sum;

	if (__builtin_add_overflow(c->allocated, b->mem.size, &sum) ||
	    sum > e->config.memory_max || !client_charge(e, c, RESOURCE_MAPS, 1))
		return TENT_RULE_MEM_LIMIT;
	if (e->guards && sigbus_guard_mem(&b->mem, &c->space.condemned) < 0) {
		client_refund(e, c, RESOURCE_MAPS, 1);
		return TENT_RULE_MEM_LIMIT;
	}
	b->guarded = e->guards;
	c->allocated = sum;
	b->next = c->buffers;
	c->buffers = b;
	return 0;
}

void buffer_leave(struct client *c, struct buffer *b)
{
	struct buffer **at = &c->buffers;

	while (*at != b)
		at = &(*at)->next;
	*at = b->next;
	if (b->guarded)
		sigbus_unguard(b->mem.addr);
	b->next = c->leaving;
	c->leaving = b;
}

static void unmap_leaving(struct client *c)
{
	for (struct buffer *b = c->leaving; b; b = b->next)
		shared_mem_destroy(&b->mem);
}

static void refund_leaving(struct engine *e, struct client *c)
{
	struct buffer *b;

	while ((b = c->leaving)) {
		c->leaving = b->next;
		c->allocated -= b->mem.size;
		client_refund(e, c, RESOURCE_MAPS, 1);
		free(b);
	}
}

static void leaving_unmapped(struct engine *e, struct client *c)
{
	refund_leaving(e, c);
	c->resume(e, c);
}

void buffers_unmap(struct engine *e, struct client *c,
		   void (*after)(struct engine *e, struct client *c))
{
	if (!c->leaving) {
		after(e, c);
		return;
	}
	c->resume = after;
	chore_send(e, c, unmap_leaving, leaving_unmapped);
}

void buffer_unmap_unused(struct engine *e, struct client *c, struct buffer *b)
{
	buffer_leave(c, b);
	unmap_leaving(c);
	refund_leaving(e, c);
}

/* ---- MEM_ALLOC --------------------------------------------------------- */

/* Pages come from that node where it has some; before the first touch. A kernel
 * without NUMA has node 0 and no such call. */
static bool prefer_node(const struct shared_mem *m, int node)
{
	unsigned long mask[NODES_MAX / (8 * sizeof(long))] = { 0 };

	if (node < 0)
		return true;
	if (node >= NODES_MAX)
		return false;
	mask[(size_t)node / (8 * sizeof(long))] |= 1ul << ((size_t)node % (8 * sizeof(long)));
	if (syscall(SYS_mbind, m->addr, m->size, MPOL_PREFERRED, mask, NODES_MAX + 1, 0) == 0)
		return true;
	return errno != EINVAL && node == 0;
}

static void reply_alloc(struct engine *e, struct client *c, struct buffer *b)
{
	struct ctl_message m = { .nr_fds = 1, .fds = { b->mem.fd } };
	struct tent_ctl_mem_alloc_reply *r = (void *)m.bytes;

	r->buffer_id = b->id;
	r->length = b->mem.size;
	r->page_kind = b->mem.page_kind;
	r->page_reason = b->mem.page_reason;
	client_reply(e, c, &m, sizeof(*r));
	close(b->mem.fd);
	b->mem.fd = -1;
}

static void refuse_alloc(struct engine *e, struct client *c, uint16_t rule, uint64_t length,
			 int error)
{
	if (rule == TENT_RULE_SYSTEM)
		client_refuse_text(e, c, rule, (uint64_t)error, "no memory of %llu bytes: %s",
				   (unsigned long long)length, strerror(error));
	else if (rule == TENT_RULE_LOCATION)
		client_refuse_text(e, c, rule, 0, "location is no memory of this machine; "
				   "allowed: \"\", \"*\", \"cpu\" or \"cpu:N\"");
	else
		client_refuse(e, c, rule, length);
}

/* Huge pages are taken here and now. */
static void alloc_run(struct client *c)
{
	struct buffer *b = c->buffer_pending;
	int rc = shared_mem_create(&b->mem, "tent-buffer", (size_t)b->length, false);

	b->error = -rc;
	if (rc < 0)
		b->rule = TENT_RULE_SYSTEM;
	else if (!prefer_node(&b->mem, b->node))
		b->rule = TENT_RULE_LOCATION;
}

static void scrap_run(struct client *c)
{
	shared_mem_destroy(&c->buffer_pending->mem);
}

static void scrap_done(struct engine *e, struct client *c)
{
	free(c->buffer_pending);
	c->buffer_pending = NULL;
	client_idle(e, c);
}

static void alloc_done(struct engine *e, struct client *c)
{
	struct buffer *b = c->buffer_pending;
	uint16_t rule = b->rule ? b->rule : buffer_adopt(e, c, b);

	if (rule) {
		refuse_alloc(e, c, rule, b->length, b->error);
		chore_send(e, c, scrap_run, scrap_done);
		return;
	}
	c->buffer_pending = NULL;
	b->id = ++c->last_buffer_id;
	reply_alloc(e, c, b);
	client_idle(e, c);
}

static void alloc_begin(struct engine *e, struct client *c, uint64_t length, int node)
{
	struct buffer *b = calloc(1, sizeof(*b));

	if (!b) {
		refuse_alloc(e, c, TENT_RULE_SYSTEM, length, ENOMEM);
		return;
	}
	b->length = length;
	b->node = node;
	c->buffer_pending = b;
	chore_send(e, c, alloc_run, alloc_done);
}

void memory_alloc(struct engine *e, struct client *c, struct ctl_message *m)
{
	const struct tent_ctl_mem_alloc *q = (const void *)m->bytes;
	uint64_t sum;
	int node;

	if (!q->length)
		client_refuse_text(e, c, TENT_RULE_MEM_RANGE, 0,
				   "length is 0; allowed: at least 1 byte");
	else if (!location_parse(q->location, &node))
		refuse_alloc(e, c, TENT_RULE_LOCATION, q->length, 0);
	else if (__builtin_add_overflow(c->allocated, q->length, &sum) ||
		 sum > e->config.memory_max || q->length > SIZE_MAX)
		refuse_alloc(e, c, TENT_RULE_MEM_LIMIT, q->length, 0);
	else if (client_may_reply(e, c, 1))
		alloc_begin(e, c, q->length, node);
}

/* ---- memfds of the client's own ---------------------------------------- */

/* Asked before anything else: other files' stat or mmap may wait for somebody. */
static bool is_memfd(int fd)
{
	return fcntl(fd, F_GET_SEALS) >= 0;
}

bool buffer_is_of_fd(const struct buffer *b, int fd)
{
	struct stat st;

	return !b->id && is_memfd(fd) && fstat(fd, &st) == 0 && st.st_dev == b->dev &&
	       st.st_ino == b->ino;
}

static void refuse_fd(struct engine *e, struct client *c, int rc)
{
	errno = -rc;
	if (rc == -EFBIG)
		client_refuse(e, c, TENT_RULE_MEM_LIMIT, 0);
	else if (rc == -EPERM || rc == -EINVAL)
		client_refuse_text(e, c, TENT_RULE_MEM_SEALS, 0,
				   "fd is not such memory; allowed: a memfd sealed against "
				   "shrinking, of whole pages");
	else
		client_refuse_text(e, c, TENT_RULE_MEM_NOT_SHAREABLE, (uint64_t)errno,
				   "the memfd cannot be mapped here: %m");
}

/* Maps it whole: another range of it then costs no further mapping. */
static int map_fd(struct buffer *b, int fd, uint64_t most)
{
	struct stat st;

	if (!is_memfd(fd))
		return -EINVAL;
	if (fcntl(fd, F_GET_SEALS) & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))
		return -EACCES;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size <= 0)
		return -EINVAL;
	if ((uint64_t)st.st_size > most)
		return -EFBIG;
	b->dev = st.st_dev;
	b->ino = st.st_ino;
	return shared_mem_map(&b->mem, fd, (size_t)st.st_size, true, F_SEAL_SHRINK);
}

struct buffer *buffer_of_fd(struct engine *e, struct client *c, struct ctl_message *m)
{
	struct buffer *b;
	uint16_t rule;
	int rc;

	for (b = c->buffers; b; b = b->next) {
		if (buffer_is_of_fd(b, m->fds[0]))
			return b;
	}
	b = calloc(1, sizeof(*b));
	rc = b ? map_fd(b, m->fds[0], e->config.memory_max) : -ENOMEM;
	if (rc < 0) {
		free(b);
		refuse_fd(e, c, rc);
		return NULL;
	}
	rule = buffer_adopt(e, c, b); /* asks the fd for its page size */
	b->mem.fd = -1;		/* the message still holds it, and closes it */
	if (!rule)
		return b;
	client_refuse(e, c, rule, b->mem.size);
	shared_mem_destroy(&b->mem);
	free(b);
	return NULL;
}
