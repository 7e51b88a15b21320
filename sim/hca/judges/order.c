/* SPDX-License-Identifier: Apache-2.0 */
/*
 * order.c - the connection manager's packets go another way than those of queue pairs, but
 * overtake none: what was sent before a connection ended is complete when its end is heard
 * of, however late the device's own thread is. order TENT_SIM; ends with 0 and "order: ok",
 * or says which line failed.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

#include "sim/hca/judges/loop.h"

enum { MESSAGE_BYTES = 64 };

struct end {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
};

/* ---- two ends of a connection ------------------------------------------------------------ */

static struct rdma_cm_id *expect(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	CHECK(!rdma_get_cm_event(channel, &event));
	CHECK(event->event == type);
	id = event->id;
	CHECK(!rdma_ack_cm_event(event));
	return id;
}

static void make_queues(struct end *e)
{
	struct ibv_qp_init_attr init = { .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1 };

	CHECK(e->pd = ibv_alloc_pd(e->id->verbs));
	CHECK(e->mr = ibv_reg_mr(e->pd, loop_memory, sizeof(loop_memory), LOOP_ACCESS));
	CHECK(e->cq = ibv_create_cq(e->id->verbs, 16, NULL, NULL, 0));
	init.send_cq = init.recv_cq = e->cq;
	CHECK(!rdma_create_qp(e->id, e->pd, &init));
}

static void post_receive(struct end *e)
{
	struct ibv_sge s = { (uintptr_t)loop_memory, MESSAGE_BYTES, e->mr->lkey };
	struct ibv_recv_wr w = { .sg_list = &s, .num_sge = 1 }, *bad;

	CHECK(!ibv_post_recv(e->id->qp, &w, &bad));
}

static void connect_ends(struct end *to, struct end *from)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(7471),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct rdma_conn_param p = { .retry_count = 7, .rnr_retry_count = 7 };
	struct rdma_cm_id *listener;

	CHECK(to->channel = rdma_create_event_channel());
	CHECK(from->channel = rdma_create_event_channel());
	CHECK(!rdma_create_id(to->channel, &listener, NULL, RDMA_PS_TCP));
	CHECK(!rdma_bind_addr(listener, (struct sockaddr *)&a) && !rdma_listen(listener, 1));
	CHECK(!rdma_create_id(from->channel, &from->id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addr(from->id, NULL, (struct sockaddr *)&a, 5000));
	expect(from->channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!rdma_resolve_route(from->id, 5000));
	expect(from->channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	make_queues(from);
	CHECK(!rdma_connect(from->id, &p));
	to->id = expect(to->channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	make_queues(to);
	post_receive(to);
	CHECK(!rdma_accept(to->id, &p));
	expect(from->channel, RDMA_CM_EVENT_ESTABLISHED);
	expect(to->channel, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(!rdma_destroy_id(listener));
}

static void drop(struct end *e)
{
	rdma_destroy_qp(e->id);
	CHECK(!ibv_destroy_cq(e->cq) && !ibv_dereg_mr(e->mr) && !ibv_dealloc_pd(e->pd));
	CHECK(!rdma_destroy_id(e->id));
	rdma_destroy_event_channel(e->channel);
}

static void send_message(struct end *from)
{
	struct ibv_sge s = { (uintptr_t)loop_memory + LOOP_HALF, MESSAGE_BYTES, from->mr->lkey };
	struct ibv_send_wr w = { .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;

	CHECK(!ibv_post_send(from->id->qp, &w, &bad));
}

/* What is complete is complete now, and well. */
static bool is_complete(struct end *e)
{
	struct ibv_wc wc;

	return ibv_poll_cq(e->cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS;
}

/* ---- a device's thread that gets no core --------------------------------------------------- */

static void read_task(int task, const char *name, char *text, size_t room)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/%s", task, name);
	CHECK((fd = open(path, O_RDONLY)) >= 0);
	CHECK((n = read(fd, text, room - 1)) >= 0);
	text[n] = 0;
	close(fd);
}

static int device_thread(void)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *d;
	char name[32];
	int found = 0;

	CHECK(tasks);
	while (!found && (d = readdir(tasks))) {
		if (d->d_name[0] == '.')
			continue;
		read_task(atoi(d->d_name), "comm", name, sizeof(name));
		if (!strcmp(name, "tent-hca\n"))
			found = atoi(d->d_name);
	}
	closedir(tasks);
	CHECK(found);
	return found;
}

/* Where it waits it holds no lock. */
static bool waits(int task)
{
	char call[128];

	read_task(task, "syscall", call, sizeof(call));
	return atoi(call) == SYS_ppoll;
}

/* A child holds the thread as a debugger does, until its parent says so or has gone. */
static void hold_until_told(int task, int ready, int done)
{
	char byte;

	CHECK(!ptrace(PTRACE_SEIZE, task, NULL, NULL));
	CHECK(!ptrace(PTRACE_INTERRUPT, task, NULL, NULL));
	CHECK(waitpid(task, NULL, __WALL) == task);
	CHECK(write(ready, "", 1) == 1);
	CHECK(read(done, &byte, 1) == 0);
	_exit(0);
}

struct holding {
	pid_t child;
	int done;
};

static struct holding hold(int task)
{
	int ready[2], done[2];
	pid_t child;
	char byte;

	CHECK(!pipe(ready) && !pipe(done));
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	child = fork();
	if (!child) {
		close(done[1]);
		hold_until_told(task, ready[1], done[0]);
	}
	close(ready[1]);
	close(done[0]);
	CHECK(read(ready[0], &byte, 1) == 1);
	close(ready[0]);
	return (struct holding){ child, done[1] };
}

static void let_go(struct holding h)
{
	int status;

	close(h.done);
	CHECK(waitpid(h.child, &status, 0) == h.child && !status);
}

static struct holding hold_while_it_waits(void)
{
	int task = device_thread();
	struct holding h = hold(task);

	while (!waits(task)) {
		let_go(h);
		h = hold(task);
	}
	return h;
}

static void set_latency(const char *tent_sim, const char *latency)
{
	char command[512];

	snprintf(command, sizeof(command), "'%s' ctl 0 set latency=%s", tent_sim, latency);
	CHECK(!system(command));
}

/* ---- what is judged -------------------------------------------------------------------- */

static void message_is_there_before_the_end_is_heard_of(void)
{
	struct end to, from;
	struct holding h;

	connect_ends(&to, &from);
	h = hold_while_it_waits();
	send_message(&from);
	CHECK(!rdma_disconnect(from.id));
	expect(to.channel, RDMA_CM_EVENT_DISCONNECTED);
	CHECK(is_complete(&to));
	let_go(h);
	drop(&from);
	drop(&to);
}

/* The acknowledgement is still on a slow link when its sender disconnects. */
static void acknowledgement_is_there_before_the_end_is_heard_of(const char *tent_sim)
{
	struct end to, from;
	struct holding h;

	connect_ends(&to, &from);
	set_latency(tent_sim, "20ms");
	send_message(&from);
	while (!is_complete(&to))
		;
	h = hold_while_it_waits();
	CHECK(!rdma_disconnect(to.id));
	expect(from.channel, RDMA_CM_EVENT_DISCONNECTED);
	CHECK(is_complete(&from));
	let_go(h);
	set_latency(tent_sim, "0");
	drop(&from);
	drop(&to);
}

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	message_is_there_before_the_end_is_heard_of();
	acknowledgement_is_there_before_the_end_is_heard_of(argv[1]);
	puts("order: ok");
	return 0;
}
