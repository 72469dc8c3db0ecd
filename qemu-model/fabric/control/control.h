/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The control socket of a running fabric: requests and replies are JSON objects, each in one
 * line, on a UNIX stream socket (Documentation/control.rst).
 *
 *	control.c		the socket and its clients
 *	answer.c		a request and its reply
 *	capture_request.c	requests for a capture
 *	trace_request.c		requests for the path of a packet
 *	tables_request.c	requests for the tables of ports
 *	script_request.c	requests for a script of faults
 *	adaptive_request.c	requests for adaptive routing
 *	log_request.c		requests for the journal
 *	run_request.c		requests to run virtual time
 *
 * fault/request.c has the requests that change the fabric, client/ the commands.
 *
 * A client is trusted to read the fabric and to change it, but may send any bytes. The socket's
 * file belongs to the user who runs the fabric, and no other user may open it. Owner thread only.
 */
#ifndef OHCA_FABRIC_CONTROL_H
#define OHCA_FABRIC_CONTROL_H

#include "fabric/base/closer.h"
#include "fabric/watch/spool.h"

/*
 * Version of the requests and replies; incremented with each change of them. A client and a fabric
 * of different versions understand each other as far as possible: anything else is an error, which
 * names both versions.
 */
#define FAB_CONTROL_VERSION	12

#define FAB_CONTROL_CLIENTS	16u
#define FAB_CONTROL_CAPTURES	8u		/* clients that have a capture at a time */
/* A client without any byte from or to it for this time may be replaced by a new one */
#define FAB_CONTROL_QUIET_NS	10000000000ull
#define FAB_CONTROL_LINE	65536u		/* bytes of a request, with its newline */

struct fab_control;

/**
 * fab_control_new() - open the control socket
 * @m: management of the fabric
 * @d: its data path, for captures, or NULL
 * @path: of the socket's file; a socket without a listener is replaced
 * @epfd: epoll descriptor; its events of FAB_EVENT_CONTROL are for fab_control_event()
 * @closer: closes descriptors that a client passes; NULL: they are closed at once
 *
 * Return: NULL, errno has the reason; EADDRINUSE: a process listens there, or it is not a socket.
 */
struct fab_control *fab_control_new(struct fab_mgmt *m, struct fab_data *d, const char *path,
				    int epfd, struct fab_closer *closer);

/** fab_control_free() - close all sockets and remove the file; NULL does nothing */
void fab_control_free(struct fab_control *c);

/**
 * fab_control_event() - process an event of a socket
 * @index: of the event
 * @now_ns: time of the clock of fab_mgmt_timer()
 *
 * Answers at most one request. A client that does not read gets no further reply, and nothing
 * waits for it.
 */
void fab_control_event(struct fab_control *c, uint32_t index, uint64_t now_ns);

/**
 * fab_control_answer() - make the reply to a request
 * @m: changed at @m->now_ns
 * @d: the data path, or NULL: there is none
 * @text: the request, of any bytes, without its newline
 * @len: its length
 * @capture: passed without ports; gets ports if a capture of these must follow the reply. NULL:
 *	there are no captures
 *
 * A reply covers a bounded part of the fabric, and has the begin of the next part.
 *
 * Return: the reply with a newline, to be freed by the caller; NULL: out of memory.
 */
char *fab_control_answer(struct fab_mgmt *m, const struct fab_data *d, const char *text,
			 size_t len, struct fab_spool_cfg *capture);

/** fab_control_flush() - send captured data, before the fabric sleeps */
void fab_control_flush(struct fab_control *c);

/**
 * fab_control_timer() - accept clients again, if memory was missing
 *
 * Call it before each sleep. Return: ns of the host's clock until it is due, UINT64_MAX: never. The
 * clock is the host's in virtual time, too.
 */
uint64_t fab_control_timer(struct fab_control *c);

/**
 * fab_control_client() - ohca-fabric VERB OPTION...: send requests to a running fabric
 * @argc: number of @argv
 * @argv: the verb, its options and its arguments
 *
 * Return: exit status; errors were printed.
 */
int fab_control_client(int argc, char **argv);

/** fab_is_control_verb() - whether fab_control_client() knows @verb */
bool fab_is_control_verb(const char *verb);

/** fab_is_conversion() - whether the arguments of topology request a format, or name a file */
bool fab_is_conversion(int argc, char **argv);

/**
 * fab_topology_client() - ohca-fabric topology --format FORMAT, of a running fabric, a file or a
 *	SPEC
 *
 * Return: exit status; errors were printed.
 */
int fab_topology_client(int argc, char **argv);

/**
 * fab_client_fabric() - copy the fabric that has its control socket at @path
 *
 * Copies nodes, links and what a subnet manager has written: LIDs, states, forwarding tables, and
 * the attributes that take_port() of client_fabric.c reads. P_KeyTables and multicast are as in a
 * new fabric.
 *
 * Return: a sealed fabric, to be freed; NULL: errors were printed.
 */
struct fab *fab_client_fabric(const char *path);

#define FAB_CONTROL_HELP \
	"  status                    numbers of nodes and links, counts of answered MADs\n" \
	"  topology [NODE]           nodes and links that are up, as a topology file; with\n" \
	"                            --json ports and their states, too. --format F: as\n" \
	"                            ibnetdiscover, ports (ibnetdiscover -p), lst (ibdiagnet),\n" \
	"                            slurm or dot; also with --topology FILE or --generate SPEC\n" \
	"                            instead of a running fabric\n" \
	"  counters [NODE]           counters of all ports, or of the ports of a node\n" \
	"  metrics                   counters, states of links and the fabric's own numbers, as\n" \
	"                            text of OpenMetrics for Prometheus\n" \
	"  lft NODE                  LinearForwardingTable of a switch\n" \
	"  trace FROM TO             the path of a packet by the present tables; FROM and TO are\n" \
	"                            LIDs, nodes or NODE:PORT; --multicast MLID: the path of its\n" \
	"                            copy\n" \
	"  capture NODE:PORT... -w FILE|-  write the packets of up to 32 ports, as pcapng,\n" \
	"                            until a signal, for --count N packets or --seconds N;\n" \
	"                            --link-packets: flow control packets, too\n" \
	"  link up|down NODE:PORT    plug or pull a cable\n" \
	"  link flap NODE:PORT [--down T] [--interval T] [--count N]\n" \
	"                            pull a cable for T (1s), N times (1)\n" \
	"  link degrade NODE:PORT [--width W] [--speed S]\n" \
	"                            limit a link to 1, 2, 4, 8 or 12 lanes, or to SDR to XDR\n" \
	"  link restore NODE:PORT    allow all widths and speeds again\n" \
	"  node kill|revive NODE     switch a node off, or on with its tables forgotten\n" \
	"  swap NODE:PORT NODE:PORT  exchange the far ends of two cables\n" \
	"  loss NODE:PORT RATE [SEED] [--burst N]  a cable loses packets in both directions;\n" \
	"                            RATE from 0 to 1, in bursts of N on average\n" \
	"  ber NODE:PORT RATE [SEED] a cable inverts bits, so packets are lost by their size; RATE is\n" \
	"                            the bit error ratio, from 1e-18 to 1; 0: none\n" \
	"  corrupt NODE:PORT RATE [SEED]  a cable damages data packets, so their ICRC is wrong\n" \
	"  delay NODE:PORT TIME      packets sent by this port arrive TIME later: 20us, 0.1s; 0\n" \
	"  stall NODE:PORT [TIME]    the port accepts no data packets for TIME, or until resume\n" \
	"  resume NODE:PORT          the port accepts packets again\n" \
	"  credits NODE:PORT VL BLOCKS  a data lane between two switches loses this many of its\n" \
	"                            2,048 credits until the link trains; 0: none\n" \
	"  delay NODE ATTRIBUTE TIME  delay requests for ATTRIBUTE by TIME: NodeInfo,\n" \
	"                            Perf:ClassPortInfo, SubnAdm:0x35; a class: all of\n" \
	"                            Subn, SubnAdm, Perf, DevMgt, ComMgt, CC\n" \
	"  drop NODE ATTRIBUTE NTH   lose each NTH request for ATTRIBUTE; 0: none\n" \
	"  refuse NODE ATTRIBUTE unsupported|invalid|busy|none  answer requests for\n" \
	"                            ATTRIBUTE with this status or number; not Subn, ComMgt\n" \
	"  guid NODE OTHER|0         its agent reports OTHER's GUIDs as its own, or GUID 0;\n" \
	"                            NODE NODE: its own GUIDs again\n" \
	"  preset NODE:PORT COUNTER VALUE|stuck  set a counter; counters shows the names;\n" \
	"                            stuck: managers read all ones, even after a reset\n" \
	"  expect NODE:PORT STATE    check that a port is Down, Init, Armed or Active\n" \
	"  expect NODE:PORT COUNTER is|above|below N  check a counter of a port\n" \
	"  expect COUNTER is|above|below N  check links_up, links_active, subnet_managers,\n" \
	"                            traps or lost_mads; the exit status is 1 if the check fails;\n" \
	"                            --within T, in a script: it must succeed within T\n" \
	"  script [--replace] [--wait] FILE  run the verbs from link on at their times: at TIME\n" \
	"                            VERB ..., every TIME for TIME VERB ..., about TIME for TIME\n" \
	"                            VERB ... (at random), or when COUNTER below N for TIME do\n" \
	"                            VERB ..., with counters as in expect; script --stop ends it;\n" \
	"                            --wait: print each result; the exit status is 1 if one fails\n" \
	"  adaptive on|off [SWITCH...]   adaptive routing of these switches, or all: of equal ports,\n" \
	"                            a switch chooses the one with the shortest queue; on: needed\n" \
	"                            again after tables have changed. --order kept|any (kept),\n" \
	"                            --sls 0,2-5 (all), --gap T (1ms)\n" \
	"  run TIME                  advance the time of serve --virtual: 10ms, 1.5s,\n" \
	"                            up to 1000000s\n" \
	"  log                       the last 1,024 commands that have changed the fabric, of clients\n" \
	"                            and of scripts, with their times\n" \
	"A NODE is a NodeDescription, a NodeGUID or a PortGUID: 0x5254..., 5254..., S-5254...,\n" \
	"H-5254... or R-5254...; a PORT is a number; verbs that make faults accept any, too\n\n" \
	"Their options:\n" \
	"  -c, --control PATH        the control socket of the fabric\n" \
	"  -j, --json                print the replies, a JSON object in each line\n"

#endif
