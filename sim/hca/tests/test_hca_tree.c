/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The discovery tree: what libibverbs, UCX and librdmacm look for, where they look.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "sim/hca/host/tree.h"

struct fix {
	char parent[32], dir[48];
	struct tree_device devices[2];
};

static int make_fix(void **state)
{
	struct fix *f = calloc(1, sizeof(*f));

	if (!f)
		return -1;
	*state = f;
	strcpy(f->parent, "/tmp/test_hca_tree.XXXXXX");
	if (!mkdtemp(f->parent))
		return -1;
	snprintf(f->dir, sizeof(f->dir), "%s/tree", f->parent);
	f->devices[0] = (struct tree_device){ .index = 0, .node_guid = 0x0002c90300000001,
		.nr_ports = 1, .ports = { { .is_ethernet = true, .is_up = true,
			.gids = { { .raw = { [10] = 0xff, [11] = 0xff, 10, 0, 0, 1 },
				    .is_roce_v2 = true, .interface = "eth7" } } } } };
	f->devices[1] = (struct tree_device){ .index = 1, .node_guid = 2, .nr_ports = 2,
		.ports = { { .is_up = true, .lid = 5,
			     .gids = { { .raw = { 0xfe, 0x80, [15] = 9 } } } },
			   { .lid = 6 } } };
	return tree_make(f->dir, f->devices, 2);
}

static int end_fix(void **state)
{
	struct fix *f = *state;

	tree_remove(f->dir);
	rmdir(f->parent);
	free(f);
	return 0;
}

/* The content of a file of the tree without its newline, "" if there is none. */
static const char *text(const struct fix *f, const char *path)
{
	static char line[256];
	char whole[PATH_MAX];
	FILE *file;

	snprintf(whole, sizeof(whole), "%s/%s", f->dir, path);
	line[0] = '\0';
	file = fopen(whole, "r");
	if (!file)
		return line;
	if (fgets(line, sizeof(line), file))
		line[strcspn(line, "\n")] = '\0';
	fclose(file);
	return line;
}

static void libibverbs_finds_a_device_and_its_driver(void **state)
{
	assert_string_equal(text(*state, "sys/class/infiniband_verbs/abi_version"), "6");
	assert_string_equal(text(*state, "sys/class/infiniband_verbs/uverbs1/ibdev"), "mlx5_1");
	assert_string_equal(text(*state, "sys/class/infiniband_verbs/uverbs1/dev"), "231:193");
	assert_string_equal(text(*state, "sys/class/infiniband/mlx5_0/node_guid"),
			    "0002:c903:0000:0001");
	assert_non_null(strstr(text(*state, "sys/class/infiniband/mlx5_0/device/modalias"),
			       "pci:v000015B3d00001021"));
	assert_string_equal(text(*state, "sys/class/misc/rdma_cm/abi_version"), "4");
}

static void a_device_is_a_link_into_a_pci_tree(void **state)
{
	const struct fix *f = *state;
	char path[PATH_MAX], real[PATH_MAX];

	snprintf(path, sizeof(path), "%s/sys/class/infiniband/mlx5_0", f->dir);
	assert_non_null(realpath(path, real));
	assert_non_null(strstr(real, "/sys/devices/pci7357:00/7357:01:00.0/infiniband/mlx5_0"));
}

static void gids_have_types_and_interfaces(void **state)
{
	const struct fix *f = *state;

	assert_string_equal(text(f, "sys/class/infiniband/mlx5_0/ports/1/gids/0"),
			    "0000:0000:0000:0000:0000:ffff:0a00:0001");
	assert_string_equal(text(f, "sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/0"),
			    "RoCE v2");
	assert_string_equal(text(f, "sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0"),
			    "eth7");
	assert_string_equal(text(f, "sys/class/infiniband/mlx5_0/ports/1/gids/15"),
			    "0000:0000:0000:0000:0000:0000:0000:0000");
	assert_string_equal(text(f, "sys/class/infiniband/mlx5_1/ports/2/lid"), "0x6");
	assert_string_equal(text(f, "sys/class/infiniband/mlx5_1/ports/2/link_layer"),
			    "InfiniBand");
}

static void nodes_can_be_opened_by_everyone(void **state)
{
	const struct fix *f = *state;
	char path[PATH_MAX];
	struct stat st;

	snprintf(path, sizeof(path), "%s/dev/infiniband/uverbs0", f->dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0666);
	assert_int_equal(stat(f->dir, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0755);
}

static void a_port_changes_while_it_is_read(void **state)
{
	struct fix *f = *state;
	struct tree_port *port = &f->devices[0].ports[0];

	assert_string_equal(text(f, "sys/class/infiniband/mlx5_0/ports/1/state"), "4: ACTIVE");
	port->is_up = false;
	port->gids[1] = port->gids[0];
	port->gids[0] = (struct tree_gid){ .is_roce_v2 = false };
	assert_int_equal(tree_update_ports(f->dir, &f->devices[0]), 0);
	assert_string_equal(text(f, "sys/class/infiniband/mlx5_0/ports/1/state"), "1: DOWN");
	assert_string_equal(text(f, "sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0"),
			    "");
	assert_string_equal(text(f, "sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/1"),
			    "eth7");
}

static void what_cannot_be_leaves_nothing(void **state)
{
	struct fix *f = *state;
	char other[64];

	assert_int_equal(tree_make(f->dir, f->devices, 2), -EEXIST);
	f->devices[1].nr_ports = TREE_MAX_PORTS + 1;
	snprintf(other, sizeof(other), "%s/other", f->parent);
	assert_int_equal(tree_make(other, f->devices, 2), -EINVAL);
	assert_int_not_equal(access(other, F_OK), 0);
	assert_int_equal(tree_update_ports(f->dir, &f->devices[1]), -EINVAL);
	assert_int_equal(tree_remove(f->dir), 0);
	assert_int_not_equal(access(f->dir, F_OK), 0);
	assert_int_equal(tree_remove(f->dir), -ENOENT);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, make_fix, end_fix)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(libibverbs_finds_a_device_and_its_driver),
		TEST(a_device_is_a_link_into_a_pci_tree),
		TEST(gids_have_types_and_interfaces),
		TEST(nodes_can_be_opened_by_everyone),
		TEST(a_port_changes_while_it_is_read),
		TEST(what_cannot_be_leaves_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
