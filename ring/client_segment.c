/* SPDX-License-Identifier: Apache-2.0 */
/* client_segment.c - opens segments by name and reads what is registered in them. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ring/client.h"

#define FILE_SCHEME "file://"

/* Devices may act on being opened, so they are not; and what comes in the place of a
 * file just then may make the open wait, so it does not block. */
static int open_path(const char *path)
{
	const int flags = O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
	struct stat s;
	int fd;

	if (stat(path, &s) == 0 && !S_ISREG(s.st_mode))
		return open(path, O_PATH | O_CLOEXEC);	/* to be refused as what it is */
	fd = open(path, O_RDWR | flags);
	if (fd < 0 && (errno == EACCES || errno == EPERM || errno == EROFS || errno == ETXTBSY))
		fd = open(path, O_RDONLY | flags);
	return fd;
}

/* This program opens its files itself, with its own rights, and hands the descriptor
 * over. The descriptor, or a negative error. */
static int open_file(const char *path)
{
	struct stat s = { 0 };
	int fd = *path == '/' ? open_path(path) : -1, error = *path == '/' ? errno : EINVAL;

	if (fd < 0)
		return client_fail_text(TENT_RULE_FILE_PATH, "segment is file://%.100s, which "
					"cannot be opened: %s; allowed: the absolute path of a "
					"regular file", path, strerror(error));
	if (fstat(fd, &s) == 0 && S_ISREG(s.st_mode)) {
		fcntl(fd, F_SETFL, 0);
		return fd;
	}
	close(fd);
	return client_fail_text(TENT_RULE_FILE_KIND, "segment is file://%.100s, which is no "
				"regular file; allowed: a regular file", path);
}

/* For people: of a long path its end. */
static void put_file_name(char *to, const char *path)
{
	size_t length = strlen(path), room = TENT_CTL_NAME_SIZE - sizeof(FILE_SCHEME "...");

	if (length < TENT_CTL_NAME_SIZE - strlen(FILE_SCHEME))
		snprintf(to, TENT_CTL_NAME_SIZE, "%s%s", FILE_SCHEME, path);
	else
		snprintf(to, TENT_CTL_NAME_SIZE, "%s...%s", FILE_SCHEME, path + length - room);
}

static int prepare_open(struct ctl_message *m, const char *name)
{
	struct tent_ctl_segment_open *q = (void *)m->bytes;
	const char *path = name + strlen(FILE_SCHEME);

	if (strncmp(name, FILE_SCHEME, strlen(FILE_SCHEME)) != 0)
		return client_copy_text(q->name, sizeof(q->name), name,
					TENT_RULE_SEGMENT_UNKNOWN);
	m->fds[0] = open_file(path);
	if (m->fds[0] < 0)
		return m->fds[0];
	m->nr_fds = 1;
	put_file_name(q->name, path);
	return 0;
}

int tent_client_open_segment(struct tent_client *client, const char *name,
			     tent_segment_id_t *id)
{
	struct ctl_message m = { .nr_fds = 0 };
	const struct tent_ctl_segment_open_reply *r = (const void *)m.bytes;
	int rc, fd;

	if (!name || !id)
		return client_fail_null(name ? "id" : "name");
	rc = prepare_open(&m, name);
	fd = m.nr_fds ? m.fds[0] : -1;
	if (rc == 0)
		rc = client_call(client, &m, TENT_CTL_SEGMENT_OPEN,
				 sizeof(struct tent_ctl_segment_open), sizeof(*r), 0);
	if (fd >= 0)
		close(fd);
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
		return client_fail_null("info");
	rc = read_pages(client, id, &read);
	if (rc) {
		free(read.buffers);
		return rc;
	}
	*info = read;
	return 0;
}
