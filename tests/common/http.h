/* SPDX-License-Identifier: Apache-2.0 */
/* http.h - asks an HTTP server byte by byte, as the worst of clients may. */
#ifndef TENT_TESTS_HTTP_H
#define TENT_TESTS_HTTP_H

#include <stddef.h>
#include <stdint.h>

struct http_answer {
	int status;		/* 0: the connection closed without one */
	char text[262144];	/* head and body */
	const char *body;	/* in text */
	size_t length;
};

/* A connection to a port of this host. */
int http_dial(uint16_t port);
/* Sends all of it; less, when the other end closed. */
void http_send(int fd, const char *text, size_t size);
/* Reads an answer up to the connection's end, and closes it. */
void http_read(int fd, struct http_answer *a);
/* A request of its own connection. */
void http_ask(uint16_t port, const char *method, const char *path, struct http_answer *a);

#endif /* TENT_TESTS_HTTP_H */
