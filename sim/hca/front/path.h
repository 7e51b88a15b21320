/* SPDX-License-Identifier: Apache-2.0 */
/*
 * path.h - paths of a card's files lead into the discovery tree (host/tree.h).
 */
#ifndef TENT_SIM_HCA_PATH_H
#define TENT_SIM_HCA_PATH_H

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

/* Whether the program shall see cards at all. */
bool path_has_tree(void);
/* Where this path leads: into the tree, built in buffer, or the path itself. */
const char *path_rewrite(const char *path, char buffer[PATH_MAX]);
/* What the program shall see of a path that may lie in the tree. */
void path_hide_tree(char *path);

enum path_node { PATH_NO_NODE, PATH_UVERBS, PATH_RDMA_CM };
/* Which device node a program's path names; *index: N of uverbsN. */
enum path_node path_node(const char *path, unsigned *index);
/* A node in the tree is a plain file; makes it the device that the program expects. */
void path_fake_stat(enum path_node node, unsigned index, struct stat *st);

#endif /* TENT_SIM_HCA_PATH_H */
