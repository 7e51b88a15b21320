/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sites.c - where the server, its store and their engines are: in one process, around one
 * tentd, or on two hosts with a tentd each, which prove to each other that they know a
 * secret.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <tent/ctl.h>
#include <tent/tentring.h>
#include <unistd.h>

#include "perf/common/machine.h"
#include "perf/replay/replay.h"

/* The settings of an engine that we start, as members of a JSON object. */
static void engine_json(const struct options *o, int core, char *json, size_t size)
{
	char cores[32] = "";

	if (core >= 0)
		snprintf(cores, sizeof(cores), ", \"cores\": [%d]", core);
	snprintf(json, size, "\"engine\": { " DAEMON_PATIENT
		 ", \"idle\": \"%s\", \"priorities\": %s%s }",
		 o->idle ? "adaptive" : "busy", o->no_priorities ? "false" : "true", cores);
}

/* In-process engines read the same JSON from the environment. */
static int configure_in_process(const struct options *o)
{
	char members[256], json[320];

	engine_json(o, o->engine_core, members, sizeof(members));
	snprintf(json, sizeof(json), "{ %s, \"peers\": { \"enable\": false } }", members);
	setenv("TENT_ENGINE", o->mode == MODE_CALLER ? "caller" : "thread", 1);
	return setenv("MC_TENT_CONF", json, 1);
}

/* ---- the server, and its way to the store ------------------------------ */

int sites_find_pool(struct server *s, const char *segment)
{
	tent_segment_info_t info = { 0 };

	s->pool_base = 0;
	if (tent_open_segment(s->engine, &s->target, segment))
		return complain("tent_open_segment");
	if (tent_get_segment_info(s->engine, s->target, &info))
		return complain("tent_get_segment_info");
	for (int i = 0; i < info.num_buffers; i++)
		if (info.buffers[i].length >= store_size(s->o))
			s->pool_base = info.buffers[i].base;
	tent_free_segment_info(&info);
	if (s->pool_base)
		return 0;
	fprintf(stderr, "%s: the store's segment has no buffer of the pool's size\n", segment);
	return -1;
}

int sites_attach(struct server *s, const char *url, const char *segment)
{
	setenv("TENT_ENGINE", url, 1);
	s->engine = tent_create_engine();
	if (!tent_available(s->engine))
		return complain("tent_create_engine");
	return sites_find_pool(s, segment);
}

/* The server of a store in another process. */
static int serve_remote(struct server *s, const char *url, const char *segment)
{
	int rc = sites_attach(s, url, segment);

	machine_pin(s->o->server_core);
	if (rc == 0)
		rc = server_run(s);
	tent_destroy_engine(s->engine);
	return rc;
}

/* The server that is its own store: in-process engines have no others to talk
 * to, so that the pool lies in the server's own segment. */
static int serve_local(struct server *s)
{
	void *pool;
	int rc = -1;

	configure_in_process(s->o);
	s->engine = tent_create_engine();
	if (!tent_available(s->engine))
		return complain("tent_create_engine");
	pool = store_open_pool(s->engine, s->o);
	s->target = TENT_LOCAL_SEGMENT;
	s->pool_base = (uint64_t)(uintptr_t)pool;
	machine_pin(s->o->server_core);
	if (pool)
		rc = server_run(s);
	tent_destroy_engine(s->engine);
	return rc;
}

static int end_daemon(struct daemon *d)
{
	if (!daemon_stop(d))
		return 0;
	fprintf(stderr, "tentd did not end cleanly\n");
	return -1;
}

static int serve_daemon(struct server *s)
{
	struct daemon daemon = { 0 };
	const char *url = s->o->engine;
	struct process store;
	char config[256];
	int rc = -1;

	engine_json(s->o, s->o->engine_core, config, sizeof(config));
	if (!url && daemon_start(&daemon, config))
		return -1;
	if (!url)
		url = daemon.url;
	if (store_start(&store, s->o, url, NULL) == 0) {
		rc = serve_remote(s, url, store.said);
		rc |= process_stop(&store);
	}
	return end_daemon(&daemon) | rc;
}

/* ---- two hosts --------------------------------------------------------- */

/* 32 random bytes that both engines know, in a file that nobody else can read. */
static int write_secret(struct sites *t)
{
	const char *tmp = getenv("TMPDIR");
	uint8_t bytes[32];
	FILE *f;
	int fd;

	snprintf(t->secret, sizeof(t->secret), "%s/tent-perf-XXXXXX", tmp ? tmp : "/tmp");
	fd = mkostemp(t->secret, O_CLOEXEC);
	f = fd < 0 ? NULL : fdopen(fd, "w");
	if (!f || getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes)) {
		perror(t->secret);
		return -1;
	}
	for (size_t i = 0; i < sizeof(bytes); i++)
		fprintf(f, "%02x", bytes[i]);
	fputc('\n', f);
	return fclose(f);
}

/* By RDMA alone, or it would be hidden that another transport had to help. */
static void transports_json(const struct options *o, char *json, size_t size)
{
	*json = '\0';
	if (o->transport == OVER_RDMA)
		snprintf(json, size, ", \"transports\": { \"tcp\": { \"enable\": false }, "
			 "\"rdma\": { \"enable\": true, \"devices\": \"%s\" } }",
			 o->device ? o->device : "");
}

/* A card's timers, and a peer's where nobody is killed, are too short for a machine that
 * others use. */
int sites_start_engine(struct sites *t, const struct options *o, int host)
{
	/* Without GSO the cable carries packets as others do. */
	static const char *const software[] = { "--fault", "timeouts=400%", "--no-gso", NULL };
	const char *sim[] = { software[0], software[1], o->capture ? software[2] : NULL, NULL };
	char members[256], config[1024], transports[384];
	int rc;

	transports_json(o, transports, sizeof(transports));
	engine_json(o, host == HOST_SERVER ? o->engine_core : -1, members, sizeof(members));
	snprintf(config, sizeof(config), "%s, \"rpc_server_hostname\": \"%s\", \"peers\": { "
		 "\"enable\": true, \"secret_file\": \"%s\"%s }, \"metrics\": { \"enabled\": "
		 "false }%s", members, t->net.address[host], t->secret,
		 o->kills ? "" : ", \"keepalive_ms\": 60000", transports);
	two_hosts_enter(&t->net, host);
	rc = daemon_start_on(&t->daemons[host], config, options_simulate(o) ? sim : NULL);
	two_hosts_enter(&t->net, -1);
	return rc;
}

/* What its transport has moved. */
static int ask_engine(struct sites *t, const struct options *o, int host)
{
	const char *name = o->transport == OVER_RDMA ? "rdma" : "tcp";
	struct tent_client *c = NULL;
	char *text = NULL;
	json_t *json = NULL;
	const char *facts = NULL;

	if (tent_client_observe(t->daemons[host].socket, &c) == 0 &&
	    tent_client_query(c, TENT_QUERY_STATS, &text) == 0) {
		json = json_loads(text, 0, NULL);
		facts = json_string_value(json_object_get(
			json_object_get(json, "transport_facts"), name));
	}
	if (facts)
		snprintf(t->facts[host], sizeof(t->facts[host]), "%s", facts);
	else
		fprintf(stderr, "the engine does not say what it moved by %s\n", name);
	json_decref(json);
	free(text);
	tent_client_detach(c);
	return facts ? 0 : -1;
}

static int start_capture(const struct server *s, struct sites *t)
{
	if (!*t->net.why)
		return capture_start(&t->capture, &t->net, s->o->capture);
	fprintf(stderr, "--capture needs two hosts: %s\n", t->net.why);
	return -1;
}

static int serve_between(struct server *s, struct sites *t)
{
	int rc = -1;

	if (s->o->capture && start_capture(s, t))
		return -1;
	for (int host = 0; host < 2; host++)
		if (sites_start_engine(t, s->o, host))
			return -1;
	if (kills_open(s))
		return -1;
	if (store_start(&t->store, s->o, t->daemons[HOST_STORE].url, s->kills.shared) == 0) {
		snprintf(t->segment, sizeof(t->segment), "%s", t->store.said);
		rc = serve_remote(s, t->daemons[HOST_SERVER].url, t->segment);
		for (int host = 0; host < 2 && rc == 0; host++)
			rc = ask_engine(t, s->o, host);
		rc |= process_stop(&t->store);
	}
	return rc;
}

static int serve_hosts(struct server *s)
{
	struct sites *t = s->sites;
	int rc = write_secret(t);

	if (rc == 0)
		rc = serve_between(s, t);
	for (int host = 0; host < 2; host++)
		rc |= end_daemon(&t->daemons[host]);
	rc |= capture_stop(&t->capture);
	unlink(t->secret);
	return rc;
}

int sites_run(struct server *s)
{
	if (s->o->transport != OVER_SHM)
		return serve_hosts(s);
	return s->o->mode == MODE_DAEMON ? serve_daemon(s) : serve_local(s);
}
