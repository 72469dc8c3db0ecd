// SPDX-License-Identifier: GPL-2.0-or-later
/* Requests of clients that were delivered and have no answer yet; see umad2sim.h. */
#include "sim_priv.h"

#include <stdlib.h>

#define LEAST_REQUESTS	16u
#define NOTICES		64u	/* requests of which a call of the timer notifies clients */

static struct sim_request *request_at(struct sim_client *c, uint32_t n)
{
	return &c->request[(c->oldest + n) % c->requests_room];
}

/* Return: whether there is room for one more request. */
static bool reserve_request(struct sim_client *c)
{
	uint32_t room = c->requests_room ? c->requests_room * 2 : LEAST_REQUESTS;
	struct sim_request *request;

	if (c->requests < c->requests_room)
		return true;
	if (room > FAB_SIM_REQUESTS)
		return false;
	request = malloc(room * sizeof(*request));
	if (!request)
		return false;
	for (uint32_t i = 0; i < c->requests; i++)
		request[i] = *request_at(c, i);
	free(c->request);
	c->request = request;
	c->requests_room = room;
	c->oldest = 0;
	return true;
}

/* Remove the oldest requests that are not open. */
static void drop_answered(struct fab_sim *s, struct sim_client *c)
{
	while (c->requests && !request_at(c, 0)->open) {
		c->oldest = (c->oldest + 1) % c->requests_room;
		c->requests--;
		s->requests--;
	}
}

void fab_sim_await(struct fab_sim *s, struct sim_client *c, const struct sim_mad *r, uint32_t who)
{
	if (!reserve_request(c))
		return;
	c->requests++;
	s->requests++;
	*request_at(c, c->requests - 1) = (struct sim_request){
		.hdr = r->mad.hdr, .dlid = r->dlid, .slid = r->slid, .dqp = r->dqp, .sqp = r->sqp,
		.until_ns = s->now_ns + FAB_SIM_PATIENCE_NS, .who = who, .open = true,
		.who_serial = who == SIM_NO_CLIENT ? 0 : s->client[who].serial,
	};
}

/* Notify the client that @q will have no answer. */
static void give_up(struct fab_sim *s, struct sim_client *c, struct sim_request *q)
{
	struct sim_mad r = {
		.dlid = q->dlid, .slid = q->slid, .dqp = q->dqp, .sqp = q->sqp,
		.length = ib_to_be64(IB_MAD_LEN), .mad.hdr = q->hdr,
	};

	q->open = false;
	fab_sim_time_out(s, c, &r);
}

bool fab_sim_answered(struct fab_sim *s, struct sim_client *c, __be64 tid, bool lost)
{
	bool found = false;

	for (uint32_t i = 0; i < c->requests && !found; i++) {
		struct sim_request *q = request_at(c, i);

		if (!q->open || q->hdr.tid != tid)
			continue;
		found = true;
		q->open = false;
		if (lost)
			give_up(s, c, q);
	}
	drop_answered(s, c);
	return found;
}

void fab_sim_left(struct fab_sim *s)
{
	s->look_at = s->requests ? s->clients : 0;
}

/* Whether the client that has received @q is gone. */
static bool is_deserted(const struct fab_sim *s, const struct sim_request *q)
{
	return q->open && q->who != SIM_NO_CLIENT &&
	       (s->client[q->who].fd < 0 || s->client[q->who].serial != q->who_serial);
}

/* Notify clients whose requests were delivered to a client that is gone, until @left is 0. */
static void give_up_deserted(struct fab_sim *s, uint32_t *left)
{
	while (s->look_at && *left) {
		struct sim_client *c = &s->client[s->look_at - 1];

		for (uint32_t i = 0; i < c->requests && *left; i++) {
			if (!is_deserted(s, request_at(c, i)))
				continue;
			give_up(s, c, request_at(c, i));
			--*left;
		}
		drop_answered(s, c);
		/* a ring of requests is as much work as some notices */
		*left -= c->requests / 256 < *left ? c->requests / 256 : *left;
		if (*left)
			s->look_at--;
	}
}

void fab_sim_forget(struct fab_sim *s, struct sim_client *c)
{
	s->requests -= c->requests;
	free(c->request);
	c->request = NULL;
	c->requests = c->requests_room = 0;
}

uint64_t fab_sim_timer(struct fab_sim *s, uint64_t now_ns)
{
	uint64_t next = UINT64_MAX;
	uint32_t left = NOTICES;

	s->now_ns = now_ns;
	give_up_deserted(s, &left);
	for (uint32_t k = 0; s->requests && k < s->clients; k++) {
		struct sim_client *c = &s->client[k];

		/* all have the same time limit, so the oldest one is due first */
		while (left && c->requests && request_at(c, 0)->until_ns <= now_ns) {
			give_up(s, c, request_at(c, 0));
			drop_answered(s, c);
			left--;
		}
		if (c->requests && request_at(c, 0)->until_ns <= now_ns)
			next = 0;
		else if (c->requests && request_at(c, 0)->until_ns - now_ns < next)
			next = request_at(c, 0)->until_ns - now_ns;
	}
	fab_sim_sweep(s);
	return s->look_at ? 0 : next;
}
