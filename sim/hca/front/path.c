/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "sim/hca/front/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "sim/hca/host/tree.h"

#define NODES "/dev/infiniband/"

/* Read once, while there is one thread: the program may change its environment later. */
static char dir[PATH_MAX - 64];
static bool is_dir_known;

__attribute__((constructor)) static void learn_dir(void)
{
	const char *value = getenv(TREE_ENV);

	if (!is_dir_known && value && strlen(value) < sizeof(dir))
		strcpy(dir, value);
	is_dir_known = true;
}

/* NULL: the program shall see no cards. Other libraries' constructors may come first. */
static const char *tree_dir(void)
{
	if (!is_dir_known)
		learn_dir();
	return dir[0] ? dir : NULL;
}

bool path_has_tree(void)
{
	return tree_dir();
}

static bool is_ours(const char *path)
{
	static const char *const prefixes[] = {
		"/sys/class/infiniband",	/* and infiniband_verbs */
		"/sys/class/misc/rdma_cm",
		"/sys/devices/pci7357:",
		"/sys/bus/pci/devices/7357:",
		"/dev/infiniband",
	};

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++)
		if (!strncmp(path, prefixes[i], strlen(prefixes[i])))
			return true;
	return false;
}

const char *path_rewrite(const char *path, char buffer[PATH_MAX])
{
	if (!path || path[0] != '/' || !is_ours(path) || !tree_dir())
		return path;
	if (snprintf(buffer, PATH_MAX, "%s%s", tree_dir(), path) >= PATH_MAX)
		return path;
	return buffer;
}

void path_hide_tree(char *path)
{
	size_t n = tree_dir() ? strlen(tree_dir()) : 0;

	if (n && !strncmp(path, dir, n) && path[n] == '/')
		memmove(path, path + n, strlen(path + n) + 1);
}

enum path_node path_node(const char *path, unsigned *index)
{
	int end = 0;

	if (!path || strncmp(path, NODES, strlen(NODES)) || !tree_dir())
		return PATH_NO_NODE;
	path += strlen(NODES);
	*index = 0;
	if (!strcmp(path, "rdma_cm"))
		return PATH_RDMA_CM;
	if (sscanf(path, "uverbs%4u%n", index, &end) == 1 && !path[end] &&
	    *index < TREE_MAX_DEVICES)
		return PATH_UVERBS;
	return PATH_NO_NODE;
}

void path_fake_stat(enum path_node node, unsigned index, struct stat *st)
{
	if (node == PATH_NO_NODE)
		return;
	st->st_mode = S_IFCHR | (st->st_mode & 07777);
	st->st_rdev = node == PATH_UVERBS ?
		      makedev(TREE_UVERBS_MAJOR, TREE_UVERBS_MINOR + index) :
		      makedev(TREE_RDMA_CM_MAJOR, TREE_RDMA_CM_MINOR);
	st->st_size = 0;
	st->st_blocks = 0;
}
