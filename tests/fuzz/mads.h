/* SPDX-License-Identifier: GPL-2.0-or-later */
/* MADs of any kind that hosts of a fabric send, from the bytes of an input. */
#ifndef FUZZ_MADS_H
#define FUZZ_MADS_H

#include "fabric/mgmt/mgmt.h"
#include "ib/packet.h"

static const uint8_t *at, *end;	/* the rest of the input */

/* The next byte, 0 at the end. */
static inline uint8_t get8(void)
{
	return at < end ? *at++ : 0;
}

static inline struct fab_mad any_mad(uint8_t op)
{
	static const uint8_t attrs[] = { 0x02, 0x10, 0x11, 0x12, 0x14, 0x15, 0x16, 0x17, 0x18,
					 0x19, 0x1b, 0x20, 0x1d, 0x01 };
	static const uint8_t class[] = { IB_CLASS_SUBN_DR, IB_CLASS_SUBN_DR, IB_CLASS_SUBN_LID,
					 IB_CLASS_PERF };
	struct fab_mad mad = { .slid = 1 };
	struct ib_smp *s = &mad.smp;

	s->hdr.base_version = 1;
	s->hdr.mgmt_class = class[op & 3];
	s->hdr.class_version = 1;
	s->hdr.method = op & 4 ? IB_METHOD_SET : IB_METHOD_GET;
	s->hdr.attr_id = ib_to_be16(attrs[get8() % sizeof(attrs)]);
	s->hdr.attr_mod = ib_to_be32((uint32_t)(get8() % 8) << 16 | (uint32_t)(get8() % 8) << 8 |
				     get8() % 8);
	s->dr_slid = s->dr_dlid = ib_to_be16(IB_LID_PERMISSIVE);
	if (ib_smp_is_dr(s)) {
		unsigned int hops = get8() % 7;

		for (unsigned int i = 1; i <= hops; i++)
			s->init_path[i] = get8() % 6;
		ib_smp_set_hops(s, 0, (uint8_t)hops);
		mad.dlid = mad.slid = IB_LID_PERMISSIVE;
	} else {
		mad.dlid = get8() % 20;
		mad.dqp = mad.sqp = s->hdr.mgmt_class == IB_CLASS_PERF;
	}
	if (op & 8)
		for (unsigned int i = 0; i < IB_SMP_DATA_LEN; i++)
			s->data[i] = get8();
	for (unsigned int n = op & 16 ? get8() % 8 : 0; n; n--) {
		unsigned int where = get8();

		((uint8_t *)s)[where] = get8();
	}
	return mad;
}

/*
 * Answers the last MAD that a manager received, or repeats it as a Set, or as a TrapRepress of a
 * trap.
 */
static inline struct fab_mad any_answer(const struct fab_mad *last, uint8_t op)
{
	struct fab_mad mad = *last;

	if (mad.mad.hdr.method == IB_METHOD_TRAP)
		mad.mad.hdr.method = IB_METHOD_TRAP_REPRESS;
	else if (!(mad.mad.hdr.method & IB_METHOD_RESP))
		ib_mad_make_resp(&mad.mad.hdr, ib_smp_is_dr(&mad.smp) ? IB_SMP_DIRECTION : 0);
	else
		mad.mad.hdr.method = IB_METHOD_SET;
	if (mad.mad.hdr.method == IB_METHOD_SET && ib_smp_is_dr(&mad.smp)) {
		mad.mad.hdr.status = ib_to_be16(0);
		ib_smp_set_hops(&mad.smp, 0, ib_smp_hop_cnt(&mad.smp));
	} else {
		mad.dlid = last->slid;
		mad.slid = last->dlid;
	}
	if (op & 8)
		mad.smp.data[get8() % IB_SMP_DATA_LEN] = get8();
	return mad;
}

/* The state that a subnet manager would set up in @f; the input may change all of it. */
static inline void set_up(struct fab *f)
{
	for (uint32_t i = 0; i < f->nodes; i++) {
		const struct fab_node *n = &f->node[i];
		struct ib_port_info *pi = &f->port[fab_port_of(n, n->sw == FAB_NONE)].pi;

		pi->lid = (uint16_t)(i + 1);
		pi->sm_lid = 1;
	}
	for (uint32_t p = 1; p < f->ports; p++)
		if (f->port[p].pi.state == IB_PS_INIT)
			f->port[p].pi.state = IB_PS_ACTIVE;
}

#endif /* FUZZ_MADS_H */
