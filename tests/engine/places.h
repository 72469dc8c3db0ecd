/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * HCAs at hosts of a fabric, in its process, and pairs of QPs between them. Time passes only by
 * now. A test that includes this file has at most PLACES of them.
 */
#ifndef OHCA_TEST_PLACES_H
#define OHCA_TEST_PLACES_H

#include <stdlib.h>

#include "engine/base/state.h"
#include "fabric/hca/hca.h"
#include "fabric/hosts.h"
#include "rig.h"

#ifndef PLACES
#define PLACES	4u
#endif
#define LEN	(2u << 20)	/* of the memory of each */
#define HALF	(LEN / 2)

/** struct place - an HCA at a host of the fabric */
struct place {
	uint32_t at;
	struct host_seat seat;
	struct fab_hca *hca;
	struct host *h;
	struct host_cq cq;
	struct host_mr mr;
};

static struct fab_hcas *hcas;
static struct place place_of[PLACES];

static inline ohca_engine *seat_make(void *arg, struct host *h)
{
	struct place *p = arg;
	const struct fab_hca_range memory = { HOST_BASE, h->mem_size, h->mem, false, NULL };
	const struct fab_hca_cfg cfg = {
		.engine = h->cfg,
		.place = { port_of_host(p->at) },
		.irq = host_irq,
		.arg = h,
	};

	p->hca = fab_hca_new(hcas, &cfg);
	assert_non_null(p->hca);
	assert_true(fab_hca_memory(p->hca, &memory, 1));
	return fab_hca_engine(p->hca);
}

static inline bool seat_turn(void *arg)
{
	(void)arg;
	return fab_hcas_turn(hcas) | fab_data_round(d);
}

static inline void seat_leave(void *arg)
{
	struct place *p = arg;

	fab_hca_free(p->hca);
}

/* Runs until nothing happens. */
static inline void settle(void)
{
	for (unsigned int i = 0, quiet = 0; quiet < 4; i++) {
		assert_true(i < 1000000);
		quiet = fab_hcas_turn(hcas) | fab_data_round(d) ? 0 : quiet + 1;
		fab_data_timer(d);
		fab_mgmt_timer(&m, now);
	}
}

/* Makes place @i of the test at the host @at of the graph. */
static inline void place_up(struct place *p, unsigned int i, uint32_t at)
{
	p->at = at;
	p->seat = (struct host_seat){
		.make = seat_make, .turn = seat_turn, .leave = seat_leave, .arg = p,
	};
	p->h = host_new_seat(1, 0x1000 * (i + 1), &p->seat);
	p->h->now = &now;
	p->h->scatter = i & 1;
	host_start(p->h);
	settle();
	activate(p->at);
	fab_data_round(d);
	host_port_set(p->h, 0, LID(p->at), IB_PS_ACTIVE);
	host_cq_create(p->h, &p->cq, 8, 0);
	host_mr_create(p->h, &p->mr, LEN, p->h->pdn, 0xf);
	for (uint32_t k = 0; k < LEN; k++)
		*(uint8_t *)host_buf_ptr(p->h, &p->mr.buf, k) =
			(uint8_t)(k * 31 + (k >> 8) * 7 + i);
}

/** struct pair - connected QPs of two places */
struct pair {
	unsigned int side[2];
	uint8_t type, mtu;
	struct host_qp qp[2];
};

static inline void pair_up(struct pair *p)
{
	for (unsigned int k = 0; k < 2; k++) {
		struct place *at = &place_of[p->side[k]];
		struct host_qp_init in = { .type = p->type, .scq = &at->cq, .rcq = &at->cq,
					   .log_sq = 6, .log_rq = 4 };

		assert_int_equal(host_qp_create(at->h, &p->qp[k], &in), 0);
	}
	for (unsigned int k = 0; k < 2; k++)
		host_qp_connect(&p->qp[k], 0, LID(place_of[p->side[!k]].at), p->qp[!k].qpn, p->mtu,
				0xfffff0 + k, 0xfffff1 - k);
}

/* Frees @n pairs, and the first @places places. */
static inline void all_down(struct pair *p, unsigned int n, unsigned int places, void **st)
{
	for (unsigned int i = 0; i < n; i++)
		for (unsigned int k = 0; k < 2; k++)
			host_qp_destroy(&p[i].qp[k]);
	for (unsigned int i = places; i-- > 0;) {
		host_buf_free(&place_of[i].cq.buf);
		host_buf_free(&place_of[i].mr.buf);
		host_free(place_of[i].h);
	}
	fab_hcas_free(hcas);
	teardown_hosts(st);
}

/* Moves time to the next deadline and runs. */
static inline void step_on(void)
{
	const uint64_t data = fab_data_timer(d), hca = fab_hcas_due(hcas);
	const uint64_t next = data < hca ? data : hca;

	assert_true(next < 1000000000);
	now += next;
	settle();
}

#endif
