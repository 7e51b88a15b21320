/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sim/hca/host/parts.h"
#include "sim/hca/host/tree.h"

#define PLACE "/dev/shm"	/* a hundred files, made and removed in each run */
#define PREFIX "tent-hca-"
#define TREE_NAME "host"
#define OLD_S 60	/* an empty folder may be that of a holder which just begins */

static_assert(TREE_GIDS == WIRE_MAX_GIDS && TREE_MAX_PORTS >= HOST_MAX_PORTS &&
		      TREE_MAX_DEVICES >= HOST_MAX_DEVICES,
	      "the tree has room for what a host has");

/* ---- folders of holders that were killed ------------------------------------- */

/* True: its holder lives, or it is not clear. *lock_fd is then closed. */
static bool is_in_use(const char *path, int *lock_fd)
{
	struct stat s;

	*lock_fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (*lock_fd < 0)
		return true;
	if (!fstat(*lock_fd, &s) && s.st_uid == geteuid() &&
	    !flock(*lock_fd, LOCK_EX | LOCK_NB) &&
	    (!faccessat(*lock_fd, TREE_NAME, F_OK, 0) || time(NULL) - s.st_mtime > OLD_S))
		return false;
	close(*lock_fd);
	return true;
}

static void remove_left_over(const char *name)
{
	char path[sizeof(PLACE) + NAME_MAX + 1], tree[sizeof(path) + sizeof(TREE_NAME)];
	int lock_fd;

	snprintf(path, sizeof(path), "%s/%s", PLACE, name);
	snprintf(tree, sizeof(tree), "%s/%s", path, TREE_NAME);
	if (is_in_use(path, &lock_fd))
		return;
	tree_remove(tree);
	rmdir(path);
	close(lock_fd);
}

static void clean_up(void)
{
	DIR *d = opendir(PLACE);
	struct dirent *e;

	if (!d)
		return;
	while ((e = readdir(d)))
		if (!strncmp(e->d_name, PREFIX, strlen(PREFIX)))
			remove_left_over(e->d_name);
	closedir(d);
}

/* ---- ours -------------------------------------------------------------------- */

static void describe_port(struct tree_port *out, const struct host_port *p)
{
	*out = (struct tree_port){
		.is_ethernet = p->wire.is_ethernet, .is_up = p->wire.is_up,
		.lid = (uint16_t)p->wire.lid,
	};
	for (uint32_t i = 0; i < WIRE_MAX_GIDS; i++) {
		wire_gid_get(&p->wire.gids, i, out->gids[i].raw);
		out->gids[i].is_roce_v2 = p->wire.is_ethernet;
		if (p->wire.is_ethernet && !p->hides_interface)
			memcpy(out->gids[i].interface, p->ifname, sizeof(p->ifname));
	}
}

static void describe(struct tree_device *out, const struct host_table *t, uint32_t n)
{
	const struct host_device *d = &t->devices[n];

	*out = (struct tree_device){
		.index = n, .node_guid = d->node_guid, .nr_ports = d->nr_ports,
	};
	for (uint32_t i = 0; i < d->nr_ports; i++)
		describe_port(&out->ports[i], &d->ports[i]);
}

static int make_tree(const struct host_table *t)
{
	struct tree_device devices[HOST_MAX_DEVICES];
	unsigned nr = 0;

	for (uint32_t i = 0; i < t->nr_devices; i++)
		if (!t->devices[i].is_removed)
			describe(&devices[nr++], t, i);
	return tree_make(t->tree, devices, nr);
}

int folder_make(struct folder *f, struct host_table *t)
{
	int rc;

	clean_up();
	strcpy(f->parent, PLACE "/" PREFIX "XXXXXX");
	if (!mkdtemp(f->parent))
		return -errno;
	f->lock_fd = open(f->parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (f->lock_fd < 0 || flock(f->lock_fd, LOCK_EX | LOCK_NB) || chmod(f->parent, 0755)) {
		rc = -errno;
	} else {
		snprintf(t->tree, sizeof(t->tree), "%s/%s", f->parent, TREE_NAME);
		rc = make_tree(t);
	}
	if (rc)
		rmdir(f->parent);
	return rc;
}

int folder_update(const struct host_table *t, uint32_t device)
{
	struct tree_device d;

	describe(&d, t, device);
	return tree_update_ports(t->tree, &d);
}

int folder_remove_device(const struct host_table *t)
{
	int rc = tree_remove(t->tree);

	return rc ? rc : make_tree(t);
}

void folder_remove(struct folder *f, const struct host_table *t)
{
	tree_remove(t->tree);
	rmdir(f->parent);
	close(f->lock_fd);
}
