/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cm.h - the process's end of /dev/infiniband/rdma_cm. The connection manager itself runs
 * in the host's holder, where a kernel has it: so ports belong to the host, and a process
 * that is killed disconnects its peers. Here are only two sockets to it.
 *
 * The descriptor that the program gets is a socket on which one byte lies for each event
 * that waits: it polls as the kernel's does, also after dup, fork and epoll. When the last
 * copy of it is closed, in whatever way, the holder destroys what the program left.
 */
#ifndef TENT_SIM_HCA_CM_H
#define TENT_SIM_HCA_CM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct cm_channel;

/* Opens an event channel. The caller sends holder_fds[] to the holder, which gives them to
 * cm_holder_channel(), and closes them here. 0 or -errno. */
int cm_channel_open(struct cm_channel **out, int holder_fds[2]);

/* The program's descriptor: close-on-exec, blocking. The caller may dup it elsewhere, and
 * closes it; the channel needs no more than one copy to be open when it is used. */
int cm_channel_fd(const struct cm_channel *c);

/* write(fd, command, n), of any thread. n, or -errno as the kernel answers. fd: the copy
 * that the program used, on which GET_EVENT waits if it does not have O_NONBLOCK. */
ssize_t cm_channel_write(struct cm_channel *c, int fd, const void *command, size_t n);
/* A command that is told something, and has nothing done. */
bool cm_channel_asks_for_event(const void *command, size_t n);

/* In the child of a fork, which has the channel too: its calls are its own from now on. */
void cm_channel_inherit(struct cm_channel *c);

/* After the last copy of the program's descriptor was closed in this process. */
void cm_channel_close(struct cm_channel *c);

#endif /* TENT_SIM_HCA_CM_H */
