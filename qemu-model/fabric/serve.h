/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A fabric that runs: its sockets, signals and clock in one thread. */
#ifndef OHCA_FABRIC_SERVE_H
#define OHCA_FABRIC_SERVE_H

#include "fabric/base/spin.h"
#include "fabric/hca/hca.h"
#include "remote.h"
#include "fabric/watch/capture.h"

/**
 * struct fab_serve_hooks - what runs a fabric instead of the process's signals
 * @fd: @event is called when it can be read. Its return: false: it is time to end
 * @ready: is called once, before the first packet moves, with the HCAs of the process: none yet
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
 * struct fab_serve_time - virtual time: it stands but while a client lets it run
 * @now_ns: it is now, not 0
 * @until_ns: it runs until then, from one event to the next, and no socket is looked at meanwhile
 */
struct fab_serve_time {
	uint64_t now_ns;
	uint64_t until_ns;
};

#define FAB_SERVE_TENANTS	64u

/**
 * struct fab_serve_cfg - how it runs
 * @umad2sim: name of the sockets for libumad2sim, or NULL
 * @umad2sim_udp: ADDRESS:PORT for remote ones, or NULL; needs @umad2sim
 * @control: path of the control socket, or NULL
 * @listen: path of the socket for virtual machines, or NULL: there is none
 * @tenant: [@ntenants] hosts with a socket of their own: @node is a host's NodeDescription or GUID, as of
 *	fab_find_node(), @path where its machine comes to, and no other
 * @disk: the memory of virtual machines may be files of a disk, see hca/block.h
 * @front_memory, @fronts_memory, @hca_memory: front_max, all_max and hca_max of struct fab_fronts_cfg
 * @listen_tcp: path of the TCP socket for wires and programs of other hosts, or NULL: none come
 * @token: that who comes has to prove, and that is proved to others, or NULL
 * @wire: [@nwires] wires to other hosts' fabrics, whose ports fab_remote_ports() has got ready
 * @capture: file for a capture, or NULL; what is written to it may keep the fabric waiting
 * @captured: [@ncaptured] its ports, NODE:P
 * @sandbox: give up what is not needed after the start, see base/sandbox.h
 * @hosts_off: a host is switched off until a virtual machine has its place
 * @quiet: do not report links that come and go
 * @stats: print counts of links at the end
 * @events: of hosted HCAs that are reported, see fab_hca_events()
 * @seed: of what happens by chance
 * @spin_us: wait awake that long for packets and doorbells before sleeping; FAB_SPIN_AUTO: for as
 *	long as it pays (base/spin.h), with @listen
 * @data: of the data path; without a log of its own links are reported on standard error
 * @time: virtual time, of which @data.clock is fab_serve_clock(), or NULL: that of this host. There are no
 *	machines and no wires of others then
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

/** fab_serve_clock() - what a struct fab_serve_time, @arg, says; as of struct fab_data_cfg */
uint64_t fab_serve_clock(void *arg);

/**
 * fab_serve() - run the sealed fabric @f until SIGTERM, SIGINT or SIGHUP
 *
 * Prints one line to standard output when it is ready; SIGUSR1 prints counts of links to standard
 * error.
 *
 * Return: exit status; what went wrong was printed.
 */
int fab_serve(struct fab *f, const struct fab_serve_cfg *cfg);

#endif
