// SPDX-License-Identifier: GPL-2.0-or-later
/* Requests of clients that were delivered and have no answer yet; see umad2sim.h. */
#include "sim_priv.h"

#include <stdlib.h>

#define LEAST_REQUESTS	16u

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

void fab_sim_answered(struct fab_sim *s, struct sim_client *c, __be64 tid, bool lost)
{
	for (uint32_t i = 0; i < c->requests; i++) {
		struct sim_request *q = request_at(c, i);

		if (!q->open || q->hdr.tid != tid)
			continue;
		q->open = false;
		if (lost)
			give_up(s, c, q);
		break;
	}
	drop_answered(s, c);
}

void fab_sim_left(struct fab_sim *s, uint32_t who)
{
	for (uint32_t k = 0; s->requests && k < s->clients; k++) {
		struct sim_client *c = &s->client[k];

		for (uint32_t i = 0; i < c->requests; i++)
			if (request_at(c, i)->open && request_at(c, i)->who == who)
				give_up(s, c, request_at(c, i));
		drop_answered(s, c);
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

	for (uint32_t k = 0; s->requests && k < s->clients; k++) {
		struct sim_client *c = &s->client[k];

		/* all have the same time limit, so the oldest one is due first */
		while (c->requests && request_at(c, 0)->until_ns <= now_ns) {
			give_up(s, c, request_at(c, 0));
			drop_answered(s, c);
		}
		if (c->requests && request_at(c, 0)->until_ns - now_ns < next)
			next = request_at(c, 0)->until_ns - now_ns;
	}
	return next;
}
