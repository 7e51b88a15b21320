/* SPDX-License-Identifier: Apache-2.0 */
/*
 * socket_owner.c - asks the kernel for the one socket that has our connection's addresses
 * the other way round. A user is that of who made the socket; of one that is closed the
 * kernel may say user 0, so that only one that is open counts.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/socket_owner.h"

struct question {
	struct nlmsghdr head;
	struct inet_diag_req_v2 about;
};

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

int socket_owner_open(void)
{
	int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);

	return fd < 0 ? -errno : fd;
}

static bool is_loopback(const union address *a)
{
	return a->any.sa_family == AF_INET ?
	       ntohl(a->v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET :
	       IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr);
}

static void put_end(const union address *a, __be16 *port, __be32 address[4])
{
	if (a->any.sa_family == AF_INET) {
		*port = a->v4.sin_port;
		memcpy(address, &a->v4.sin_addr, sizeof(a->v4.sin_addr));
	} else {
		*port = a->v6.sin6_port;
		memcpy(address, &a->v6.sin6_addr, sizeof(a->v6.sin6_addr));
	}
}

/* For the socket that is here, and connected to what is there. */
static struct question question_of(const union address *here, const union address *there)
{
	struct question q = {
		.head = { .nlmsg_len = sizeof(q), .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			  .nlmsg_flags = NLM_F_REQUEST },
		.about = { .sdiag_family = (uint8_t)here->any.sa_family,
			   .sdiag_protocol = IPPROTO_TCP, .idiag_states = UINT32_MAX },
	};
	struct inet_diag_sockid *id = &q.about.id;

	put_end(here, &id->idiag_sport, id->idiag_src);
	put_end(there, &id->idiag_dport, id->idiag_dst);
	if (here->any.sa_family == AF_INET6)
		id->idiag_if = here->v6.sin6_scope_id;
	id->idiag_cookie[0] = id->idiag_cookie[1] = INET_DIAG_NOCOOKIE;
	return q;
}

/* The kernel answers before send() returns. 0 or -errno. */
static int ask(int asks, const struct question *q, struct inet_diag_msg *answer)
{
	union { struct nlmsghdr head; char bytes[1024]; } reply;
	const struct nlmsgerr *error = NLMSG_DATA(&reply.head);
	ssize_t n;

	while (recv(asks, &reply, sizeof(reply), 0) > 0)
		;	/* nobody waits for it any more */
	if (send(asks, q, sizeof(*q), 0) < 0)
		return -errno;
	n = recv(asks, &reply, sizeof(reply), 0);
	if (n < 0)
		return -errno;
	if ((size_t)n >= NLMSG_LENGTH(sizeof(*error)) && reply.head.nlmsg_type == NLMSG_ERROR)
		return error->error ? error->error : -EPROTO;
	if ((size_t)n < NLMSG_LENGTH(sizeof(*answer)) ||
	    reply.head.nlmsg_type != SOCK_DIAG_BY_FAMILY)
		return -EPROTO;
	memcpy(answer, NLMSG_DATA(&reply.head), sizeof(*answer));
	return 0;
}

/* Where there is no such connection the kernel finds whoever listens at that port, who is
 * connected to none. */
static bool is_the_one(const struct inet_diag_msg *answer, const struct inet_diag_sockid *id)
{
	return answer->id.idiag_sport == id->idiag_sport &&
	       answer->id.idiag_dport == id->idiag_dport;
}

bool socket_owner_works(int asks, int listening)
{
	union address here, nobody;
	socklen_t size = sizeof(here);
	struct inet_diag_msg answer;
	struct question q;

	if (asks < 0 || getsockname(listening, &here.any, &size) < 0)
		return false;
	memset(&nobody, 0, sizeof(nobody));
	nobody.any.sa_family = here.any.sa_family;
	q = question_of(&here, &nobody);
	return ask(asks, &q, &answer) == 0 && answer.idiag_state == TCP_LISTEN;
}

enum socket_owner socket_owner_find(int asks, int fd, uint32_t *uid)
{
	socklen_t a = sizeof(union address), b = sizeof(union address);
	union address here = { .v6 = { 0 } }, there = { .v6 = { 0 } };
	struct inet_diag_msg answer;
	struct question q;

	if (getsockname(fd, &here.any, &a) < 0 || getpeername(fd, &there.any, &b) < 0)
		return OWNER_HIDDEN;	/* it is closed already */
	q = question_of(&there, &here);
	if (asks < 0 || ask(asks, &q, &answer) < 0 || !is_the_one(&answer, &q.about.id))
		return is_loopback(&there) ? OWNER_HIDDEN : OWNER_ELSEWHERE;
	if (answer.idiag_state != TCP_ESTABLISHED || !answer.idiag_inode)
		return OWNER_HIDDEN;
	*uid = answer.idiag_uid;
	return OWNER_KNOWN;
}
