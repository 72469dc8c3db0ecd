/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes one packet of each opcode, and MADs of the agents' attributes, into a pcap file. Standard
 * output lists what a dissector has to find in each: the frame number, then name=value pairs with
 * the names of the dissector. It calls the address and the key of an AtomicETH reth.*, and reads
 * CRCs as big-endian.
 */
#include <stdlib.h>

#include "build_op.h"
#include "ib/pma.h"
#include "ib/smp.h"
#include "pcap.h"

static unsigned int frame;

static void out(FILE *f, const uint8_t *p, size_t len)
{
	if (pcap_write(f, p, len) < 0) {
		perror("pcap");
		exit(1);
	}
	frame++;
}

static void opcode_frames(FILE *f)
{
	static uint8_t b[IB_MAX_PKT_LEN + 64];

	for (unsigned int op = 0; op < 256; op++) {
		const struct ib_opcode_info *o = &ib_opcodes[op];
		unsigned int trans = op & IB_TRANS_MASK;
		size_t len;

		/*
		 * Wireshark reads RD opcodes as others, and does not know XRC, CNP, those of annex
		 * A19 and our own.
		 */
		if (!o->name || trans == IB_TRANS_RD || trans >= IB_TRANS_CNP ||
		    o->flags & (IB_OPF_FLUSH | IB_OPF_ATOMIC_WRITE))
			continue;
		len = build_op(b, (uint8_t)op, op & 1, 21 + op);
		out(f, b, len);
		printf("%u infiniband.bth.opcode=%u infiniband.lrh.dlid=%u infiniband.lrh.slid=%u "
		       "infiniband.lrh.sl=%u infiniband.lrh.pktlen=%u infiniband.bth.p_key=%u "
		       "infiniband.bth.destqp=%u infiniband.bth.psn=%u infiniband.bth.padcnt=%u",
		       frame, op, T_DLID, T_SLID, T_SL, ib_lrh_words(ib_pkt_lrh(b)), T_PKEY, T_DQPN,
		       T_PSN, o->flags & IB_OPF_PAYLOAD ? ib_pad(21 + op) : 0);
		if (op & 1)
			printf(" infiniband.grh.nxthdr=27 infiniband.grh.hoplmt=64");
		if (o->hdrs & IB_HDR_DETH)
			printf(" infiniband.deth.q_key=%u infiniband.deth.srcqp=%u", T_QKEY,
			       T_SQPN);
		if (o->hdrs & IB_HDR_RETH)
			printf(" infiniband.reth.va=%llu infiniband.reth.r_key=%u "
			       "infiniband.reth.dmalen=%u", T_VA, T_RKEY, T_DLEN);
		if (o->hdrs & IB_HDR_AETH)
			printf(" infiniband.aeth.syndrome=%u infiniband.aeth.msn=%u", T_SYN, T_MSN);
		if (o->hdrs & IB_HDR_ATOMIC_ETH)
			printf(" infiniband.reth.va=%llu infiniband.reth.r_key=%u "
			       "infiniband.atomiceth.swapdt=%llu infiniband.atomiceth.cmpdt=%llu",
			       T_VA, T_RKEY, T_SWAP, T_CMP);
		if (o->hdrs & IB_HDR_ATOMIC_ACK_ETH)
			printf(" infiniband.atomicacketh.origremdt=%llu", T_ORIG);
		if (o->hdrs & IB_HDR_IETH)
			printf(" infiniband.ieth=de:ad:00:02");
		if (o->hdrs & IB_HDR_IMMDT)
			printf(" infiniband.immdt=ca:fe:00:01");
		printf(" infiniband.invariant.crc=%u infiniband.variant.crc=%u\n",
		       ib_get_be32(b + len - 6), ib_get_be16(b + len - 2));
	}
}

/* Writes one MAD as a UD packet between QPs @qpn. */
static void mad_frame(FILE *f, const void *mad, uint32_t qpn)
{
	uint8_t b[512], *p = b;
	uint16_t words = ib_pkt_words(IB_LRH_LEN + IB_BTH_LEN + IB_DETH_LEN, IB_MAD_LEN);
	uint32_t icrc;

	p = ib_build_lrh(p, qpn ? 0 : 15, 0, IB_LNH_IBA_LOCAL, qpn ? 2 : 0xffff, words,
			 qpn ? 1 : 0xffff);
	p = ib_build_bth(p, IB_OP_UD_SEND_ONLY, 0, 0, IB_DEFAULT_PKEY, qpn, false, 1);
	p = ib_build_deth(p, qpn ? IB_QKEY_GSI : 0, qpn);
	memcpy(p, mad, IB_MAD_LEN);
	p += IB_MAD_LEN;
	if (ib_icrc(b, (size_t)(p - b), &icrc) < 0)
		exit(1);
	ib_icrc_put(p, icrc);
	p += IB_ICRC_LEN;
	ib_vcrc_put(p, ib_vcrc(b, (size_t)(p - b)));
	out(f, b, (size_t)(p - b) + IB_VCRC_LEN);
	printf("%u infiniband.mad.mgmtclass=%u infiniband.mad.method=129", frame,
	       ((const struct ib_mad *)mad)->hdr.mgmt_class);
}

static struct ib_smp *dr_resp(struct ib_smp *s, uint16_t attr)
{
	memset(s, 0, sizeof(*s));
	s->hdr.base_version = 1;
	s->hdr.mgmt_class = IB_CLASS_SUBN_DR;
	s->hdr.class_version = 1;
	s->hdr.attr_id = ib_to_be16(attr);
	s->dr_slid = s->dr_dlid = ib_to_be16(0xffff);
	ib_smp_set_hops(s, 1, 2);
	ib_smp_make_resp(s, IB_MAD_OK);
	return s;
}

static void mad_frames(FILE *f)
{
	struct ib_node_info ni = { 1, 1, 2, 36, 0x1111, 0x2222, 0x3333, 32, 0xca0, 7, 5, 0x1234 };
	struct ib_switch_info si = { .linear_cap = 0xbfff, .linear_top = 0x123, .life_time = 18,
				     .port_state_change = 1, .mcast_top = 0xc123 };
	struct ib_port_info pi = { .mkey = 0x77, .gid_prefix = 0xfe80000000000000ull, .lid = 5,
				   .sm_lid = 1, .cap_mask = IB_CAP_SM | IB_CAP_TRAP, .state = 4,
				   .phys_state = 5, .width_active = 2, .mtu = 5, .mtu_cap = 4,
				   .lmc = 3, .vl_cap = 4, .op_vls = 3, .subnet_timeout = 18,
				   .guid_cap = 128, .qkey_violations = 9 };
	struct ib_pma_port_counters pc = { .port_select = 1, .counter_select = 0xffff,
					   .symbol_error = 1, .link_downed = 2, .rcv_errors = 3,
					   .xmit_discards = 4, .vl15_dropped = 5,
					   .xmit_data = 0x12345678, .rcv_pkts = 77 };
	struct ib_smp s;
	struct ib_mad *m = (struct ib_mad *)(void *)&s;

	ib_node_info_pack(&ni, dr_resp(&s, IB_SMP_ATTR_NODE_INFO)->data);
	mad_frame(f, &s, 0);
	printf(" infiniband.nodeinfo.nodetype=2 infiniband.nodeinfo.numports=36 "
	       "infiniband.nodeinfo.nodeguid=%u infiniband.nodeinfo.portguid=%u "
	       "infiniband.nodeinfo.deviceid=%u infiniband.nodeinfo.localportnum=5 "
	       "infiniband.nodeinfo.vendorid=%u infiniband.smpdirected.hoppointer=1 "
	       "infiniband.smpdirected.hopcount=2\n", 0x2222, 0x3333, 0xca0, 0x1234);
	ib_switch_info_pack(&si, dr_resp(&s, IB_SMP_ATTR_SWITCH_INFO)->data);
	mad_frame(f, &s, 0);
	printf(" infiniband.switchinfo.linearfdbcap=%u infiniband.switchinfo.linearfdbtop=%u "
	       "infiniband.switchinfo.lifetimevalue=18 infiniband.switchinfo.portstatechange=1\n",
	       0xbfff, 0x123);
	ib_port_info_pack(&pi, dr_resp(&s, IB_SMP_ATTR_PORT_INFO)->data);
	mad_frame(f, &s, 0);
	printf(" infiniband.portinfo.lid=5 infiniband.portinfo.mastersmlid=1 "
	       "infiniband.portinfo.portstate=4 infiniband.portinfo.portphysicalstate=5 "
	       "infiniband.portinfo.linkwidthactive=2 infiniband.portinfo.neighbormtu=5 "
	       "infiniband.portinfo.mtucap=4 infiniband.portinfo.lmc=3 infiniband.portinfo.vlcap=4 "
	       "infiniband.portinfo.operationalvls=3 infiniband.portinfo.subnettimeout=18 "
	       "infiniband.portinfo.guidcap=128 infiniband.portinfo.q_keyviolations=9\n");

	memset(&s, 0, sizeof(s));
	m->hdr.base_version = 1;
	m->hdr.mgmt_class = IB_CLASS_PERF;
	m->hdr.class_version = 1;
	m->hdr.attr_id = ib_to_be16(IB_PMA_ATTR_PORT_COUNTERS);
	ib_mad_make_resp(&m->hdr, IB_MAD_OK);
	ib_pma_pc_pack(&pc, (uint8_t *)m + IB_PMA_DATA_OFF);
	mad_frame(f, m, 1);
	printf(" infiniband.portcounters.portselect=1 "
	       "infiniband.portcounters.symbolerrorcounter=1 "
	       "infiniband.portcounters.linkdownedcounter=2 "
	       "infiniband.portcounters.portrcverrors=3 "
	       "infiniband.portcounters.portxmitdiscards=4 "
	       "infiniband.portcounters.vl15dropped=5 "
	       "infiniband.portcounters.portxmitdata=%u "
	       "infiniband.portcounters.portrcvpkts=77\n", 0x12345678);
}

int main(int argc, char **argv)
{
	FILE *f = argc == 2 ? pcap_create(argv[1]) : NULL;

	if (!f) {
		fprintf(stderr, "usage: write_pcap FILE\n");
		return 1;
	}
	opcode_frames(f);
	mad_frames(f);
	return fclose(f) == 0 ? 0 : 1;
}
