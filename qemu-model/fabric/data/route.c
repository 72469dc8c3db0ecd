// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Packets at routers (mgmt/router.h): their output, and their new headers. The head of a lane keeps
 * the headers with which it arrived, since it may be decided on again; it gets the new ones when it
 * leaves. The ICRC covers none of them (7.8.1).
 */
#include "route.h"

#include <string.h>

#include "fabric/mgmt/router.h"

/* fab_router_lid() with a cache that is valid until any table, state or link changes. */
static uint16_t guid_lid(struct fab_data *d, uint32_t out, uint64_t guid)
{
	struct fab_guid_lid *g = &d->guid_lid[fab_hash_u64(guid ^ out) % FAB_GUID_LIDS];

	if (g->guid != guid || g->out != out || g->version != d->version)
		*g = (struct fab_guid_lid){ guid, out, d->version, fab_router_lid(d->m, out, guid) };
	return g->lid;
}

static enum fab_drop why_not(enum fab_router_verdict v)
{
	switch (v) {
	case FAB_ROUTER_MALFORMED:
		return FAB_DROP_MALFORMED;
	case FAB_ROUTER_LINK_LOCAL:
		return FAB_DROP_LINK_LOCAL;
	case FAB_ROUTER_HOP_LIMIT:
		return FAB_DROP_HOP_LIMIT;
	case FAB_ROUTER_NO_SUBNET:
		return FAB_DROP_NO_SUBNET;
	case FAB_ROUTER_NO_GUID:
		return FAB_DROP_NO_GUID;
	default:
		return FAB_DROP_ROUTE;
	}
}

enum fab_kind fab_route_find(struct fab_data *d, struct fab_dport *in, struct fab_lane *l,
			     uint32_t *out)
{
	struct fab_frame *f = &l->f;
	struct fab_router_way way;
	enum fab_router_verdict v;
	struct ib_grh grh;

	/* a copy: a peer may write to a ring at any time */
	memcpy(&grh, f->data + IB_LRH_LEN, sizeof(grh));
	if (f->hop_limit)
		grh.hoplimit = f->hop_limit;
	v = fab_router_output(d->f, in->p, &grh, &way);
	if (v == FAB_ROUTER_OWN)
		return FAB_HEAD_LOCAL;
	if (v == FAB_ROUTER_ON) {
		l->dlid = guid_lid(d, way.out, way.guid);
		if (l->dlid) {
			*out = way.out;
			l->slid = d->f->port[*out].pi.lid;
			f->hop_limit = grh.hoplimit;
			l->routed = true;
			return FAB_HEAD_UCAST;
		}
		v = FAB_ROUTER_NO_GUID;
	}
	fab_router_discard(in->ctr, v);
	return fab_dropped(d, why_not(v));
}

void fab_route_frame(const struct fab_lane *l, struct fab_frame *f)
{
	*f = l->f;
	ib_put_be16(f->lrh + 2, l->dlid);
	ib_put_be16(f->lrh + 6, l->slid);
	f->hop_limit--;
}
