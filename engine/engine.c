/* SPDX-License-Identifier: Apache-2.0 */
/* engine.c - puts an engine together, takes it apart, and its doors for any thread. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/contracts.h"
#include "engine/peers.h"
#include "engine/thread.h"
#include "engine/wired.h"
#include "ring/sigbus.h"

static int fail(char *error, size_t size, int rc, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

static int fail(char *error, size_t size, int rc, const char *format, ...)
{
	va_list args;

	errno = -rc;	/* %m */
	va_start(args, format);
	vsnprintf(error, size, format, args);
	va_end(args);
	return rc == -EINVAL ? TENT_ERR_CONFIG : TENT_ERR_RUNTIME;
}

/* ---- backends ---------------------------------------------------------- */

static bool is_enabled(const struct engine_config *c, const struct backend *b)
{
	if (strcmp(b->name, "shm") == 0)
		return c->shm_enable;
	if (strcmp(b->name, "file") == 0)
		return c->file_enable;
	if (strcmp(b->name, "tcp") == 0)
		return c->tcp_enable;
	if (strcmp(b->name, "rdma") == 0)
		return c->rdma_enable;
	if (strcmp(b->name, "nvlink") == 0)
		return c->nvlink_enable;
	return strcmp(b->name, "null") != 0 || c->null_enable;
}

static int open_backends(struct engine *e, const struct backend *const *backends, char *error,
			 size_t size)
{
	for (; *backends; backends++) {
		const struct backend *b = *backends;
		const struct backend_options o = {
			.faults = strcmp(b->name, "null") ? "" : e->config.null_faults,
			.stream_bytes = e->config.stream_bytes,
			.file = e->config.file,
			.tcp = e->config.tcp,
			.rdma = e->config.rdma,
			.qp_pools = e->config.contracts.pools,
			.nr_qp_pools = e->config.contracts.nr_pools,
		};
		int rc;

		if (!is_enabled(&e->config, b))
			continue;
		if (e->nr_instances == ENGINE_BACKENDS_MAX)
			return fail(error, size, -EINVAL, "transports: more than %d are enabled",
				    ENGINE_BACKENDS_MAX);
		rc = b->open(&e->instances[e->nr_instances], &o);
		if (rc < 0)
			return fail(error, size, rc, "transports/%s%s: cannot be opened: %m",
				    b->name, *o.faults ? "/faults" : "");
		e->nr_instances++;
	}
	return 0;
}

/* ---- pollers ----------------------------------------------------------- */

/* A core that this process may not use is not worth failing for: tentd warns. */
static int usable_core(int core)
{
	cpu_set_t usable;

	if (core < 0 || core >= CPU_SETSIZE || sched_getaffinity(0, sizeof(usable), &usable) < 0)
		return -1;
	return CPU_ISSET(core, &usable) ? core : -1;
}

static struct poller_options poller_settings(struct engine *e, uint32_t index)
{
	const struct engine_config *c = &e->config;

	e->config.cores[index] = c->caller_mode ? -1 : usable_core(c->cores[index]);
	return (struct poller_options){
		.adaptive = c->adaptive && !c->caller_mode, .threaded = !c->caller_mode,
		.core = c->cores[index], .spin_ns = c->spin_ns, .age_ns = c->age_ns,
		.request_timeout_ns = c->request_timeout_ns, .turn_slots = c->turn_slots,
		.turn_bytes = c->turn_bytes, .metered = c->metered,
		.failover_attempts = c->failover_attempts, .path_errors = c->path_errors,
		.path_window_ns = c->path_window_ns, .path_pause_ns = c->path_pause_ns,
		.path_pause_max_ns = c->path_pause_max_ns,
		.no_priorities = c->no_priorities, .urgent_ns = c->urgent_ns,
		.loose_percent = c->loose_percent, .index = index,
		.answer_fd = e->answer_fd, .event_fd = e->pollers[index].event_fd,
	};
}

static int open_queues(struct engine *e, struct engine_poller *p)
{
	p->wait_fd = -1;
	p->event_fd = poller_event_fd_create();
	if (p->event_fd < 0)
		return p->event_fd;
	for (uint32_t i = 0; i < e->nr_instances; i++) {
		struct backend_instance *inst = e->instances[i];
		int rc = inst->ops->queue_open(inst, p->event_fd, &p->queues[i]);

		if (rc < 0)
			return rc;
		p->nr_queues++;
	}
	return staging_open(&p->staging, p->queues, &p->nr_queues, ENGINE_QUEUES_MAX);
}

/* All queues before the first poller runs: a backend counts them. */
static int open_pollers(struct engine *e, char *error, size_t size)
{
	uint32_t wanted = e->config.caller_mode ? 1 : e->config.nr_pollers;
	int rc = 0;

	e->pollers = calloc(wanted, sizeof(*e->pollers));
	if (!e->pollers)
		return fail(error, size, -ENOMEM, "no memory for %u pollers", wanted);
	for (e->nr_pollers = 0; rc == 0 && e->nr_pollers < wanted; e->nr_pollers++)
		rc = open_queues(e, &e->pollers[e->nr_pollers]);
	for (uint32_t i = 0; rc == 0 && i < wanted; i++) {
		const struct poller_options o = poller_settings(e, i);

		rc = poller_create(&e->pollers[i].poller, &o, e->pollers[i].queues,
				   e->pollers[i].nr_queues);
	}
	return rc < 0 ? fail(error, size, rc, "poller of %u: %m", wanted) : 0;
}

static void close_pollers(struct engine *e)
{
	for (uint32_t i = 0; i < e->nr_pollers; i++)
		poller_destroy(e->pollers[i].poller);
	for (uint32_t i = 0; i < e->nr_pollers; i++) {
		struct engine_poller *p = &e->pollers[i];

		while (p->nr_queues) {
			struct backend_queue *q = p->queues[--p->nr_queues];

			q->ops->queue_close(q);
		}
		staging_close(p->staging);
		if (p->event_fd >= 0)
			close(p->event_fd);
	}
	free(e->pollers);
}

/* Without a control thread yet: whoever has started is told to stop. */
static void stop_pollers(struct engine *e)
{
	for (uint32_t i = 0; i < e->nr_pollers; i++) {
		struct poller_command stop = { .type = POLLER_STOP };
		struct poller *p = e->pollers[i].poller;

		if (!p || e->config.caller_mode)
			continue;
		poller_send(p, &stop);
		while (!load_acquire(&stop.answered))	/* A8, pairs with R8 */
			sched_yield();
	}
}

/* ---- making and freeing ------------------------------------------------ */

static int open_fds(struct engine *e)
{
	e->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	e->answer_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	e->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	e->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return e->wake_fd < 0 || e->answer_fd < 0 || e->epoll_fd < 0 || e->reserve_fd < 0 ?
	       -errno : 0;
}

/* No thread of the engine runs any more. */
static void engine_free(struct engine *e)
{
	directory_close(e);
	peers_close(e);
	contracts_close(e);
	rounds_close(e);
	close_pollers(e);
	for (uint32_t i = 0; i < e->nr_instances; i++)
		e->instances[i]->ops->close(e->instances[i]);
	while (e->listeners) {
		struct listener *next = e->listeners->next;

		listener_close(e->listeners);
		e->listeners = next;
	}
	links_close(e);
	names_close(&e->names);
	tenants_close(&e->tenants);
	if (e->guards)
		sigbus_uninstall();
	fd_close(&e->wake_fd);
	fd_close(&e->answer_fd);
	fd_close(&e->epoll_fd);
	fd_close(&e->reserve_fd);
	pthread_mutex_destroy(&e->inbox_lock);
	free(e);
}

static uint64_t random_epoch(void)
{
	uint64_t epoch = 0;

	if (getrandom(&epoch, sizeof(epoch), 0) != sizeof(epoch) || !epoch)
		epoch = clock_monotonic_ns() ^ (uint64_t)getpid() << 40;
	return epoch ? epoch : 1;
}

static struct engine *engine_alloc(const struct engine_config *config)
{
	struct engine *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->config = *config;
	host_read(config->host, strlen(config->host), &e->address);	/* config has judged it */
	e->address.port = config->port;
	e->pid = getpid();
	e->uid = geteuid();
	e->epoch = random_epoch();
	e->started_ns = clock_monotonic_ns();
	e->wake_fd = e->answer_fd = e->epoll_fd = e->reserve_fd = e->links.source.fd = -1;
	e->links.fd = e->links.owner_fd = e->links.wired_source.fd = -1;
	notices_start(e);
	e->driver[0].fd = e->driver[1].fd = -1;
	pthread_mutex_init(&e->inbox_lock, NULL);
	tick_clock_calibrate(&e->clock);
	return e;
}

/* Everything but the thread. */
static int engine_open(struct engine *e, const struct backend *const *backends, char *error,
		       size_t size)
{
	int rc = open_fds(e);

	if (rc < 0)
		return fail(error, size, rc, "descriptors of the engine: %m");
	e->guards = e->config.contain_sigbus;
	rc = e->guards ? sigbus_install() : 0;
	if (rc < 0) {
		e->guards = false;
		return fail(error, size, rc, "SIGBUS cannot be taken over: %m");
	}
	tenants_open(&e->tenants, e->guards, e->config.far_max, e->config.far_buffers_max);
	rc = links_open(e, error, size);
	if (rc == 0)
		rc = directory_open(e, error, size);
	if (rc == 0)
		rc = open_backends(e, backends, error, size);
	if (rc == 0)
		rc = open_pollers(e, error, size);
	if (rc == 0)
		rc = links_open_data(e, error, size);
	if (rc == 0)
		rc = wired_open(e, error, size);
	if (rc == 0 && (rounds_open(e) < 0 || peers_open(e) < 0 || contracts_open(e) < 0))
		rc = fail(error, size, -ENOMEM, "no memory for orders to pollers");
	return rc;
}

static int start_control(struct engine *e)
{
	int rc = thread_start(&e->thread, NULL, control_main, e);

	if (rc == 0)
		pthread_setname_np(e->thread, "tent-control");
	return rc;
}

int engine_create(struct engine **out, const struct engine_config *config,
		  const struct backend *const *backends, char *error, size_t error_size)
{
	struct engine *e = engine_alloc(config);
	int rc;

	if (!e)
		return fail(error, error_size, -ENOMEM, "no memory for an engine");
	rc = engine_open(e, backends, error, error_size);
	if (rc == 0) {
		rc = control_open(e);
		if (rc == 0)
			rc = start_control(e);
		if (rc < 0)
			rc = fail(error, error_size, rc, "control thread: %m");
	}
	if (rc == 0) {
		*out = e;
		return 0;
	}
	stop_pollers(e);
	engine_free(e);
	return rc;
}

/* A forked child has none of the threads, and must not touch what they still use. */
static bool is_ours(const struct engine *e)
{
	return e->pid == getpid();
}

void engine_destroy(struct engine *e)
{
	if (!e || !is_ours(e))
		return;
	pthread_mutex_lock(&e->inbox_lock);
	e->stop_asked = true;
	pthread_mutex_unlock(&e->inbox_lock);
	control_post(e, NULL);
	pthread_join(e->thread, NULL);
	directory_close(e);
	control_collect(e);	/* what came too late, to be let go */
	engine_free(e);
}

/* ---- doors ------------------------------------------------------------- */

const char *engine_notices(const struct engine *e)
{
	return e->links.notices;
}

struct local_socket {
	struct inbox_item item;	/* first */
	int fd;
};

static void local_arrives(struct engine *e, struct inbox_item *item)
{
	struct local_socket *s = (struct local_socket *)item;

	if (e->stopping)
		close(s->fd);
	else
		client_adopt(e, s->fd, true);
	free(s);
}

int engine_attach_local(struct engine *e)
{
	struct local_socket *s;
	int fds[2];

	if (!is_ours(e))
		return -ESRCH;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return -errno;
	s = calloc(1, sizeof(*s));
	if (!s) {
		close(fds[0]);
		close(fds[1]);
		return -ENOMEM;
	}
	s->item.arrive = local_arrives;
	s->fd = fds[1];
	control_post(e, &s->item);
	return fds[0];
}

int engine_listen(struct engine *e, const char *path)
{
	struct listener *l;
	int rc;

	if (!is_ours(e))
		return -ESRCH;
	rc = listener_open(path, &l);
	if (rc == 0)
		control_post(e, &l->item);
	return rc;
}

bool engine_drive(struct engine *e)
{
	uint32_t idle = 0;
	bool did;

	if (!e->config.caller_mode || !compare_exchange(&e->driving, &idle, 1u)) /* A14 */
		return false;	/* whoever has the poller drives it for us */
	did = poller_turn(e->pollers[0].poller);
	store_release(&e->driving, 0u); /* R14 */
	return did;
}
