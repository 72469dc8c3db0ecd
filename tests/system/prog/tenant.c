// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Packets with a P_Key from one port to a port with another P_Key: RC, UD, and multicast along the
 * tree of an existing group. The server receives.
 */
#include "peer.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#define COUNT		5u	/* messages by UD, and by multicast */
#define SIZE		1000u
#define GRH		40u
#define SLOT		2048u
#define IS_MCAST	0x100u	/* in the immediate data, together with the number */
#define MCAST_QPN	0xffffffu
#define WAIT_MS		20000
#define NOTHING_MS	200

/** struct tenant - @key: P_Key of this side, @mlid: of the group, @reach: packets must arrive */
struct tenant {
	unsigned int key;
	unsigned int mlid;
	unsigned int reach;
};

/* Only the QPs here are in this group; switches forward by the MLID. */
static const union ibv_gid mgid = { .raw = { 0xff, 0x12, 0xa0, 0x1b, [15] = 0x77 } };

/* Sets the P_Key of @p's QP, which is in INIT. */
static void take_key(struct peer *p, unsigned int key)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT };
	struct ibv_port_attr port;
	__be16 found;

	if (ibv_query_port(p->ctx, 1, &port))
		fail("ibv_query_port");
	for (; a.pkey_index < port.pkey_tbl_len; a.pkey_index++) {
		if (ibv_query_pkey(p->ctx, 1, a.pkey_index, &found))
			fail("P_Key %u cannot be read", a.pkey_index);
		if (ntohs(found) != key)
			continue;
		if (ibv_modify_qp(p->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX))
			fail("no QP may have P_Key %#x", key);
		return;
	}
	fail("the port has no P_Key %#x", key);
}

static void open_as(struct peer *p, enum ibv_qp_type type, const struct tenant *t)
{
	if (!t->reach) {
		p->timeout = 12;
		p->retry_cnt = 2;
		p->rnr_retry = 7;
		p->min_rnr_timer = 12;
	}
	peer_open(p, type);
	take_key(p, t->key);
}

static void rc(struct peer *p, const struct tenant *t)
{
	struct ibv_wc wc;

	open_as(p, IBV_QPT_RC, t);
	recv_post(p, 0, 0, SIZE);
	peer_connect(p);
	if (p->client) {
		fill(p->buf + SLOT, SIZE, 1);
		send_post(p, IBV_WR_SEND, 0, SLOT, SIZE, 0);
		if (!wc_get(p->scq, &wc, WAIT_MS))
			fail("RC: no completion");
		printf("RC: %s\n", ibv_wc_status_str(wc.status));
	}
	sync_at(p, 1);
	if (!p->client) {
		bool came = wc_get(p->rcq, &wc, t->reach ? WAIT_MS : 0);

		if (came)
			check(p->buf, SIZE, 1, "RC");
		printf("RC: %u\n", came);
	}
	sync_at(p, 2);
	peer_close(p);
}

static void send_to(struct peer *p, struct ibv_ah *ah, uint32_t qpn, uint32_t imm)
{
	struct ibv_sge sge = { (uintptr_t)p->buf, SIZE, p->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = imm, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED, .imm_data = htonl(imm),
		.wr.ud = { .ah = ah, .remote_qpn = qpn, .remote_qkey = PEER_QKEY },
	};

	fill(p->buf, SIZE, imm);
	send_post_raw(p, &wr);
	wc_expect(p->scq, imm, IBV_WC_SUCCESS, "UD");
}

static void send_all(struct peer *p, uint32_t mlid)
{
	struct ibv_ah_attr group = {
		.dlid = (uint16_t)mlid, .port_num = 1, .is_global = 1,
		.grh = { .dgid = mgid, .hop_limit = 1 },
	};
	struct ibv_ah *ah = ibv_create_ah(p->pd, &group);

	if (!ah)
		fail("no AH for MLID %#x", mlid);
	for (uint32_t i = 0; i < COUNT; i++) {
		send_to(p, p->ah, p->you.qpn, i);
		send_to(p, ah, MCAST_QPN, IS_MCAST | i);
	}
	if (ibv_destroy_ah(ah))
		fail("ibv_destroy_ah");
}

static void receive_all(struct peer *p, bool reach)
{
	uint32_t ud = 0, mcast = 0, imm;
	struct ibv_wc wc;

	while (ud + mcast < 2 * COUNT && wc_get(p->rcq, &wc, reach ? WAIT_MS : NOTHING_MS)) {
		imm = ntohl(wc.imm_data);
		check(p->buf + wc.wr_id * SLOT + GRH, SIZE, imm, "UD");
		if (imm & IS_MCAST)
			mcast++;
		else
			ud++;
	}
	printf("UD: %u\nmulticast: %u\n", ud, mcast);
}

static void ud(struct peer *p, const struct tenant *t)
{
	open_as(p, IBV_QPT_UD, t);
	for (uint32_t i = 0; i < 2 * COUNT; i++)
		recv_post(p, i, i * SLOT, SIZE + GRH);
	if (!p->client && ibv_attach_mcast(p->qp, &mgid, (uint16_t)t->mlid))
		fail("no QP may join MLID %#x", t->mlid);
	peer_connect(p);
	if (p->client)
		send_all(p, t->mlid);
	sync_at(p, 3);
	if (!p->client) {
		receive_all(p, t->reach);
		if (ibv_detach_mcast(p->qp, &mgid, (uint16_t)t->mlid))
			fail("ibv_detach_mcast");
	}
	sync_at(p, 4);
	peer_close(p);
}

void tenant_main(struct peer *p, const char *what)
{
	struct tenant t;

	if (sscanf(what, "%x,%x,%u", &t.key, &t.mlid, &t.reach) != 3)
		fail("not P_KEY,MLID,0|1: %s", what);
	rc(p, &t);
	ud(p, &t);
}
