// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Automatic path migration under verified traffic: from port 1 to port 2 and back. Each side
 * advances through the levels below as far as the other side allows; each message contains its
 * sender's level. With "link" the caller makes the paths fail after a side has reported that it is
 * armed; with "driver" one side requests the migration.
 */
#include "peer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BLOCK	16384u
#define DST	(PEER_BUF / 2)
#define MSG	(PEER_BUF - 4096)
#define DEPTH	8u
#define MORE	50u	/* blocks after the last migration */

/*
 * ACK timeouts of the first path, and of each loaded one. With 7 retries they end after 4.3 and 8.6
 * s: long enough for a paused peer, short enough to detect a link that is down.
 */
#define TIMEOUT		15
#define ALT_TIMEOUT	16

enum level { START, REARMED_2, ARMED_2, ON_2, REARMED_1, ARMED_1, ON_1 };

/** struct note - contents of a message */
struct note {
	uint32_t number, level, left;
};

static uint64_t lids[2][2];	/* own, peer's; port 1, port 2 */
static uint32_t level, other, left = MORE;
static bool by_driver;

static void modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int rc = ibv_modify_qp(qp, attr, mask);

	if (rc)
		fail("modify, mask %#x, at level %u: %s", mask, level, strerror(rc));
}

static struct ibv_qp_attr query(struct peer *p)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;
	int rc = ibv_query_qp(p->qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_ALT_PATH |
			      IBV_QP_PATH_MIG_STATE | IBV_QP_PORT | IBV_QP_TIMEOUT, &init);

	if (rc)
		fail("ibv_query_qp: %s", strerror(rc));
	return a;
}

static bool active(struct peer *p, uint8_t port)
{
	struct ibv_port_attr a;

	if (ibv_query_port(p->ctx, port, &a))
		fail("ibv_query_port %u", port);
	if (a.state == IBV_PORT_ACTIVE && a.lid != lids[0][port - 1])
		fail("port %u has LID %u now, not %llu", port, a.lid,
		     (unsigned long long)lids[0][port - 1]);
	return a.state == IBV_PORT_ACTIVE;
}

/*
 * Whether an alternate path has been loaded. A packet of the peer may arm it between the request
 * and the query.
 */
static bool loaded(enum ibv_mig_state state)
{
	return state == IBV_MIG_REARM || state == IBV_MIG_ARMED;
}

static void rearm(struct peer *p, uint8_t port)
{
	struct ibv_qp_attr a = {
		.alt_ah_attr = { .dlid = lids[1][port - 1], .port_num = port },
		.alt_port_num = port, .alt_timeout = ALT_TIMEOUT, .path_mig_state = IBV_MIG_REARM,
	};

	modify(p->qp, &a, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE);
	a = query(p);
	if (!loaded(a.path_mig_state) || a.alt_port_num != port ||
	    a.alt_ah_attr.dlid != lids[1][port - 1] || a.alt_timeout != ALT_TIMEOUT ||
	    a.port_num == port)
		fail("rearmed for port %u, but QUERY says: state %d, alternate port %u, LID %u, "
		     "timeout %u", port, a.path_mig_state, a.alt_port_num, a.alt_ah_attr.dlid,
		     a.alt_timeout);
}

/* Whether the device reports that the QP has migrated; other events are ignored. */
static bool moved(struct peer *p, uint8_t port)
{
	struct ibv_async_event ev;
	struct ibv_qp_attr a;
	bool mig = false;

	while (!mig && !ibv_get_async_event(p->ctx, &ev)) {
		if (ev.event_type == IBV_EVENT_PATH_MIG_ERR || ev.event_type == IBV_EVENT_QP_FATAL)
			fail("event %s", ibv_event_type_str(ev.event_type));
		mig = ev.event_type == IBV_EVENT_PATH_MIG;
		if (mig && ev.element.qp != p->qp)
			fail("the event is another QP's");
		ibv_ack_async_event(&ev);
	}
	if (!mig)
		return false;
	a = query(p);
	if (a.path_mig_state != IBV_MIG_MIGRATED || a.port_num != port ||
	    a.ah_attr.dlid != lids[1][port - 1] || a.timeout != ALT_TIMEOUT || a.alt_port_num)
		fail("moved, but QUERY says: state %d, port %u, LID %u, timeout %u, alternate "
		     "port %u", a.path_mig_state, a.port_num, a.ah_attr.dlid, a.timeout,
		     a.alt_port_num);
	printf("moved to port %u\n", port);
	return true;
}

static bool armed(struct peer *p, uint8_t port)
{
	if (query(p).path_mig_state != IBV_MIG_ARMED)
		return false;
	printf("armed for port %u\n", port);
	return true;
}

static void ask(struct peer *p)
{
	struct ibv_qp_attr a = { .path_mig_state = IBV_MIG_MIGRATED };

	modify(p->qp, &a, IBV_QP_PATH_MIG_STATE);
}

static void step(struct peer *p)
{
	bool up = false;

	switch (level) {
	case START:
		rearm(p, 2);
		up = true;
		break;
	case REARMED_2:
		up = armed(p, 2);
		break;
	case ARMED_2:
		if (by_driver && p->client && other == ARMED_2)
			ask(p);
		up = moved(p, 2);
		break;
	case ON_2:
		up = other >= ON_2 && active(p, 1);
		if (up)
			rearm(p, 1);
		break;
	case REARMED_1:
		up = armed(p, 1);
		break;
	case ARMED_1:
		if (by_driver && !p->client && other == ARMED_1)
			ask(p);
		up = moved(p, 1);
		break;
	default:
		if (left && other >= ON_1)
			left--;
		break;
	}
	level += up;
}

static void tell(struct peer *p, uint32_t number)
{
	struct note n = { number, level, left };

	memcpy(p->buf + MSG, &n, sizeof(n));
	send_post(p, IBV_WR_SEND, 1, MSG, sizeof(n), 0);
}

/* The other side's message has arrived, and the own one has been sent. */
static struct note hear(struct peer *p, uint32_t number)
{
	uint32_t off = MSG + 64 + (number % DEPTH) * 64;
	struct note n;

	wc_expect(p->rcq, number, IBV_WC_SUCCESS, "message");
	memcpy(&n, p->buf + off, sizeof(n));
	if (n.number != number)
		fail("message %u came when %u was due", n.number, number);
	recv_post(p, number + DEPTH, off, sizeof(n));
	other = n.level;
	return n;
}

static void swap_lids(struct peer *p)
{
	struct ibv_port_attr a;

	for (uint8_t port = 1; port <= 2; port++) {
		if (ibv_query_port(p->ctx, port, &a) || a.state != IBV_PORT_ACTIVE)
			fail("port %u is not ACTIVE", port);
		lids[0][port - 1] = a.lid;
	}
	tcp_swap(p, lids[0], lids[1], sizeof(lids[0]));
}

void migrate_main(struct peer *p, const char *how)
{
	struct ibv_device_attr dev;
	struct note n = { .left = MORE };
	uint32_t i;

	by_driver = !strcmp(how, "driver");
	p->timeout = TIMEOUT;
	p->retry_cnt = 7;
	p->rnr_retry = 7;
	p->min_rnr_timer = 12;
	peer_open(p, IBV_QPT_RC);
	if (ibv_query_device(p->ctx, &dev) || !(dev.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG))
		fail("the device does not say that it migrates");
	swap_lids(p);
	for (i = 0; i < DEPTH; i++)
		recv_post(p, i, MSG + 64 + i * 64, sizeof(n));
	peer_connect(p);
	for (i = 0; left || n.left; i++) {
		step(p);
		if (p->client) {
			fill(p->buf, BLOCK, i);
			send_post(p, IBV_WR_RDMA_WRITE, 2, 0, BLOCK, DST);
			tell(p, i);
			wc_expect(p->scq, 2, IBV_WC_SUCCESS, "block");
			wc_expect(p->scq, 1, IBV_WC_SUCCESS, "note");
			n = hear(p, i);
		} else {
			n = hear(p, i);
			check(p->buf + DST, BLOCK, i, "block");
			tell(p, i);
			wc_expect(p->scq, 1, IBV_WC_SUCCESS, "note");
		}
		if (i == 0)
			printf("streaming\n");
	}
	sync_at(p, 0xe0);
	peer_close(p);
	printf("migrated, %u blocks\n", i);
}
