// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Protection domains, thread domains and parent domains. */

#include <stdlib.h>

#include "ohca.h"
#include "ohca_abi.h"

/** ohca_alloc_pd - ibv_alloc_pd(); NULL with errno set if the kernel refuses */
struct ibv_pd *ohca_alloc_pd(struct ibv_context *ibctx)
{
	struct uohca_alloc_pd_resp resp = {};
	struct ibv_alloc_pd cmd;
	struct ohca_pd *pd;
	int err;

	pd = calloc(1, sizeof(*pd));
	if (!pd) {
		errno = ENOMEM;
		return NULL;
	}
	err = ibv_cmd_alloc_pd(ibctx, &pd->ibv_pd, &cmd, sizeof(cmd),
			       &resp.ibv_resp, sizeof(resp));
	if (err) {
		free(pd);
		errno = err;
		return NULL;
	}
	pd->pdn = resp.pdn;
	return &pd->ibv_pd;
}

/** ohca_import_pd - ibv_import_pd(): the protection domain of another process */
struct ibv_pd *ohca_import_pd(struct ibv_context *ibctx, uint32_t handle)
{
	DECLARE_COMMAND_BUFFER(cmd, UVERBS_OBJECT_PD, OHCA_METHOD_PD_QUERY, 2);
	struct ohca_alloc_pd_resp resp = {};
	struct ohca_pd *pd;
	int err;

	pd = calloc(1, sizeof(*pd));
	if (!pd) {
		errno = ENOMEM;
		return NULL;
	}
	/* this also checks that the PD exists */
	fill_attr_in_obj(cmd, OHCA_ATTR_QUERY_PD_HANDLE, handle);
	fill_attr_out_ptr(cmd, OHCA_ATTR_QUERY_PD_RESP, &resp);
	err = execute_ioctl(ibctx, cmd) ? errno : 0;
	if (err) {
		free(pd);
		errno = err;
		return NULL;
	}
	pd->ibv_pd.context = ibctx;
	pd->ibv_pd.handle = handle;
	pd->pdn = resp.pdn;
	return &pd->ibv_pd;
}

/**
 * ohca_unimport_pd - ibv_unimport_pd(); the protection domain itself stays
 *
 * No object of this process may refer to it; if one does, the verb cannot return an error,
 * and the memory stays allocated.
 */
void ohca_unimport_pd(struct ibv_pd *ibpd)
{
	struct ohca_pd *pd = to_opd(ibpd);

	if (!atomic_load(&pd->refs))
		free(pd);
}

/**
 * ohca_dealloc_pd - ibv_dealloc_pd() of either kind
 *
 * Return: 0; EBUSY while something refers to it (IBTA vol 1, 11.2.1.6), else the kernel's
 * errno value. @refs counts the objects that the kernel does not know: AHs, parent domains, and
 * the queues of a parent domain.
 */
int ohca_dealloc_pd(struct ibv_pd *ibpd)
{
	struct ohca_pd *pd = to_opd(ibpd);
	int err;

	if (atomic_load(&pd->refs))
		return ohca_errno(EBUSY);
	if (pd->base) {
		atomic_fetch_sub(&pd->base->refs, 1);
		if (pd->td)
			atomic_fetch_sub(&pd->td->refs, 1);
	} else {
		err = ibv_cmd_dealloc_pd(ibpd);
		if (err)
			return err;
	}
	free(pd);
	return 0;
}

/** ohca_alloc_td - ibv_alloc_td(); a thread domain is known to the provider alone */
struct ibv_td *ohca_alloc_td(struct ibv_context *ibctx,
			     struct ibv_td_init_attr *attr)
{
	struct ohca_td *td;

	if (attr->comp_mask) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	td = calloc(1, sizeof(*td));
	if (!td) {
		errno = ENOMEM;
		return NULL;
	}
	td->ibv_td.context = ibctx;
	return &td->ibv_td;
}

/** ohca_dealloc_td - ibv_dealloc_td(); EBUSY while a parent domain names it */
int ohca_dealloc_td(struct ibv_td *ibtd)
{
	struct ohca_td *td = to_otd(ibtd);

	if (atomic_load(&td->refs))
		return ohca_errno(EBUSY);
	free(td);
	return 0;
}

/** ohca_alloc_parent_domain - ibv_alloc_parent_domain() with allocators and td */
struct ibv_pd *ohca_alloc_parent_domain(struct ibv_context *ibctx,
					struct ibv_parent_domain_init_attr *attr)
{
	struct ohca_pd *pd;

	if (ibv_check_alloc_parent_domain(attr))
		return NULL;
	if (!check_comp_mask(attr->comp_mask,
			     IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (to_opd(attr->pd)->base) {
		errno = EINVAL;
		return NULL;
	}

	pd = calloc(1, sizeof(*pd));
	if (!pd) {
		errno = ENOMEM;
		return NULL;
	}
	pd->base = to_opd(attr->pd);
	pd->pdn = pd->base->pdn;
	atomic_fetch_add(&pd->base->refs, 1);
	if (attr->td) {
		pd->td = to_otd(attr->td);
		atomic_fetch_add(&pd->td->refs, 1);
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) {
		pd->alloc = attr->alloc;
		pd->free = attr->free;
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)
		pd->pd_context = attr->pd_context;
	ibv_initialize_parent_domain(&pd->ibv_pd, attr->pd);
	return &pd->ibv_pd;
}

/**
 * ohca_parent_domain_get - refer to a parent domain
 * @ibpd: any PD, or NULL
 *
 * Return: the parent domain with a reference, or NULL if @ibpd is none. The kernel
 * keeps count of what refers to an ordinary PD.
 */
struct ohca_pd *ohca_parent_domain_get(struct ibv_pd *ibpd)
{
	struct ohca_pd *pd = ibpd ? to_opd(ibpd) : NULL;

	if (!pd || !pd->base)
		return NULL;
	atomic_fetch_add(&pd->refs, 1);
	return pd;
}

/** ohca_parent_domain_put - drop the reference; @pd may be NULL */
void ohca_parent_domain_put(struct ohca_pd *pd)
{
	if (pd)
		atomic_fetch_sub(&pd->refs, 1);
}
