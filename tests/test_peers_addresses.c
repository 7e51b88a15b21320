/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_peers_addresses.c - a peer whose host has several addresses and listens at one, as
 * "localhost" has where ::1 comes first. What the name is looked up as, this program says.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/common/far.h"
#include "tests/common/wire.h"

static struct engine_fix one, two;
static const char *addresses[3];	/* of the host "several", in this order */

typedef int lookup_fn(const char *, const char *, const struct addrinfo *, struct addrinfo **);

/* In libc's place, for the engines of this program. */
int getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
		struct addrinfo **found)
{
	lookup_fn *real = (lookup_fn *)dlsym(RTLD_NEXT, "getaddrinfo");

	if (!host || strcmp(host, "several") != 0)
		return real(host, port, hints, found);
	for (int i = 0; i < 3 && addresses[i]; i++) {
		int rc = real(addresses[i], port, hints, found);

		if (rc)
			return rc;
		while (*found)
			found = &(*found)->ai_next;
	}
	return 0;
}

static int setup(void **state)
{
	(void)state;
	engine_fix_start(&one, wire_tune);
	engine_fix_start(&two, wire_tune);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	engine_fix_stop(&two);
	engine_fix_stop(&one);
	return 0;
}

/* The rule that opening the second engine's segment "store" by that host ends with, or 0. */
static uint32_t rule_of_several(void)
{
	struct tent_client *owner = engine_fix_attach(&two, "store");
	struct tent_client *user = engine_fix_attach(&one, NULL);
	char name[TENT_CTL_NAME_SIZE];
	tent_segment_id_t id;
	uint32_t rule;

	snprintf(name, sizeof(name), "several:%u/store", wire_address(&two).port);
	rule = far_rule_of_open(user, name, &id);
	tent_client_detach(user);
	tent_client_detach(owner);
	return rule;
}

static void the_next_address_is_called_where_one_refuses(void **state)
{
	(void)state;
	addresses[0] = "127.0.0.8";	/* nobody listens there */
	addresses[1] = "127.0.0.9";
	addresses[2] = "127.0.0.1";
	assert_int_equal(rule_of_several(), 0);
}

static void the_next_address_is_called_where_one_cannot_be_reached(void **state)
{
	(void)state;
	addresses[0] = "255.255.255.255";	/* connect() itself fails */
	addresses[1] = "127.0.0.1";
	addresses[2] = NULL;
	assert_int_equal(rule_of_several(), 0);
}

/* Accepts one connection and ends it without a word. */
static void *hang_up(void *listener)
{
	int fd = accept(*(int *)listener, NULL, NULL);

	if (fd >= 0)
		close(fd);
	return NULL;
}

static void the_next_address_is_called_where_somebody_else_answers(void **state)
{
	struct sockaddr_in a = {
		.sin_family = AF_INET,
		.sin_port = htons(wire_address(&two).port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 7),
	};
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	pthread_t thread;

	(void)state;
	assert_int_equal(bind(listener, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(pthread_create(&thread, NULL, hang_up, &listener), 0);
	addresses[0] = "127.0.0.8";
	addresses[1] = "127.0.0.1";
	addresses[2] = NULL;
	assert_int_equal(rule_of_several(), 0);
	pthread_join(thread, NULL);
	close(listener);
}

static void a_host_of_which_no_address_answers_is_an_error_at_once(void **state)
{
	(void)state;
	addresses[0] = "127.0.0.8";
	addresses[1] = "127.0.0.9";
	addresses[2] = NULL;
	assert_int_equal(rule_of_several(), TENT_RULE_SEGMENT_UNKNOWN);
	assert_int_equal(rule_of_several(), TENT_RULE_SEGMENT_UNKNOWN);
	wire_expect_fault(&one, "several");
}

int main(void)
{
	/* Each with engines of its own: one that has the peer's link calls nobody. */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_next_address_is_called_where_one_refuses,
						setup, teardown),
		cmocka_unit_test_setup_teardown(
			the_next_address_is_called_where_one_cannot_be_reached, setup, teardown),
		cmocka_unit_test_setup_teardown(
			the_next_address_is_called_where_somebody_else_answers, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_host_of_which_no_address_answers_is_an_error_at_once, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
