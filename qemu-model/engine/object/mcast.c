/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Multicast groups: which UD QPs are attached to an MGID. */
#include <string.h>

#include "engine/base/cmd.h"
#include "engine/base/le.h"
#include "engine/base/limits.h"
#include "engine/base/mem.h"
#include "engine/base/state.h"
#include "engine/base/work.h"
#include "engine/object/mcast.h"
#include "engine/object/qp.h"
#include "engine/object/to_transport.h"
#include "ohca_hw.h"

void ohca_mcast_init(ohca_engine *e)
{
	uint64_t seed = e->cfg.hash_seed, z;

	/* splitmix64 */
	for (unsigned int i = 0; i < sizeof(e->mcast_key) / sizeof(e->mcast_key[0]); i++) {
		seed += 0x9e3779b97f4a7c15ull;
		z = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9ull;
		z = (z ^ z >> 27) * 0x94d049bb133111ebull;
		e->mcast_key[i] = z ^ z >> 31;
	}
}

/*
 * Guests choose MGIDs, and each packet walks a chain. With multilinear hashing a guest that does
 * not know the keys cannot choose MGIDs that share a chain more often than random ones do.
 */
static unsigned int mgid_hash(const ohca_engine *e, const uint8_t mgid[16])
{
	uint64_t h = e->mcast_key[4];
	uint32_t word[4];

	memcpy(word, mgid, 16);
	for (unsigned int i = 0; i < 4; i++)
		h += e->mcast_key[i] * word[i];
	return (unsigned int)(h >> 32) % OHCA_MCAST_BUCKETS;
}

struct ohca_mcast_grp *ohca_mcast_find(ohca_engine *e, const uint8_t mgid[16])
{
	struct ohca_mcast_grp *g;

	for (g = e->mcast[mgid_hash(e, mgid)]; g; g = g->next)
		if (memcmp(g->mgid, mgid, 16) == 0)
			return g;
	return NULL;
}

static struct ohca_mcast_grp *grp_new(ohca_engine *e, const struct ohca_cmd_mcast *cmd)
{
	struct ohca_mcast_grp **head = &e->mcast[mgid_hash(e, cmd->mgid)];
	struct ohca_mcast_grp *g = ohca_mem_get(e, sizeof(*g));

	if (!g)
		return NULL;
	memcpy(g->mgid, cmd->mgid, 16);
	g->next = *head;
	*head = g;
	e->num_mcast_grp++;
	return g;
}

static void grp_free(ohca_engine *e, struct ohca_mcast_grp *g)
{
	struct ohca_mcast_grp **p = &e->mcast[mgid_hash(e, g->mgid)];

	while (*p != g)
		p = &(*p)->next;
	*p = g->next;
	e->num_mcast_grp--;
	ohca_mem_put(e, g->member, g->cap * sizeof(*g->member));
	ohca_mem_put(e, g, sizeof(*g));
}

static int grp_add(ohca_engine *e, struct ohca_mcast_grp *g, struct ohca_qp *qp)
{
	if (g->num == g->cap) {
		uint32_t cap = g->cap ? g->cap * 2 : 4;
		struct ohca_mcast_member *n = ohca_mem_resize(e, g->member,
							      g->cap * sizeof(*n),
							      cap * sizeof(*n));

		if (!n)
			return -1;
		g->member = n;
		g->cap = cap;
	}
	g->member[g->num++] = (struct ohca_mcast_member){ .qp = qp, .refs = 1 };
	qp->mcast_refs++;
	e->mcast_total++;
	return 0;
}

static struct ohca_mcast_member *grp_member(struct ohca_mcast_grp *g, const struct ohca_qp *qp)
{
	for (uint32_t i = 0; i < g->num; i++)
		if (g->member[i].qp == qp)
			return &g->member[i];
	return NULL;
}

/* Look up the QP of a command, the group of its MGID and the QP's entry in it; both may be NULL. */
static int find_all(struct ohca_cmd *c, struct ohca_qp **qp, struct ohca_mcast_grp **g,
		    struct ohca_mcast_member **member)
{
	*qp = ohca_qp_get(c->e, ohca_le32(c->aqe.mcast.qp));
	if (!*qp)
		return OHCA_ADMIN_BAD_HANDLE;
	if ((*qp)->type != OHCA_QPT_UD)
		return OHCA_BAD(c, mcast.qp);
	if (c->aqe.mcast.reserved)
		return OHCA_BAD(c, mcast.reserved);
	if (c->aqe.mcast.mgid[0] != 0xff)
		return OHCA_BAD(c, mcast.mgid);
	*g = ohca_mcast_find(c->e, c->aqe.mcast.mgid);
	*member = *g ? grp_member(*g, *qp) : NULL;
	return OHCA_ADMIN_OK;
}

int ohca_cmd_attach_mcast(struct ohca_cmd *c)
{
	struct ohca_mcast_member *member;
	struct ohca_mcast_grp *g;
	struct ohca_qp *qp;
	int rc = find_all(c, &qp, &g, &member);

	if (rc)
		return rc;
	if (g) {
		if (member && member->refs < UINT32_MAX) {
			member->refs++;
			return OHCA_ADMIN_OK;
		}
		if (member || g->num >= OHCA_MAX_MCAST_QP)
			return OHCA_ADMIN_NO_RESOURCE;
	} else {
		if (c->e->num_mcast_grp >= OHCA_MAX_MCAST_GRP)
			return OHCA_ADMIN_NO_RESOURCE;
		g = grp_new(c->e, &c->aqe.mcast);
		if (!g)
			return OHCA_ADMIN_NO_RESOURCE;
	}
	if (grp_add(c->e, g, qp)) {
		if (!g->num)
			grp_free(c->e, g);
		return OHCA_ADMIN_NO_RESOURCE;
	}
	return OHCA_ADMIN_OK;
}

int ohca_cmd_detach_mcast(struct ohca_cmd *c)
{
	struct ohca_mcast_member *member;
	struct ohca_mcast_grp *g;
	struct ohca_qp *qp;
	int rc = find_all(c, &qp, &g, &member);
	uint32_t index;

	if (rc)
		return rc;
	if (!member)
		return OHCA_BAD(c, mcast.mgid);
	if (--member->refs)
		return OHCA_ADMIN_OK;
	index = (uint32_t)(member - g->member);
	memmove(member, member + 1, (--g->num - index) * sizeof(*member));
	ohca_xp_mcast_left(c->e, g->mgid, index);
	qp->mcast_refs--;
	c->e->mcast_total--;
	if (!g->num)
		grp_free(c->e, g);
	return OHCA_ADMIN_OK;
}

bool ohca_mcast_free_some(ohca_engine *e)
{
	for (unsigned int b = 0; e->num_mcast_grp && b < OHCA_MCAST_BUCKETS; b++) {
		while (e->mcast[b]) {
			struct ohca_mcast_grp *g = e->mcast[b];

			if (!ohca_work_left(e))
				return false;
			ohca_work(e, OHCA_WORK_OBJECT + g->num * OHCA_WORK_STEP);
			for (uint32_t i = 0; i < g->num; i++)
				g->member[i].qp->mcast_refs--;
			e->mcast_total -= g->num;
			e->mcast[b] = g->next;
			e->num_mcast_grp--;
			ohca_mem_put(e, g->member, g->cap * sizeof(*g->member));
			ohca_mem_put(e, g, sizeof(*g));
		}
	}
	return true;
}
