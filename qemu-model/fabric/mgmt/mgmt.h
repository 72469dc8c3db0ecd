/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Management of a fabric: MADs move from port to port as function calls, over links that are up and
 * by the forwarding tables that a subnet manager wrote, and every node answers with the same agents
 * (ib/sma.h, ib/pma_agent.h). Without wires with a delay nothing is queued: when fab_mgmt_send()
 * returns, the answer has been delivered or is lost. Owner thread only; callers pass the time.
 *
 * The path of a MAD
 *
 *	A program at a host of the graph sends it (fab_mgmt_send()), or it arrives from a machine's
 *	link (fab_mgmt_arrive()). On each wire it departs, is lost, or waits for a delay, and
 *	arrives; both ports count it, and captures record it. At each node the directed route or the
 *	forwarding table determines the port by which it goes on, or that it is for the node. There
 *	it is the job (struct fab_job) of an agent, which changes a request into its answer in
 *	place; the answer returns the same way. MADs that no agent answers are for a manager:
 *	fab_mgmt.deliver. An answer or a trap for a machine leaves by fab_wires.send. The effects of
 *	a Set on a link begin when the answer has left: fab_link_effects().
 *
 *	An agent may send a trap while it works, from fab_mgmt_timer(): a job within a job. No other
 *	call nests: deliver() may not send.
 *
 * Goals
 *
 *	An SMP costs less than a microsecond for some hops, so that OpenSM is the slower part. A
 *	wire without a fault, and a fabric without a capture, cost one test each. A node without
 *	special settings needs some hundred bytes. The same calls at the same times have the same
 *	results.
 *
 * Limits
 *
 *	255 wires for one MAD (MAX_HOPS), FAB_MAD_FLIGHTS MADs on wires with a delay or held by
 *	faults of nodes, FAB_MAD_FAULTS and FAB_FLAPS faults of their kinds. Work that is due at the
 *	same time is done in turns of a bounded length (FAB_MAD_TURN, FAB_FLAP_TURN,
 *	FAB_SCRIPT_TURN, FAB_TIMER_TURN), and work that is due later costs nothing. MADs between
 *	agents have no lane, no credits and no rate; those from and to machines are packets until
 *	they arrive.
 *
 *	mgmt.c	the path of a MAD, managers
 *	agent.c	callbacks of the agents of a node
 *	life.c	links that go down and come up, traps, timers
 *	loss.c	packets that wires lose
 *	mad_fault.c	faults of nodes for requests of one kind
 *	mad_delay.c	MADs with a delay
 *	router.c	outputs of routers
 */
#ifndef OHCA_FABRIC_MGMT_H
#define OHCA_FABRIC_MGMT_H

#include "fabric/graph/graph.h"
#include "fabric/graph/wire.h"
#include "attribute.h"
#include "ib/packet.h"

/**
 * struct fab_mad - a MAD and the addresses of its packet, in host order
 * @mad: the MAD, in wire order
 * @smp: the same as an SMP
 * @dlid, @slid: of the LRH (7.7); IB_LID_PERMISSIVE on a directed route
 * @dqp, @sqp: of the BTH and the DETH
 * @hops: links of the graph that it has crossed, including those of its request
 * @sl: of the LRH; the answer has the same
 * @pkey: the matching P_Key of the port where it arrived, for the answer; 0: the default one
 * @has_grh: the packet has a GRH; so has the answer (13.5.4)
 * @grh: valid with @has_grh
 */
struct fab_mad {
	union {
		struct ib_mad mad;
		struct ib_smp smp;
	};
	uint16_t dlid, slid;
	uint32_t dqp, sqp;
	uint16_t pkey;
	uint8_t hops;
	uint8_t sl;
	bool has_grh;
	struct ib_grh grh;
};

/** enum fab_fate - result for a MAD */
enum fab_fate {
	FAB_DELIVERED,		/* a manager received it, or the answer to it */
	FAB_CONSUMED,		/* an agent processed it, there is no answer */
	FAB_LOST,		/* dropped on its way, or its answer was */
	FAB_UNDER_WAY,		/* on a wire with a delay: arrives later */
	FAB_GOES_ON,		/* leaves a node by a port; private to mgmt.c */
};

/**
 * struct fab_mgmt_stats - counters of management
 * @get, @set: requests that SMAs answered, by the low byte of the attribute
 * @other: requests that PMAs and other agents answered
 * @hops: cables that MADs crossed
 * @lost: MADs that were dropped
 * @traps: sent, repeats included
 * @flaps_skipped: times that a cable was not pulled because the fabric stood still
 */
struct fab_mgmt_stats {
	uint64_t get[256], set[256];
	uint64_t other;
	uint64_t hops;
	uint64_t lost;
	uint64_t traps;
	uint64_t flaps_skipped;
};

/**
 * struct fab_wires - functions of the wires that leave the process, which management calls
 * @send: send a MAD by port @port; it may arrive later. Return: false: it is lost
 * @land: a MAD has arrived at the other end of the wire from port @port, after fab_mad_delay()
 * @train: train the link of @port, or disable it
 * @count: bring the counters of @port up to date; of any port
 * @meet: ports @a and @b become the ends of a cable of the graph. Return: false: out of memory; not
 *	the second time
 * @find: the port whose link leads to the machine with a PortGUID, or FAB_NO_PORT
 * @mad: a MAD has crossed a wire of the graph, for captures; @lost: by a fault
 */
struct fab_wires {
	bool (*send)(void *ctx, uint32_t port, const struct fab_mad *mad);
	void (*land)(void *ctx, uint32_t port, const struct fab_mad *mad);
	void (*train)(void *ctx, uint32_t port, bool enable);
	void (*count)(void *ctx, uint32_t port);
	bool (*meet)(void *ctx, uint32_t a, uint32_t b);
	uint32_t (*find)(const void *ctx, uint64_t guid);
	void (*mad)(void *ctx, uint32_t port, bool sent, const struct fab_mad *mad, bool lost);
};

#define FAB_MAD_FAULTS	16u

/**
 * struct fab_mad_fault - a fault for requests of one kind that arrive at a node, or leave it for a
 *	machine
 * @node: the node
 * @attr: class and attribute of the requests
 * @nth: each nth is lost; 0: none is
 * @delay_ns: delay of the others
 * @status: the node answers them with this status; 0: as usual
 * @seen, @dropped, @delayed, @refused: numbers of requests, of lost ones, of late ones, and of
 *	those that were answered with @status
 */
struct fab_mad_fault {
	uint32_t node;
	uint32_t nth;
	struct fab_attribute attr;
	uint64_t delay_ns;
	uint16_t status;
	uint64_t seen, dropped, delayed, refused;
};

/** enum fab_mad_place - where a MAD waits, which determines how it goes on */
enum fab_mad_place {
	FAB_MAD_ON_WIRE,	/* it has left by the port, over a wire with a delay */
	FAB_MAD_SENT,		/* a program at the host port has sent it */
	FAB_MAD_ENTERS,		/* it has arrived at the switch port from a machine */
	FAB_MAD_ARRIVED,	/* it has arrived by the port at the node that is its destination */
	FAB_MAD_AT_HOME,	/* the same, from the node itself */
	FAB_MAD_LEAVES,		/* it is to leave by the switch port to the machine there */
};

struct fab_script;
struct fab_journal;

#define FAB_FLAPS	16u
#define FAB_MAD_FLIGHTS	4096u	/* MADs with a delay */
#define FAB_TIMER_TURN	512u	/* ends, and agents, before the fabric does other work */

struct fab_mad_flight;

/**
 * struct fab_flap - a cable that is pulled and plugged repeatedly, see fault.h
 * @port: one of its ends; FAB_NO_PORT: not in use
 * @left: repetitions that are left
 * @down_ns: time from a pull to the plug
 * @every_ns: time from a pull to the next pull
 * @next_ns: time of the next pull, or with @pulled of the plug
 */
struct fab_flap {
	uint32_t port;
	uint32_t left;
	uint64_t down_ns;
	uint64_t every_ns;
	uint64_t next_ns;
	bool pulled;
};

/**
 * struct fab_job - the MAD that a node processes, or the timer of its agents
 * @node: node of the agents
 * @is_set: they process a Set
 * @starved: that Set found no memory for its values: it gets no answer
 * @sma: its subnet management agent
 * @end: rare part of the end port that the agent was given; NULL: none yet
 * @link_due: IB_PI_EFF_LINK_*, effects of a Set on the link of @due_port
 * @due_port: the port of that Set
 * @pkeys, @sl2vl, @arb: tables that a Set is changing
 * @sl2vl_in, @sl2vl_out: ports of @sl2vl
 * @lft, @mft: contents of a block or mask that was never set
 * @spare: used as @end of a port that has no rare part
 * @shown: counters that the performance agent was given
 * @fresh: performance state of a port that has no rare part
 * @fresh_port: the port of @fresh, if a Set may have changed it
 *
 * A trap that an agent sends is a job of its own, within that of the agent.
 */
struct fab_job {
	uint32_t node;
	bool is_set;
	bool starved;
	struct ib_sma sma;
	struct fab_extra *end;
	uint32_t link_due;
	uint32_t due_port;
	uint16_t pkeys[FAB_SW_PKEYS];
	struct ib_sl2vl sl2vl;
	unsigned int sl2vl_in, sl2vl_out;	/* ports, or IB_SMA_ALL_PORTS */
	struct ib_vlarb arb;
	uint8_t lft[IB_LFT_PER_BLOCK];
	uint16_t mft;
	struct fab_extra spare;
	struct ohca_port_counters shown;
	struct ib_pma_port fresh;
	uint32_t fresh_port;
};

#define FAB_CHANGES	32u	/* ports of one struct fab_changes */

/**
 * struct fab_changes - tables and states that have changed since the last refresh of the data path
 * @count: changes of fab_mgmt.epoch by fab_changed(). If the epoch has changed more often, or @n is
 *	above FAB_CHANGES, all ports may have changed
 * @n: ports in @port, or FAB_CHANGES + 1
 * @port: port 0 of a switch stands for all of its ports
 */
struct fab_changes {
	uint32_t count;
	uint32_t n;
	uint32_t port[FAB_CHANGES];
};

#define FAB_LOG	4096u	/* changes by which clients of the control socket may lag */

/**
 * struct fab_log - the last ports that have changed, for clients that follow the fabric
 * @count: number of the next change; the first number does not matter
 * @port: of change N, at N % FAB_LOG
 */
struct fab_log {
	uint64_t count;
	uint32_t port[FAB_LOG];
};

/** enum fab_occupant - programs at a port of a channel adapter, in addition to its agents */
enum fab_occupant {
	FAB_NOBODY,
	FAB_PROGRAM,		/* at least one; none is a subnet manager */
	FAB_SUBNET_MANAGER,	/* one of them is */
};

/**
 * struct fab_mgmt - management of a fabric
 * @f: the fabric, sealed
 * @deliver: pass @mad to a manager at port @port of a channel adapter. Return: false: there is
 *	none. It may not send from this call
 * @occupied: the programs at port @port; NULL: none at any port
 * @ctx: first argument of @deliver and @occupied
 * @wires, @wires_ctx: functions for ports with fab_outside(), or NULL: there are none
 * @taps: number of ports that are captured; if there is any, @wires gets the MADs of all ports
 * @epoch: changes with every table and every state of a port
 * @changes: the changed ports; the data path empties it
 * @log: the last changed ports, for clients
 * @now_ns: time of the call that is processed, of a monotonic clock
 * @seed: of all random choices
 * @rng: state of the generator of random choices
 * @script: the running script, see script.h, or NULL
 * @scripts: number of scripts that have been started
 * @until_ns: if not NULL, virtual time runs until then
 * @look_ns: time between two checks of what a script waits for; 0: 1 ms
 * @journal: journal of the effects of requests, see fault/journal.h, or NULL
 * @deadline_ns: time at which fab_mgmt_timer() is due; UINT64_MAX: never
 * @resumes: wires whose other end will accept packets again
 * @ends: rare parts of ports with a trap or a lease that is running
 * @samples: performance agents with a sample interval that is running
 * @stats: counted since fab_mgmt_init()
 * @mad_fault: [@mad_faults] faults for requests
 * @flap: cables that flap
 * @flight, @last_flight: MADs with a delay, in the order of their times
 * @flights: their number
 * @job: the current MAD
 */
struct fab_mgmt {
	struct fab *f;
	bool (*deliver)(void *ctx, uint32_t port, const struct fab_mad *mad);
	enum fab_occupant (*occupied)(void *ctx, uint32_t port);
	void *ctx;
	const struct fab_wires *wires;
	void *wires_ctx;
	uint32_t taps;
	uint32_t epoch;
	struct fab_changes changes;
	struct fab_log log;
	uint64_t seed;
	uint64_t rng;
	struct fab_script *script;
	uint64_t scripts;
	uint64_t *until_ns;
	uint64_t look_ns;
	struct fab_journal *journal;
	uint64_t now_ns;
	uint64_t deadline_ns;
	struct fab_timers resumes, ends, samples;
	struct fab_mgmt_stats stats;
	uint32_t mad_faults;
	struct fab_mad_fault mad_fault[FAB_MAD_FAULTS];
	struct fab_flap flap[FAB_FLAPS];
	struct fab_mad_flight *flight, *last_flight;
	uint32_t flights;

	struct fab_job job;		/* private to management */
};

/** fab_mgmt_init() - initialise management of the sealed fabric @f; @deliver and @ctx as above */
void fab_mgmt_init(struct fab_mgmt *m, struct fab *f,
		   bool (*deliver)(void *ctx, uint32_t port, const struct fab_mad *mad), void *ctx);

/** fab_mgmt_seed() - set the seed of all random choices from now on; 0 at first */
void fab_mgmt_seed(struct fab_mgmt *m, uint64_t seed);

/**
 * fab_mgmt_send() - send a MAD for a manager at port @port of a channel adapter (14.2.2)
 * @port: index in fab.port
 * @mad: changed; the caller fills in SLID and QPs, and on a directed route sets both LIDs to
 *	IB_LID_PERMISSIVE. Its bytes need not be a MAD
 * @now_ns: time of a monotonic clock, as in fab_mgmt_timer()
 *
 * Return: its fate; never FAB_GOES_ON.
 */
enum fab_fate fab_mgmt_send(struct fab_mgmt *m, uint32_t port, struct fab_mad *mad,
			    uint64_t now_ns);

/**
 * fab_mgmt_arrive() - a MAD has arrived at port @port, other than over a wire of the graph
 * @mad: changed; an SMP by VL15, any other for the node itself
 * @now_ns: as above
 *
 * Return: as fab_mgmt_send().
 */
enum fab_fate fab_mgmt_arrive(struct fab_mgmt *m, uint32_t port, struct fab_mad *mad,
			      uint64_t now_ns);

/**
 * fab_fold_sl2vl() - map every SL to one of the @vls data VLs of the link of switch port @p
 *
 * Does nothing if a subnet manager has written a table for that output.
 *
 * Return: false: out of memory, the table is unchanged.
 */
bool fab_fold_sl2vl(struct fab_mgmt *m, uint32_t p, unsigned int vls);

/**
 * fab_changed() - begin a new @m->epoch: port @p, and nothing else, has another state or table
 *
 * The data path refreshes @p and the port at the other end of its cable. Port 0 of a switch stands
 * for its tables, and for all of its ports. A change that may move tables in their pool affects all
 * ports: then increment @m->epoch alone.
 */
static inline void fab_changed(struct fab_mgmt *m, uint32_t p)
{
	struct fab_changes *c = &m->changes;

	m->epoch++;
	c->count++;
	m->log.port[m->log.count++ % FAB_LOG] = p;
	if (c->n && c->n <= FAB_CHANGES && c->port[c->n - 1] == p)
		return;
	if (c->n < FAB_CHANGES)
		c->port[c->n++] = p;
	else
		c->n = FAB_CHANGES + 1;
}

/** fab_wire_up() - the link of switch port @p is up, its PortInfo negotiated; at @m->now_ns */
void fab_wire_up(struct fab_mgmt *m, uint32_t p);

/** fab_wire_down() - the link of switch port @p went down by itself */
void fab_wire_down(struct fab_mgmt *m, uint32_t p);

/**
 * fab_raise_trap() - raise trap @num of the end port of port @p's node; fab_mgmt_timer() sends it
 *
 * A node that is switched off raises none.
 */
void fab_raise_trap(struct fab_mgmt *m, uint32_t p, enum ib_notice_type type,
		    enum ib_trap_num num, const uint8_t details[54]);

/**
 * fab_mgmt_timer() - do what is due: pull and plug cables that flap, let delayed MADs arrive, send
 *	and repeat traps, end leases, samples and stalls
 * @now_ns: time; before @m->deadline_ns nothing is due
 */
void fab_mgmt_timer(struct fab_mgmt *m, uint64_t now_ns);

/** fab_occupied() - the programs at port @port */
static inline enum fab_occupant fab_occupied(const struct fab_mgmt *m, uint32_t port)
{
	return m->occupied ? m->occupied(m->ctx, port) : FAB_NOBODY;
}

/** fab_mgmt_set_issm() - set whether a subnet manager runs at @port: CapabilityMask and trap 144 */
void fab_mgmt_set_issm(struct fab_mgmt *m, uint32_t port, bool is_sm, uint64_t now_ns);

/** fab_counters() - counters of port @port since the fabric was made, MADs included */
void fab_counters(const struct fab_mgmt *m, uint32_t port, struct ohca_port_counters *c);

/**
 * fab_fault_damage() - count a packet that the wire has lost as an error of port @p, where it leads
 * @x: fault of that direction
 *
 * If the number of such packets, less the number of good ones, exceeds PortInfo.LocalPhyErrors,
 * that is one of LocalLinkIntegrityErrors and trap 129 (7.12.2); at @m->now_ns.
 */
void fab_fault_damage(struct fab_mgmt *m, struct fab_fault *x, uint32_t p);

/**
 * fab_wire_loses() - whether the wire to port @p loses the next packet, of @len bytes; counts the
 *	damage
 */
static inline bool fab_wire_loses(struct fab_mgmt *m, struct fab_fault *x, uint32_t p, uint32_t len)
{
	if (!fab_fault_loses(x, len))
		return false;
	fab_fault_damage(m, x, p);
	return true;
}

/**
 * fab_fault_stall() - stop or resume the acceptance of packets at the other end of the wire of @x
 * @until_ns: with @stalls, the time at which it resumes by itself; UINT64_MAX: never
 */
void fab_fault_stall(struct fab_mgmt *m, struct fab_fault *x, bool stalls, uint64_t until_ns);

/**
 * fab_mad_is_wanted() - whether a fault of node @node applies to requests like @mad
 *
 * The data path passes such a packet to management, where it goes on as a MAD.
 */
bool fab_mad_is_wanted(const struct fab_mgmt *m, uint32_t node, const struct ib_mad *mad);

/** fab_mad_faulty() - whether a fault of @node applies to MADs that are packets of data lanes */
bool fab_mad_faulty(const struct fab_mgmt *m, uint32_t node);

/* ---- private to management ---- */

/**
 * fab_mad_fault() - apply faults to the MAD @mad, which is at @place of port @p; counts it
 *
 * Faults apply to requests alone: MADs without the R bit. An SMP that only passes a node on its
 * directed route is not for that node (14.2.2), and faults of a node do not apply to what it sends.
 *
 * Return: FAB_GOES_ON: none applies, FAB_UNDER_WAY: fab_mgmt_resume() will get a copy, FAB_LOST.
 */
enum fab_fate fab_mad_fault(struct fab_mgmt *m, enum fab_mad_place place, uint32_t p,
			    const struct fab_mad *mad);

/**
 * fab_mad_delay() - delay a MAD that has left by port @p at @m->now_ns, if the wire has a delay
 * @x: the fault of that port
 *
 * Return: FAB_GOES_ON: no delay, FAB_UNDER_WAY: fab_mgmt_resume() will get a copy, FAB_LOST:
 * FAB_MAD_FLIGHTS are on their way, or out of memory.
 */
enum fab_fate fab_mad_delay(struct fab_mgmt *m, uint32_t p, struct fab_fault *x,
			    const struct fab_mad *mad);

/**
 * fab_mad_refused() - whether a fault of @node refuses the request @mad; makes it the answer, in
 *	place
 */
bool fab_mad_refused(struct fab_mgmt *m, uint32_t node, struct ib_mad *mad);

/**
 * fab_mad_hold() - let @mad, at @place of port @p, go on @ns after @m->now_ns
 * Return: FAB_UNDER_WAY, or FAB_LOST: FAB_MAD_FLIGHTS have a delay, or out of memory.
 */
enum fab_fate fab_mad_hold(struct fab_mgmt *m, enum fab_mad_place place, uint32_t p, uint64_t ns,
			   const struct fab_mad *mad);

/**
 * fab_mad_timer() - let MADs due at @m->now_ns arrive; those of a link that went down are lost
 *
 * Processes FAB_MAD_TURN of them; the rest is due at once, see fab_due().
 */
void fab_mad_timer(struct fab_mgmt *m);

/** fab_mad_forget() - free all MADs that are on their way */
void fab_mad_forget(struct fab_mgmt *m);

/** fab_route() - port of switch @n by which @lid leaves: 0: it is port 0's, 255: no route */
unsigned int fab_route(const struct fab *f, const struct fab_node *n, uint16_t lid);

/** fab_due() - request that fab_mgmt_timer() is due at @ns, or earlier */
static inline void fab_due(struct fab_mgmt *m, uint64_t ns)
{
	if (ns < m->deadline_ns)
		m->deadline_ns = ns;
}

/**
 * fab_mgmt_resume() - let @mad, which had a delay at @place of port @p, go on from there; @mad is
 *	changed
 */
void fab_mgmt_resume(struct fab_mgmt *m, enum fab_mad_place place, uint32_t p, struct fab_mad *mad);

/** fab_own_lid() - whether @lid is one of port @p's */
bool fab_own_lid(const struct fab_port *p, uint16_t lid);

/** fab_end_port() - the port with a LID that represents @p: itself, or the switch's port 0 */
uint32_t fab_end_port(const struct fab *f, uint32_t p);

/** fab_agent_begin() - begin a job of the agents of @node, for a Set or not. Return: its SMA. */
const struct ib_sma *fab_agent_begin(struct fab_mgmt *m, uint32_t node, bool is_set);

/**
 * fab_mgmt_local() - let port @port's node process a MAD that has its own LID as DLID
 *
 * It does not leave the node, as between QPs of one HCA. @mad is changed.
 *
 * Return: as fab_mgmt_send()
 */
enum fab_fate fab_mgmt_local(struct fab_mgmt *m, uint32_t port, struct fab_mad *mad);

/** fab_agent_end() - store what the agent has changed, and set the timers of what it began */
void fab_agent_end(struct fab_mgmt *m);

/**
 * fab_mlnx() - let @node answer @mad, a request of the class IB_CLASS_MLNX, in place
 *
 * Return: false: it is no such request, or the node does not have the IDs for it (ib/mlnx.h).
 */
bool fab_mlnx(const struct fab_mgmt *m, uint32_t node, struct ib_mad *mad);

/**
 * fab_pma() - let the performance agent of @node answer @mad, a request, in place
 *
 * Return: false: it has no answer: it is malformed, or there is no memory for the values of a Set.
 */
bool fab_pma(struct fab_mgmt *m, uint32_t node, struct ib_mad *mad);

/**
 * fab_answer_cc() - let the congestion control agent at port @at answer @mad, a request, in place
 *
 * Return: false: it has no answer: it is malformed, has a wrong CC_Key, or there is no memory.
 */
bool fab_answer_cc(struct fab_mgmt *m, uint32_t at, struct ib_mad *mad);

/** fab_agent_xmit() - count a MAD that an agent of @n, if that is a switch, sends from port 0 */
void fab_agent_xmit(struct fab_mgmt *m, const struct fab_node *n);

/** fab_forward() - let a MAD leave the node by port @out. Return: its fate. */
enum fab_fate fab_forward(struct fab_mgmt *m, uint32_t out, struct fab_mad *mad);

/** fab_link_effects() - apply the effects of the answered Set on a link */
void fab_link_effects(struct fab_mgmt *m);

/** fab_wait() - update the timer of the end port of @x; call it when its waits change or end */
void fab_wait(struct fab_mgmt *m, struct fab_extra *x);

/** fab_wait_samples() - the same for a performance agent */
void fab_wait_samples(struct fab_mgmt *m, struct fab_pma *a);

#endif
