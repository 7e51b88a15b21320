/* SPDX-License-Identifier: Apache-2.0 */
/* http.c - see http.h. Whatever goes wrong here is the test's own fault. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/common/http.h"

int http_dial(uint16_t port)
{
	const struct sockaddr_in a = {
		.sin_family = AF_INET, .sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (const struct sockaddr *)&a, sizeof(a)) < 0) {
		perror("connect");
		abort();
	}
	return fd;
}

void http_send(int fd, const char *text, size_t size)
{
	while (size) {
		ssize_t n = send(fd, text, size, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		text += n;
		size -= (size_t)n;
	}
}

void http_read(int fd, struct http_answer *a)
{
	ssize_t n;

	a->length = 0;
	while ((n = recv(fd, a->text + a->length, sizeof(a->text) - 1 - a->length, 0)) > 0)
		a->length += (size_t)n;
	close(fd);
	a->text[a->length] = '\0';
	a->status = 0;
	sscanf(a->text, "HTTP/1.%*d %d", &a->status);
	a->body = strstr(a->text, "\r\n\r\n");
	a->body = a->body ? a->body + 4 : a->text + a->length;
}

void http_ask(uint16_t port, const char *method, const char *path, struct http_answer *a)
{
	char text[512];
	int fd = http_dial(port);

	snprintf(text, sizeof(text), "%s %s HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n",
		 method, path);
	http_send(fd, text, strlen(text));
	http_read(fd, a);
}
