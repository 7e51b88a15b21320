/* SPDX-License-Identifier: Apache-2.0 */
/*
 * notify.h - notifications: sent alone, and taken. Those that follow the data of a batch
 * are tent_submit_requests_notif()'s, in tent.h. Both APIs have these, with the older
 * one's return values.
 */
#ifndef TENT_NOTIFY_H
#define TENT_NOTIFY_H

#include <tent/tent.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

struct tent_notifi_record {
	tent_segment_id_t handle;	/* TENT_LOCAL_SEGMENT */
	char name[256];			/* NUL-terminated, never cut */
	char msg[4096];			/* the same */
};
typedef struct tent_notifi_record tent_notifi_record_t;

struct tent_notifi_info {
	int num_records;
	struct tent_notifi_record *records; /* see tent_free_notifs(); NULL: none */
};
typedef struct tent_notifi_info tent_notifi_info;

/*
 * Sends a notification to the owner of a segment, this program for TENT_LOCAL_SEGMENT, and
 * returns when it is there, engine/request_timeout_ms at most. 0, or -1 with the error in
 * tent_last_error(): ARGUMENTS, a NULL or too long text; STALE_HANDLE; CAPACITY, the
 * receiver has not taken what it has, or too many are on their way there; OWNER_GONE;
 * UNSUPPORTED, one of the engines is of before notifications. PEER_UNREACHABLE and TIMEOUT:
 * it may have arrived. While it waits other threads at the same ring wait with it.
 */
int tent_send_notifs(tent_engine_t engine, tent_segment_id_t handle,
		     const char *name, const char *message);

/* Takes every notification received so far, oldest first; *info is always written. Pair
 * with tent_free_notifs(). Never waits for one, and without any makes no syscall. A program
 * has room for 512 KiB of them, each with 10 bytes and its texts: what comes when it is
 * full is refused. 0, or -1 with the error in tent_last_error(). */
int tent_recv_notifs(tent_engine_t engine, tent_notifi_info *info);

/* Frees the records and leaves *info empty, so that freeing twice is harmless.
 * NULL is ignored. */
void tent_free_notifs(tent_notifi_info *info);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif /* TENT_NOTIFY_H */
