/* SPDX-License-Identifier: Apache-2.0 */
/* client_mem.c - the memory a client lets its requests name. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>

#include "ring/client.h"

static int copy_location(char to[64], const char *location)
{
	return client_copy_text(to, 64, location ? location : "*", TENT_RULE_LOCATION);
}

/* The fd is no longer needed once it is mapped. */
static int map_buffer(struct client_mapping *map, struct ctl_message *m, size_t length)
{
	const struct tent_ctl_mem_alloc_reply *r = (const void *)m->bytes;
	int rc = -EINVAL;

	map->buffer_id = r->buffer_id;
	if (r->length >= length && r->length <= SIZE_MAX)
		rc = shared_mem_map(&map->mem, m->fds[0], (size_t)r->length, true, SEALS_SIZE);
	ctl_close_fds(m);
	map->mem.fd = -1;
	return rc ? client_fail_system("the engine's memory was refused", rc) : 0;
}

static int alloc_buffer(struct tent_client *c, size_t length, const char *location,
			struct client_mapping *map)
{
	struct ctl_message m = { .nr_fds = 0 };
	struct tent_ctl_mem_alloc *q = (void *)m.bytes;
	int rc = copy_location(q->location, location), free_rc;

	q->length = length;
	if (rc == 0)
		rc = client_call(c, &m, TENT_CTL_MEM_ALLOC, sizeof(*q),
				 sizeof(struct tent_ctl_mem_alloc_reply), 1);
	if (rc)
		return rc;
	rc = map_buffer(map, &m, length);
	if (rc == 0)
		return 0;
	free_rc = client_call_id(c, TENT_CTL_MEM_FREE, map->buffer_id);
	return free_rc ? free_rc : rc;
}

static void mapping_link(struct tent_client *c, struct client_mapping *map)
{
	pthread_mutex_lock(&c->lock);
	map->next = c->mappings;
	c->mappings = map;
	pthread_mutex_unlock(&c->lock);
}

int tent_client_alloc(struct tent_client *client, size_t length, const char *location,
		      void **addr)
{
	struct client_mapping *map;
	int rc;

	if (!addr)
		return client_fail_null("addr");
	map = calloc(1, sizeof(*map));
	if (!map)
		return client_fail_system("calloc of a mapping", -ENOMEM);
	rc = alloc_buffer(client, length, location, map);
	if (rc) {
		free(map);
		return rc;
	}
	*addr = map->mem.addr;
	mapping_link(client, map);
	return 0;
}

/* Takes the mapping that starts at addr out of the list. */
static struct client_mapping *mapping_take(struct tent_client *c, const void *addr)
{
	struct client_mapping *found = NULL;

	pthread_mutex_lock(&c->lock);
	for (struct client_mapping **p = &c->mappings; *p; p = &(*p)->next) {
		if ((*p)->mem.addr == addr) {
			found = *p;
			*p = found->next;
			break;
		}
	}
	pthread_mutex_unlock(&c->lock);
	return found;
}

/* A lost engine touches nothing any more, so the memory can go then too. */
int tent_client_free(struct tent_client *client, void *addr)
{
	struct client_mapping *map;
	int rc = client_check_process(client);

	if (rc)
		return rc;
	map = mapping_take(client, addr);
	if (!map)
		return client_fail(TENT_RULE_MEM_UNKNOWN, (int64_t)(uintptr_t)addr);
	rc = client_call_id(client, TENT_CTL_MEM_FREE, map->buffer_id);
	if (rc && rc != TENT_ERR_ENGINE_LOST) {
		mapping_link(client, map);
		return rc;
	}
	shared_mem_destroy(&map->mem);
	free(map);
	return 0;
}

/* Memory wholly inside one of our mappings is shared, anything else is private. */
static void name_range(struct tent_client *c, struct tent_ctl_mem_register *q)
{
	pthread_mutex_lock(&c->lock);
	for (struct client_mapping *map = c->mappings; map; map = map->next) {
		uint64_t offset = q->base - (uintptr_t)map->mem.addr;

		if (q->length && offset <= map->mem.size &&
		    q->length <= map->mem.size - offset) {
			q->kind = TENT_MEM_BUFFER;
			q->buffer_id = map->buffer_id;
			q->offset = offset;
			break;
		}
	}
	pthread_mutex_unlock(&c->lock);
}

static int register_call(struct tent_client *c, struct ctl_message *m, const char *location)
{
	struct tent_ctl_mem_register *q = (void *)m->bytes;
	int rc = copy_location(q->location, location);

	if (rc)
		return rc;
	return client_call(c, m, TENT_CTL_MEM_REGISTER, sizeof(*q),
			   sizeof(struct tent_ctl_plain_reply), 0);
}

int tent_client_register(struct tent_client *client, void *addr, size_t length,
			 int permission, const char *location, int internal)
{
	struct ctl_message m = { .nr_fds = 0 };
	struct tent_ctl_mem_register *q = (void *)m.bytes;
	int rc = client_check_process(client);

	if (rc)
		return rc;
	q->base = (uintptr_t)addr;
	q->length = length;
	q->kind = TENT_MEM_PRIVATE;
	q->permission = permission;
	q->internal = internal != 0;
	name_range(client, q);
	return register_call(client, &m, location);
}

int tent_client_register_fd(struct tent_client *client, int memfd, uint64_t offset,
			    void *addr, size_t length, int permission,
			    const char *location)
{
	struct ctl_message m = { .nr_fds = 1, .fds = { memfd } };
	struct tent_ctl_mem_register *q = (void *)m.bytes;

	q->base = (uintptr_t)addr;
	q->length = length;
	q->offset = offset;
	q->kind = TENT_MEM_FD;
	q->permission = permission;
	return register_call(client, &m, location);
}

int tent_client_unregister(struct tent_client *client, void *addr, size_t length)
{
	struct ctl_message m = { .nr_fds = 0 };
	struct tent_ctl_mem_unregister *q = (void *)m.bytes;

	q->base = (uintptr_t)addr;
	q->length = length;
	return client_call(client, &m, TENT_CTL_MEM_UNREGISTER, sizeof(*q),
			   sizeof(struct tent_ctl_plain_reply), 0);
}
