/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.c - protection domains, memory regions, address handles.
 */
#include <errno.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "sim/hca/uverbs/command.h"
#include "sim/hca/uverbs/datasheet.h"

int command_alloc_pd(struct command *c)
{
	struct object *o = command_make(c, OBJECT_PD);
	int rc;

	if (!o)
		return -ENOMEM;
	rc = hca_pd_create(c->file->device->hca, &o->pd);
	if (rc)
		return command_unmake(c, rc);
	COMMAND_OUT(c, ib_uverbs_alloc_pd_resp)->pd_handle = o->handle;
	COMMAND_HW_OUT(c, mlx5_ib_alloc_pd_resp)->pdn = o->handle + 1;
	return 0;
}

int command_dealloc_pd(struct command *c)
{
	return command_destroy(c, OBJECT_PD, COMMAND_IN(c, ib_uverbs_dealloc_pd)->pd_handle);
}

/* ---- memory regions -------------------------------------------------------- */

#define ACCESS_KNOWN							\
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | \
	 IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE)
#define ACCESS_ENGINE							\
	(HCA_ACCESS_LOCAL_WRITE | HCA_ACCESS_REMOTE_WRITE | HCA_ACCESS_REMOTE_READ | \
	 HCA_ACCESS_REMOTE_ATOMIC | HCA_ACCESS_RELAXED_ORDERING)

static int check_access(uint32_t access)
{
	bool is_written_by_peers = access & (IBV_ACCESS_REMOTE_WRITE |
					     IBV_ACCESS_REMOTE_ATOMIC);

	if (access & ~(uint32_t)ACCESS_KNOWN)
		return -EINVAL;
	if (is_written_by_peers && !(access & IBV_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	return access & IBV_ACCESS_ON_DEMAND ? -EOPNOTSUPP : 0;
}

static bool is_writable(uint32_t access)
{
	return access & IBV_ACCESS_LOCAL_WRITE;
}

static int check_range(uint64_t start, uint64_t length, uint64_t iova)
{
	if ((start ^ iova) % UVERBS_PAGE || !length)
		return -EINVAL;
	return start + length < start || iova + length < iova ? -EINVAL : 0;
}

static int check_mr(struct command *c, const struct object_mr *mr)
{
	const struct uverbs_env *env = c->file->device->env;
	int rc = check_access(mr->access);

	if (!rc)
		rc = check_range(mr->start, mr->length, mr->iova);
	if (!rc && mr->length > env->max_mr_bytes(env->ctx))
		rc = -EINVAL;
	return rc ? rc : env->refuse_mr(env->ctx);
}

/* Memory of the program; as a kernel with peer memory has it, then that of other devices. */
static int pin(struct command *c, struct umem **mem, const struct object_mr *mr)
{
	const struct uverbs_env *env = c->file->device->env;
	int rc = umem_pin(mem, mr->start, mr->length, is_writable(mr->access));

	if (rc == -EFAULT && env->takes_peers(env->ctx))
		rc = umem_pin_peer(mem, mr->start, mr->length, is_writable(mr->access));
	return rc;
}

/* Takes mem over, also when it fails. */
static int make_mr(struct command *c, struct object *pd, struct object_mr *mr,
		   struct umem *mem)
{
	struct object *o = command_make(c, OBJECT_MR);
	int rc = -ENOMEM;

	if (o)
		rc = hca_mr_create(pd->pd, mem, mr->iova, mr->length,
				   mr->access & ACCESS_ENGINE, &mr->hca, &mr->key);
	if (rc) {
		umem_release(mem);
		return command_unmake(c, rc);
	}
	o->mr = *mr;
	object_use(o, pd);
	return 0;
}

int command_reg_mr(struct command *c)
{
	const struct ib_uverbs_reg_mr *in = COMMAND_IN(c, ib_uverbs_reg_mr);
	struct object *pd = command_find(c, OBJECT_PD, in->pd_handle);
	struct object_mr mr = { .start = in->start, .length = in->length, .iova = in->hca_va,
				.access = in->access_flags };
	struct ib_uverbs_reg_mr_resp *out = COMMAND_OUT(c, ib_uverbs_reg_mr_resp);
	struct umem *mem;
	int rc = check_mr(c, &mr);

	if (!rc && !pd)
		rc = -ENOENT;
	if (!rc)
		rc = pin(c, &mem, &mr);
	if (!rc)
		rc = make_mr(c, pd, &mr, mem);
	if (rc)
		return rc;
	*out = (struct ib_uverbs_reg_mr_resp){ .mr_handle = c->made->handle, .lkey = mr.key,
					       .rkey = mr.key };
	return 0;
}

/* A kernel's answer to a file that is no dma-buf, or has fewer bytes. */
static int dmabuf_error(int rc)
{
	return !rc || rc == -ENOMEM || rc == -EBADF ? rc : -EINVAL;
}

int command_reg_dmabuf_mr(struct command *c, const struct command_dmabuf *d)
{
	const struct uverbs_env *env = c->file->device->env;
	struct object *pd = command_find(c, OBJECT_PD, d->pd_handle);
	struct object_mr mr = { .start = d->offset, .length = d->length, .iova = d->iova,
				.access = d->access, .is_dmabuf = true };
	struct umem *mem;
	int rc = env->takes_dma_bufs(env->ctx) ? check_mr(c, &mr) : -EOPNOTSUPP;

	if (!rc && !pd)
		rc = -ENOENT;
	if (!rc)
		rc = dmabuf_error(umem_pin_fd(&mem, d->fd, d->offset, d->length,
					      is_writable(d->access)));
	return rc ? rc : make_mr(c, pd, &mr, mem);
}

/* What the region is after the change; the parts that flags do not name stay. */
static int plan_rereg(struct command *c, const struct ib_uverbs_rereg_mr *in,
		      const struct object *o, struct object_mr *mr)
{
	*mr = o->mr;
	if (!in->flags)
		return -EINVAL;
	if (in->flags & ~(uint32_t)IBV_REREG_MR_FLAGS_SUPPORTED || o->mr.is_dmabuf)
		return -EOPNOTSUPP;
	if (in->flags & IBV_REREG_MR_CHANGE_ACCESS)
		mr->access = in->access_flags;
	if (in->flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		mr->start = in->start;
		mr->length = in->length;
		mr->iova = in->hca_va;
	}
	return check_mr(c, mr);
}

int command_rereg_mr(struct command *c)
{
	const struct ib_uverbs_rereg_mr *in = COMMAND_IN(c, ib_uverbs_rereg_mr);
	struct object *o = command_find(c, OBJECT_MR, in->mr_handle), *pd = NULL;
	struct umem *mem = NULL;
	struct object_mr mr;
	int rc = o ? plan_rereg(c, in, o, &mr) : -ENOENT;

	if (!rc && in->flags & IBV_REREG_MR_CHANGE_PD) {
		pd = command_find(c, OBJECT_PD, in->pd_handle);
		rc = pd ? 0 : -ENOENT;
	}
	/* Pages that were pinned for reading only are pinned anew for writing. */
	if (!rc && (in->flags & IBV_REREG_MR_CHANGE_TRANSLATION ||
		    is_writable(mr.access) > is_writable(o->mr.access)))
		rc = pin(c, &mem, &mr);
	if (!rc)
		rc = hca_mr_change(o->mr.hca, pd ? pd->pd : NULL, mr.access & ACCESS_ENGINE,
				   mem, mr.iova, mr.length);
	if (rc) {
		if (mem)
			umem_release(mem);
		return rc;
	}
	if (pd) {
		object_unuse(o, o->uses[0]);
		object_use(o, pd);
	}
	o->mr = mr;
	*COMMAND_OUT(c, ib_uverbs_rereg_mr_resp) =
		(struct ib_uverbs_rereg_mr_resp){ .lkey = mr.key, .rkey = mr.key };
	return 0;
}

int command_dereg_mr(struct command *c)
{
	return command_destroy(c, OBJECT_MR, COMMAND_IN(c, ib_uverbs_dereg_mr)->mr_handle);
}

/* ---- address handles --------------------------------------------------------- */

/* libmlx5 puts it into the address vector, where a card takes it from. The wire goes by
 * GID, so any address that is the same for the same GID will do. */
static void mac_of_gid(uint8_t mac[6], const uint8_t gid[16])
{
	mac[0] = 0x02;
	mac[1] = gid[8] ^ gid[11];
	memcpy(&mac[2], &gid[12], 4);
}

static int check_ah(const struct uverbs_device *d, const struct ib_uverbs_ah_attr *a)
{
	struct uverbs_port port;
	uint8_t gid[16];

	if (!a->port_num || a->port_num > d->nr_ports)
		return -EINVAL;
	d->env->port(d->env->ctx, a->port_num, &port);
	if (!a->is_global)
		return port.is_ethernet ? -EINVAL : 0;
	return d->env->gid(d->env->ctx, a->port_num, a->grh.sgid_index, gid) ? 0 : -EINVAL;
}

int command_create_ah(struct command *c)
{
	const struct ib_uverbs_create_ah *in = COMMAND_IN(c, ib_uverbs_create_ah);
	struct object *pd = command_find(c, OBJECT_PD, in->pd_handle), *o;
	struct mlx5_ib_create_ah_resp *hw;
	int rc = pd ? check_ah(c->file->device, &in->attr) : -ENOENT;

	if (rc)
		return rc;
	o = command_make(c, OBJECT_AH);
	if (!o)
		return -ENOMEM;
	object_use(o, pd);
	COMMAND_OUT(c, ib_uverbs_create_ah_resp)->ah_handle = o->handle;
	hw = COMMAND_HW_OUT(c, mlx5_ib_create_ah_resp);
	hw->response_length = c->hw_out_length < sizeof(*hw) ? c->hw_out_length :
			      (__u32)sizeof(*hw);
	mac_of_gid(hw->dmac, in->attr.grh.dgid);
	return 0;
}

int command_destroy_ah(struct command *c)
{
	return command_destroy(c, OBJECT_AH, COMMAND_IN(c, ib_uverbs_destroy_ah)->ah_handle);
}
