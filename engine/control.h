/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.h - the engine as its control thread sees it. Whatever may block, and
 * whatever is rare, happens on that one thread; unless a comment says otherwise a
 * function of engine/ runs there, and what it touches belongs to that thread. Not so the
 * data path - intake*, intent*, judge.h, plan, poller*, sched, complete, indirect,
 * ring_end, region_hints -, which is the pollers', and config*, which is anybody's.
 */
#ifndef TENT_ENGINE_CONTROL_H
#define TENT_ENGINE_CONTROL_H

#include <pthread.h>
#include <sys/types.h>

#include "engine/control_source.h"
#include "engine/directory.h"
#include "engine/engine.h"
#include "engine/links.h"
#include "engine/notices.h"
#include "engine/poller.h"
#include "engine/round.h"
#include "engine/segment_name.h"
#include "engine/staging.h"
#include "engine/tenants.h"
#include "ring/clock.h"

#define ENGINE_BACKENDS_MAX 8
#define ENGINE_QUEUES_MAX (ENGINE_BACKENDS_MAX + STAGING_QUEUES_MAX) /* of a poller */

struct client;
struct contract_set;
struct peers;

/* What another thread hands to the control thread, where arrive() takes it. After the
 * last turn of the loop it gets the item with stopping set. */
struct inbox_item {
	struct inbox_item *next;
	void (*arrive)(struct engine *e, struct inbox_item *item);
	struct engine *engine;
};

struct listener {
	struct event_source source;
	struct inbox_item item;		/* its way to the control thread */
	struct listener *next;
	int fd;
	bool paused;		/* out of descriptors: looked at again a little later */
	char path[SOCKET_PATH_SIZE];
	dev_t dev;		/* of the socket file we made */
	ino_t ino;
};

struct engine_poller {
	struct poller *poller;
	int event_fd;
	int wait_fd;			/* a backend's, that ends its sleep too; or -1 */
	uint32_t nr_queues;
	uint32_t nr_rings;		/* control thread's */
	struct backend_queue *queues[ENGINE_QUEUES_MAX];
	struct staging *staging;		/* or NULL */
};

struct engine {
	/* constant while it runs */
	struct engine_config config;
	uint64_t epoch;			/* random, never 0 */
	struct engine_address address;	/* what segments of it are called */
	uint64_t started_ns;		/* CLOCK_MONOTONIC */
	pid_t pid;
	uint32_t uid;
	uint32_t nr_pollers;
	struct engine_poller *pollers;
	uint32_t nr_instances;
	struct backend_instance *instances[ENGINE_BACKENDS_MAX];
	bool guards;			/* SIGBUS is ours: mappings are guarded */
	pthread_t thread;
	int wake_fd;			/* eventfd: look into the inbox */
	int answer_fd;			/* eventfd: a poller answered */
	int epoll_fd;

	uint32_t driving;		/* R14/A14; caller mode: who has it runs a turn */

	pthread_mutex_t inbox_lock;	/* any thread: the next two */
	struct inbox_item *inbox;
	bool stop_asked;

	/* the control thread's */
	struct event_source wake, answer;
	struct event_source driver[2];	/* caller mode: the poller may have work of peers */
	bool drive_again;		/* look at it again soon */
	uint64_t turns_seen;		/* of the poller; more: the caller drives it */
	struct listener *listeners;
	struct tick_clock clock;
	struct client *clients;		/* attached, newest first */
	struct client *dead;		/* to be freed after this round of events */
	uint32_t nr_clients;		/* attached and not refused */
	uint32_t nr_refused;		/* kept only to be told why */
	uint32_t nr_lingering;		/* over, with descriptors on their way to them */
	uint32_t nr_resting;		/* whose tenant owes time */
	uint32_t last_client_id;
	uint64_t last_segment;		/* how many segments there ever were */
	uint64_t clients_ended;		/* over the engine's life */
	int reserve_fd;			/* given up to answer a connection at EMFILE */
	struct rounds rounds;
	struct names names;
	struct tenants tenants;
	struct links links;
	struct peers *peers;
	uint32_t card_ways_said;	/* a bit for each enum card_way, see engine/device.c */
	struct notices notices;
	struct directory *directory;	/* NULL: p2p */
	struct contract_set *contracts;	/* NULL: none */
	struct bounds_account *accounts; /* of tenants that ever had bounds */
	struct {
		void (*ask)(void *context); /* NULL: nobody reads anew; constant */
		void *context;
		uint64_t asked;		/* how often */
	} reloads;
	bool stopping, stop_sent, finished;
};

/* Before the thread starts. 0 or -errno. */
int control_open(struct engine *e);
/* Thread body. Returns when the engine was told to stop and everything has ended. */
void *control_main(void *engine);

/* Any thread. Queues an item, or with NULL just wakes the control thread. */
void control_post(struct engine *e, struct inbox_item *item);
/* Takes what was queued; also once the thread is gone. True: a stop was asked for. */
bool control_collect(struct engine *e);

/* accept.c: accepts nothing more; the socket stays. */
void listener_stop(struct engine *e, struct listener *l);
/* It was paused: tries again. */
void listener_resume(struct engine *e, struct listener *l);
/* Any thread: makes the listening socket, in place of a stale one; l->item is ready to
 * be posted. 0 or -errno. */
int listener_open(const char *path, struct listener **l);
/* Any thread: removes the file if it is still ours, closes, frees. */
void listener_close(struct listener *l);

#endif /* TENT_ENGINE_CONTROL_H */
