/* SPDX-License-Identifier: Apache-2.0 */
/* test_ring_ctl.c - control messages arrive whole or not at all. */
#include "tests/ring_fake.h"

#include <sys/un.h>

struct line {
	int a, b;
};

static int open_line(void **state)
{
	struct line *l = calloc(1, sizeof(*l));
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	*l = (struct line){ fds[0], fds[1] };
	*state = l;
	return 0;
}

static int close_line(void **state)
{
	struct line *l = *state;

	if (l->a >= 0)
		close(l->a);
	close(l->b);
	free(l);
	return 0;
}

/* Sends raw bytes with nr descriptors, whatever the head says. */
static void send_raw(int sock, const void *bytes, size_t size, const int *fds, int nr)
{
	char control[CMSG_SPACE(sizeof(int) * 16)] __attribute__((aligned(8))) = { 0 };
	struct iovec v = { (void *)(uintptr_t)bytes, size };
	struct msghdr h = { .msg_iov = &v, .msg_iovlen = 1 };

	if (nr) {
		struct cmsghdr *c = (void *)control;

		h.msg_control = control;
		h.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)nr);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)nr);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * (size_t)nr);
	}
	assert_int_equal(sendmsg(sock, &h, 0), (ssize_t)size);
}

static struct ctl_message message(uint32_t size)
{
	struct ctl_message m = { .nr_fds = 0 };

	m.head = (struct tent_ctl_head){ .size = size, .type = 3, .cookie = 9 };
	for (uint32_t i = sizeof(m.head); i < size; i++)
		m.bytes[i] = (uint8_t)i;
	return m;
}

static void messages_of_every_size_arrive_whole(void **state)
{
	struct line *l = *state;

	for (uint32_t size = sizeof(struct tent_ctl_head); size <= TENT_CTL_MAX_SIZE; size++) {
		struct ctl_message m = message(size), got;

		assert_int_equal(ctl_send(l->a, &m, 0), 0);
		memset(&got, 0xa5, sizeof(got));
		assert_int_equal(ctl_recv(l->b, &got, 0), 0);
		assert_memory_equal(got.bytes, m.bytes, size);
		for (uint32_t i = size; i < TENT_CTL_MAX_SIZE; i++)
			assert_int_equal(got.bytes[i], 0); /* nothing left from before */
		assert_int_equal(got.nr_fds, 0);
	}
}

static void descriptors_arrive_open_and_cloexec(void **state)
{
	struct line *l = *state;
	int before = count_fds();

	for (int nr = 1; nr <= TENT_CTL_MAX_FDS; nr++) {
		struct ctl_message m = message(24), got;

		m.nr_fds = nr;
		for (int i = 0; i < nr; i++)
			m.fds[i] = l->a;
		assert_int_equal(ctl_send(l->a, &m, 0), 0);
		assert_int_equal(m.fds[0], l->a);	/* still the sender's */
		assert_int_equal(ctl_recv(l->b, &got, 0), 0);
		assert_int_equal(got.nr_fds, nr);
		assert_int_equal(got.head.nr_fds, nr);
		for (int i = 0; i < nr; i++)
			assert_int_equal(fcntl(got.fds[i], F_GETFD), FD_CLOEXEC);
		ctl_close_fds(&got);
		assert_int_equal(got.nr_fds, 0);
		assert_int_equal(count_fds(), before);
	}
}

static void what_cannot_be_a_message_is_not_sent(void **state)
{
	struct line *l = *state;
	struct ctl_message m = message(16), got;

	m.head.size = 15;
	assert_int_equal(ctl_send(l->a, &m, 0), -EINVAL);
	m.head.size = TENT_CTL_MAX_SIZE + 1;
	assert_int_equal(ctl_send(l->a, &m, 0), -EINVAL);
	m.head.size = 16;
	m.nr_fds = TENT_CTL_MAX_FDS + 1;
	assert_int_equal(ctl_send(l->a, &m, 0), -EINVAL);
	m.nr_fds = -1;
	assert_int_equal(ctl_send(l->a, &m, 0), -EINVAL);
	assert_int_equal(ctl_recv(l->b, &got, MSG_DONTWAIT), -EAGAIN);
}

/* The size word and the real size, each shorter and longer than the other. */
static void a_size_word_that_lies_is_refused(void **state)
{
	static const uint32_t sizes[] = { 0, 1, 15, 16, 17, 23, 25, 4096, 4097, UINT32_MAX };
	struct line *l = *state;
	int before = count_fds();

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct ctl_message m = message(24), got;

		m.head.size = sizes[i];
		m.head.nr_fds = 1;
		send_raw(l->a, m.bytes, 24, &l->a, 1);
		assert_int_equal(ctl_recv(l->b, &got, 0), -EBADMSG);
		assert_int_equal(got.nr_fds, 0);
		assert_int_equal(count_fds(), before);
	}
}

static void a_message_shorter_than_its_head_is_refused(void **state)
{
	struct line *l = *state;

	for (uint32_t size = 1; size < sizeof(struct tent_ctl_head); size++) {
		struct ctl_message m = message(16), got;

		m.head.size = size;
		send_raw(l->a, m.bytes, size, NULL, 0);
		assert_int_equal(ctl_recv(l->b, &got, 0), -EBADMSG);
	}
}

static void a_message_longer_than_any_is_refused_with_its_fds(void **state)
{
	static uint8_t big[2 * TENT_CTL_MAX_SIZE];
	struct tent_ctl_head head = { .size = sizeof(big), .nr_fds = 1 };
	struct line *l = *state;
	int before = count_fds();
	struct ctl_message got;

	memcpy(big, &head, sizeof(head));
	send_raw(l->a, big, sizeof(big), &l->a, 1);
	assert_int_equal(ctl_recv(l->b, &got, 0), -EBADMSG);
	head.size = TENT_CTL_MAX_SIZE;	/* what is received of it would agree */
	memcpy(big, &head, sizeof(head));
	send_raw(l->a, big, sizeof(big), &l->a, 1);
	assert_int_equal(ctl_recv(l->b, &got, 0), -EBADMSG);
	assert_int_equal(count_fds(), before);
}

static void a_wrong_number_of_descriptors_is_refused_and_closed(void **state)
{
	/* qemu-user itself loses what does not fit into a control buffer */
	int most = is_emulated() ? TENT_CTL_MAX_FDS : 16;
	struct line *l = *state;
	int before = count_fds(), fds[16];

	if (most < 16)
		print_message("no more than %d descriptors in an emulator\n", most);
	for (int i = 0; i < 16; i++)
		fds[i] = l->a;
	for (int told = 0; told <= 6; told++) {
		for (int sent = 0; sent <= most; sent++) {
			struct ctl_message m = message(24), got;
			bool good = told == sent && sent <= TENT_CTL_MAX_FDS;

			m.head.nr_fds = (uint16_t)told;
			send_raw(l->a, m.bytes, 24, fds, sent);
			assert_int_equal(ctl_recv(l->b, &got, 0), good ? 0 : -EBADMSG);
			ctl_close_fds(&got);
			assert_int_equal(count_fds(), before);
		}
	}
}

static void the_end_of_the_file_is_epipe(void **state)
{
	struct line *l = *state;
	struct ctl_message got;

	close(l->a);
	l->a = -1;
	assert_int_equal(ctl_recv(l->b, &got, 0), -EPIPE);
	got = message(16);
	assert_int_equal(ctl_send(l->b, &got, 0), -EPIPE); /* and no SIGPIPE */
}

/* An empty message looks like the end of the file, and may carry descriptors. */
static void an_empty_message_is_the_end_and_leaks_nothing(void **state)
{
	struct line *l = *state;
	int before = count_fds();
	struct ctl_message got;

	send_raw(l->a, "", 0, &l->a, 1);
	assert_int_equal(ctl_recv(l->b, &got, 0), -EPIPE);
	assert_int_equal(count_fds(), before);
}

static void a_call_that_must_not_wait_does_not(void **state)
{
	struct line *l = *state;
	struct ctl_message m = message(4096);
	int rc;

	do {
		rc = ctl_send(l->a, &m, MSG_DONTWAIT);
	} while (rc == 0);
	assert_int_equal(rc, -EAGAIN);
}

#define ON_LINE(test) cmocka_unit_test_setup_teardown(test, open_line, close_line)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_LINE(messages_of_every_size_arrive_whole),
		ON_LINE(descriptors_arrive_open_and_cloexec),
		ON_LINE(what_cannot_be_a_message_is_not_sent),
		ON_LINE(a_size_word_that_lies_is_refused),
		ON_LINE(a_message_shorter_than_its_head_is_refused),
		ON_LINE(a_message_longer_than_any_is_refused_with_its_fds),
		ON_LINE(a_wrong_number_of_descriptors_is_refused_and_closed),
		ON_LINE(the_end_of_the_file_is_epipe),
		ON_LINE(an_empty_message_is_the_end_and_leaks_nothing),
		ON_LINE(a_call_that_must_not_wait_does_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
