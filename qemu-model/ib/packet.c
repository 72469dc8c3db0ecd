/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The opcode table and the packet decoder; see packet.h. */
#include "packet.h"

#define ROW(op, text, hdr_bits, bits, ext) \
	[op] = { .name = text, .hdrs = (hdr_bits), .flags = IB_OPF_VALID | (bits), \
		 .hdr_len = IB_BTH_LEN + (ext) }

#define REQ	IB_OPF_REQUEST
#define RSP	IB_OPF_RESPONSE
#define SND	(IB_OPF_REQUEST | IB_OPF_SEND | IB_OPF_PAYLOAD)
#define WRT	(IB_OPF_REQUEST | IB_OPF_WRITE | IB_OPF_PAYLOAD)
#define RDR	(IB_OPF_RESPONSE | IB_OPF_READ | IB_OPF_PAYLOAD)
#define WQE	IB_OPF_RECV_WQE

/*
 * Rows of SEND and WRITE for transport @t named @n. All its request packets have the extended
 * headers @h, of @l bytes.
 */
#define SEND_ROWS(t, n, h, l)								\
	ROW((t) | IB_OPN_SEND_FIRST, n " SEND First", h, SND | IB_OPF_FIRST, l),	\
	ROW((t) | IB_OPN_SEND_MIDDLE, n " SEND Middle", h, SND | IB_OPF_MIDDLE, l),	\
	ROW((t) | IB_OPN_SEND_LAST, n " SEND Last", h, SND | IB_OPF_LAST | WQE, l),	\
	ROW((t) | IB_OPN_SEND_LAST_IMM, n " SEND Last with Immediate",			\
	    (h) | IB_HDR_IMMDT, SND | IB_OPF_LAST | IB_OPF_IMM | WQE, (l) + IB_IMMDT_LEN), \
	SEND_ONLY_ROWS(t, n, h, l)

#define SEND_ONLY_ROWS(t, n, h, l)							\
	ROW((t) | IB_OPN_SEND_ONLY, n " SEND Only", h, SND | IB_OPF_ONLY | WQE, l),	\
	ROW((t) | IB_OPN_SEND_ONLY_IMM, n " SEND Only with Immediate",			\
	    (h) | IB_HDR_IMMDT, SND | IB_OPF_ONLY | IB_OPF_IMM | WQE, (l) + IB_IMMDT_LEN)

#define WRITE_ROWS(t, n, h, l)								\
	ROW((t) | IB_OPN_WRITE_FIRST, n " RDMA WRITE First", (h) | IB_HDR_RETH,		\
	    WRT | IB_OPF_FIRST, (l) + IB_RETH_LEN),					\
	ROW((t) | IB_OPN_WRITE_MIDDLE, n " RDMA WRITE Middle", h, WRT | IB_OPF_MIDDLE, l), \
	ROW((t) | IB_OPN_WRITE_LAST, n " RDMA WRITE Last", h, WRT | IB_OPF_LAST, l),	\
	ROW((t) | IB_OPN_WRITE_LAST_IMM, n " RDMA WRITE Last with Immediate",		\
	    (h) | IB_HDR_IMMDT, WRT | IB_OPF_LAST | IB_OPF_IMM | WQE, (l) + IB_IMMDT_LEN), \
	ROW((t) | IB_OPN_WRITE_ONLY, n " RDMA WRITE Only", (h) | IB_HDR_RETH,		\
	    WRT | IB_OPF_ONLY, (l) + IB_RETH_LEN),					\
	ROW((t) | IB_OPN_WRITE_ONLY_IMM, n " RDMA WRITE Only with Immediate",		\
	    (h) | IB_HDR_RETH | IB_HDR_IMMDT, WRT | IB_OPF_ONLY | IB_OPF_IMM | WQE,	\
	    (l) + IB_RETH_LEN + IB_IMMDT_LEN)

/* Requests have the extended headers @h of @l bytes, responses have @rh of @rl bytes. */
#define READ_ATOMIC_ROWS(t, n, h, l, rh, rl)						\
	ROW((t) | IB_OPN_READ_REQUEST, n " RDMA READ Request", (h) | IB_HDR_RETH,	\
	    REQ | IB_OPF_READ | IB_OPF_ONLY, (l) + IB_RETH_LEN),			\
	ROW((t) | IB_OPN_READ_RESP_FIRST, n " RDMA READ response First",		\
	    (rh) | IB_HDR_AETH, RDR | IB_OPF_FIRST, (rl) + IB_AETH_LEN),		\
	ROW((t) | IB_OPN_READ_RESP_MIDDLE, n " RDMA READ response Middle", rh,		\
	    RDR | IB_OPF_MIDDLE, rl),							\
	ROW((t) | IB_OPN_READ_RESP_LAST, n " RDMA READ response Last",			\
	    (rh) | IB_HDR_AETH, RDR | IB_OPF_LAST, (rl) + IB_AETH_LEN),			\
	ROW((t) | IB_OPN_READ_RESP_ONLY, n " RDMA READ response Only",			\
	    (rh) | IB_HDR_AETH, RDR | IB_OPF_ONLY, (rl) + IB_AETH_LEN),			\
	ROW((t) | IB_OPN_ACK, n " Acknowledge", (rh) | IB_HDR_AETH,			\
	    RSP | IB_OPF_ACK | IB_OPF_ONLY, (rl) + IB_AETH_LEN),			\
	ROW((t) | IB_OPN_ATOMIC_ACK, n " ATOMIC Acknowledge",				\
	    (rh) | IB_HDR_AETH | IB_HDR_ATOMIC_ACK_ETH,					\
	    RSP | IB_OPF_ACK | IB_OPF_ATOMIC | IB_OPF_ONLY,				\
	    (rl) + IB_AETH_LEN + IB_ATOMIC_ACK_ETH_LEN),				\
	ROW((t) | IB_OPN_CMP_SWAP, n " CmpSwap", (h) | IB_HDR_ATOMIC_ETH,		\
	    REQ | IB_OPF_ATOMIC | IB_OPF_ONLY, (l) + IB_ATOMIC_ETH_LEN),		\
	ROW((t) | IB_OPN_FETCH_ADD, n " FetchAdd", (h) | IB_HDR_ATOMIC_ETH,		\
	    REQ | IB_OPF_ATOMIC | IB_OPF_ONLY, (l) + IB_ATOMIC_ETH_LEN)

#define SEND_INV_ROWS(t, n, h, l)							\
	ROW((t) | IB_OPN_SEND_LAST_INV, n " SEND Last with Invalidate",			\
	    (h) | IB_HDR_IETH, SND | IB_OPF_LAST | IB_OPF_INV | WQE, (l) + IB_IETH_LEN), \
	ROW((t) | IB_OPN_SEND_ONLY_INV, n " SEND Only with Invalidate",			\
	    (h) | IB_HDR_IETH, SND | IB_OPF_ONLY | IB_OPF_INV | WQE, (l) + IB_IETH_LEN)

#define PLACEMENT_ROWS(t, n, h, l)							\
	ROW((t) | IB_OPN_FLUSH, n " FLUSH", (h) | IB_HDR_FETH | IB_HDR_RETH,		\
	    REQ | IB_OPF_FLUSH | IB_OPF_ONLY, (l) + IB_FETH_LEN + IB_RETH_LEN),		\
	ROW((t) | IB_OPN_ATOMIC_WRITE, n " ATOMIC WRITE", (h) | IB_HDR_RETH,		\
	    REQ | IB_OPF_ATOMIC_WRITE | IB_OPF_PAYLOAD | IB_OPF_ONLY, (l) + IB_RETH_LEN)

#define RD_REQ	(IB_HDR_RDETH | IB_HDR_DETH)
#define RD_LEN	(IB_RDETH_LEN + IB_DETH_LEN)

const struct ib_opcode_info ib_opcodes[256] = {
	SEND_ROWS(IB_TRANS_RC, "RC", 0, 0),
	WRITE_ROWS(IB_TRANS_RC, "RC", 0, 0),
	READ_ATOMIC_ROWS(IB_TRANS_RC, "RC", 0, 0, 0, 0),
	SEND_INV_ROWS(IB_TRANS_RC, "RC", 0, 0),
	PLACEMENT_ROWS(IB_TRANS_RC, "RC", 0, 0),

	SEND_ROWS(IB_TRANS_UC, "UC", 0, 0),
	WRITE_ROWS(IB_TRANS_UC, "UC", 0, 0),

	SEND_ROWS(IB_TRANS_RD, "RD", RD_REQ, RD_LEN),
	WRITE_ROWS(IB_TRANS_RD, "RD", RD_REQ, RD_LEN),
	READ_ATOMIC_ROWS(IB_TRANS_RD, "RD", RD_REQ, RD_LEN, IB_HDR_RDETH, IB_RDETH_LEN),
	PLACEMENT_ROWS(IB_TRANS_RD, "RD", RD_REQ, RD_LEN),
	ROW(IB_TRANS_RD | IB_OPN_RESYNC, "RD RESYNC", RD_REQ, REQ | IB_OPF_ONLY, RD_LEN),

	SEND_ONLY_ROWS(IB_TRANS_UD, "UD", IB_HDR_DETH, IB_DETH_LEN),

	/* the 16 reserved bytes of a CNP count as payload */
	ROW(IB_TRANS_CNP, "CNP", 0, IB_OPF_ONLY | IB_OPF_PAYLOAD, 0),

	SEND_ROWS(IB_TRANS_XRC, "XRC", IB_HDR_XRCETH, IB_XRCETH_LEN),
	WRITE_ROWS(IB_TRANS_XRC, "XRC", IB_HDR_XRCETH, IB_XRCETH_LEN),
	READ_ATOMIC_ROWS(IB_TRANS_XRC, "XRC", IB_HDR_XRCETH, IB_XRCETH_LEN, 0, 0),
	SEND_INV_ROWS(IB_TRANS_XRC, "XRC", IB_HDR_XRCETH, IB_XRCETH_LEN),
	PLACEMENT_ROWS(IB_TRANS_XRC, "XRC", IB_HDR_XRCETH, IB_XRCETH_LEN),

	ROW(IB_OP_OHCA_MASKED_CMP_SWAP, "RC masked CmpSwap", IB_HDR_MASKED_ATOMIC_ETH,
	    REQ | IB_OPF_ATOMIC | IB_OPF_MASKED | IB_OPF_ONLY, IB_MASKED_ATOMIC_ETH_LEN),
	ROW(IB_OP_OHCA_MASKED_FETCH_ADD, "RC masked FetchAdd", IB_HDR_MASKED_ATOMIC_ETH,
	    REQ | IB_OPF_ATOMIC | IB_OPF_MASKED | IB_OPF_ONLY, IB_MASKED_ATOMIC_ETH_LEN),
};

const char *ib_opcode_name(uint8_t opcode)
{
	return ib_opcodes[opcode].name ? ib_opcodes[opcode].name : "reserved";
}

/* If the header is @present, store its offset in *@field. Return: the offset after it. */
static unsigned int hdr_take(uint8_t *field, unsigned int off, bool present, unsigned int len)
{
	if (!present)
		return off;
	*field = (uint8_t)off;
	return off + len;
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

/* Decode the LRH. */
static int parse_lrh(const uint8_t *buf, size_t hdr_bytes, size_t pkt_len, unsigned int flags,
		     struct ib_pkt_info *o)
{
	const struct ib_lrh *lrh = ib_pkt_lrh(buf);

	if (hdr_bytes < IB_LRH_LEN)
		return IB_PKT_ERR_SHORT;
	o->vl = ib_lrh_vl(lrh);
	o->sl = ib_lrh_sl(lrh);
	o->lnh = ib_lrh_lnh(lrh);
	o->dlid = ib_lrh_dlid(lrh);
	o->slid = ib_lrh_slid(lrh);
	o->words = ib_lrh_words(lrh);
	o->len = 4u * o->words;
	if (ib_lrh_lver(lrh) != 0)
		return IB_PKT_ERR_LVER;
	if (!(flags & IB_PARSE_NO_LEN) && o->len != pkt_len)
		return IB_PKT_ERR_LEN;
	if (o->lnh != IB_LNH_IBA_LOCAL && o->lnh != IB_LNH_IBA_GLOBAL)
		return IB_PKT_ERR_RAW;
	return IB_PKT_OK;
}

/* Decode the GRH at *@off; *@off becomes its end. */
static int parse_grh(const uint8_t *buf, size_t hdr_bytes, size_t pkt_len, unsigned int flags,
		     struct ib_pkt_info *o, unsigned int *off)
{
	const struct ib_grh *grh;

	if (hdr_bytes < *off + IB_GRH_LEN)
		return IB_PKT_ERR_SHORT;
	o->has_grh = true;
	o->grh_off = (uint8_t)*off;
	grh = ib_pkt_grh(buf, o);
	*off += IB_GRH_LEN;
	if (ib_grh_ipver(grh) != IB_GRH_IPVER || grh->nxthdr != IB_GRH_NXTHDR)
		return IB_PKT_ERR_GRH;
	if (!(flags & IB_PARSE_NO_LEN) && ib_be16(grh->paylen) + *off != pkt_len)
		return IB_PKT_ERR_GRH;
	return IB_PKT_OK;
}

/* Decode the BTH at *@off; *@off becomes its end. */
static int parse_bth(const uint8_t *buf, size_t hdr_bytes, struct ib_pkt_info *o,
		     unsigned int *off)
{
	const struct ib_bth *bth;

	if (hdr_bytes < *off + IB_BTH_LEN)
		return IB_PKT_ERR_SHORT;
	o->bth_off = (uint8_t)*off;
	bth = ib_pkt_bth(buf, o);
	o->opcode = bth->opcode;
	o->op = &ib_opcodes[bth->opcode];
	o->se = ib_bth_se(bth);
	o->migreq = ib_bth_migreq(bth);
	o->pad = ib_bth_pad(bth);
	o->tver = ib_bth_tver(bth);
	o->pkey = ib_bth_pkey(bth);
	o->dqpn = ib_bth_dqpn(bth);
	o->fecn = ib_bth_fecn(bth);
	o->becn = ib_bth_becn(bth);
	o->ackreq = ib_bth_ackreq(bth);
	o->psn = ib_bth_psn(bth);
	if (o->tver != 0)
		return IB_PKT_ERR_TVER;
	if (!(o->op->flags & IB_OPF_VALID))
		return IB_PKT_ERR_OPCODE;
	if (hdr_bytes < *off + o->op->hdr_len)
		return IB_PKT_ERR_SHORT;
	*off += IB_BTH_LEN;
	return IB_PKT_OK;
}

/* Set the offsets of the opcode's extended headers, which begin at @off. Return: their end. */
static unsigned int parse_eths(struct ib_pkt_info *o, unsigned int off)
{
	const unsigned int hdrs = o->op->hdrs;

	/* most packets have no header of these groups, so one test skips a group */
	if (hdrs & (IB_HDR_RDETH | IB_HDR_DETH | IB_HDR_XRCETH | IB_HDR_FETH)) {
		off = hdr_take(&o->rdeth_off, off, hdrs & IB_HDR_RDETH, IB_RDETH_LEN);
		off = hdr_take(&o->deth_off, off, hdrs & IB_HDR_DETH, IB_DETH_LEN);
		off = hdr_take(&o->xrceth_off, off, hdrs & IB_HDR_XRCETH, IB_XRCETH_LEN);
		off = hdr_take(&o->feth_off, off, hdrs & IB_HDR_FETH, IB_FETH_LEN);
	}
	off = hdr_take(&o->reth_off, off, hdrs & IB_HDR_RETH, IB_RETH_LEN);
	if (hdrs & (IB_HDR_ATOMIC_ETH | IB_HDR_MASKED_ATOMIC_ETH)) {
		off = hdr_take(&o->atomic_off, off, hdrs & IB_HDR_ATOMIC_ETH, IB_ATOMIC_ETH_LEN);
		off = hdr_take(&o->atomic_off, off, hdrs & IB_HDR_MASKED_ATOMIC_ETH,
			       IB_MASKED_ATOMIC_ETH_LEN);
	}
	if (hdrs & (IB_HDR_AETH | IB_HDR_ATOMIC_ACK_ETH)) {
		off = hdr_take(&o->aeth_off, off, hdrs & IB_HDR_AETH, IB_AETH_LEN);
		off = hdr_take(&o->atomic_ack_off, off, hdrs & IB_HDR_ATOMIC_ACK_ETH,
			       IB_ATOMIC_ACK_ETH_LEN);
	}
	if (hdrs & (IB_HDR_IMMDT | IB_HDR_IETH)) {
		off = hdr_take(&o->imm_off, off, hdrs & IB_HDR_IMMDT, IB_IMMDT_LEN);
		off = hdr_take(&o->ieth_off, off, hdrs & IB_HDR_IETH, IB_IETH_LEN);
	}
	o->hdr_len = (uint16_t)off;
	return off;
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
	if (!err && o->lnh == IB_LNH_IBA_GLOBAL)
		err = parse_grh(buf, hdr_bytes, pkt_len, flags, o, &off);
	if (!err)
		err = parse_bth(buf, hdr_bytes, o, &off);
	if (err)
		return err;
	off = parse_eths(o, off);

	if (pkt_len < off + IB_ICRC_LEN)
		return IB_PKT_ERR_LEN;
	rest = pkt_len - off - IB_ICRC_LEN;
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
