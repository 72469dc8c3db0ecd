/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Management of a fabric: MADs go from port to port as function calls, over links that are up
 * and by the forwarding tables that a subnet manager wrote, and every node answers with the same
 * agents (ib/sma.h, ib/pma_agent.h). Without wires that delay nothing is queued: when
 * fab_mgmt_send() returns, the answer has been delivered or is lost. Owner thread only; time is
 * passed in.
 *
 * The life of a MAD
 *
 *	A manager sends it: fab_mgmt_send(), of a program at a host of the graph; or it comes out
 *	of a machine's link: fab_mgmt_arrive(). On each wire it departs, is lost, or waits for a
 *	delay, and arrives; both ports count it, and captures have it. At each node the directed
 *	route or the forwarding table says by which port it goes on, or that it is for the node.
 *	There it is the job (struct fab_job) of an agent: a request is changed into its answer in
 *	place, which goes back the same way. What no agent answers is for a manager:
 *	fab_mgmt.deliver. An answer or a trap for a machine leaves by fab_wires.send. What a Set
 *	asks for at a link is done when the answer has left: fab_link_effects().
 *
 *	An agent may send a trap while it works, from fab_mgmt_timer(): a job within a job. No other
 *	call nests: deliver() may not send.
 *
 * Goals
 *
 *	An SMP costs less than a microsecond for some hops, so that OpenSM is the slower one. A
 *	wire without a fault, and a fabric without a capture, cost one test each. A node of which
 *	nobody has asked for more takes some hundred bytes. The same calls at the same times do the
 *	same.
 *
 * Limits
 *
 *	255 wires for one MAD (MAX_HOPS), FAB_MAD_FLIGHTS on wires with a delay or held by faults of
 *	nodes, FAB_MAD_FAULTS and FAB_FLAPS faults of their kinds. What comes due at once is done in turns of a bounded length
 *	(FAB_MAD_TURN, FAB_FLAP_TURN, FAB_SCRIPT_TURN, FAB_TIMER_TURN), and what is due later takes
 *	no time. MADs between agents have no lane, no credits and no rate; those from and to machines
 *	are packets until they arrive.
 *
 *	mgmt.c	the way of a MAD, managers
 *	agent.c	what the agents ask of a node
 *	life.c	links that go down and come up, traps, timers
 *	loss.c	what wires and faults lose
 *	mad_fault.c	faults of nodes that are about some MADs
 *	mad_delay.c	MADs that are late
 *	router.c	where packets leave a router
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
 * @hops: links of the graph that it has gone over, and those that the request has
 * @sl: of the LRH; the answer has it, too
 * @pkey: the port's P_Key by which it came in, for the answer; 0: the default one
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

/** enum fab_fate - what became of a MAD */
enum fab_fate {
	FAB_DELIVERED,		/* a manager has it, or has the answer to it */
	FAB_CONSUMED,		/* an agent took it, there is no answer */
	FAB_LOST,		/* dropped on its way, or its answer was */
	FAB_UNDER_WAY,		/* on a wire with a delay: arrives later */
	FAB_GOES_ON,		/* leaves a node by a port; private to mgmt.c */
};

/**
 * struct fab_mgmt_stats - what went on
 * @get, @set: requests that SMAs answered, by the low byte of the attribute
 * @other: that PMAs and others answered
 * @hops: cables that MADs went over
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
 * struct fab_wires - what management asks of wires that lead out of the process
 * @send: a MAD leaves by port @port, and may arrive later. Return: false: it is lost
 * @land: a MAD has come to the other end of the wire from port @port, by fab_mad_delay()
 * @train: train the link of @port anew, or disable it
 * @count: bring the counters of @port up to date; of any port
 * @meet: ports @a and @b are the ends of a cable of the graph. Return: false: out of memory; not the second time
 * @find: the port whose link leads to the machine with a PortGUID, or FAB_NO_PORT
 * @mad: a MAD went over a wire of the graph, as captures are to have it; @lost: by a fault
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
 * struct fab_mad_fault - what happens to requests of one kind that come to a node, or leave it
 * @node: whose they are
 * @attr: what they are about
 * @nth: each nth is lost; 0: none is
 * @delay_ns: the others are so late
 * @status: and have this answer, of the node itself; 0: as they should
 * @seen, @dropped, @delayed, @refused: how many there were, were lost, late, and had that answer
 */
struct fab_mad_fault {
	uint32_t node;
	uint32_t nth;
	struct fab_attribute attr;
	uint64_t delay_ns;
	uint16_t status;
	uint64_t seen, dropped, delayed, refused;
};

/** enum fab_mad_place - where a MAD waits, and what happens to it there when it is over */
enum fab_mad_place {
	FAB_MAD_ON_WIRE,	/* it has left by the port, over a wire with a delay */
	FAB_MAD_SENT,		/* a program at the host port has sent it */
	FAB_MAD_ENTERS,		/* it has come to the switch port from a machine */
	FAB_MAD_ARRIVED,	/* it has come by the port to the node that it is for */
	FAB_MAD_AT_HOME,	/* the same, from the node itself */
	FAB_MAD_LEAVES,		/* it is to leave by the switch port to the machine there */
};

struct fab_script;
struct fab_journal;

#define FAB_FLAPS	16u
#define FAB_MAD_FLIGHTS	4096u	/* MADs that are late */
#define FAB_TIMER_TURN	512u	/* ends, and agents, before the fabric sees to others */

struct fab_mad_flight;

/**
 * struct fab_flap - a cable that is pulled and plugged, see fault.h
 * @port: one of its ends; FAB_NO_PORT: not in use
 * @left: so many times more
 * @down_ns: from when it is pulled to when it is plugged
 * @every_ns: from when it is pulled to when it is pulled again
 * @next_ns: when that is done, or with @pulled when it is plugged
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
 * @node: that its agents work for
 * @is_set: they work for a Set
 * @starved: that Set found no memory for what it says: it has no answer
 * @sma: its subnet management agent
 * @end: rare part of the end port that the agent was given; NULL: none yet
 * @link_due: IB_PI_EFF_LINK_*, what a Set asked for at the link of @due_port
 * @due_port: the port of that Set
 * @pkeys, @sl2vl, @arb: tables that a Set is changing
 * @sl2vl_in, @sl2vl_out: ports of @sl2vl
 * @lft, @mft: shown of a block or mask that was never set
 * @spare: in the place of @end of a port that has no rare part
 * @shown: counters that the performance agent was given
 * @fresh: performance state of a port that has no rare part
 * @fresh_port: of port @fresh_port, if a Set may have changed it
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
 * struct fab_changes - where tables and states have changed since the data path looked
 * @count: changes of fab_mgmt.epoch by fab_changed(). If it has changed more often, or @n is
 *	above FAB_CHANGES, all ports may be others
 * @n: ports in @port, or FAB_CHANGES + 1
 * @port: port 0 of a switch stands for all of its ports
 */
struct fab_changes {
	uint32_t count;
	uint32_t n;
	uint32_t port[FAB_CHANGES];
};

#define FAB_LOG	4096u	/* changes that clients of the control socket may be behind */

/**
 * struct fab_log - which ports have changed last, for those that follow the fabric
 * @count: of the next change; where it begins does not matter
 * @port: of change N, at N % FAB_LOG
 */
struct fab_log {
	uint64_t count;
	uint32_t port[FAB_LOG];
};

/** enum fab_occupant - programs at a port of a channel adapter, besides its agents */
enum fab_occupant {
	FAB_NOBODY,
	FAB_PROGRAM,		/* one at least; none is a subnet manager */
	FAB_SUBNET_MANAGER,	/* one of them is */
};

/**
 * struct fab_mgmt - management of a fabric
 * @f: the fabric, sealed
 * @deliver: a manager at port @port of a channel adapter is to have @mad. Return: false: there
 *	is none. It may not send from there
 * @occupied: who is at port @port; NULL: nobody is at any
 * @ctx: first argument of @deliver and @occupied
 * @wires, @wires_ctx: of ports with fab_outside(), or NULL: there are none
 * @taps: ports that are captured; @wires sees the MADs of all ports if there is any
 * @epoch: changes with every table and every state of a port
 * @changes: where, emptied by the data path
 * @log: the same for clients, the last ones
 * @now_ns: time of the call that is processed, of a monotonic clock
 * @seed: what happens by chance depends on it
 * @rng: state of the generator for choices
 * @script: that plays, see script.h, or NULL
 * @scripts: that have been started
 * @until_ns: virtual time runs until then, if it is not NULL
 * @look_ns: between two looks of a script at what it waits for; 0: a ms
 * @journal: of what is done by requests, see fault/journal.h, or NULL
 * @deadline_ns: fab_mgmt_timer() has something to do then; UINT64_MAX: never
 * @resumes: wires whose other end takes packets again
 * @ends: rare parts of ports with a trap or a lease that runs
 * @samples: performance agents with a sample interval that runs
 * @stats: counted since fab_mgmt_init()
 * @mad_fault: [@mad_faults] what happens to requests
 * @flight, @last_flight: MADs that are late, in the order of time
 * @flights: how many
 * @job: the MAD at hand
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

/** fab_mgmt_init() - management of the sealed fabric @f; @deliver and @ctx as above */
void fab_mgmt_init(struct fab_mgmt *m, struct fab *f,
		   bool (*deliver)(void *ctx, uint32_t port, const struct fab_mad *mad), void *ctx);

/** fab_mgmt_seed() - what happens by chance from now on depends on @seed; 0 at first */
void fab_mgmt_seed(struct fab_mgmt *m, uint64_t seed);

/**
 * fab_mgmt_send() - a manager at port @port of a channel adapter sends a MAD (14.2.2)
 * @port: index in fab.port
 * @mad: changed; SLID and QPs are filled in by the caller, on a directed route both LIDs are
 *	IB_LID_PERMISSIVE. Its bytes need not be a MAD
 * @now_ns: time of a monotonic clock, as in fab_mgmt_timer()
 *
 * Return: what became of it; never FAB_GOES_ON.
 */
enum fab_fate fab_mgmt_send(struct fab_mgmt *m, uint32_t port, struct fab_mad *mad,
			    uint64_t now_ns);

/**
 * fab_mgmt_arrive() - a MAD has come to port @port otherwise than over a wire of the graph
 * @mad: changed; an SMP by VL15, any other for the node itself
 * @now_ns: as above
 */
enum fab_fate fab_mgmt_arrive(struct fab_mgmt *m, uint32_t port, struct fab_mad *mad,
			      uint64_t now_ns);

/**
 * fab_fold_sl2vl() - every SL has one of the @vls data VLs of the link out of switch port @p
 *
 * Unless a subnet manager has written a table that leads out of it.
 *
 * Return: false: out of memory, the table is as it was.
 */
bool fab_fold_sl2vl(struct fab_mgmt *m, uint32_t p, unsigned int vls);

/**
 * fab_changed() - a new @m->epoch: port @p, and nothing else, has another state or table
 *
 * The data path looks at @p and at the port at the other end of its cable. Port 0 of a switch
 * stands for its tables, and for all of its ports. A table that may have moved in its pool is not
 * a change of one port: then @m->epoch alone is counted up.
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

/** fab_wire_up() - the link out of switch port @p is up, its PortInfo negotiated; at @m->now_ns */
void fab_wire_up(struct fab_mgmt *m, uint32_t p);

/** fab_wire_down() - it went down by itself */
void fab_wire_down(struct fab_mgmt *m, uint32_t p);

/**
 * fab_raise_trap() - trap @num of the end port of port @p's node; fab_mgmt_timer() sends it
 *
 * A node that is switched off has none.
 */
void fab_raise_trap(struct fab_mgmt *m, uint32_t p, enum ib_notice_type type,
		    enum ib_trap_num num, const uint8_t details[54]);

/**
 * fab_mgmt_timer() - pull and plug cables that flap, let delayed MADs arrive, send and repeat
 *	traps, end leases, samples and stalls
 * @now_ns: time; before @m->deadline_ns there is nothing to do
 */
void fab_mgmt_timer(struct fab_mgmt *m, uint64_t now_ns);

/** fab_occupied() - who is at port @port */
static inline enum fab_occupant fab_occupied(const struct fab_mgmt *m, uint32_t port)
{
	return m->occupied ? m->occupied(m->ctx, port) : FAB_NOBODY;
}

/** fab_mgmt_set_issm() - whether a subnet manager runs at @port: CapabilityMask and trap 144 */
void fab_mgmt_set_issm(struct fab_mgmt *m, uint32_t port, bool is_sm, uint64_t now_ns);

/** fab_counters() - what port @port has counted since the fabric was made, MADs included */
void fab_counters(const struct fab_mgmt *m, uint32_t port, struct ohca_port_counters *c);

/**
 * fab_fault_damage() - a packet that the wire has lost is an error of port @p, where it leads
 * @x: fault of that direction
 *
 * More of them than PortInfo.LocalPhyErrors, less the packets that come well, are one of
 * LocalLinkIntegrityErrors and trap 129 (7.12.2); at @m->now_ns.
 */
void fab_fault_damage(struct fab_mgmt *m, struct fab_fault *x, uint32_t p);

/** fab_wire_loses() - whether the wire loses the next packet, of @len bytes, to port @p, which is damage there */
static inline bool fab_wire_loses(struct fab_mgmt *m, struct fab_fault *x, uint32_t p, uint32_t len)
{
	if (!fab_fault_loses(x, len))
		return false;
	fab_fault_damage(m, x, p);
	return true;
}

/**
 * fab_fault_stall() - the other end of the wire @x takes no packets, or again
 * @until_ns: it does again then; UINT64_MAX: it stays so
 */
void fab_fault_stall(struct fab_mgmt *m, struct fab_fault *x, bool stalls, uint64_t until_ns);

/**
 * fab_mad_is_wanted() - a fault of node @node is about requests like @mad
 *
 * The data path asks: such a packet goes on as a MAD of management.
 */
bool fab_mad_is_wanted(const struct fab_mgmt *m, uint32_t node, const struct ib_mad *mad);

/** fab_mad_faulty() - a fault of @node is about MADs that are packets of data lanes */
bool fab_mad_faulty(const struct fab_mgmt *m, uint32_t node);

/* ---- private to management ---- */

/**
 * fab_mad_fault() - what faults do to the MAD @mad, which is at @place of port @p; counts it
 *
 * They are about requests alone: MADs without the R bit. An SMP that only passes a node on its directed
 * route is not for it (14.2.2), and what a node sends is not about its agents.
 *
 * Return: FAB_GOES_ON: nothing, FAB_UNDER_WAY: fab_mgmt_resume() will be called with a copy, FAB_LOST.
 */
enum fab_fate fab_mad_fault(struct fab_mgmt *m, enum fab_mad_place place, uint32_t p,
			    const struct fab_mad *mad);

/**
 * fab_mad_delay() - whether a MAD that has left by port @p at @m->now_ns arrives later
 * @x: the fault of that port
 *
 * Return: FAB_GOES_ON: no, FAB_UNDER_WAY: fab_mgmt_landed() will be called with a copy, FAB_LOST:
 * FAB_MAD_FLIGHTS are on their way, or out of memory.
 */
enum fab_fate fab_mad_delay(struct fab_mgmt *m, uint32_t p, struct fab_fault *x,
			    const struct fab_mad *mad);

/** fab_mad_refused() - a fault of @node has made the request @mad its answer, in place, if it has one */
bool fab_mad_refused(struct fab_mgmt *m, uint32_t node, struct ib_mad *mad);

/**
 * fab_mad_hold() - @mad, at @place of port @p, goes on @ns after @m->now_ns
 * Return: FAB_UNDER_WAY, or FAB_LOST: FAB_MAD_FLIGHTS are late, or out of memory.
 */
enum fab_fate fab_mad_hold(struct fab_mgmt *m, enum fab_mad_place place, uint32_t p, uint64_t ns,
			   const struct fab_mad *mad);

/**
 * fab_mad_timer() - MADs due at @m->now_ns arrive; those of a link that went down are lost
 *
 * So many at a time; what is left is due at once, see fab_due().
 */
void fab_mad_timer(struct fab_mgmt *m);

/** fab_mad_forget() - free those that are on their way */
void fab_mad_forget(struct fab_mgmt *m);

/** fab_route() - port of switch @n that @lid leaves by: 0: it is port 0's, 255: no route */
unsigned int fab_route(const struct fab *f, const struct fab_node *n, uint16_t lid);

/** fab_due() - fab_mgmt_timer() has something to do at @ns, or earlier */
static inline void fab_due(struct fab_mgmt *m, uint64_t ns)
{
	if (ns < m->deadline_ns)
		m->deadline_ns = ns;
}

/** fab_mgmt_resume() - @mad, which was late at @place of port @p, goes on from there; @mad is changed */
void fab_mgmt_resume(struct fab_mgmt *m, enum fab_mad_place place, uint32_t p, struct fab_mad *mad);

/** fab_own_lid() - @lid is one of port @p's */
bool fab_own_lid(const struct fab_port *p, uint16_t lid);

/** fab_end_port() - port with a LID that stands for @p: itself, or the switch's port 0 */
uint32_t fab_end_port(const struct fab *f, uint32_t p);

/** fab_agent_begin() - @m->sma is the agent of @node from now on, which gets a Set or not */
const struct ib_sma *fab_agent_begin(struct fab_mgmt *m, uint32_t node, bool is_set);

/**
 * fab_mgmt_local() - port @port's node processes a MAD that has its own LID as DLID
 *
 * It does not leave the node, as between QPs of one HCA. @mad is changed.
 *
 * Return: as fab_mgmt_send()
 */
enum fab_fate fab_mgmt_local(struct fab_mgmt *m, uint32_t port, struct fab_mad *mad);

/** fab_agent_end() - keep what the agent has left in the spare part, and wait for what it began */
void fab_agent_end(struct fab_mgmt *m);

/**
 * fab_mlnx() - @node answers @mad, a request of the class IB_CLASS_MLNX, in place
 *
 * Return: false: it is no such request, or the node has not the IDs for it (ib/mlnx.h).
 */
bool fab_mlnx(const struct fab_mgmt *m, uint32_t node, struct ib_mad *mad);

/**
 * fab_pma() - the performance agent of @node answers @mad, a request, in place
 *
 * Return: false: it has no answer, since it is malformed or there is no memory for what a Set says.
 */
bool fab_pma(struct fab_mgmt *m, uint32_t node, struct ib_mad *mad);

/**
 * fab_answer_cc() - the congestion control agent at port @at answers @mad, a request, in place
 *
 * Return: false: it has no answer: it is malformed, has a wrong CC_Key, or there is no memory.
 */
bool fab_answer_cc(struct fab_mgmt *m, uint32_t at, struct ib_mad *mad);

/** fab_agent_xmit() - an agent of @n, if that is a switch, sends a MAD from port 0 */
void fab_agent_xmit(struct fab_mgmt *m, const struct fab_node *n);

/** fab_forward() - a MAD leaves the node by port @out. Return: what became of it. */
enum fab_fate fab_forward(struct fab_mgmt *m, uint32_t out, struct fab_mad *mad);

/** fab_link_effects() - do to a link what a Set that was answered asked for */
void fab_link_effects(struct fab_mgmt *m);

/** fab_wait() - to be called when what the end port of @x waits for changes, or goes */
void fab_wait(struct fab_mgmt *m, struct fab_extra *x);

/** fab_wait_samples() - the same for a performance agent */
void fab_wait_samples(struct fab_mgmt *m, struct fab_pma *a);

#endif
