// SPDX-License-Identifier: GPL-2.0-or-later
/* The server of libumad2sim's clients; see umad2sim.h. */
#include "umad2sim.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "sim_priv.h"

void fab_sim_sweep(struct fab_sim *s)
{
	/* to detach a client changes IsSM, of which others may be notified */
	while (s->any_gone) {
		s->any_gone = false;
		for (uint32_t i = 0; i < s->clients; i++)
			if (s->client[i].fd >= 0 && s->client[i].gone)
				fab_sim_detach(s, &s->client[i]);
	}
}

void fab_sim_event(struct fab_sim *s, uint32_t index, uint64_t now_ns)
{
	s->now_ns = now_ns;
	if (index == SIM_EV_CTL)
		fab_sim_read_local(s);
	else if (index == SIM_EV_UDP)
		fab_sim_read_udp(s);
	else if (index < FAB_SIM_CLIENTS && s->client[index].fd >= 0)
		fab_sim_serve(s, index);
	fab_sim_sweep(s);
}

struct fab_sim *fab_sim_new(struct fab_mgmt *m, const char *name, int epfd,
			    struct fab_closer *closer)
{
	struct fab_sim *s;

	if (strlen(name) >= sizeof(s->name)) {
		errno = ENAMETOOLONG;
		return NULL;
	}
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->m = m;
	s->epfd = epfd;
	s->closer = closer;
	s->udp = -1;
	memcpy(s->name, name, strlen(name) + 1);
	for (uint32_t i = 0; i < FAB_SIM_CLIENTS; i++)
		s->client[i].fd = -1;
	s->ctl = fab_sim_bind_local(s, "ctl", SIM_EV_CTL);
	if (s->ctl < 0) {
		free(s);
		return NULL;
	}
	m->deliver = fab_sim_deliver;
	m->occupied = fab_sim_occupied;
	m->ctx = s;
	return s;
}

bool fab_sim_listen(struct fab_sim *s, const char *at)
{
	const char *colon = strrchr(at, ':');
	char addr[INET_ADDRSTRLEN] = "", *end;
	unsigned long port = 0;

	s->at = (struct sockaddr_in){ .sin_family = AF_INET };
	if (colon && (size_t)(colon - at) < sizeof(addr) && colon[1] >= '0' && colon[1] <= '9') {
		memcpy(addr, at, (size_t)(colon - at));
		port = strtoul(colon + 1, &end, 10);
		if (*end)
			port = 0;
	}
	if (!port || port > UINT16_MAX - FAB_SIM_REMOTE ||
	    inet_pton(AF_INET, addr, &s->at.sin_addr) != 1) {
		errno = EINVAL;
		return false;
	}
	s->at.sin_port = htons((uint16_t)port);
	s->udp = fab_sim_bind_udp(s, 0, SIM_EV_UDP);
	return s->udp >= 0;
}

void fab_sim_free(struct fab_sim *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i < s->clients; i++) {
		if (s->client[i].fd < 0)
			continue;
		fab_sim_close(s, s->client[i].fd);
		free(s->client[i].answers);
		free(s->client[i].request);
	}
	fab_sim_close(s, s->ctl);
	if (s->udp >= 0)
		fab_sim_close(s, s->udp);
	free(s);
}
