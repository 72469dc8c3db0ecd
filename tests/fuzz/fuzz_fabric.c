// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A fabric whose hosts send any MADs, by directed routes and by LIDs, while time passes and subnet
 * managers start and stop. After each step both ends of a link agree, each wait has a timer, and
 * the reference counts of tables are right.
 */
#include "mads.h"

#include <stdlib.h>
#include <string.h>

#include "fabric/graph/generate.h"

#define HOSTS	8u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct fab_mad last;	/* the last MAD that a host received */
static uint32_t last_port;

static bool deliver(void *ctx, uint32_t port, const struct fab_mad *mad)
{
	const struct fab *f = ctx;

	if (f->node[f->port[port].node].sw != FAB_NONE)
		abort();
	/* every other host has a manager */
	if (f->port[port].node % 2)
		return false;
	last = *mad;
	last_port = port;
	return true;
}

static struct fab *new_fabric(void)
{
	struct fab *f = fab_new();
	char why[256];

	if (!f || !fab_generate(f, "fat-tree:4", why, sizeof(why)) || !fab_seal(f))
		abort();
	set_up(f);
	return f;
}

/* The processing of a MAD ends. */
static void send(struct fab_mgmt *m, uint32_t port, struct fab_mad *mad, uint64_t now)
{
	if (fab_mgmt_send(m, port, mad, now) == FAB_GOES_ON)
		abort();
}

/* ---- invariants ---------------------------------------------------------------- */

static void check_links(const struct fab *f)
{
	for (uint32_t p = 1; p < f->ports; p++) {
		const struct fab_port *a = &f->port[p], *b = &f->port[a->peer];

		if (a->peer != FAB_NO_PORT &&
		    (a->pi.state == IB_PS_DOWN) != (b->pi.state == IB_PS_DOWN))
			abort();
	}
}

static void check_waiting(const struct fab_mgmt *m)
{
	uint64_t first = UINT64_MAX;

	for (uint32_t i = 1; i < m->f->extras; i++) {
		const uint64_t ns = ib_sma_end_deadline(&m->f->extra[i]->end);

		if (ns < first)
			first = ns;
		if (ns != UINT64_MAX && !m->f->extra[i]->timer.set)
			abort();
	}
	for (uint32_t i = 0; i < m->f->nodes; i++) {
		const struct fab_pma *a = m->f->node[i].pma;

		if (a && ib_pma_deadline(&a->agent) < first)
			first = ib_pma_deadline(&a->agent);
	}
	if (first < m->deadline_ns)
		abort();
}

static void check_pool(const struct fab_pool *p, const uint32_t *refs)
{
	/* all ports use the first table in the beginning, and the pool keeps it */
	for (uint32_t i = 0; i < p->top; i++)
		if (p->ref[i] != refs[i] + !i)
			abort();
}

static void check_pools(const struct fab *f)
{
	static uint32_t refs[4][4096];
	const struct fab_pool *pool[] = { &f->ca_pkeys, &f->sw_pkeys, &f->sl2vl, &f->vlarb };

	for (unsigned int i = 0; i < 4; i++) {
		if (pool[i]->top > 4096)
			abort();
		memset(refs[i], 0, pool[i]->top * sizeof(refs[i][0]));
	}
	for (uint32_t p = 1; p < f->ports; p++) {
		refs[f->node[f->port[p].node].sw != FAB_NONE][f->port[p].pkeys]++;
		refs[2][f->port[p].sl2vl]++;
		refs[3][f->port[p].vlarb]++;
	}
	for (uint32_t i = 0; i < f->nodes; i++) {
		const struct fab_node *n = &f->node[i];
		const unsigned int dim = n->nports + 1u;

		if (n->sw == FAB_NONE || !f->sw[n->sw].sl2vl)
			continue;
		for (unsigned int k = 0; k < dim * dim; k++)
			refs[2][f->sw[n->sw].sl2vl[k]]++;
	}
	for (unsigned int i = 0; i < 4; i++)
		check_pool(pool[i], refs[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct fab_mgmt m;
	struct fab *f = new_fabric();
	uint64_t now = 1000;

	at = data;
	end = data + size;
	last_port = FAB_NO_PORT;
	fab_mgmt_init(&m, f, deliver, f);
	for (int ops = 0; ops < 200 && at < end; ops++) {
		const uint8_t op = get8();
		const uint32_t host = fab_port_of(&f->node[op / 32 % HOSTS], 1);
		struct fab_mad mad;

		if ((op & 7) == 7) {
			now += 1ull << get8() % 40;
			fab_mgmt_timer(&m, now);
		} else if ((op & 7) == 6) {
			fab_mgmt_set_issm(&m, host, op & 8, now);
		} else if ((op & 7) == 5 && last_port != FAB_NO_PORT) {
			mad = any_answer(&last, op);
			send(&m, last_port, &mad, now);
		} else {
			mad = any_mad(get8());
			send(&m, host, &mad, now);
		}
		check_links(f);
		check_waiting(&m);
	}
	check_pools(f);
	fab_free(f);
	return 0;
}
