/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The opcode table and the packet decoder; see packet.h. */
#include "packet.h"

/* The length of all extended headers that are both in @h and in @set. */
#define PART(h, set, bit, len)	((h) & (set) & IB_HDR_##bit ? (len) : 0)
#define BYTES(h, set)									\
	(PART(h, set, RDETH, IB_RDETH_LEN) + PART(h, set, DETH, IB_DETH_LEN) +		\
	 PART(h, set, XRCETH, IB_XRCETH_LEN) + PART(h, set, FETH, IB_FETH_LEN) +	\
	 PART(h, set, RETH, IB_RETH_LEN) + PART(h, set, ATOMIC_ETH, IB_ATOMIC_ETH_LEN) + \
	 PART(h, set, MASKED_ATOMIC_ETH, IB_MASKED_ATOMIC_ETH_LEN) +			\
	 PART(h, set, AETH, IB_AETH_LEN) +						\
	 PART(h, set, ATOMIC_ACK_ETH, IB_ATOMIC_ACK_ETH_LEN) +				\
	 PART(h, set, IMMDT, IB_IMMDT_LEN) + PART(h, set, IETH, IB_IETH_LEN))

/* The offset of the extended header @bit: it follows the headers of all lower bits. */
#define AT(h, bit)	((h) & (bit) ? IB_BTH_LEN + BYTES(h, (bit) - 1) : 0)

#define ROW(op, text, h, bits)								\
	[op] = {									\
		.name = text, .hdrs = (h), .flags = IB_OPF_VALID | (bits),		\
		.hdr_len = IB_BTH_LEN + BYTES(h, ~0),					\
		.deth = AT(h, IB_HDR_DETH), .xrceth = AT(h, IB_HDR_XRCETH),		\
		.rdeth = AT(h, IB_HDR_RDETH), .feth = AT(h, IB_HDR_FETH),		\
		.reth = AT(h, IB_HDR_RETH), .aeth = AT(h, IB_HDR_AETH),			\
		.atomic = AT(h, IB_HDR_ATOMIC_ETH) + AT(h, IB_HDR_MASKED_ATOMIC_ETH),	\
		.atomic_ack = AT(h, IB_HDR_ATOMIC_ACK_ETH),				\
		.imm = AT(h, IB_HDR_IMMDT), .ieth = AT(h, IB_HDR_IETH),			\
	}

#define REQ	IB_OPF_REQUEST
#define RSP	IB_OPF_RESPONSE
#define SND	(IB_OPF_REQUEST | IB_OPF_SEND | IB_OPF_PAYLOAD)
#define WRT	(IB_OPF_REQUEST | IB_OPF_WRITE | IB_OPF_PAYLOAD)
#define RDR	(IB_OPF_RESPONSE | IB_OPF_READ | IB_OPF_PAYLOAD)
#define WQE	IB_OPF_RECV_WQE

/*
 * Rows of SEND and WRITE for transport @t named @n. All its request packets have the extended
 * headers @h.
 */
#define SEND_ROWS(t, n, h)								\
	ROW((t) | IB_OPN_SEND_FIRST, n " SEND First", h, SND | IB_OPF_FIRST),		\
	ROW((t) | IB_OPN_SEND_MIDDLE, n " SEND Middle", h, SND | IB_OPF_MIDDLE),	\
	ROW((t) | IB_OPN_SEND_LAST, n " SEND Last", h, SND | IB_OPF_LAST | WQE),	\
	ROW((t) | IB_OPN_SEND_LAST_IMM, n " SEND Last with Immediate",			\
	    (h) | IB_HDR_IMMDT, SND | IB_OPF_LAST | IB_OPF_IMM | WQE),			\
	SEND_ONLY_ROWS(t, n, h)

#define SEND_ONLY_ROWS(t, n, h)								\
	ROW((t) | IB_OPN_SEND_ONLY, n " SEND Only", h, SND | IB_OPF_ONLY | WQE),	\
	ROW((t) | IB_OPN_SEND_ONLY_IMM, n " SEND Only with Immediate",			\
	    (h) | IB_HDR_IMMDT, SND | IB_OPF_ONLY | IB_OPF_IMM | WQE)

#define WRITE_ROWS(t, n, h)								\
	ROW((t) | IB_OPN_WRITE_FIRST, n " RDMA WRITE First", (h) | IB_HDR_RETH,		\
	    WRT | IB_OPF_FIRST),							\
	ROW((t) | IB_OPN_WRITE_MIDDLE, n " RDMA WRITE Middle", h, WRT | IB_OPF_MIDDLE),	\
	ROW((t) | IB_OPN_WRITE_LAST, n " RDMA WRITE Last", h, WRT | IB_OPF_LAST),	\
	ROW((t) | IB_OPN_WRITE_LAST_IMM, n " RDMA WRITE Last with Immediate",		\
	    (h) | IB_HDR_IMMDT, WRT | IB_OPF_LAST | IB_OPF_IMM | WQE),			\
	ROW((t) | IB_OPN_WRITE_ONLY, n " RDMA WRITE Only", (h) | IB_HDR_RETH,		\
	    WRT | IB_OPF_ONLY),								\
	ROW((t) | IB_OPN_WRITE_ONLY_IMM, n " RDMA WRITE Only with Immediate",		\
	    (h) | IB_HDR_RETH | IB_HDR_IMMDT, WRT | IB_OPF_ONLY | IB_OPF_IMM | WQE)

/* Requests have the extended headers @h, responses have @rh. */
#define READ_ATOMIC_ROWS(t, n, h, rh)							\
	ROW((t) | IB_OPN_READ_REQUEST, n " RDMA READ Request", (h) | IB_HDR_RETH,	\
	    REQ | IB_OPF_READ | IB_OPF_ONLY),						\
	ROW((t) | IB_OPN_READ_RESP_FIRST, n " RDMA READ response First",		\
	    (rh) | IB_HDR_AETH, RDR | IB_OPF_FIRST),					\
	ROW((t) | IB_OPN_READ_RESP_MIDDLE, n " RDMA READ response Middle", rh,		\
	    RDR | IB_OPF_MIDDLE),							\
	ROW((t) | IB_OPN_READ_RESP_LAST, n " RDMA READ response Last",			\
	    (rh) | IB_HDR_AETH, RDR | IB_OPF_LAST),					\
	ROW((t) | IB_OPN_READ_RESP_ONLY, n " RDMA READ response Only",			\
	    (rh) | IB_HDR_AETH, RDR | IB_OPF_ONLY),					\
	ROW((t) | IB_OPN_ACK, n " Acknowledge", (rh) | IB_HDR_AETH,			\
	    RSP | IB_OPF_ACK | IB_OPF_ONLY),						\
	ROW((t) | IB_OPN_ATOMIC_ACK, n " ATOMIC Acknowledge",				\
	    (rh) | IB_HDR_AETH | IB_HDR_ATOMIC_ACK_ETH,					\
	    RSP | IB_OPF_ACK | IB_OPF_ATOMIC | IB_OPF_ONLY),				\
	ROW((t) | IB_OPN_CMP_SWAP, n " CmpSwap", (h) | IB_HDR_ATOMIC_ETH,		\
	    REQ | IB_OPF_ATOMIC | IB_OPF_ONLY),						\
	ROW((t) | IB_OPN_FETCH_ADD, n " FetchAdd", (h) | IB_HDR_ATOMIC_ETH,		\
	    REQ | IB_OPF_ATOMIC | IB_OPF_ONLY)

#define SEND_INV_ROWS(t, n, h)								\
	ROW((t) | IB_OPN_SEND_LAST_INV, n " SEND Last with Invalidate",			\
	    (h) | IB_HDR_IETH, SND | IB_OPF_LAST | IB_OPF_INV | WQE),			\
	ROW((t) | IB_OPN_SEND_ONLY_INV, n " SEND Only with Invalidate",			\
	    (h) | IB_HDR_IETH, SND | IB_OPF_ONLY | IB_OPF_INV | WQE)

#define PLACEMENT_ROWS(t, n, h)								\
	ROW((t) | IB_OPN_FLUSH, n " FLUSH", (h) | IB_HDR_FETH | IB_HDR_RETH,		\
	    REQ | IB_OPF_FLUSH | IB_OPF_ONLY),						\
	ROW((t) | IB_OPN_ATOMIC_WRITE, n " ATOMIC WRITE", (h) | IB_HDR_RETH,		\
	    REQ | IB_OPF_ATOMIC_WRITE | IB_OPF_PAYLOAD | IB_OPF_ONLY)

#define RD_REQ	(IB_HDR_RDETH | IB_HDR_DETH)

const struct ib_opcode_info ib_opcodes[256] = {
	SEND_ROWS(IB_TRANS_RC, "RC", 0),
	WRITE_ROWS(IB_TRANS_RC, "RC", 0),
	READ_ATOMIC_ROWS(IB_TRANS_RC, "RC", 0, 0),
	SEND_INV_ROWS(IB_TRANS_RC, "RC", 0),
	PLACEMENT_ROWS(IB_TRANS_RC, "RC", 0),

	SEND_ROWS(IB_TRANS_UC, "UC", 0),
	WRITE_ROWS(IB_TRANS_UC, "UC", 0),

	SEND_ROWS(IB_TRANS_RD, "RD", RD_REQ),
	WRITE_ROWS(IB_TRANS_RD, "RD", RD_REQ),
	READ_ATOMIC_ROWS(IB_TRANS_RD, "RD", RD_REQ, IB_HDR_RDETH),
	PLACEMENT_ROWS(IB_TRANS_RD, "RD", RD_REQ),
	ROW(IB_TRANS_RD | IB_OPN_RESYNC, "RD RESYNC", RD_REQ, REQ | IB_OPF_ONLY),

	SEND_ONLY_ROWS(IB_TRANS_UD, "UD", IB_HDR_DETH),

	/* the 16 reserved bytes of a CNP count as payload */
	ROW(IB_TRANS_CNP, "CNP", 0, IB_OPF_ONLY | IB_OPF_PAYLOAD),

	SEND_ROWS(IB_TRANS_XRC, "XRC", IB_HDR_XRCETH),
	WRITE_ROWS(IB_TRANS_XRC, "XRC", IB_HDR_XRCETH),
	READ_ATOMIC_ROWS(IB_TRANS_XRC, "XRC", IB_HDR_XRCETH, 0),
	SEND_INV_ROWS(IB_TRANS_XRC, "XRC", IB_HDR_XRCETH),
	PLACEMENT_ROWS(IB_TRANS_XRC, "XRC", IB_HDR_XRCETH),

	ROW(IB_OP_OHCA_MASKED_CMP_SWAP, "RC masked CmpSwap", IB_HDR_MASKED_ATOMIC_ETH,
	    REQ | IB_OPF_ATOMIC | IB_OPF_MASKED | IB_OPF_ONLY),
	ROW(IB_OP_OHCA_MASKED_FETCH_ADD, "RC masked FetchAdd", IB_HDR_MASKED_ATOMIC_ETH,
	    REQ | IB_OPF_ATOMIC | IB_OPF_MASKED | IB_OPF_ONLY),
};

const char *ib_opcode_name(uint8_t opcode)
{
	return ib_opcodes[opcode].name ? ib_opcodes[opcode].name : "reserved";
}

static int check_route(const struct ib_pkt_info *o)
{
	bool vl15 = o->vl == IB_VL_MANAGEMENT;
	bool ud = (o->opcode & IB_TRANS_MASK) == IB_TRANS_UD;

	if (vl15 != (o->dqpn == IB_QP0) || (vl15 && (!ud || o->has_grh)))
		return IB_PKT_ERR_VL15;
	if (o->dlid == IB_LID_RESERVED || (o->dlid == IB_LID_PERMISSIVE && !vl15))
		return IB_PKT_ERR_DLID;
	if (ib_lid_is_mcast(o->dlid) && (vl15 || !o->has_grh || !ud))
		return IB_PKT_ERR_DLID;
	if (ib_lid_is_mcast(o->slid))
		return IB_PKT_ERR_SLID;
	if (!vl15 && (o->slid == IB_LID_RESERVED || o->slid == IB_LID_PERMISSIVE))
		return IB_PKT_ERR_SLID;
	return IB_PKT_OK;
}

/* Decode the LRH. A copy is decoded: the compiler would read the packet again after each store. */
static int parse_lrh(const uint8_t *buf, size_t hdr_bytes, size_t pkt_len, unsigned int flags,
		     struct ib_pkt_info *o)
{
	struct ib_lrh lrh;

	if (hdr_bytes < IB_LRH_LEN)
		return IB_PKT_ERR_SHORT;
	lrh = *ib_pkt_lrh(buf);
	o->vl = ib_lrh_vl(&lrh);
	o->sl = ib_lrh_sl(&lrh);
	o->dlid = ib_lrh_dlid(&lrh);
	o->slid = ib_lrh_slid(&lrh);
	o->len = 4u * ib_lrh_words(&lrh);
	if (ib_lrh_lver(&lrh) != 0)
		return IB_PKT_ERR_LVER;
	if (!(flags & IB_PARSE_NO_LEN) && o->len != pkt_len)
		return IB_PKT_ERR_LEN;
	switch (ib_lrh_lnh(&lrh)) {
	case IB_LNH_IBA_LOCAL:
		return IB_PKT_OK;
	case IB_LNH_IBA_GLOBAL:
		o->has_grh = true;
		return IB_PKT_OK;
	default:
		return IB_PKT_ERR_RAW;
	}
}

/* Check the GRH at *@off; *@off becomes its end. */
static int parse_grh(const uint8_t *buf, size_t hdr_bytes, size_t pkt_len, unsigned int flags,
		     unsigned int *off)
{
	const struct ib_grh *grh = (const void *)(buf + *off);

	if (hdr_bytes < *off + IB_GRH_LEN)
		return IB_PKT_ERR_SHORT;
	*off += IB_GRH_LEN;
	if (ib_grh_ipver(grh) != IB_GRH_IPVER || grh->nxthdr != IB_GRH_NXTHDR)
		return IB_PKT_ERR_GRH;
	if (!(flags & IB_PARSE_NO_LEN) && ib_be16(grh->paylen) + *off != pkt_len)
		return IB_PKT_ERR_GRH;
	return IB_PKT_OK;
}

/* Decode the BTH at @off. */
static int parse_bth(const uint8_t *buf, size_t hdr_bytes, struct ib_pkt_info *o,
		     unsigned int off)
{
	const struct ib_opcode_info *op;
	struct ib_bth bth;

	if (hdr_bytes < off + IB_BTH_LEN)
		return IB_PKT_ERR_SHORT;
	o->bth_off = (uint8_t)off;
	bth = *ib_pkt_bth(buf, o);
	o->opcode = bth.opcode;
	o->se = ib_bth_se(&bth);
	o->migreq = ib_bth_migreq(&bth);
	o->pad = ib_bth_pad(&bth);
	o->pkey = ib_bth_pkey(&bth);
	o->dqpn = ib_bth_dqpn(&bth);
	o->fecn = ib_bth_fecn(&bth);
	o->becn = ib_bth_becn(&bth);
	o->ackreq = ib_bth_ackreq(&bth);
	o->psn = ib_bth_psn(&bth);
	if (ib_bth_tver(&bth) != 0)
		return IB_PKT_ERR_TVER;
	op = &ib_opcodes[bth.opcode];
	if (!(op->flags & IB_OPF_VALID))
		return IB_PKT_ERR_OPCODE;
	if (hdr_bytes < off + op->hdr_len)
		return IB_PKT_ERR_SHORT;
	/* the accessors find its extended headers from now on */
	o->op = op;
	o->hdr_len = (uint16_t)(off + op->hdr_len);
	return IB_PKT_OK;
}

int ib_hdr_parse(const uint8_t *buf, size_t hdr_bytes, size_t pkt_len, unsigned int flags,
		 struct ib_pkt_info *o)
{
	unsigned int off = IB_LRH_LEN;
	size_t rest;
	int err;

	memset(o, 0, sizeof(*o));
	o->op = &ib_opcodes[0xff];
	err = parse_lrh(buf, hdr_bytes, pkt_len, flags, o);
	if (!err && o->has_grh)
		err = parse_grh(buf, hdr_bytes, pkt_len, flags, &off);
	if (!err)
		err = parse_bth(buf, hdr_bytes, o, off);
	if (err)
		return err;

	if (pkt_len < o->hdr_len + IB_ICRC_LEN)
		return IB_PKT_ERR_LEN;
	rest = pkt_len - o->hdr_len - IB_ICRC_LEN;
	if (rest < o->pad)
		return IB_PKT_ERR_PAYLOAD;
	if (rest && !(o->op->flags & IB_OPF_PAYLOAD))
		return IB_PKT_ERR_PAYLOAD;
	o->payload_len = (uint16_t)(rest - o->pad);
	if (flags & IB_PARSE_LOCAL)
		return IB_PKT_OK;
	return check_route(o);
}

int ib_pkt_parse(const uint8_t *buf, size_t len, struct ib_pkt_info *out)
{
	size_t pkt_len = len;

	/* PktLen counts words, so 2 odd bytes can only be the VCRC. */
	if ((len & 3) == IB_VCRC_LEN)
		pkt_len -= IB_VCRC_LEN;
	return ib_hdr_parse(buf, pkt_len, pkt_len, 0, out);
}
