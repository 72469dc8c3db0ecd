/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Configuration of a running fabric. */
#ifndef OHCA_FABRIC_SERVE_CFG_H
#define OHCA_FABRIC_SERVE_CFG_H

#include "fabric/base/spin.h"
#include "fabric/hca/hca.h"
#include "remote.h"
#include "fabric/watch/capture.h"

/**
 * struct fab_serve_hooks - functions that replace the process's signals
 * @fd: when it is readable @event is called, which returns false if the fabric must end
 * @ready: called once, before the first packet moves, with the HCAs of the process: none yet
 * @event: as above
 * @arg: first argument of both
 */
struct fab_serve_hooks {
	int fd;
	void (*ready)(void *arg, struct fab_data *d, struct fab_hcas *hcas);
	bool (*event)(void *arg, int fd);
	void *arg;
};

/**
 * struct fab_serve_time - virtual time: it is stopped except while a client lets it run
 * @now_ns: current time, not 0
 * @until_ns: it runs until then, from one event to the next; meanwhile the sockets are not checked
 */
struct fab_serve_time {
	uint64_t now_ns;
	uint64_t until_ns;
};

#define FAB_SERVE_TENANTS	64u

/**
 * struct fab_serve_cfg - configuration of a running fabric
 * @umad2sim: name of the sockets for libumad2sim, or NULL
 * @umad2sim_udp: ADDRESS:PORT for remote ones, or NULL; needs @umad2sim
 * @control: path of the control socket, or NULL
 * @listen: path of the socket for virtual machines, or NULL: there is none
 * @tenant: [@ntenants] hosts with a socket of their own: @node is a host's NodeDescription or GUID,
 *	as of fab_find_node(), @path the socket of its machine, and of no other
 * @disk: the memory of virtual machines may be files of a disk, see hca/block.h
 * @front_memory, @fronts_memory, @hca_memory: front_max, all_max and hca_max of struct
 *	fab_fronts_cfg
 * @listen_tcp: path of the TCP socket for wires and programs of other hosts, or NULL: there is none
 * @token: the token that peers by TCP must prove, and that we prove to others, or NULL
 * @wire: [@nwires] wires to other hosts' fabrics, whose ports fab_remote_ports() has prepared
 * @capture: file for a capture, or NULL; writes to it may make the fabric wait
 * @captured: [@ncaptured] its ports, NODE:P
 * @sandbox: give up the rights that are not needed after the start, see base/sandbox.h
 * @hosts_off: a host is switched off until a virtual machine replaces it
 * @quiet: do not log links that are attached and detached
 * @stats: print counts of links at the end
 * @events: events of hosted HCAs that are logged, see fab_hca_events()
 * @seed: of random choices
 * @spin_us: wait awake for this time for packets and doorbells before sleeping; FAB_SPIN_AUTO: for
 *	as long as it pays (base/spin.h), with @listen
 * @data: configuration of the data path; without @log in it links are logged to standard error
 * @time: virtual time; then @data.clock is fab_serve_clock(), and there are no machines and no
 *	wires of other hosts. NULL: the time of this host
 * @hooks: or NULL: signals of the process end it
 */
struct fab_serve_cfg {
	const char *umad2sim;
	const char *umad2sim_udp;
	const char *control;
	const char *listen;
	struct fab_serve_tenant {
		const char *node;
		const char *path;
	} tenant[FAB_SERVE_TENANTS];
	unsigned int ntenants;
	bool disk;
	uint64_t front_memory, fronts_memory, hca_memory;
	const char *listen_tcp;
	const char *token;
	struct fab_remote_wire wire[FAB_REMOTE_WIRES];
	unsigned int nwires;
	const char *capture;
	const char *captured[FAB_CAPTURE_PORTS];
	unsigned int ncaptured;
	bool sandbox;
	bool hosts_off;
	bool quiet;
	bool stats;
	uint32_t events;
	unsigned int seed;
	unsigned int spin_us;
	struct fab_data_cfg data;
	struct fab_serve_time *time;
	const struct fab_serve_hooks *hooks;
};

/** fab_serve_has_machines() - whether virtual machines may attach */
static inline bool fab_serve_has_machines(const struct fab_serve_cfg *cfg)
{
	return cfg->listen || cfg->ntenants;
}

/** fab_serve_has_links() - whether any link may attach */
static inline bool fab_serve_has_links(const struct fab_serve_cfg *cfg)
{
	return fab_serve_has_machines(cfg) || cfg->nwires || cfg->listen_tcp;
}

#endif
