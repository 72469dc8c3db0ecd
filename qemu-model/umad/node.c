// SPDX-License-Identifier: GPL-2.0-or-later
/* The channel adapter of a process; see node.h. */
#include "node.h"

#include <stdio.h>

#include "agent.h"
#include "ib/mad_packet.h"
#include "ib/pma_agent.h"
#include "ib/portinfo.h"
#include "ib/rate.h"
#include "ib/sma.h"
#include "wire.h"

#define TRAPS		4
#define VENDOR_ID	0x525400u
#define RESP_TIME	8		/* ClassPortInfo.RespTimeValue: 1 ms */
#define LOOP		64u		/* MADs to the own LID that are on their way */

struct um_node um_node;

static struct {
	uint64_t guids[IB_GUIDS_PER_BLOCK];
	uint32_t link_due;
	struct ib_sma sma;
	struct ib_sma_end end;
	struct ib_trap trap[TRAPS];
	struct ib_sl2vl sl2vl;
	struct ib_vlarb arb;
	struct ohca_port_counters ctr;
	struct ib_pma_port pma_port;
	struct ib_pma pma;
	struct {
		ib_mad_addr_t from;
		struct ib_mad mad;
	} loop[LOOP];
	unsigned int loop_head, loop_count;
} n;

static void send_packet(const struct ib_mad_path *path, const void *mad)
{
	uint8_t pkt[IB_MAD_PKT_MAX];
	const size_t len = ib_build_mad(pkt, path, mad);

	if (um_wire_send(path->vl, pkt, len))
		ib_pma_count_xmit(&n.ctr, (uint32_t)len, path->sl, false);
}

static void send_smp(const struct ib_smp *smp, uint16_t dlid, uint8_t sl)
{
	const bool dr = ib_smp_is_dr(smp) && !ib_smp_begins_by_lid(smp) &&
			!ib_smp_ends_by_lid(smp);
	const struct ib_mad_path path = {
		.vl = IB_MGMT_VL,
		.sl = dr ? 0 : sl,
		.slid = dr ? IB_LID_PERMISSIVE : um_node.pi.lid,
		.dlid = dr ? IB_LID_PERMISSIVE : dlid,
		.pkey = IB_DEFAULT_PKEY,
	};

	send_packet(&path, smp);
}

/* ---- the SMA ------------------------------------------------------------------- */

static void sma_port(void *ctx, unsigned int num, struct ib_sma_port *v)
{
	(void)ctx;
	(void)num;
	*v = (struct ib_sma_port){
		.pi = &um_node.pi,
		.link_due = &n.link_due,
		.pkey = um_node.pkey,
		.num_pkeys = UM_PKEYS,
		.arb = &n.arb,
		.guid = n.guids,
		.num_guids = IB_GUIDS_PER_BLOCK,
		.end = &n.end,
	};
}

static struct ib_sl2vl *sma_sl2vl(void *ctx, unsigned int in, unsigned int out)
{
	(void)ctx;
	(void)in;
	(void)out;
	return &n.sl2vl;
}

static void sma_changed(void *ctx, unsigned int num, uint32_t what)
{
	(void)ctx;
	(void)num;
	(void)what;
}

static void sma_send_trap(void *ctx, unsigned int num, const struct ib_smp *trap)
{
	(void)ctx;
	(void)num;
	send_smp(trap, um_node.pi.sm_lid, um_node.pi.sm_sl);
}

static struct ib_pma_port *own_pma_port(void *ctx, unsigned int num)
{
	(void)num;
	return ctx;
}

void um_node_init(uint64_t guid, const char *desc)
{
	static const struct ib_trap_room room = { .slots = TRAPS, .security = 2, .each = 1 };
	static const struct ib_sma_ops ops = {
		.port = sma_port,
		.sl2vl = sma_sl2vl,
		.changed = sma_changed,
		.send_trap = sma_send_trap,
	};
	static const struct ib_port_profile prof = {
		.width = IB_WIDTH_1X | IB_WIDTH_4X,
		.speed = IB_SPEED_SDR | IB_SPEED_DDR | IB_SPEED_QDR,
		.speed_ext = IB_SPEED_EXT_FDR | IB_SPEED_EXT_EDR,
		.mtu_cap = IB_MTU_CODE_4096,
		.vl_cap = 4,
		.vlarb_cap = 8,
		.guid_cap = IB_GUIDS_PER_BLOCK,
		.cap_mask = IB_CAP_NOTICE | IB_CAP_TRAP | IB_CAP_SL_MAP | IB_CAP_CLIENT_REREG |
			    IB_CAP_SYS_IMAGE_GUID | IB_CAP_CAP_MASK_NOTICE,
	};

	um_node.guid = guid;
	snprintf(um_node.desc, sizeof(um_node.desc), "%s", desc);
	ib_port_info_init(&um_node.pi, &prof, 1, IB_PI_CA);
	um_node.pkey[0] = IB_DEFAULT_PKEY;
	n.guids[0] = guid + 1;
	ib_trap_init(&n.end.traps, n.trap, &room, 1);
	n.end.lease_ns = UINT64_MAX;
	n.sma = (struct ib_sma){
		.ops = &ops,
		.sys_guid = guid,
		.node_guid = guid,
		.vendor_id = VENDOR_ID,
		.num_ports = 1,
		.type = IB_NODE_CHANNEL_ADAPTER,
		.desc = um_node.desc,
	};
	n.pma_port.ctr = &n.ctr;
	n.pma = (struct ib_pma){
		.port = own_pma_port,
		.ctx = &n.pma_port,
		.nports = 1,
		.first_port = 1,
		.resp_time = RESP_TIME,
	};
	ib_sl2vl_init(&n.sl2vl, 8);
	ib_vlarb_init(&n.arb, 8, 8);
}

/* ---- the link ------------------------------------------------------------------ */

void um_node_link_cfg(struct ohca_link_cfg *cfg)
{
	ohca_link_cfg_init(cfg);
	cfg->node_guid = um_node.guid;
	cfg->port_guid = um_node.guid + 1;
	snprintf(cfg->desc, sizeof(cfg->desc), "%s", um_node.desc);
}

void um_node_link_up(const struct ohca_link_state *st, const struct ohca_link_cfg *peer)
{
	uint8_t vl_cap = 1;

	while (vl_cap < 5 && ib_opvls_count(vl_cap) < peer->vl_cap)
		vl_cap++;
	ib_port_negotiate(&um_node.pi, st->width, st->speed, st->speed_ext, peer->mtu_cap, vl_cap);
	ib_port_link_up(&um_node.pi);
}

void um_node_link_down(void)
{
	/* the state that a Set has chosen; without a Set LinkDownDefaultState (14.2.5.6) */
	const uint8_t phys = um_node.pi.phys_state == IB_PHYS_LINK_UP ? um_node.pi.down_default :
									um_node.pi.phys_state;

	if (um_node.pi.state > IB_PS_DOWN)
		n.ctr.link_downed++;
	ib_trap_clear(&n.end.traps);
	ib_port_link_down(&um_node.pi, phys);
}

bool um_node_phy(struct ohca_link_phy *phy)
{
	const uint32_t due = n.link_due & (IB_PI_EFF_LINK_DOWN | IB_PI_EFF_LINK_DISABLE);

	/* a request of a subnet manager does not count as LinkDownedCounter */
	if (due)
		ib_port_link_down(&um_node.pi, ib_port_due_phys(n.link_due));
	n.link_due = 0;
	*phy = (struct ohca_link_phy){
		.enabled = um_node.pi.phys_state != IB_PHYS_DISABLED,
		.width_en = um_node.pi.width_enabled,
		.speed_en = um_node.pi.speed_enabled,
		.speed_ext_en = um_node.pi.speed_ext_enabled,
	};
	return due;
}

void um_node_set_sm(bool is_sm)
{
	const uint32_t cap_mask = (um_node.pi.cap_mask & ~IB_CAP_SM) | (is_sm ? IB_CAP_SM : 0);
	uint8_t details[54];

	if (cap_mask == um_node.pi.cap_mask)
		return;
	um_node.pi.cap_mask = cap_mask;
	ib_trap144(details, um_node.pi.lid, cap_mask, 0, um_node.pi.cap_mask2);
	if (ib_sma_trap(&n.sma, 1, IB_NOTICE_INFO, IB_TRAP_CAP_MASK_CHANGE, details,
			(uint64_t)um_now_ns()))
		um_wire_wake(0);
}

/* ---- SMPs ---------------------------------------------------------------------- */

static ib_mad_addr_t smp_from(uint16_t slid, uint8_t sl)
{
	return (ib_mad_addr_t){ .lid = ib_to_be16(slid), .sl = sl };
}

/*
 * Process an SMP for this node: by its agent, or a manager in the process. Return: @smp is a
 * response.
 */
static bool process_smp(struct ib_smp *smp, uint16_t slid, uint8_t sl, bool from_wire)
{
	const struct ib_sma_in in = {
		.port = 1,
		.from_wire = from_wire,
		.slid = slid,
		.now_ns = (uint64_t)um_now_ns(),
	};
	const ib_mad_addr_t from = smp_from(slid, sl);
	const struct ib_smp copy = *smp;
	enum ib_sma_verdict v;
	uint8_t out;

	v = ib_sma_process(&n.sma, &in, smp, &out);
	if (v == IB_SMA_UNHANDLED && !um_agent_deliver((void *)smp, &from)) {
		*smp = copy;
		v = ib_sma_unclaimed(&n.sma, &in, smp, &out);
	}
	return v == IB_SMA_REPLY;
}

static void receive_smp(const uint8_t *mad, const struct ib_pkt_info *pi)
{
	const ib_mad_addr_t from = smp_from(pi->slid, pi->sl);
	struct ib_smp smp;
	uint8_t out;

	memcpy(&smp, mad, sizeof(smp));
	if (ib_smp_is_dr(&smp) && ib_smp_returning(&smp)) {
		if (ib_dr_recv(&smp, false, 1, 1, &out) == IB_DR_LOCAL)
			um_agent_deliver((void *)&smp, &from);
	} else if (process_smp(&smp, pi->slid, pi->sl, true)) {
		send_smp(&smp, pi->slid, pi->sl);
	}
}

static void send_user_smp(const ib_mad_addr_t *to, struct ib_smp *smp)
{
	const uint16_t dlid = ib_be16(to->lid);
	const ib_mad_addr_t own = smp_from(ib_smp_is_dr(smp) ? IB_LID_PERMISSIVE : dlid, 0);
	uint8_t out;

	if (ib_smp_begins_by_lid(smp)) {
		send_smp(smp, dlid, to->sl & 15);
		return;
	}
	if (!ib_smp_is_dr(smp)) {
		if (dlid != um_node.pi.lid)
			send_smp(smp, dlid, to->sl & 15);
		else if (process_smp(smp, dlid, 0, false))
			um_agent_deliver((void *)smp, &own);
		return;
	}
	switch (ib_dr_send(smp, false, 1, &out)) {
	case IB_DR_FORWARD:
		send_smp(smp, dlid, to->sl & 15);
		break;
	case IB_DR_LOCAL:
		if (ib_smp_returning(smp)) {
			um_agent_deliver((void *)smp, &own);
		} else if (process_smp(smp, IB_LID_PERMISSIVE, 0, false)) {
			/* return path of a route without hops */
			ib_smp_set_hops(smp, 0, ib_smp_hop_cnt(smp));
			um_agent_deliver((void *)smp, &own);
		}
		break;
	default:
		break;
	}
}

/* ---- MADs of the general services ---------------------------------------------- */

static bool is_own(uint16_t lid)
{
	return um_node.pi.lid && lid >> um_node.pi.lmc == um_node.pi.lid >> um_node.pi.lmc;
}

/* Index of the P_Key that matches the packet's, -1: none does. */
static int pkey_index(uint16_t pkey)
{
	for (unsigned int i = 0; i < UM_PKEYS; i++)
		if (ib_pkey_match(um_node.pkey[i], pkey))
			return (int)i;
	return -1;
}

static void process_gmp(struct ib_mad *mad, const ib_mad_addr_t *from)
{
	if (mad->hdr.mgmt_class == IB_CLASS_PERF && !(mad->hdr.method & IB_METHOD_RESP)) {
		if (ib_pma_process(&n.pma, mad, mad, (uint64_t)um_now_ns()) == IB_PMA_REPLY)
			um_node_send(from, mad);
	} else if (!um_agent_deliver(mad, from) && ib_mad_refuse(&mad->hdr)) {
		um_node_send(from, mad);
	}
}

static void receive_gmp(const uint8_t *pkt, const struct ib_pkt_info *pi)
{
	const struct ib_deth *deth = ib_pkt_deth(pkt, pi);
	const int index = pkey_index(pi->pkey);
	ib_mad_addr_t from = {
		.qpn = ib_to_be32(ib_deth_sqpn(deth)),
		.qkey = ib_to_be32(IB_QKEY_GSI),
		.lid = ib_to_be16(pi->slid),
		.sl = pi->sl,
		.path_bits = (uint8_t)(pi->dlid & ((1u << um_node.pi.lmc) - 1)),
		.pkey_index = (uint16_t)index,
	};
	struct ib_mad mad;

	if (index < 0) {
		ib_sma_count16(&um_node.pi.pkey_violations);
		return;
	}
	if (ib_be32(deth->qkey) != IB_QKEY_GSI) {
		ib_sma_count16(&um_node.pi.qkey_violations);
		return;
	}
	if (pi->has_grh) {
		const struct ib_grh *grh = ib_pkt_grh(pkt, pi);

		from.grh_present = 1;
		from.hop_limit = grh->hoplimit;
		from.traffic_class = ib_grh_tclass(grh);
		from.flow_label = ib_to_be32(ib_grh_flow(grh));
		memcpy(from.gid, grh->sgid, sizeof(from.gid));
	}
	memcpy(&mad, pkt + pi->hdr_len, sizeof(mad));
	process_gmp(&mad, &from);
}

/* um_node_timer() receives it later, so that sending does not call the receiver. */
static void loop_back(const ib_mad_addr_t *to, const struct ib_mad *mad)
{
	const unsigned int i = (n.loop_head + n.loop_count) % LOOP;

	if (n.loop_count == LOOP) {
		n.ctr.xmit_discards++;
		return;
	}
	n.loop[i].from = *to;
	n.loop[i].from.qpn = ib_to_be32(1);
	n.loop[i].mad = *mad;
	n.loop_count++;
	um_wire_wake(0);
}

static void take_loop(void)
{
	while (n.loop_count) {
		const ib_mad_addr_t from = n.loop[n.loop_head].from;
		struct ib_mad mad = n.loop[n.loop_head].mad;

		n.loop_head = (n.loop_head + 1) % LOOP;
		n.loop_count--;
		process_gmp(&mad, &from);
	}
}

static void send_gmp(const ib_mad_addr_t *to, const struct ib_mad *mad)
{
	const uint8_t sl = to->sl & 15;
	const int vl = ib_sl2vl_lookup(&n.sl2vl, sl, ib_opvls_count(um_node.pi.op_vls));
	const uint16_t pkey = um_node.pkey[to->pkey_index < UM_PKEYS ? to->pkey_index : 0];
	struct ib_mad_path path = {
		.vl = (uint8_t)vl,
		.sl = sl,
		.slid = um_node.pi.lid | (to->path_bits & ((1u << um_node.pi.lmc) - 1)),
		.dlid = ib_be16(to->lid),
		.pkey = pkey,
		.dqpn = ib_be32(to->qpn) & IB_QPN_MASK,
		.sqpn = 1,
		.qkey = ib_be32(to->qkey),
		.global = to->grh_present,
		.tclass = to->traffic_class,
		.hop_limit = to->hop_limit,
		.flow = ib_be32(to->flow_label),
	};

	if (is_own(path.dlid)) {
		loop_back(to, mad);
		return;
	}
	if (vl < 0) {
		n.ctr.xmit_discards++;
		return;
	}
	ib_put_be64(path.sgid, um_node.pi.gid_prefix);
	ib_put_be64(path.sgid + 8, n.guids[to->gid_index & (IB_GUIDS_PER_BLOCK - 1)]);
	memcpy(path.dgid, to->gid, sizeof(path.dgid));
	send_packet(&path, mad);
}

/* ---- in and out ---------------------------------------------------------------- */

void um_node_receive(const uint8_t *pkt, size_t len)
{
	struct ib_pkt_info pi;

	if (ib_pkt_parse(pkt, len, &pi) != IB_PKT_OK || pi.opcode != IB_OP_UD_SEND_ONLY ||
	    pi.payload_len != IB_MAD_LEN)
		return;
	ib_pma_count_rcv(&n.ctr, (uint32_t)len, pi.sl, false);
	if (pi.vl == IB_MGMT_VL) {
		receive_smp(pkt + pi.hdr_len, &pi);
		return;
	}
	ib_port_rx_data(&um_node.pi);
	if (pi.dqpn == 1)
		receive_gmp(pkt, &pi);
}

void um_node_damaged(bool remote)
{
	if (remote) {
		n.ctr.rcv_remote_phys_errors++;
	} else {
		n.ctr.rcv_errors++;
		n.ctr.rcv_local_phys_errors++;
	}
}

void um_node_send(const ib_mad_addr_t *to, const struct ib_mad *mad)
{
	struct ib_smp smp;

	if (ib_mad_is_smp(&mad->hdr)) {
		memcpy(&smp, mad, sizeof(smp));
		send_user_smp(to, &smp);
	} else {
		send_gmp(to, mad);
	}
}

int64_t um_node_timer(int64_t now_ns)
{
	uint64_t due, pma;

	take_loop();
	ib_sma_timer(&n.sma, (uint64_t)now_ns);
	ib_pma_timer(&n.pma, (uint64_t)now_ns);
	due = ib_sma_deadline(&n.sma);
	pma = ib_pma_deadline(&n.pma);
	due = pma < due ? pma : due;
	return due > INT64_MAX ? INT64_MAX : (int64_t)due;
}
