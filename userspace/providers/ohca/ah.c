// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Address handles. An AH is the address vector that goes into a WQE; neither the
 * kernel nor the device has an object for it. The device checks what only it
 * knows: path bits against the LMC, the GID. That its protection domain is the QP's is
 * checked when it is posted (wr.h). Any DLID is taken, 0 as well, which programs for
 * RoCE give: its packets are lost at the first switch.
 */

#include <stdlib.h>

#include "ohca.h"

#define OHCA_MAX_SL		15
#define OHCA_MAX_PATH_BITS	127
#define OHCA_MAX_FLOW_LABEL	0xfffff

/* Length of a port's GID table, queried once; 0 if the query fails. */
static int ohca_gid_tbl_len(struct ibv_context *ibctx, uint8_t port)
{
	struct ohca_context *ctx = to_octx(ibctx);
	struct ibv_port_attr attr = {};
	struct ibv_query_port cmd;
	int len;

	len = atomic_load_explicit(&ctx->gid_tbl_len[port - 1],
				   memory_order_relaxed);
	if (len)
		return len;
	if (ibv_cmd_query_port(ibctx, port, &attr, &cmd, sizeof(cmd)))
		return 0;
	atomic_store_explicit(&ctx->gid_tbl_len[port - 1], attr.gid_tbl_len,
			      memory_order_relaxed);
	return attr.gid_tbl_len;
}

/**
 * ohca_create_ah - ibv_create_ah()
 *
 * Return: the AH; NULL with errno EINVAL for invalid attributes,
 * or ENOMEM.
 */
struct ibv_ah *ohca_create_ah(struct ibv_pd *ibpd, struct ibv_ah_attr *attr)
{
	const struct ibv_global_route *grh = &attr->grh;
	struct ohca_hw_av *av;
	struct ohca_ah *ah;

	if (!attr->port_num ||
	    attr->port_num > to_octx(ibpd->context)->num_ports ||
	    attr->sl > OHCA_MAX_SL ||
	    attr->src_path_bits > OHCA_MAX_PATH_BITS ||
	    (attr->is_global &&
	     (grh->flow_label > OHCA_MAX_FLOW_LABEL ||
	      grh->sgid_index >=
		      ohca_gid_tbl_len(ibpd->context, attr->port_num)))) {
		errno = EINVAL;
		return NULL;
	}

	ah = calloc(1, sizeof(*ah));
	if (!ah) {
		errno = ENOMEM;
		return NULL;
	}
	ah->pd = to_opd(ibpd);
	ah->pdn = ah->pd->pdn;
	atomic_fetch_add(&ah->pd->refs, 1);
	av = &ah->av;
	av->dlid = htole16(attr->dlid);
	av->sl = attr->sl;
	av->src_path_bits = attr->src_path_bits;
	av->static_rate = attr->static_rate;
	if (attr->is_global) {
		av->flags = OHCA_AV_GRH;
		av->sgid_index = grh->sgid_index;
		av->hop_limit = grh->hop_limit;
		av->flow_tclass = htole32(
			OHCA_FIELD_PREP(OHCA_AV_FLOW_LABEL, grh->flow_label) |
			OHCA_FIELD_PREP(OHCA_AV_TCLASS,
					(uint32_t)grh->traffic_class));
		memcpy(av->dgid, grh->dgid.raw, sizeof(av->dgid));
	}
	return &ah->ibv_ah;
}

/** ohca_destroy_ah - ibv_destroy_ah(); WQEs that were posted have their own copy */
int ohca_destroy_ah(struct ibv_ah *ibah)
{
	struct ohca_ah *ah = to_oah(ibah);

	atomic_fetch_sub(&ah->pd->refs, 1);
	free(ah);
	return 0;
}
