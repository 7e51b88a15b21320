/* SPDX-License-Identifier: Apache-2.0 */
/* directory.c - the control thread's half of the directory. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "engine/client.h"
#include "engine/directory.h"
#include "engine/directory_entry.h"
#include "engine/directory_worker.h"
#include "engine/names.h"
#include "engine/segments.h"

#define PICKED_LETTERS 8	/* of a name that the engine picks for itself */

struct directory {
	const struct server_kind *kind;
	struct worker *worker;
	char own_name[NAME_SIZE];	/* the engine's own segment is published as */
};

/* ---- names of ours ----------------------------------------------------- */

/* What the segment is published as; NULL: not at all. '~' begins what nobody chose. */
static const char *public_name(const struct engine *e, const char *text)
{
	if (!*text)
		return e->directory->own_name;
	return *text == '~' ? NULL : text;
}

void directory_publish(struct engine *e, const char *text)
{
	const char *name = e->directory ? public_name(e, text) : NULL;
	const struct name *owner = name ? name_find(&e->names, text) : NULL;
	char key[KEY_SIZE], value[VALUE_SIZE];

	if (owner && owner->segment && entry_key(name, key) &&
	    entry_write(name, &e->address, text, owner->segment->epoch, value))
		worker_publish(e->directory->worker, key, value);
}

void directory_withdraw(struct engine *e, const char *text)
{
	const char *name = e->directory ? public_name(e, text) : NULL;
	char key[KEY_SIZE];

	if (name && entry_key(name, key))
		worker_withdraw(e->directory->worker, key);
}

/* ---- names of others --------------------------------------------------- */

static void refuse(struct engine *e, struct client *c, const struct lookup_job *job)
{
	if (job->rc == -ENOENT)
		segment_refuse_unknown(e, c, job->text, "the directory does not have it");
	else
		segment_refuse_unknown(e, c, job->text, job->why);
}

static void lookup_back(struct engine *e, struct inbox_item *item)
{
	struct lookup_job *job = (struct lookup_job *)item;
	struct client *c = job->client;

	if (c) {
		c->lookup = NULL;
		c->busy = false;
		if (job->rc)
			refuse(e, c, job);
		else
			segment_open_at(e, c, job->segment);
		if (!c->busy)
			client_idle(e, c);
	}
	free(job);
}

void directory_ask(struct engine *e, struct client *c, const char *text)
{
	struct lookup_job *job = calloc(1, sizeof(*job));

	if (!job) {
		client_refuse(e, c, TENT_RULE_SYSTEM, ENOMEM);
		return;
	}
	job->item.engine = e;
	job->item.arrive = lookup_back;
	job->client = c;
	snprintf(job->text, sizeof(job->text), "%s", text);
	c->lookup = job;
	c->busy = true;
	worker_lookup(e->directory->worker, job);
}

void directory_forget(struct client *c)
{
	if (!c->lookup)
		return;
	c->lookup->client = NULL;
	c->lookup = NULL;
	c->busy = false;
}

/* ---- life -------------------------------------------------------------- */

/* As the existing engine names one that has no name. */
static void pick_name(char name[NAME_SIZE])
{
	unsigned char bytes[PICKED_LETTERS];
	size_t used = (size_t)snprintf(name, NAME_SIZE, "segment_noname_");

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		memset(bytes, 0, sizeof(bytes));
	for (size_t i = 0; i < PICKED_LETTERS; i++)
		name[used++] = (char)('a' + bytes[i] % 26);
	name[used] = '\0';
}

/* Good for the programs of this host, and for tests. */
static void warn_of_loopback(struct engine *e)
{
	char address[ADDRESS_SIZE];

	if (strncmp(e->address.host, "127.", 4) != 0 && strcmp(e->address.host, "::1") != 0)
		return;
	engine_address_print(&e->address, address);
	links_notice(e, "names are published at %s, which leads nowhere from other hosts\n",
		     address);
}

static int open_server(struct engine *e, struct directory *d, char why[WHY_SIZE])
{
	const struct engine_config *c = &e->config;
	const struct server_settings settings = {
		.servers = c->metadata_servers, .redis_db = c->redis_db, .ttl_s = c->metadata_ttl_s,
	};
	struct server *server;

	if (!d->kind->load(why))
		return TENT_ERR_RUNTIME;
	server = d->kind->open(&settings, why);
	if (!server)
		return TENT_ERR_CONFIG;
	if (worker_start(&d->worker, d->kind, server, c->metadata_ttl_s) == 0)
		return 0;
	snprintf(why, WHY_SIZE, "no thread for it");
	return TENT_ERR_RUNTIME;
}

int directory_open(struct engine *e, char *error, size_t size)
{
	const struct engine_config *c = &e->config;
	char why[WHY_SIZE];
	struct directory *d;
	int rc;

	if (c->metadata_type == METADATA_P2P)
		return 0;
	if (e->links.fd < 0) {
		snprintf(error, size, "peers/enable is false; allowed with a metadata_type: true, "
			 "or not set");
		return TENT_ERR_CONFIG;
	}
	d = calloc(1, sizeof(*d));
	if (!d) {
		snprintf(error, size, "no memory for a directory");
		return TENT_ERR_RUNTIME;
	}
	d->kind = c->metadata_type == METADATA_ETCD ? &etcd_kind : &redis_kind;
	if (*c->segment_name)
		memcpy(d->own_name, c->segment_name, sizeof(d->own_name));
	else
		pick_name(d->own_name);
	rc = open_server(e, d, why);
	if (rc == 0) {
		e->directory = d;
		warn_of_loopback(e);
		return 0;
	}
	snprintf(error, size, "metadata_type is %s: %s", d->kind->name, why);
	free(d);
	return rc;
}

void directory_close(struct engine *e)
{
	if (!e->directory)
		return;
	worker_stop(e->directory->worker);
	free(e->directory);
	e->directory = NULL;
}

json_t *directory_json(const struct engine *e)
{
	struct worker_state s = { .published = 0 };

	if (e->directory)
		worker_state_read(e->directory->worker, &s);
	return json_pack("{s:s,s:s,s:i,s:i,s:I,s:I,s:s}",
		"type", e->directory ? e->directory->kind->name : "p2p",
		"servers", e->config.metadata_servers,
		"published", (int)s.published,
		"waiting", (int)s.waiting,
		"lookups", (json_int_t)s.lookups,
		"failures", (json_int_t)s.failures,
		"fault", s.fault);
}
