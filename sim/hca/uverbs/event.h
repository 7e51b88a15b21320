/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event.h - what a completion channel or an asynchronous event file holds: events not yet
 * read, and a descriptor that is readable while there are any. One read takes one event.
 * The caller serialises.
 */
#ifndef TENT_SIM_HCA_EVENT_H
#define TENT_SIM_HCA_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct event_queue;
struct object;

/* Of events that are bytes long: a comp_event_desc or an async_event_desc. One reference
 * is the caller's. 0 or -errno. */
int event_queue_create(struct event_queue **out, size_t bytes);
struct event_queue *event_queue_hold(struct event_queue *q);
void event_queue_drop(struct event_queue *q);

/* The queue's own eventfd; who shows it to the program dups it. */
int event_queue_fd(const struct event_queue *q);
bool event_queue_is_async(const struct event_queue *q);

/* Lost when memory is short, as in the kernel. *reported counts, when the event is read;
 * it must live until event_queue_forget(). */
void event_queue_push(struct event_queue *q, const void *event, uint32_t *reported);

/* Takes the first event, for one who has read a count of 1 off the eventfd: the event's
 * length; -EINVAL if n is too short, -EIO if the device has gone, and then the count is put
 * back; -EFAULT, and the event is lost all the same; -EAGAIN if it was forgotten meanwhile. */
int event_queue_take(struct event_queue *q, void *to, size_t n);

/* An object goes: so do its events that nobody read. */
void event_queue_forget(struct event_queue *q, const uint32_t *reported);

/* The device has gone: readers shall wake. */
void event_queue_end(struct event_queue *q);

#endif /* TENT_SIM_HCA_EVENT_H */
