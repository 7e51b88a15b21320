/* SPDX-License-Identifier: Apache-2.0 */
/* directory_server.c - see directory_server.h. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/common/directory_server.h"
#include "tests/common/http.h"

static void check(int good, const char *what)
{
	if (good)
		return;
	perror(what);
	abort();
}

uint16_t free_port(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	check(fd >= 0 && bind(fd, (struct sockaddr *)&a, size) == 0 &&
	      getsockname(fd, (struct sockaddr *)&a, &size) == 0, "bind");
	close(fd);
	return ntohs(a.sin_port);
}

/* A connection, or -1. */
static int dial(uint16_t port)
{
	const struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (connect(fd, (const struct sockaddr *)&a, sizeof(a)) == 0)
		return fd;
	close(fd);
	return -1;
}

static void run_etcd(const struct directory_server *s)
{
	char client[64], peer[64], cluster[80];

	snprintf(client, sizeof(client), "http://127.0.0.1:%u", s->port);
	snprintf(peer, sizeof(peer), "http://127.0.0.1:%u", s->other_port);
	snprintf(cluster, sizeof(cluster), "default=%s", peer);
	execlp("etcd", "etcd", "--data-dir", s->folder, "--listen-client-urls", client,
	       "--advertise-client-urls", client, "--listen-peer-urls", peer,
	       "--initial-advertise-peer-urls", peer, "--initial-cluster", cluster,
	       "--heartbeat-interval", "50", "--election-timeout", "500", NULL);
}

static void run_redis(const struct directory_server *s)
{
	char port[8];

	snprintf(port, sizeof(port), "%u", s->port);
	execlp("redis-server", "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "",
	       "--dir", s->folder, NULL);
}

static void spawn(struct directory_server *s)
{
	int null;

	s->pid = fork();
	check(s->pid >= 0, "fork");
	if (s->pid)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	dup2(null, 1);
	dup2(null, 2);
	if (strcmp(s->type, "etcd") == 0)
		run_etcd(s);
	else
		run_redis(s);
	_exit(127);
}

static void check_alive(const struct directory_server *s)
{
	check(waitpid(s->pid, NULL, WNOHANG) == 0, s->type);
}

/* etcd listens before it has a leader. */
static int is_up(const struct directory_server *s)
{
	static struct http_answer a;
	int fd = dial(s->port);

	if (fd < 0)
		return 0;
	close(fd);
	if (strcmp(s->type, "etcd") != 0)
		return 1;
	http_ask(s->port, "GET", "/health", &a);
	return strstr(a.body, "\"true\"") != NULL;
}

static void await_up(struct directory_server *s)
{
	spawn(s);
	while (!is_up(s)) {
		check_alive(s);
		usleep(10000);
	}
}

void directory_server_start(struct directory_server *s, const char *type)
{
	s->type = type;
	s->port = free_port();
	do
		s->other_port = free_port();
	while (s->other_port == s->port);
	snprintf(s->address, sizeof(s->address), "127.0.0.1:%u", s->port);
	strcpy(s->folder, "/tmp/tent-directory-XXXXXX");
	check(mkdtemp(s->folder) != NULL, "mkdtemp");
	await_up(s);
}

void directory_server_kill(struct directory_server *s)
{
	kill(s->pid, SIGKILL);
	check(waitpid(s->pid, NULL, 0) == s->pid, "waitpid");
}

void directory_server_restart(struct directory_server *s)
{
	await_up(s);
}

void directory_server_stop(struct directory_server *s)
{
	char command[64];

	directory_server_kill(s);
	snprintf(command, sizeof(command), "rm -rf %s", s->folder);
	check(system(command) == 0, command);
}

static void base64(const char *text, char *out)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t length = strlen(text), i;

	for (i = 0; i < length; i += 3) {
		unsigned int bits = (unsigned char)text[i] << 16;

		bits |= i + 1 < length ? (unsigned int)(unsigned char)text[i + 1] << 8 : 0;
		bits |= i + 2 < length ? (unsigned char)text[i + 2] : 0;
		*out++ = digits[bits >> 18];
		*out++ = digits[bits >> 12 & 63];
		*out++ = i + 1 < length ? digits[bits >> 6 & 63] : '=';
		*out++ = i + 2 < length ? digits[bits & 63] : '=';
	}
	*out = '\0';
}

static void put_etcd(const struct directory_server *s, const char *key, const char *value)
{
	static struct http_answer a;
	static char key64[512], value64[8192], body[16384], head[256];
	int fd = http_dial(s->port);

	base64(key, key64);
	base64(value, value64);
	snprintf(body, sizeof(body), "{\"key\":\"%s\",\"value\":\"%s\"}", key64, value64);
	snprintf(head, sizeof(head), "POST /v3/kv/put HTTP/1.1\r\nHost: t\r\nConnection: close\r\n"
		 "Content-Length: %zu\r\n\r\n", strlen(body));
	http_send(fd, head, strlen(head));
	http_send(fd, body, strlen(body));
	http_read(fd, &a);
	check(a.status == 200, a.text);
}

static void put_redis(const struct directory_server *s, const char *key, const char *value)
{
	static char text[16384];
	int fd = http_dial(s->port);

	snprintf(text, sizeof(text), "*3\r\n$3\r\nSET\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n", strlen(key),
		 key, strlen(value), value);
	http_send(fd, text, strlen(text));
	check(recv(fd, text, 5, MSG_WAITALL) == 5 && strncmp(text, "+OK", 3) == 0, "SET");
	close(fd);
}

void directory_server_put(const struct directory_server *s, const char *key, const char *value)
{
	if (strcmp(s->type, "etcd") == 0)
		put_etcd(s, key, value);
	else
		put_redis(s, key, value);
}
