/* SPDX-License-Identifier: Apache-2.0 */
/* errand.c - receiving, opening and closing descriptors that may block. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/client.h"
#include "engine/errand.h"
#include "engine/thread.h"

#define STRAYS_MAX 256u

/* errand.life, R12/A12. Whoever exchanges it second knows what the first one did. */
enum { LIFE_OUT = 0, LIFE_BACK = 1, LIFE_ABANDONED = 2 };

/* Descriptors to be closed, and threads that nobody counts elsewhere. All threads may be
 * stuck: then the rest waits for one of them, and nobody for the rest. */
static struct {
	pthread_mutex_t lock;
	struct stray {
		struct stray *next;
		int fd;
	} *first;
	uint32_t nr_threads;
} strays = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Without room for descriptors the kernel says that there are some, and keeps them. A
 * reset is told once, before what is still in the queue. */
enum errand_peek errand_peek(int sock)
{
	uint8_t byte;
	struct iovec v = { &byte, sizeof(byte) };
	struct msghdr h;
	ssize_t n;

	do {
		h = (struct msghdr){ .msg_iov = &v, .msg_iovlen = 1 };
		n = recvmsg(sock, &h, MSG_PEEK | MSG_DONTWAIT);
	} while (n < 0 && (errno == ECONNRESET || errno == EINTR));
	if (n < 0)
		return errno == EAGAIN ? PEEK_NOTHING : PEEK_END;
	if (h.msg_flags & MSG_CTRUNC)
		return PEEK_LOADED;
	return n ? PEEK_PLAIN : PEEK_END;
}

bool errand_seal(int sock)
{
	shutdown(sock, SHUT_RD);
	return errand_peek(sock) < PEEK_PLAIN;
}

/* A file's descriptors become our own, or it is refused. */
static void judge_file(struct errand *errand)
{
	const struct ctl_message *m = &errand->message;

	if (m->head.type == TENT_CTL_SEGMENT_OPEN && m->nr_fds == 1)
		file_offer_judge(&errand->offer, m->fds[0], &errand->terms);
}

/* Everything else a client may send is a memfd; those can be closed anywhere. */
static void drop_others(struct ctl_message *m)
{
	for (int i = 0; i < m->nr_fds; i++) {
		if (fcntl(m->fds[i], F_GET_SEALS) >= 0)
			continue;
		close(m->fds[i]);
		m->fds[i] = -1;
	}
}

static void *errand_main(void *arg)
{
	struct errand *errand = arg;
	struct engine *e = errand->item.engine;

	if (errand->kind == ERRAND_RECEIVE)
		errand->rc = ctl_recv(errand->sock, &errand->message, MSG_DONTWAIT);
	else if (errand->kind == ERRAND_IDENTIFY)
		errand->rc = peer_open(errand->sock, &errand->peer);
	else if (errand->kind == ERRAND_SHED)
		ctl_close_fds(&errand->message);
	if (errand->kind == ERRAND_RECEIVE && errand->rc == 0) {
		judge_file(errand);
		drop_others(&errand->message);
	}
	fd_close(&errand->sock);
	/* BACK: the engine waits for the item. R12/A12, pairs with errand_abandon(). */
	if (exchange(&errand->life, (uint32_t)LIFE_BACK) == LIFE_OUT) {
		control_post(e, &errand->item);
	} else {
		peer_close(&errand->peer);
		file_offer_close(&errand->offer);
		ctl_close_fds(&errand->message);
		free(errand);
	}
	return NULL;
}

/* What the engine did not take out of its message goes the way it came. False: nothing
 * is left, or there is no thread. */
static bool shed(struct errand *errand)
{
	pthread_t thread;

	if (!errand->message.nr_fds)
		return false;
	errand->kind = ERRAND_SHED;
	store_relaxed(&errand->life, (uint32_t)LIFE_OUT);	/* its thread comes next */
	return thread_start_small(&thread, true, errand_main, errand) == 0;
}

/* The client's until its message is served, so that it is not gone by then. */
static void errand_back(struct engine *e, struct inbox_item *item)
{
	struct errand *errand = (struct errand *)item;
	struct client *c = errand->client;

	if (errand->kind == ERRAND_RECEIVE) {
		c->offer = &errand->offer;
		client_received(e, c, errand->rc, &errand->message);
		c->offer = NULL;
		file_offer_stray(&errand->offer);
		if (shed(errand))
			return;
	} else if (errand->kind == ERRAND_IDENTIFY) {
		client_identified(e, c, errand);
	}
	if (errand->kind == ERRAND_CLOSE)
		client_closed(e, c);
	else
		client_go_on(e, c);
	ctl_close_fds(&errand->message);
	free(errand);
}

static int errand_send(struct engine *e, struct client *c, int sock, enum errand_kind kind,
		       const struct ctl_message *hello)
{
	struct errand *errand = sock < 0 ? NULL : calloc(1, sizeof(*errand));
	pthread_t thread;
	int rc;

	if (!errand)
		return -ENOMEM;
	errand->item.engine = e;
	errand->item.arrive = errand_back;
	errand->client = c;
	errand->sock = sock;
	errand->kind = kind;
	errand->peer = c->peer;
	errand->peer.pidfd = errand->peer.mem_fd = -1;
	if (hello)
		errand->message = *hello;
	errand->terms = file_terms_of(e, c);
	errand->offer.file.fd = errand->offer.file.direct_fd = -1;
	rc = thread_start_small(&thread, true, errand_main, errand);
	if (rc < 0)
		free(errand);
	else
		c->errand = errand;
	return rc;
}

/* With a duplicate of the client's socket, which stays open meanwhile. */
static int send_duplicate(struct engine *e, struct client *c, enum errand_kind kind,
			  const struct ctl_message *hello)
{
	int sock = fcntl(c->sock, F_DUPFD_CLOEXEC, 0);
	int rc = errand_send(e, c, sock, kind, hello);

	if (rc < 0 && sock >= 0)
		close(sock);	/* not the last one */
	return rc;
}

int errand_receive(struct engine *e, struct client *c)
{
	return send_duplicate(e, c, ERRAND_RECEIVE, NULL);
}

int errand_identify(struct engine *e, struct client *c, const struct ctl_message *hello)
{
	return send_duplicate(e, c, ERRAND_IDENTIFY, hello);
}

int errand_close(struct engine *e, struct client *c)
{
	return errand_send(e, c, c->sock, ERRAND_CLOSE, NULL);
}

bool errand_abandon(struct errand *errand)
{
	/* R12/A12, pairs with errand_main(). */
	return exchange(&errand->life, (uint32_t)LIFE_ABANDONED) == LIFE_OUT;
}

static struct stray *stray_next(void)
{
	struct stray *s;

	pthread_mutex_lock(&strays.lock);
	s = strays.first;
	if (s)
		strays.first = s->next;
	else
		strays.nr_threads--;
	pthread_mutex_unlock(&strays.lock);
	return s;
}

static void *stray_main(void *arg)
{
	struct stray *s;

	(void)arg;
	while ((s = stray_next())) {
		close(s->fd);
		free(s);
	}
	return NULL;
}

void errand_close_stray(int fd)
{
	struct stray *s = malloc(sizeof(*s));
	pthread_t thread;
	bool start;

	if (!s) {
		close(fd);
		return;
	}
	s->fd = fd;
	pthread_mutex_lock(&strays.lock);
	s->next = strays.first;
	strays.first = s;
	start = strays.nr_threads < STRAYS_MAX;
	strays.nr_threads += start;
	pthread_mutex_unlock(&strays.lock);
	if (start && thread_start_small(&thread, true, stray_main, NULL) < 0)
		stray_main(NULL);
}
