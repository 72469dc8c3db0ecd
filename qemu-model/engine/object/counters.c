/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Counter sets: separate counters of the QPs bound to a set. */
#include "engine/base/cmd.h"
#include "engine/base/ids.h"
#include "engine/base/le.h"
#include "engine/base/limits.h"
#include "engine/base/mem.h"
#include "engine/object/counters.h"
#include "engine/object/doorbell.h"
#include "engine/object/qp.h"
#include "ohca_hw.h"

static uint64_t of_port(const ohca_engine *e, unsigned int port, unsigned int id)
{
	return atomic_load_explicit(&e->port_cnt[id][port], memory_order_relaxed);
}

uint64_t ohca_counter(const ohca_engine *e, unsigned int id)
{
	uint64_t n;

	if (id >= OHCA_CNT_NUM)
		return 0;
	if (id < OHCA_DB_BAD_NUM)
		return ohca_db_bad(e, (enum ohca_db_bad)id);
	n = atomic_load_explicit(&e->cnt[id], memory_order_relaxed);
	for (unsigned int port = 0; port < OHCA_MAX_PORTS; port++)
		n += of_port(e, port, id);
	return n;
}

static struct ohca_counter_set *set_get(ohca_engine *e, uint32_t n)
{
	return n && n < OHCA_MAX_COUNTER_SETS ? e->set[n] : NULL;
}

int ohca_cmd_alloc_counters(struct ohca_cmd *c)
{
	ohca_engine *e = c->e;
	struct ohca_counter_set *s = ohca_mem_get(e, sizeof(*s));

	if (!s)
		return OHCA_ADMIN_NO_RESOURCE;
	s->n = ohca_ids_get(&e->set_ids);
	if (s->n == OHCA_NO_ID) {
		ohca_mem_put(e, s, sizeof(*s));
		return OHCA_ADMIN_NO_RESOURCE;
	}
	e->set[s->n] = s;
	ohca_cmd_result(c, s->n);
	return OHCA_ADMIN_OK;
}

void ohca_counter_set_free(ohca_engine *e, struct ohca_counter_set *s)
{
	e->set[s->n] = NULL;
	ohca_ids_put(&e->set_ids, s->n);
	ohca_mem_put(e, s, sizeof(*s));
}

int ohca_cmd_free_counters(struct ohca_cmd *c)
{
	struct ohca_counter_set *s = set_get(c->e, ohca_le32(c->aqe.handle.handle));

	if (!s)
		return OHCA_ADMIN_BAD_HANDLE;
	if (s->refs)
		return OHCA_ADMIN_BUSY;
	ohca_counter_set_free(c->e, s);
	return OHCA_ADMIN_OK;
}

int ohca_cmd_bind_counters(struct ohca_cmd *c)
{
	struct ohca_qp *qp = ohca_qp_get(c->e, ohca_le32(c->aqe.bind_counters.qp));
	uint32_t n = ohca_le32(c->aqe.bind_counters.set);
	struct ohca_counter_set *s = set_get(c->e, n);

	if (!qp)
		return OHCA_ADMIN_BAD_HANDLE;
	if (n && !s)
		return OHCA_BAD(c, bind_counters.set);
	ohca_counters_unbind(qp);
	qp->counters = s;
	if (s)
		s->refs++;
	return OHCA_ADMIN_OK;
}

void ohca_counters_unbind(struct ohca_qp *qp)
{
	if (qp->counters)
		qp->counters->refs--;
	qp->counters = NULL;
}

/* Events counted in no set, at @port (from 1), or with @port 0 in the whole device. */
static uint64_t in_no_set(const ohca_engine *e, unsigned int port, unsigned int id)
{
	uint64_t all = port ? of_port(e, port - 1, id) : ohca_counter(e, id), sets = 0;

	for (unsigned int i = 0; i < OHCA_MAX_PORTS; i++)
		sets += !port || port == i + 1 ? e->set_cnt[i][id] : 0;
	/* while the path migrates, a packet may use another port than its QP's */
	return all > sets ? all - sets : 0;
}

int ohca_cmd_query_counter_set(struct ohca_cmd *c)
{
	const struct ohca_cmd_query_counter_set *cmd = &c->aqe.query_counter_set;
	uint32_t n = ohca_le32(cmd->set);
	ohca_engine *e = c->e;
	const struct ohca_counter_set *s = set_get(e, n);
	__le64 v[OHCA_CNT_NUM];

	if (n && !s)
		return OHCA_ADMIN_BAD_HANDLE;
	if (cmd->port > e->cfg.num_ports || (n && cmd->port))
		return OHCA_BAD(c, query_counter_set.port);
	if (cmd->reserved[0] || cmd->reserved[1] || cmd->reserved[2])
		return OHCA_BAD(c, query_counter_set.reserved);
	for (unsigned int i = 0; i < OHCA_CNT_NUM; i++)
		v[i] = ohca_to_le64(s ? s->cnt[i] : in_no_set(e, cmd->port, i));
	return ohca_cmd_mbox_write(c, OHCA_AT(query_counter_set.addr), 0, v, sizeof(v));
}
