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
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

#include "sim/hca/judges/loop.h"
#include "sim/hca/tests/common/asleep.h"

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
	loop_write(l);
	CHECK(poll(&p, 1, 5000) == 1);
	CHECK(epoll_wait(epoll, &event, 1, 0) == 1);
	CHECK(epoll_wait(epoll, &event, 1, 0) == 0);
	CHECK(!ibv_get_cq_event(l->channel, &cq, &context) && cq == l->cq);
	ibv_ack_cq_events(cq, 1);
	CHECK(poll(&p, 1, 0) == 0);
	/* One that nobody reads must not keep the CQ from going. */
	CHECK(!ibv_req_notify_cq(l->cq, 0));
	loop_write(l);
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
	loop_write(l);
}

static void a_child_opens_its_own(struct loop *l)
{
	struct loop own = { .signals_all = false };
	pid_t child = fork();
	int status;

	if (!child) {
		loop_make(&own);
		for (int i = 0; i < 20; i++)
			loop_write(&own);
		loop_drop(&own);
		_exit(0);
	}
	for (int i = 0; i < 20; i++)
		loop_write(l);
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
		CHECK(!ibv_dereg_mr(ibv_reg_mr(l->pd, loop_memory, LOOP_HALF, LOOP_ACCESS)));
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
	loop_write(arg);
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
	CHECK(!memcmp(loop_memory, loop_memory + LOOP_HALF, sizeof(int)));
	loop_write(l);
}

static void a_killed_child_harms_nobody(struct loop *l, unsigned after_us)
{
	struct loop own = { .signals_all = false };
	pid_t child = fork();
	int status;

	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);	/* the soak kills this program too */
		loop_make(&own);
		for (;;)
			loop_write(&own);
	}
	usleep(after_us);
	kill(child, SIGKILL);
	CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
	loop_write(l);
}

static void nothing_is_left_open(void)
{
	int before = nr_descriptors();
	struct loop l = { .signals_all = false };

	for (int i = 0; i < 50; i++) {
		loop_make(&l);
		loop_write(&l);
		loop_drop(&l);
	}
	CHECK(nr_descriptors() == before);
}

static pid_t waiter;

static void *wait_for_ever(void *arg)
{
	struct loop *l = arg;
	struct ibv_cq *cq;
	void *context;

	__atomic_store_n(&waiter, gettid(), __ATOMIC_RELAXED);
	ibv_get_cq_event(l->channel, &cq, &context);
	return NULL;
}

static void a_cancelled_wait_leaves_nothing_open(void)
{
	int before = nr_descriptors();
	pthread_t thread;
	struct loop l = { .signals_all = false };
	void *result;

	loop_make(&l);
	CHECK(!pthread_create(&thread, NULL, wait_for_ever, &l));
	while (!__atomic_load_n(&waiter, __ATOMIC_RELAXED))
		sched_yield();
	await_sleep(getpid(), waiter);
	CHECK(!pthread_cancel(thread));
	CHECK(!pthread_join(thread, &result) && result == PTHREAD_CANCELED);
	loop_drop(&l);
	CHECK(nr_descriptors() == before);
}

static void *map_page(void *at, int flags)
{
	void *page = mmap(at, LOOP_HALF, PROT_READ | PROT_WRITE,
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

	CHECK(mremap(other, LOOP_HALF, LOOP_HALF, MREMAP_MAYMOVE | MREMAP_FIXED, page) == page);
}

static void drop_page(void *page)
{
	CHECK(!madvise(page, LOOP_HALF, MADV_DONTNEED));
}

static void drop_locked_page(void *page)
{
	CHECK(!mlock(page, LOOP_HALF) && !madvise(page, LOOP_HALF, 24 /* MADV_DONTNEED_LOCKED */));
}

static void attach_over(void *page)
{
	int id = shmget(IPC_PRIVATE, LOOP_HALF, 0600);

	CHECK(id >= 0 && shmat(id, (char *)page + 100, SHM_REMAP | SHM_RND) == page);
	CHECK(!shmctl(id, IPC_RMID, NULL));
}

/* A memfd stands for a dma-buf. */
static void a_file_can_be_registered(struct loop *l)
{
	const uint64_t offset = LOOP_HALF + 64, iova = 7 * LOOP_HALF + 64;
	int fd = memfd_create("buffer", 0), ends[2];
	char got[4];
	struct ibv_mr *mr;

	CHECK(!ftruncate(fd, 4 * LOOP_HALF) && !pipe(ends));
	CHECK(mr = ibv_reg_dmabuf_mr(l->pd, offset, LOOP_HALF, iova, fd, LOOP_ACCESS));
	loop_write(l);
	CHECK(loop_write_to(l, (void *)(iova + 8), mr->rkey) == IBV_WC_SUCCESS);
	CHECK(pread(fd, got, 4, offset + 8) == 4 && !memcmp(got, loop_memory, 4));
	CHECK(!ibv_dereg_mr(mr));
	CHECK(!ibv_reg_dmabuf_mr(l->pd, 0, 5 * LOOP_HALF, 0, fd, LOOP_ACCESS) && errno == EINVAL);
	CHECK(!ibv_reg_dmabuf_mr(l->pd, 0, LOOP_HALF, 0, ends[0], LOOP_ACCESS) && errno == EINVAL);
	close(ends[0]);
	close(ends[1]);
	close(fd);
	CHECK(!ibv_reg_dmabuf_mr(l->pd, 0, LOOP_HALF, 0, fd, LOOP_ACCESS) && errno == EBADF);
}

/* The device has the page that was registered, and what took its place is not that. */
static void a_page_that_went_is_not_written(void (*replace)(void *page))
{
	char *page = map_page(NULL, 0);
	struct ibv_mr *mr;
	struct loop l = { .signals_all = false };

	loop_make(&l);
	loop_write(&l);
	CHECK(mr = ibv_reg_mr(l.pd, page, LOOP_HALF, LOOP_ACCESS));
	CHECK(loop_write_to(&l, page, mr->rkey) == IBV_WC_SUCCESS && !memcmp(page, loop_memory, 4));
	replace(page);
	CHECK(!page[0]);
	loop_write_to(&l, page, mr->rkey);
	CHECK(!memcmp(page, "\0\0\0", 4));
	CHECK(!ibv_dereg_mr(mr));
	loop_drop(&l);
	munmap(page, LOOP_HALF);
}

static void a_detached_segment_is_still_the_device_s(void)
{
	int id = shmget(IPC_PRIVATE, LOOP_HALF, 0600);
	void *page = shmat(id, NULL, 0), *again;
	struct ibv_mr *mr;
	struct loop l = { .signals_all = false };

	loop_make(&l);
	loop_write(&l);
	CHECK(id >= 0 && page != (void *)-1);
	CHECK(mr = ibv_reg_mr(l.pd, page, LOOP_HALF, LOOP_ACCESS));
	CHECK(!shmdt(page));
	CHECK(map_page(page, MAP_FIXED_NOREPLACE) == page);
	CHECK(loop_write_to(&l, page, mr->rkey) == IBV_WC_SUCCESS);
	again = shmat(id, NULL, 0);
	CHECK(again != (void *)-1 && !memcmp(again, loop_memory, 4) && !memcmp(page, "\0\0\0", 4));
	CHECK(!shmdt(again) && !shmctl(id, IPC_RMID, NULL));
	CHECK(!ibv_dereg_mr(mr) && !munmap(page, LOOP_HALF));
	loop_drop(&l);
}

int main(int argc, char **argv)
{
	struct loop l = { .signals_all = false };

	loop_make(&l);
	loop_write(&l);
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
	loop_drop(&l);
	nothing_is_left_open();
	a_cancelled_wait_leaves_nothing_open();
	a_page_that_went_is_not_written(map_over);
	a_page_that_went_is_not_written(move_over);
	a_page_that_went_is_not_written(drop_page);
	a_page_that_went_is_not_written(drop_locked_page);
	a_page_that_went_is_not_written(attach_over);
	a_detached_segment_is_still_the_device_s();
	loop_make(&l);
	loop_write(&l);
	execl("/proc/self/exe", argv[0], "again", NULL);
	return 1;
}
