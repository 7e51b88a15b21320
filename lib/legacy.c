/* SPDX-License-Identifier: Apache-2.0 */
/*
 * legacy.c - the functions that only the older API has. They answer 0 or -1, as its
 * programs expect; tent_last_error() has the rest.
 */
#include <stdlib.h>
#include <string.h>
#include <tent/transfer_engine.h>

#include "lib/lib.h"
#include "ring/entry.h"

static int answer(int rc)
{
	return rc ? -1 : 0;
}

/* The array comes from a compiler: its alignment is the ABI's, not 8. */
static int check_array(const tent_request_t *entries, size_t count)
{
	int64_t value = 0;
	uint32_t rule = array_fault(entries, count, sizeof(*entries), _Alignof(tent_request_t),
				    &value);

	return lib_fail_array(rule, value);
}

int tent_submit(tent_engine_t engine, tent_batch_id_t batch_id, tent_request_t *entries,
		size_t count)
{
	const struct lib_source src = { entries, count, sizeof(*entries), true, NULL, NULL };
	struct lib_engine *e = lib_engine_find(engine);

	if (!e || check_array(entries, count))
		return -1;
	return answer(lib_submit(e, batch_id, &src));
}

int tent_submit_notif(tent_engine_t engine, tent_batch_id_t batch_id, tent_request_t *entries,
		      size_t count, const char *name, const char *message)
{
	const struct lib_source src = { entries, count, sizeof(*entries), true, name, message };
	struct lib_engine *e = lib_engine_find(engine);

	if (!e || check_array(entries, count) || lib_check_texts(name, message))
		return -1;
	return answer(lib_submit(e, batch_id, &src));
}

int tent_send_notifs(tent_engine_t engine, tent_segment_id_t handle, const char *name,
		     const char *message)
{
	struct lib_engine *e = lib_engine_find(engine);

	return e ? answer(lib_send_notification(e, handle, name, message)) : -1;
}

int tent_recv_notifs(tent_engine_t engine, tent_notifi_info *info)
{
	struct lib_engine *e;
	int rc;

	if (!info)
		return answer(lib_fail_null("info"));
	memset(info, 0, sizeof(*info));
	e = lib_engine_enter(engine);
	if (!e)
		return -1;
	rc = lib_receive_notifications(e, info);
	lib_engine_leave(e);
	return answer(rc);
}

void tent_free_notifs(tent_notifi_info *info)
{
	if (!info)
		return;
	free(info->records);
	memset(info, 0, sizeof(*info));
}

int tent_get_nic_load_stats(tent_engine_t engine, tent_nic_load_stat_t *stats, size_t *count)
{
	struct lib_engine *e = lib_engine_enter(engine);
	int rc;

	if (!e)
		return -1;
	if (stats && count)
		rc = lib_nic_loads(e, stats, count);
	else
		rc = lib_fail_null(stats ? "count" : "stats");
	lib_engine_leave(e);
	return answer(rc);
}
