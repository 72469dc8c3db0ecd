/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Two connected QPs for tests of the transport, with functions that build WQEs, post, run, and
 * check completions and events. On top of host.h.
 */
#ifndef OHCA_TEST_RIG_H
#define OHCA_TEST_RIG_H

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "host.h"

#define RIG_MR_LEN	(4u << 20)
#define RIG_QKEY	0x1234u

/** struct rig_opt - options; zeroes mean: RC, MTU 1024, two machines */
struct rig_opt {
	/* enum ohca_qp_type; XRC_INI: side 0 is the initiator, side 1 a target with an XRC SRQ */
	uint8_t type;
	uint8_t mtu;		/* code */
	bool loop;		/* both QPs on one machine, no cable needed */
	bool scatter;		/* of the hosts */
	bool privileged, signal_all, srq;
	bool srq_pd;		/* its SRQs, with or without tags, have a PD of their own */
	uint16_t tags;		/* side 1 has an SRQ of that many tags, and no send queue */
	bool two_ports;		/* of each machine, joined; the QPs use the first */
	bool cold;		/* leave the QPs in RESET */
	uint8_t log_sq, log_rq;
	uint32_t psn[2];	/* first PSN of each direction */
};

/** struct rig - usually side 0 sends to side 1 */
struct rig {
	struct host *h[2];
	unsigned int nh;
	struct rig_opt opt;
	struct host_cq scq[2], rcq[2];
	struct host_srq srq[2];
	uint32_t srq_pdn[2];
	uint32_t xrcdn;
	struct host_qp qp[2];
	struct host_mr mr[2];	/* with all rights */
};

void rig_up(struct rig *r, struct rig_opt opt);
void rig_down(struct rig *r);
/**
 * rig_attr() - attributes of side @i that rig_up() connects with; for rig_connect(), after changes
 */
struct ohca_hw_qp_attr rig_attr(struct rig *r, unsigned int i);
/** rig_connect() - RESET to RTS (RC, UC), after rig_up() with cold */
void rig_connect(struct rig *r, unsigned int i, struct ohca_hw_qp_attr a);
/** rig_modify() - to @state, without other attributes */
void rig_modify(struct host_qp *qp, uint8_t state);
/** rig_run() - runs until nothing happens; time stands still */
void rig_run(struct rig *r);
/** rig_time() - the same while @ms milliseconds pass */
void rig_time(struct rig *r, uint64_t ms);

/** rig_fill() - writes a pattern of @seed into the MR of side @i */
void rig_fill(struct rig *r, unsigned int i, uint64_t off, uint32_t len, uint32_t seed);
/** rig_check() - checks that the pattern is there */
void rig_check(struct rig *r, unsigned int i, uint64_t off, uint32_t len, uint32_t seed);
uint64_t rig_get64(struct rig *r, unsigned int i, uint64_t off);
void rig_put64(struct rig *r, unsigned int i, uint64_t off, uint64_t v);

/** struct wqe - a send WQE under construction */
struct wqe {
	uint8_t b[1024];
	unsigned int nseg;
};

struct wqe wqe_new(uint8_t op, uint16_t flags, uint64_t wr_id);
/** wqe_xrc() - XRC segment */
void wqe_xrc(struct wqe *w, uint32_t srqn);
void wqe_imm(struct wqe *w, uint32_t be_imm);
void wqe_inv(struct wqe *w, uint32_t key);
void wqe_raddr(struct wqe *w, uint64_t addr, uint32_t rkey);
void wqe_atomic(struct wqe *w, uint64_t swap_add, uint64_t compare);
void wqe_masks(struct wqe *w, uint64_t swap, uint64_t compare);
void wqe_flush(struct wqe *w, uint32_t len, uint8_t placement, uint8_t level);
void wqe_sge(struct wqe *w, uint64_t addr, uint32_t len, uint32_t key);
void wqe_inline(struct wqe *w, const void *data, uint32_t len);
void wqe_av(struct wqe *w, uint16_t dlid, uint32_t dqpn, uint32_t qkey);
void wqe_post(struct host_qp *qp, struct wqe *w);

/* these post from side @i, from its MR at @off, to the other's MR at @roff; signaled */
void rig_write(struct rig *r, unsigned int i, uint64_t wr_id, uint64_t off, uint64_t roff,
	       uint32_t len);
void rig_read(struct rig *r, unsigned int i, uint64_t wr_id, uint64_t off, uint64_t roff,
	      uint32_t len);
void rig_send(struct rig *r, unsigned int i, uint64_t wr_id, uint64_t off, uint32_t len);
void rig_atomic(struct rig *r, unsigned int i, uint8_t op, uint64_t wr_id, uint64_t off,
		uint64_t roff, uint64_t swap_add, uint64_t compare);
/** rig_recv() - posts a receive of @len at @off on side @i, to its SRQ if it has one */
void rig_recv(struct rig *r, unsigned int i, uint64_t wr_id, uint64_t off, uint32_t len);

/**
 * rig_greet() - sends an empty message with wr_id 0 from side @i
 *
 * The test posts the receive for it. Afterwards side @i knows the credits of all receives that are
 * posted.
 */
void rig_greet(struct rig *r, unsigned int i);

/** wc() - expects this completion as the next one */
struct ohca_hw_cqe wc_(struct host_cq *cq, uint64_t wr_id, uint32_t status, const char *file,
		       int line);
#define wc(cq, wr_id, status) wc_(cq, wr_id, status, __FILE__, __LINE__)
#define no_wc(cq) do { struct ohca_hw_cqe c_; assert_false(host_cq_poll(cq, &c_)); } while (0)
/** event() - expects this asynchronous event of a side as the next one */
void event_(struct host *h, uint8_t type, uint32_t handle, const char *file, int line);
#define event(h, type, handle) event_(h, type, handle, __FILE__, __LINE__)
void no_event(struct host *h);
uint8_t rig_state(struct host_qp *qp);

enum {	/* enum ibv_wc_status */
	WC_SUCCESS, WC_LOC_LEN, WC_LOC_QP_OP, WC_LOC_EEC, WC_LOC_PROT, WC_WR_FLUSH, WC_MW_BIND,
	WC_BAD_RESP, WC_LOC_ACCESS, WC_REM_INV_REQ, WC_REM_ACCESS, WC_REM_OP, WC_RETRY_EXC,
	WC_RNR_RETRY_EXC,
	WC_REM_ABORT = 16,
	WC_TM_ERR = 22, WC_TM_RNDV_INCOMPLETE,
};

#endif
