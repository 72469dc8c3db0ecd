// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A machine that moves to another process: its HCA stays, since an engine has bus addresses only.
 * See front/proto.h for the two fronts, and front_priv.h.
 */
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "front_priv.h"

/* ---- the front that the machine leaves ------------------------------------------- */

uint64_t fab_front_leave(struct fab_front *f)
{
	/* a FLUSH in progress is for memory which the other front may not have */
	if (!f->hca || fab_hca_is_running(f->hca) || f->persist)
		return 0;
	if (f->to)
		fab_front_end(f->to, OHCA_LINK_E_PEER, "the machine moves to another QEMU");
	f->token = 0;
	while (!f->token)
		if (getrandom(&f->token, sizeof(f->token), 0) != sizeof(f->token))
			return f->token = 0;
	return f->token;
}

/* ---- the front to which the machine moves ---------------------------------------- */

#define SAME(a, b, from, to) \
	(!memcmp(&(a)->from, &(b)->from, offsetof(struct ohca_front_hello, to) - \
					 offsetof(struct ohca_front_hello, from)))

/* Whether both request the same HCA at the same place. */
static bool is_same(const struct ohca_front_hello *a, const struct ohca_front_hello *b)
{
	const uint32_t flags = le32toh(a->flags) ^ le32toh(b->flags);

	return SAME(a, b, node_guid, clock_ns) && SAME(a, b, vectors, desc) &&
	       !(flags & ~(OHCA_FRONT_PAUSED | OHCA_FRONT_MOVE));
}

struct fab_front *fab_front_leaver(struct fab_front *f, struct ohca_link_err *err)
{
	const uint64_t token = le64toh(f->hello.token);
	struct fab_front *from = NULL;

	/* compare with all fronts: the time of this loop reveals nothing of a token */
	for (uint32_t i = 0; i < f->s->room; i++)
		if (f->s->front[i] && f->s->front[i]->token && f->s->front[i]->token == token)
			from = f->s->front[i];
	err->code = OHCA_LINK_E_CONFIG;
	if (!from)
		snprintf(err->text, sizeof(err->text), "there is no HCA to be taken over by this token (%"
			 PRIu64 " such tokens so far)", ++f->s->strangers);
	else if (from->door != f->door)
		snprintf(err->text, sizeof(err->text), "the HCA to be taken over is attached by another socket");
	else if (!is_same(&f->hello, &from->hello))
		snprintf(err->text, sizeof(err->text), "the HCA to be taken over has other properties");
	else
		return from;
	return NULL;
}

void fab_front_join(struct fab_front *f, struct fab_front *from)
{
	from->token = 0;
	from->to = f;
	f->from = from;
	fab_data_log(f->s->cfg.d, "the front of '%s' (%s) is about to move", f->desc, f->id);
}

struct fab_hca_reach *fab_front_reach(struct fab_front *f)
{
	return f->from ? &f->reach : fab_hca_reach(f->hca);
}

/* ---- both ------------------------------------------------------------------------ */

static void unlink_both(struct fab_front *from, struct fab_front *to)
{
	from->to = NULL;
	to->from = NULL;
}

/* Give the HCA of @from, which is paused, to @to, with the memory of @to. */
static void take_over(struct fab_front *to, struct fab_front *from)
{
	const struct fab_hca_cfg cfg = {
		.engine.dm = to->dm ? fab_block_mem(to->dm) : NULL,
		.page = to->page,
		.dm_log = &to->log[OHCA_FRONT_LOG_DM],
		.vanished = &to->vanished,
		.arg = to,
	};

	unlink_both(from, to);
	fab_hca_move(from->hca, &cfg, &to->reach);
	to->hca = from->hca;
	from->hca = NULL;
	/* now @to->reach has the memory of @from, which will be unmapped */
	fab_hca_reach_free(&to->reach);
	fab_data_log(to->s->cfg.d, "the front of '%s' (%s) has moved", to->desc, to->id);
}

void fab_front_decide(struct fab_front *f)
{
	struct fab_front *from = f->from;

	f->token = 0;
	if (f->to)
		fab_front_end(f->to, OHCA_LINK_E_PEER, "the machine continues at the source");
	if (!from)
		return;
	take_over(f, from);
	fab_front_end(from, OHCA_LINK_E_PEER, "the machine continues at the destination");
}

void fab_front_part(struct fab_front *f)
{
	f->token = 0;
	if (f->to)
		take_over(f->to, f);
	if (f->from)
		unlink_both(f->from, f);
}
