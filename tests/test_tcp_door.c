/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_tcp_door.c - a peer that connects while the thread that lets peers in is at another
 * one's socket. This program decides how long that takes.
 */
#define _GNU_SOURCE
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "ring/order.h"
#include "tests/common/data.h"

static struct engine_fix fix_here;
static uint32_t armed;		/* who accepts next is held once it has */
static sem_t held, go_on;

static void await(sem_t *s)
{
	while (sem_wait(s) < 0)
		;
}

/* In libc's place, for the engine of this program. */
int accept4(int fd, struct sockaddr *address, socklen_t *size, int flags)
{
	int accepted = (int)syscall(SYS_accept4, fd, address, size, flags);

	if (accepted >= 0 && exchange(&armed, 0u)) {
		sem_post(&held);
		await(&go_on);
	}
	return accepted;
}

static int setup(void **state)
{
	(void)state;
	sem_init(&held, 0, 0);
	sem_init(&go_on, 0, 0);
	engine_fix_start(&fix_here, wire_tune);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	engine_fix_stop(&fix_here);
	sem_destroy(&held);
	sem_destroy(&go_on);
	return 0;
}

/* It has been told its token since the thread last looked at what it was to know. */
static void who_joins_while_another_is_accepted_is_known(void **state)
{
	struct tent_client *owner = engine_fix_attach(&fix_here, "kv");
	struct engine_address at = wire_address(&fix_here);
	struct data_guest first, second;
	struct tcp_welcome welcome;
	struct tcp_hello hello;
	struct wire stranger;
	int fd;

	(void)state;
	engine_fix_memory(owner, 4096);
	data_join(&first, &at, "kv");
	store_release(&armed, 1u);
	wire_dial(&stranger, &first.address);
	await(&held);
	data_join(&second, &at, "kv");
	hello = data_hello(&second, TCP_FOR_DATA, 1);
	fd = data_call(&second, &hello);
	sem_post(&go_on);
	data_receive(fd, &welcome, sizeof(welcome));
	assert_int_equal(welcome.magic, TCP_HELLO_MAGIC);
	close(fd);
	wire_close(&stranger);
	wire_close(&second.link);
	wire_close(&first.link);
	tent_client_detach(owner);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_joins_while_another_is_accepted_is_known),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
