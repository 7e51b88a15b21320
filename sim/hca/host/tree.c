/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "sim/hca/host/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PCI_ROOT "sys/devices/pci7357:00"

/* The first error stays; what follows it does nothing. */
struct writer {
	int dir;		/* paths are relative to it */
	int error;		/* 0 or -errno */
};

static void vput(struct writer *w, const char *path, const char *format, va_list args)
{
	char temporary[PATH_MAX];
	int fd;

	if (w->error)
		return;
	snprintf(temporary, sizeof(temporary), "%s.new", path);
	fd = openat(w->dir, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0 || vdprintf(fd, format, args) < 0 || fchmod(fd, 0644) ||
	    renameat(w->dir, temporary, w->dir, path))
		w->error = -errno;
	if (fd >= 0)
		close(fd);
}

__attribute__((format(printf, 3, 4)))
static void put(struct writer *w, const char *path, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vput(w, path, format, args);
	va_end(args);
}

/* With all folders above it; the umask of whoever starts the holder must not shut
 * other users out. */
static void make_folder(struct writer *w, const char *path)
{
	char part[PATH_MAX];

	for (const char *end = path; !w->error && *end; ) {
		end = strchrnul(end + 1, '/');
		snprintf(part, sizeof(part), "%.*s", (int)(end - path), path);
		if (!mkdirat(w->dir, part, 0755)) {
			if (fchmodat(w->dir, part, 0755, 0))
				w->error = -errno;
		} else if (errno != EEXIST) {
			w->error = -errno;
		}
	}
}

static void make_link(struct writer *w, const char *target, const char *path)
{
	if (!w->error && symlinkat(target, w->dir, path))
		w->error = -errno;
}

/* Anyone may open it, as udev rules of rdma-core have it. */
static void make_node(struct writer *w, const char *path)
{
	put(w, path, "%s", "");
	if (!w->error && fchmodat(w->dir, path, 0666, 0))
		w->error = -errno;
}

/* ---- ports -------------------------------------------------------------- */

static void put_gid(struct writer *w, const char *port_path, unsigned index,
		    const struct tree_gid *gid)
{
	const uint8_t *r = gid->raw;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/gids/%u", port_path, index);
	put(w, path, "%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x\n",
	    r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7], r[8], r[9], r[10], r[11], r[12],
	    r[13], r[14], r[15]);
	/* Where the kernel has no entry, reading the type fails; the libraries take that
	 * for this type. */
	snprintf(path, sizeof(path), "%s/gid_attrs/types/%u", port_path, index);
	put(w, path, "%s\n", gid->is_roce_v2 ? "RoCE v2" : "IB/RoCE v1");
	snprintf(path, sizeof(path), "%s/gid_attrs/ndevs/%u", port_path, index);
	if (gid->interface[0])
		put(w, path, "%.15s\n", gid->interface);
	else if (!w->error && unlinkat(w->dir, path, 0) && errno != ENOENT)
		w->error = -errno;
}

static void put_port(struct writer *w, const char *ib_path, unsigned number,
		     const struct tree_port *port)
{
	char port_path[PATH_MAX - 64], path[PATH_MAX];

#define PORT_FILE(name, ...)						\
	(snprintf(path, sizeof(path), "%s/" name, port_path), put(w, path, __VA_ARGS__))
	snprintf(port_path, sizeof(port_path), "%s/ports/%u", ib_path, number);
	for (unsigned i = 0; i < TREE_GIDS; i++)
		put_gid(w, port_path, i, &port->gids[i]);
	PORT_FILE("state", "%s\n", port->is_up ? "4: ACTIVE" : "1: DOWN");
	PORT_FILE("phys_state", "%s\n", port->is_up ? "5: LinkUp" : "3: Disabled");
	PORT_FILE("link_layer", "%s\n", port->is_ethernet ? "Ethernet" : "InfiniBand");
	PORT_FILE("rate", "400 Gb/sec (4X NDR)\n");
	PORT_FILE("lid", "0x%x\n", port->lid);
	PORT_FILE("sm_lid", "0x%x\n", port->is_ethernet ? 0 : 1);
	PORT_FILE("sm_sl", "0\n");
	PORT_FILE("lid_mask_count", "0\n");
	PORT_FILE("cap_mask", "0x%08x\n", port->is_ethernet ? 0x04010000 : 0x00010800);
#undef PORT_FILE
}

static void make_port(struct writer *w, const char *ib_path, unsigned number)
{
	static const char *const folders[] = { "gids", "gid_attrs/types", "gid_attrs/ndevs",
					       "pkeys" };
	char path[PATH_MAX];

	for (unsigned i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
		snprintf(path, sizeof(path), "%s/ports/%u/%s", ib_path, number, folders[i]);
		make_folder(w, path);
	}
	snprintf(path, sizeof(path), "%s/ports/%u/pkeys/0", ib_path, number);
	put(w, path, "0xffff\n");
}

/* ---- devices ------------------------------------------------------------- */

static void ib_path_of(char *path, size_t size, const struct tree_device *d)
{
	snprintf(path, size, PCI_ROOT "/7357:%02x:00.0/infiniband/mlx5_%u", d->index + 1,
		 d->index);
}

/* Programs find a device's interfaces here, and from them its addresses. */
static void put_interfaces(struct writer *w, const struct tree_device *d, const char *pci)
{
	char path[PATH_MAX], target[64];

	snprintf(path, sizeof(path), "%s/net", pci);
	make_folder(w, path);
	for (unsigned i = 0; i < d->nr_ports; i++) {
		const char *name = d->ports[i].gids[0].interface;

		if (!name[0] || (i && !strcmp(name, d->ports[0].gids[0].interface)))
			continue;
		snprintf(path, sizeof(path), "%s/net/%.15s", pci, name);
		snprintf(target, sizeof(target), "/sys/class/net/%.15s", name);
		make_link(w, target, path);
	}
}

static void put_pci(struct writer *w, const struct tree_device *d)
{
	bool is_ethernet = d->nr_ports && d->ports[0].is_ethernet;
	char pci[64], path[PATH_MAX], target[PATH_MAX];

#define PCI_FILE(name, ...)						\
	(snprintf(path, sizeof(path), "%s/" name, pci), put(w, path, __VA_ARGS__))
	snprintf(pci, sizeof(pci), PCI_ROOT "/7357:%02x:00.0", d->index + 1);
	make_folder(w, pci);
	PCI_FILE("vendor", "0x15b3\n");
	PCI_FILE("device", "0x1021\n");
	PCI_FILE("subsystem_vendor", "0x15b3\n");
	PCI_FILE("subsystem_device", "0x0023\n");
	PCI_FILE("revision", "0x00\n");
	PCI_FILE("class", "0x%06x\n", is_ethernet ? 0x020000 : 0x020700);
	PCI_FILE("modalias", "pci:v000015B3d00001021sv000015B3sd00000023bc02sc%02Xi00\n",
		 is_ethernet ? 0 : 7);
	PCI_FILE("numa_node", "-1\n");
	PCI_FILE("current_link_speed", "32.0 GT/s PCIe\n");
	PCI_FILE("max_link_speed", "32.0 GT/s PCIe\n");
	PCI_FILE("current_link_width", "16\n");
	PCI_FILE("max_link_width", "16\n");
#undef PCI_FILE
	put_interfaces(w, d, pci);
	snprintf(target, sizeof(target), "../../../devices/pci7357:00/7357:%02x:00.0",
		 d->index + 1);
	snprintf(path, sizeof(path), "sys/bus/pci/devices/7357:%02x:00.0", d->index + 1);
	make_link(w, target, path);
}

static void put_guid(struct writer *w, const char *path, uint64_t guid)
{
	put(w, path, "%04x:%04x:%04x:%04x\n", (unsigned)(guid >> 48),
	    (unsigned)(guid >> 32) & 0xffff, (unsigned)(guid >> 16) & 0xffff,
	    (unsigned)guid & 0xffff);
}

static void put_infiniband(struct writer *w, const struct tree_device *d)
{
	char ib[PATH_MAX - 64], path[PATH_MAX], target[PATH_MAX];

#define IB_PATH(name) (snprintf(path, sizeof(path), "%s/" name, ib), path)
	ib_path_of(ib, sizeof(ib), d);
	make_folder(w, ib);
	put_guid(w, IB_PATH("node_guid"), d->node_guid);
	put_guid(w, IB_PATH("sys_image_guid"), d->node_guid);
	put(w, IB_PATH("node_type"), "1: CA\n");
	put(w, IB_PATH("node_desc"), "mlx5_%u\n", d->index);
	put(w, IB_PATH("fw_ver"), "28.39.1002\n");
	put(w, IB_PATH("hca_type"), "MT4129\n");
	put(w, IB_PATH("hw_rev"), "0\n");
	put(w, IB_PATH("board_id"), "SIM_0000000023\n");
	make_link(w, "../..", IB_PATH("device"));
#undef IB_PATH
	for (unsigned i = 0; i < d->nr_ports; i++) {
		make_port(w, ib, i + 1);
		put_port(w, ib, i + 1, &d->ports[i]);
	}
	snprintf(target, sizeof(target), "../../%s", ib + strlen("sys/"));
	snprintf(path, sizeof(path), "sys/class/infiniband/mlx5_%u", d->index);
	make_link(w, target, path);
}

static void put_uverbs(struct writer *w, const struct tree_device *d)
{
	char folder[PATH_MAX - 64], path[PATH_MAX], target[PATH_MAX];

#define UVERBS_PATH(name) (snprintf(path, sizeof(path), "%s/" name, folder), path)
	snprintf(folder, sizeof(folder), PCI_ROOT "/7357:%02x:00.0/infiniband_verbs/uverbs%u",
		 d->index + 1, d->index);
	make_folder(w, folder);
	put(w, UVERBS_PATH("ibdev"), "mlx5_%u\n", d->index);
	put(w, UVERBS_PATH("dev"), "%u:%u\n", TREE_UVERBS_MAJOR, TREE_UVERBS_MINOR + d->index);
	put(w, UVERBS_PATH("abi_version"), "1\n");
	make_link(w, "../..", UVERBS_PATH("device"));
#undef UVERBS_PATH
	snprintf(target, sizeof(target), "../../%s", folder + strlen("sys/"));
	snprintf(path, sizeof(path), "sys/class/infiniband_verbs/uverbs%u", d->index);
	make_link(w, target, path);
	snprintf(path, sizeof(path), "dev/infiniband/uverbs%u", d->index);
	make_node(w, path);
}

static void put_classes(struct writer *w)
{
	static const char *const folders[] = { "sys/class/infiniband",
		"sys/class/infiniband_verbs", "sys/class/misc/rdma_cm", "sys/bus/pci/devices",
		"dev/infiniband" };

	for (unsigned i = 0; i < sizeof(folders) / sizeof(*folders); i++)
		make_folder(w, folders[i]);
	put(w, "sys/class/infiniband_verbs/abi_version", "6\n");
	put(w, "sys/class/misc/rdma_cm/abi_version", "4\n");
	put(w, "sys/class/misc/rdma_cm/dev", "%u:%u\n", TREE_RDMA_CM_MAJOR,
	    TREE_RDMA_CM_MINOR);
	make_node(w, "dev/infiniband/rdma_cm");
}

static bool is_sound(const struct tree_device *d)
{
	return d->index < TREE_MAX_DEVICES && d->nr_ports <= TREE_MAX_PORTS;
}

int tree_make(const char *dir, const struct tree_device *devices, unsigned nr)
{
	struct writer w = { .error = 0 };

	if (mkdir(dir, 0755))
		return -errno;
	w.dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (w.dir < 0 || fchmod(w.dir, 0755))
		w.error = -errno;
	put_classes(&w);
	for (unsigned i = 0; i < nr && !w.error; i++) {
		if (!is_sound(&devices[i])) {
			w.error = -EINVAL;
			break;
		}
		put_pci(&w, &devices[i]);
		put_infiniband(&w, &devices[i]);
		put_uverbs(&w, &devices[i]);
	}
	if (w.dir >= 0)
		close(w.dir);
	if (w.error)
		tree_remove(dir);
	return w.error;
}

int tree_update_ports(const char *dir, const struct tree_device *device)
{
	struct writer w = { .dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) };
	char ib[PATH_MAX - 64];

	if (w.dir < 0)
		return -errno;
	if (!is_sound(device))
		w.error = -EINVAL;
	ib_path_of(ib, sizeof(ib), device);
	for (unsigned i = 0; i < device->nr_ports && !w.error; i++)
		put_port(&w, ib, i + 1, &device->ports[i]);
	close(w.dir);
	return w.error;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path) ? -errno : 0;
}

int tree_remove(const char *dir)
{
	int rc = nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);

	return rc == -1 ? -errno : rc;
}
