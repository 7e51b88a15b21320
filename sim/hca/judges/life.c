/* SPDX-License-Identifier: Apache-2.0 */
/*
 * life.c - a program that forks, execs, dups, is killed and waits for events, on a device
 * that it shares with its children, whose threads are cancelled, and that takes registered
 * pages away. Ends with 0 and "life: ok", or says which line failed.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#define CHECK(truth)							\
	do {								\
		if (!(truth)) {						\
			printf("life: line %d: not so: %s (%m)\n", __LINE__, #truth); \
			exit(1);					\
		}							\
	} while (0)

enum { TARGET = 4096, ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE };

/* A queue pair connected to itself. */
struct loop {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

static char memory[2 * TARGET];

static struct ibv_context *open_first(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context;

	CHECK(list && list[0]);
	context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	CHECK(context);
	return context;
}

static void connect_to_itself(struct loop *l)
{
	struct ibv_port_attr port;
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1,
				 .qp_access_flags = ACCESS };

	CHECK(!ibv_modify_qp(l->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			     IBV_QP_ACCESS_FLAGS));
	CHECK(!ibv_query_port(l->context, 1, &port));
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024,
		.dest_qp_num = l->qp->qp_num, .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = 1, .dlid = port.lid,
			     .grh.hop_limit = 64 } };
	CHECK(!ibv_query_gid(l->context, 1, 0, &a.ah_attr.grh.dgid));
	CHECK(!ibv_modify_qp(l->qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			     IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			     IBV_QP_MIN_RNR_TIMER));
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7,
				  .rnr_retry = 7, .max_rd_atomic = 1 };
	CHECK(!ibv_modify_qp(l->qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			     IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

static void make(struct loop *l)
{
	struct ibv_qp_init_attr init = { .cap = { 16, 16, 1, 1, 0 }, .qp_type = IBV_QPT_RC };

	l->context = open_first();
	CHECK(l->pd = ibv_alloc_pd(l->context));
	CHECK(l->mr = ibv_reg_mr(l->pd, memory, sizeof(memory), ACCESS));
	CHECK(l->channel = ibv_create_comp_channel(l->context));
	CHECK(l->cq = ibv_create_cq(l->context, 16, NULL, l->channel, 0));
	init.send_cq = init.recv_cq = l->cq;
	CHECK(l->qp = ibv_create_qp(l->pd, &init));
	connect_to_itself(l);
}

static void drop(struct loop *l)
{
	CHECK(!ibv_destroy_qp(l->qp));
	CHECK(!ibv_destroy_cq(l->cq));
	CHECK(!ibv_destroy_comp_channel(l->channel));
	CHECK(!ibv_dereg_mr(l->mr));
	CHECK(!ibv_dealloc_pd(l->pd));
	CHECK(!ibv_close_device(l->context));
}

/* The first bytes of memory go to an address. */
static enum ibv_wc_status write_to(struct loop *l, void *to, uint32_t rkey)
{
	struct ibv_sge s = { (uintptr_t)memory, sizeof(int), l->mr->lkey };
	struct ibv_send_wr w = { .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED, .wr.rdma = { (uintptr_t)to, rkey } }, *bad;
	struct ibv_wc wc;
	int n;

	CHECK(!ibv_post_send(l->qp, &w, &bad));
	while (!(n = ibv_poll_cq(l->cq, 1, &wc)))
		;
	CHECK(n == 1);
	return wc.status;
}

static void write_once(struct loop *l)
{
	static int value;

	value++;
	memcpy(memory, &value, sizeof(value));
	CHECK(write_to(l, memory + TARGET, l->mr->rkey) == IBV_WC_SUCCESS);
	CHECK(!memcmp(memory + TARGET, &value, sizeof(value)));
}

static int nr_descriptors(void)
{
	int n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* ---- what is judged -------------------------------------------------------------------- */

static void events_can_be_waited_for(struct loop *l)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	struct pollfd p = { .fd = l->channel->fd, .events = POLLIN };
	int epoll = epoll_create1(0);
	struct ibv_cq *cq;
	void *context;

	CHECK(!fcntl(p.fd, F_SETFL, O_NONBLOCK));
	CHECK(ibv_get_cq_event(l->channel, &cq, &context) && errno == EAGAIN);
	CHECK(!epoll_ctl(epoll, EPOLL_CTL_ADD, p.fd, &event));
	CHECK(!ibv_req_notify_cq(l->cq, 0));
	CHECK(poll(&p, 1, 0) == 0);
	write_once(l);
	CHECK(poll(&p, 1, 5000) == 1);
	CHECK(epoll_wait(epoll, &event, 1, 0) == 1);
	CHECK(epoll_wait(epoll, &event, 1, 0) == 0);
	CHECK(!ibv_get_cq_event(l->channel, &cq, &context) && cq == l->cq);
	ibv_ack_cq_events(cq, 1);
	CHECK(poll(&p, 1, 0) == 0);
	/* One that nobody reads must not keep the CQ from going. */
	CHECK(!ibv_req_notify_cq(l->cq, 0));
	write_once(l);
	CHECK(!fcntl(p.fd, F_SETFL, 0));
	close(epoll);
}

static void a_copy_of_the_descriptor_is_the_device(struct loop *l)
{
	int copy = dup(l->context->cmd_fd);
	struct stat st;

	CHECK(!fstat(copy, &st) && S_ISCHR(st.st_mode));
	CHECK(!close(copy));
	CHECK(!fstat(l->context->cmd_fd, &st) && S_ISCHR(st.st_mode));
	write_once(l);
}

static void a_child_opens_its_own(struct loop *l)
{
	struct loop own;
	pid_t child = fork();
	int status;

	if (!child) {
		make(&own);
		for (int i = 0; i < 20; i++)
			write_once(&own);
		drop(&own);
		_exit(0);
	}
	for (int i = 0; i < 20; i++)
		write_once(l);
	CHECK(waitpid(child, &status, 0) == child && !status);
}

/* Resolves an address again and again, and hears of nobody else's. */
static void resolve_often(struct rdma_event_channel *channel)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(7),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	for (int i = 0; i < 50; i++) {
		CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
		CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000));
		CHECK(!rdma_get_cm_event(channel, &event));
		CHECK(event->id == id && event->event == RDMA_CM_EVENT_ADDR_RESOLVED);
		CHECK(!rdma_ack_cm_event(event) && !rdma_destroy_id(id));
	}
}

static void create_often(struct rdma_event_channel *channel)
{
	struct rdma_cm_id *id;

	for (int i = 0; i < 200; i++)
		CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) && !rdma_destroy_id(id));
}

static void an_event_channel_is_the_child_s_too(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	int status;
	pid_t child;

	CHECK(channel);
	create_often(channel);
	child = fork();
	if (!child) {
		resolve_often(channel);
		_exit(0);
	}
	create_often(channel);
	CHECK(waitpid(child, &status, 0) == child && !status);
	resolve_often(channel);
	rdma_destroy_event_channel(channel);
}

static bool is_registering;

static void *register_all_the_time(void *arg)
{
	struct loop *l = arg;

	while (__atomic_load_n(&is_registering, __ATOMIC_RELAXED))
		CHECK(!ibv_dereg_mr(ibv_reg_mr(l->pd, memory, TARGET, ACCESS)));
	return NULL;
}

static void a_fork_waits_for_no_other_thread(struct loop *l)
{
	pthread_t thread;
	int status;

	is_registering = true;
	CHECK(!pthread_create(&thread, NULL, register_all_the_time, l));
	for (int i = 0; i < 200; i++) {
		pid_t child = fork();

		if (!child)
			_exit(0);
		CHECK(waitpid(child, &status, 0) == child && !status);
	}
	__atomic_store_n(&is_registering, false, __ATOMIC_RELAXED);
	CHECK(!pthread_join(thread, NULL));
}

static pthread_barrier_t is_cancelled;

static void *post_when_cancelled(void *arg)
{
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_barrier_wait(&is_cancelled);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	write_once(arg);
	pthread_testcancel();
	return NULL;
}

/* Posting and polling are no cancellation points. */
static void a_cancelled_thread_ends_when_it_has_posted(struct loop *l)
{
	pthread_t thread;
	void *result;

	CHECK(!pthread_barrier_init(&is_cancelled, NULL, 2));
	CHECK(!pthread_create(&thread, NULL, post_when_cancelled, l));
	CHECK(!pthread_cancel(thread));
	pthread_barrier_wait(&is_cancelled);
	CHECK(!pthread_join(thread, &result) && result == PTHREAD_CANCELED);
	CHECK(!memcmp(memory, memory + TARGET, sizeof(int)));
	write_once(l);
}

static void a_killed_child_harms_nobody(struct loop *l, unsigned after_us)
{
	struct loop own;
	pid_t child = fork();
	int status;

	if (!child) {
		make(&own);
		for (;;)
			write_once(&own);
	}
	usleep(after_us);
	kill(child, SIGKILL);
	CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
	write_once(l);
}

static void nothing_is_left_open(void)
{
	int before = nr_descriptors();
	struct loop l;

	for (int i = 0; i < 50; i++) {
		make(&l);
		write_once(&l);
		drop(&l);
	}
	CHECK(nr_descriptors() == before);
}

static void *wait_for_ever(void *arg)
{
	struct loop *l = arg;
	struct ibv_cq *cq;
	void *context;

	ibv_get_cq_event(l->channel, &cq, &context);
	return NULL;
}

static void a_cancelled_wait_leaves_nothing_open(void)
{
	int before = nr_descriptors();
	pthread_t thread;
	struct loop l;
	void *result;

	make(&l);
	CHECK(!pthread_create(&thread, NULL, wait_for_ever, &l));
	usleep(20000);
	CHECK(!pthread_cancel(thread));
	CHECK(!pthread_join(thread, &result) && result == PTHREAD_CANCELED);
	drop(&l);
	CHECK(nr_descriptors() == before);
}

static void *map_page(void *at, int flags)
{
	void *page = mmap(at, TARGET, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	CHECK(page != MAP_FAILED);
	return page;
}

static void map_over(void *page)
{
	map_page(page, MAP_FIXED);
}

static void move_over(void *page)
{
	void *other = map_page(NULL, 0);

	CHECK(mremap(other, TARGET, TARGET, MREMAP_MAYMOVE | MREMAP_FIXED, page) == page);
}

static void drop_page(void *page)
{
	CHECK(!madvise(page, TARGET, MADV_DONTNEED));
}

static void drop_locked_page(void *page)
{
	CHECK(!mlock(page, TARGET) && !madvise(page, TARGET, 24 /* MADV_DONTNEED_LOCKED */));
}

static void attach_over(void *page)
{
	int id = shmget(IPC_PRIVATE, TARGET, 0600);

	CHECK(id >= 0 && shmat(id, (char *)page + 100, SHM_REMAP | SHM_RND) == page);
	CHECK(!shmctl(id, IPC_RMID, NULL));
}

/* A memfd stands for a dma-buf. */
static void a_file_can_be_registered(struct loop *l)
{
	const uint64_t offset = TARGET + 64, iova = 7 * TARGET + 64;
	int fd = memfd_create("buffer", 0), ends[2];
	char got[4];
	struct ibv_mr *mr;

	CHECK(!ftruncate(fd, 4 * TARGET) && !pipe(ends));
	CHECK(mr = ibv_reg_dmabuf_mr(l->pd, offset, TARGET, iova, fd, ACCESS));
	write_once(l);
	CHECK(write_to(l, (void *)(iova + 8), mr->rkey) == IBV_WC_SUCCESS);
	CHECK(pread(fd, got, 4, offset + 8) == 4 && !memcmp(got, memory, 4));
	CHECK(!ibv_dereg_mr(mr));
	CHECK(!ibv_reg_dmabuf_mr(l->pd, 0, 5 * TARGET, 0, fd, ACCESS) && errno == EINVAL);
	CHECK(!ibv_reg_dmabuf_mr(l->pd, 0, TARGET, 0, ends[0], ACCESS) && errno == EINVAL);
	close(ends[0]);
	close(ends[1]);
	close(fd);
	CHECK(!ibv_reg_dmabuf_mr(l->pd, 0, TARGET, 0, fd, ACCESS) && errno == EBADF);
}

/* The device has the page that was registered, and what took its place is not that. */
static void a_page_that_went_is_not_written(void (*replace)(void *page))
{
	char *page = map_page(NULL, 0);
	struct ibv_mr *mr;
	struct loop l;

	make(&l);
	write_once(&l);
	CHECK(mr = ibv_reg_mr(l.pd, page, TARGET, ACCESS));
	CHECK(write_to(&l, page, mr->rkey) == IBV_WC_SUCCESS && !memcmp(page, memory, 4));
	replace(page);
	CHECK(!page[0]);
	write_to(&l, page, mr->rkey);
	CHECK(!memcmp(page, "\0\0\0", 4));
	CHECK(!ibv_dereg_mr(mr));
	drop(&l);
	munmap(page, TARGET);
}

static void a_detached_segment_is_still_the_device_s(void)
{
	int id = shmget(IPC_PRIVATE, TARGET, 0600);
	void *page = shmat(id, NULL, 0), *again;
	struct ibv_mr *mr;
	struct loop l;

	make(&l);
	write_once(&l);
	CHECK(id >= 0 && page != (void *)-1);
	CHECK(mr = ibv_reg_mr(l.pd, page, TARGET, ACCESS));
	CHECK(!shmdt(page));
	CHECK(map_page(page, MAP_FIXED_NOREPLACE) == page);
	CHECK(write_to(&l, page, mr->rkey) == IBV_WC_SUCCESS);
	again = shmat(id, NULL, 0);
	CHECK(again != (void *)-1 && !memcmp(again, memory, 4) && !memcmp(page, "\0\0\0", 4));
	CHECK(!shmdt(again) && !shmctl(id, IPC_RMID, NULL));
	CHECK(!ibv_dereg_mr(mr) && !munmap(page, TARGET));
	drop(&l);
}

int main(int argc, char **argv)
{
	struct loop l;

	make(&l);
	write_once(&l);
	if (argc > 1) {			/* after an exec: with all of it still open */
		puts("life: ok");
		return 0;
	}
	events_can_be_waited_for(&l);
	a_copy_of_the_descriptor_is_the_device(&l);
	for (int i = 0; i < 3; i++)
		a_child_opens_its_own(&l);
	for (unsigned i = 1; i <= 8; i++)
		a_killed_child_harms_nobody(&l, i * 10000);
	an_event_channel_is_the_child_s_too();
	a_file_can_be_registered(&l);
	a_fork_waits_for_no_other_thread(&l);
	a_cancelled_thread_ends_when_it_has_posted(&l);
	drop(&l);
	nothing_is_left_open();
	a_cancelled_wait_leaves_nothing_open();
	a_page_that_went_is_not_written(map_over);
	a_page_that_went_is_not_written(move_over);
	a_page_that_went_is_not_written(drop_page);
	a_page_that_went_is_not_written(drop_locked_page);
	a_page_that_went_is_not_written(attach_over);
	a_detached_segment_is_still_the_device_s();
	make(&l);
	write_once(&l);
	execl("/proc/self/exe", argv[0], "again", NULL);
	return 1;
}
