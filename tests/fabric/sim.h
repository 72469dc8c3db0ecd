/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A server of libumad2sim's protocol at a fabric of four hosts, and the actions of its clients. */
#ifndef SIM_H
#define SIM_H

#include "cases.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fabric/base/event.h"
#include "fabric/graph/names.h"
#include "fabric/sim/sim_wire.h"
#include "fabric/sim/umad2sim.h"
#include "ib/packet.h"

static struct fab *f;
static struct fab_mgmt m;
static struct fab_sim *sim;
static struct fab_closer sim_closer;	/* without a thread: it counts what it closes */
static int epfd;
static char name[32];
static uint64_t now;

static inline bool nobody(void *ctx, uint32_t port, const struct fab_mad *mad)
{
	(void)ctx;
	(void)port;
	(void)mad;
	return false;
}

static inline int begin_sim(void **st)
{
	static unsigned int n;

	(void)st;
	f = from_spec("star:4");
	fab_mgmt_init(&m, f, nobody, NULL);
	epfd = epoll_create1(EPOLL_CLOEXEC);
	snprintf(name, sizeof(name), "unit-%d-%u", (int)getpid(), n++);
	sim = fab_sim_new(&m, name, epfd, &sim_closer);
	assert_non_null(sim);
	return 0;
}

static inline int end_sim(void **st)
{
	(void)st;
	fab_sim_free(sim);
	fab_free(f);
	close(epfd);
	return 0;
}

/* Handles all messages that have arrived. */
static inline void turn(void)
{
	struct epoll_event ev[8];
	int n;

	while ((n = epoll_wait(epfd, ev, 8, 0)) > 0)
		for (int i = 0; i < n; i++)
			fab_sim_event(sim, fab_event_of(&ev[i]).index, now);
	fab_mgmt_timer(&m, now);
}

/* The abstract address NAME:@what@id, or NAME:@what if @id is UINT32_MAX. Return: its length. */
static inline socklen_t address(struct sockaddr_un *un, const char *what, unsigned int id)
{
	memset(un, 0, sizeof(*un));
	un->sun_family = AF_UNIX;
	snprintf(un->sun_path + 1, sizeof(un->sun_path) - 1, id == UINT32_MAX ? "%s:%s" : "%s:%s%u",
		 name, what, id);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 2 + strlen(un->sun_path + 1));
}

/* Makes a client's socket with that address. */
static inline int bound(const char *what, unsigned int id)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	struct sockaddr_un un;
	socklen_t len = address(&un, what, id);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&un, len), 0);
	return fd;
}

/* Connects @fd, a client's socket, to the server's socket with that address. */
static inline void join(int fd, const char *what, unsigned int id)
{
	struct sockaddr_un un;
	socklen_t len = address(&un, what, id);

	assert_int_equal(connect(fd, (struct sockaddr *)&un, len), 0);
}

/* Makes an SMP by the switch to its port @port; 0: to the switch. */
static inline struct sim_mad smp(uint8_t method, uint16_t attr, uint8_t port)
{
	struct sim_mad r = { .length = ib_to_be64(IB_MAD_LEN) };
	struct ib_smp s = { 0 };

	s.hdr.base_version = IB_MAD_BASE_VERSION;
	s.hdr.class_version = IB_SMP_CLASS_VERSION;
	s.hdr.mgmt_class = IB_CLASS_SUBN_DR;
	s.hdr.method = method;
	s.hdr.attr_id = ib_to_be16(attr);
	s.hdr.tid = ib_to_be64(0xabcd000000001234ull);
	s.dr_slid = s.dr_dlid = ib_to_be16(IB_LID_PERMISSIVE);
	s.init_path[1] = 1;
	s.init_path[2] = port;
	ib_smp_set_hops(&s, 0, port ? 2 : 1);
	memcpy(&r.mad, &s, sizeof(s));
	return r;
}

/* Return: whether the port of host @host, from 0, has IsSM. */
static inline bool is_sm(unsigned int host)
{
	return f->port[f->node[host].first + 1].pi.cap_mask & IB_CAP_SM;
}

#endif
