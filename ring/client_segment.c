/* SPDX-License-Identifier: Apache-2.0 */
/* client_segment.c - opens segments by name and reads what is registered in them. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "ring/client.h"

int tent_client_open_segment(struct tent_client *client, const char *name,
			     tent_segment_id_t *id)
{
	struct ctl_message m = { .nr_fds = 0 };
	struct tent_ctl_segment_open *q = (void *)m.bytes;
	const struct tent_ctl_segment_open_reply *r = (const void *)m.bytes;
	int rc;

	if (!name || !id)
		return client_fail(TENT_RULE_ARG_NULL, 0);
	rc = client_copy_text(q->name, sizeof(q->name), name, TENT_RULE_SEGMENT_UNKNOWN);
	if (rc == 0)
		rc = client_call(client, &m, TENT_CTL_SEGMENT_OPEN, sizeof(*q), sizeof(*r), 0);
	if (rc == 0)
		*id = r->segment_id;
	return rc;
}

int tent_client_close_segment(struct tent_client *client, tent_segment_id_t id)
{
	return client_call_id(client, TENT_CTL_SEGMENT_CLOSE, id);
}

static int get_page(struct tent_client *c, struct ctl_message *m, tent_segment_id_t id,
		    uint32_t first)
{
	struct tent_ctl_segment_info *q = (void *)m->bytes;

	memset(m, 0, sizeof(*m));
	q->segment_id = id;
	q->first = first;
	return client_call(c, m, TENT_CTL_SEGMENT_INFO, sizeof(*q),
			   sizeof(struct tent_ctl_segment_info_reply), 0);
}

static int append(struct tent_segment_info *info, const struct tent_ctl_segment_info_reply *r)
{
	size_t nr = (size_t)info->num_buffers + r->count;
	struct tent_buffer_info *grown = realloc(info->buffers, nr * sizeof(*grown));

	if (!grown)
		return client_fail_system("realloc of buffers", -ENOMEM);
	info->buffers = grown;
	for (uint32_t i = 0; i < r->count; i++) {
		struct tent_buffer_info *b = &grown[info->num_buffers++];

		b->base = r->buffers[i].base;
		b->length = r->buffers[i].length;
		memcpy(b->location, r->buffers[i].location, sizeof(b->location));
		b->location[sizeof(b->location) - 1] = '\0';
	}
	return 0;
}

/* The list may grow or shrink between two pages; the last page tells how long it is
 * now, and an empty one that it ends here. */
static int read_pages(struct tent_client *c, tent_segment_id_t id, struct tent_segment_info *info)
{
	struct ctl_message m;
	const struct tent_ctl_segment_info_reply *r = (const void *)m.bytes;

	do {
		int rc = get_page(c, &m, id, (uint32_t)info->num_buffers);

		if (rc)
			return rc;
		if (r->count > TENT_CTL_BUFFERS_PER_REPLY || r->total > INT_MAX)
			return client_fail(TENT_RULE_CTL_MESSAGE, r->count);
		info->type = r->type;
		if (!r->count)
			return 0;
		rc = append(info, r);
		if (rc)
			return rc;
	} while ((uint32_t)info->num_buffers < r->total);
	return 0;
}

int tent_client_segment_info(struct tent_client *client, tent_segment_id_t id,
			     struct tent_segment_info *info)
{
	struct tent_segment_info read = { .buffers = NULL };
	int rc;

	if (!info)
		return client_fail(TENT_RULE_ARG_NULL, 0);
	rc = read_pages(client, id, &read);
	if (rc) {
		free(read.buffers);
		return rc;
	}
	*info = read;
	return 0;
}
