/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An InfiniBand switch made of links (IBTA volume 1, 18).
 *
 * One thread owns a switch and calls everything here. The input buffers of the
 * switch are the rings of its links: a frame stays in the ring of its input port and
 * lane until the output port's peer has credit for it, and is then copied once, ring
 * to ring. Lanes never wait for each other.
 *
 *	node.c		the switch, attaching and detaching of its ports
 *	forward.c	data lanes: forwarding tables, arbitration, enforcement
 *	mgmt.c		VL15 and port 0: receiving, sending, traps, timers
 *	sma.c		the operations of the subnet management agent (ib/sma.h)
 *	loop.c		sockets, sleeping
 *	main.c		command line
 */
#ifndef OHCA_SWITCH_H
#define OHCA_SWITCH_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "ib/mad.h"
#include "ib/packet.h"
#include "ib/pma_agent.h"
#include "ib/portinfo.h"
#include "ib/sma.h"
#include "ib/smp.h"
#include "ib/vl.h"
#include "link/link.h"

#define SW_MAX_PORTS	254u		/* external ports; 255 means "none" or "all" */
#define SW_DATA_VLS	15u
/*
 * Entries of each port's P_KeyTable. An SM copies the table of an HCA's port to the switch
 * port at its other end, and OpenSM turns enforcement off there if it has fewer blocks: one
 * block more than the HCA's four.
 */
#define SW_PKEY_BLOCKS	5u
#define SW_PKEYS	(SW_PKEY_BLOCKS * IB_PKEYS_PER_BLOCK)
#define SW_GUIDS	IB_GUIDS_PER_BLOCK	/* entries of port 0's GUIDInfo */
#define SW_LFT_CAP	49152u		/* LinearFDBCap: every unicast LID */
#define SW_MFT_CAP	4096u		/* MulticastFDBCap */
#define SW_MFT_POS	16u		/* mask positions of 16 ports */
#define SW_TRAPS	3u		/* that may wait: traps 128, 256 and 259 */
#define SW_VLARB_CAP	IB_VLARB_MAX	/* entries of each arbitration table */
#define SW_MAX_MAD_PKT	512u		/* any packet that carries one MAD */
#define SW_REPLIES	64u		/* answers of port 0 that wait for credit */
#define SW_LOOK_NS	10000000u	/* between looks at what waits for credit */
#define SW_STOOD_NS	50000000u	/* between looks: the switch stood still */

/**
 * struct sw_cfg - the configuration of a switch
 * @nports: external ports, 1..254
 * @node_guid: NodeGUID and, for port 0, PortGUID
 * @sys_guid: SystemImageGUID
 * @desc: NodeDescription, 64 bytes padded with zeros
 * @vls: data VLs: 1, 2, 4, 8 or 15
 * @mtu_cap: MTU code
 * @width: LinkWidthSupported
 * @speed: LinkSpeedSupported
 * @speed_ext: LinkSpeedExtSupported
 * @shift: wished credit_shift of the links
 * @hoq_scale: HOQLife is stretched by this factor, for hosts that stop virtual machines
 *             longer than the subnet manager allows for; 0: never discard
 * @log: for events, or NULL; never called for packets
 * @log_arg: its first argument
 * @clock: monotonic time in ns, never 0, or NULL: CLOCK_MONOTONIC
 * @clock_arg: its argument
 */
struct sw_cfg {
	unsigned int nports;
	uint64_t node_guid;
	uint64_t sys_guid;
	char desc[64];
	uint8_t vls;
	uint8_t mtu_cap;
	uint8_t width;
	uint8_t speed;
	uint8_t speed_ext;
	uint8_t shift;
	unsigned int hoq_scale;
	void (*log)(void *arg, const char *fmt, va_list ap);
	void *log_arg;
	uint64_t (*clock)(void *arg);
	void *clock_arg;
};

/* The decision on the frame at the head of a lane. */
enum sw_kind {
	SW_NONE,		/* no frame, or not looked at yet */
	SW_DROP,
	SW_LOCAL,		/* for port 0 */
	SW_UCAST,
	SW_MCAST,
};

/**
 * struct sw_lane - head of one input port's data lane
 * @kind: decision, valid while @epoch is the switch's
 * @out: output port of SW_UCAST
 * @ovl: its lane there; of SW_MCAST while sw_round() serves an output: the lane at that one
 * @started: some outputs of SW_MCAST have had their copy
 * @listed: in the switch's list of multicast heads
 * @patch: offset of a checked BTH.P_Key to write over the copy, 0 if none
 * @next: next lane that wants the same output lane, or SW_END
 * @lrh: checked copy of the LRH
 * @pkey: checked copy of BTH.P_Key, wire order
 * @f: the frame in the ring
 * @epoch: of the decision
 * @blocked_ns: since when it waits for credit, at any output; 0 if it does not
 * @mc: outputs of SW_MCAST that still lack their copy
 */
struct sw_lane {
	uint8_t kind;
	uint8_t out;
	uint8_t ovl;
	bool started;
	bool listed;
	uint8_t patch;
	uint16_t next;
	uint8_t lrh[IB_LRH_LEN];
	uint8_t pkey[2];
	struct ohca_link_frame f;
	uint32_t epoch;
	uint64_t blocked_ns;
	uint64_t mc[4];
};

#define SW_END		0xffffu

/** struct sw_port - port 0 or an external port */
struct sw_port {
	/* Used for every frame. */
	struct ohca_link *link;		/* NULL: nobody attached */
	bool up;			/* link trained */
	uint32_t pending;		/* lanes with frames, as of this round */
	bool active;			/* data may leave: state Active */
	bool receives;			/* data may come: Armed or Active */
	uint8_t nvls;			/* operational data VLs */
	uint32_t max_len;		/* longest frame the MTU allows */
	uint16_t arb_vls;		/* lanes that the arbitration tables serve */
	uint16_t want;			/* output lanes requested in this round */
	uint16_t head[SW_DATA_VLS], tail[SW_DATA_VLS];
	uint16_t last[SW_DATA_VLS];	/* input lane served last, for taking turns */
	uint16_t stalled;		/* output lanes in the state VLStalled */
	uint16_t ucast;			/* unicast requests of this round */
	uint16_t sent;			/* output lanes that sent in this round */
	uint16_t refused;		/* output lanes that had to wait in this round */
	uint16_t waiting;		/* output lanes that wait since an earlier round */
	uint8_t hoq_drops[SW_DATA_VLS];	/* discards by HOQLife since a packet last left */
	struct sw_lane lane[SW_DATA_VLS];

	uint8_t num;
	uint64_t stall_end_ns[SW_DATA_VLS];	/* of those in @stalled */
	uint64_t wait_vl_ns[SW_DATA_VLS];	/* of those in @waiting: counted up to there */
	uint64_t wait_ns;			/* if any is: the port's, counted up to there */
	struct ib_port_info pi;
	struct ohca_port_counters ctr;
	struct ib_pma_port pma;
	struct ib_vlarb arb;
	uint16_t pkeys[SW_PKEYS];
	uint16_t num_pkeys;		/* entries up to the last that is in use */
	bool sl2vl_set;			/* an SM wrote a table that leads out of this port */
	uint32_t pending_eff;		/* IB_PI_EFF_LINK_*, done after the answer left */
	bool ctrl_due;			/* link events are left for the next round */
	uint32_t vl15_seen;		/* of the peer's count of VL15 drops */
	uint64_t peer_guid;		/* last attached, gets its port again; sw_peer_key() */
	bool reserved;			/* for a link of our own to another switch */
};

/** struct sw_reply - a packet of port 0 that waits since @since_ns for credit */
struct sw_reply {
	uint64_t since_ns;
	uint8_t out;
	uint8_t vl;
	uint16_t len;
	uint8_t pkt[SW_MAX_MAD_PKT];
};

/** struct sw - a switch */
struct sw {
	struct sw_cfg cfg;
	unsigned int nports;
	uint32_t epoch;			/* changes with every table and port state */
	uint16_t first;			/* port that comes first in this round */
	uint64_t now_ns;		/* of this round, sw_now(); 0: not read yet */
	uint64_t seen_ns;		/* CLOCK_MONOTONIC when it was read last */
	uint64_t stood_ns;		/* of that the switch had no processor */
	bool ctrl_due;			/* of some port */
	uint16_t *mcast;		/* [@nmcast] multicast heads of this round */
	unsigned int nmcast;
	unsigned int blocked;		/* lanes with blocked_ns set */
	unsigned int stalled;		/* output lanes that are stalled, of all ports */
	struct sw_port *port;		/* [0..nports] */
	struct ib_sl2vl *sl2vl;		/* [in * (nports + 1) + out] */
	struct ib_switch_info si;
	uint8_t lft[SW_LFT_CAP];
	uint16_t (*mft)[SW_MFT_POS];	/* [SW_MFT_CAP] */
	uint64_t guids[SW_GUIDS];
	struct ib_pma pma;

	struct ib_sma sma;
	struct ib_sma_end end;
	struct ib_trap trap[SW_TRAPS];		/* slots of @end */
	struct sw_reply reply[SW_REPLIES];
	uint8_t reply_order[SW_REPLIES];	/* @reply_count in use, then the free ones */
	unsigned int reply_count;
	uint64_t mads_in, mads_out, mads_dropped;
	unsigned int log_left;			/* lines that may be logged now */
	uint64_t log_ns;			/* when that grew last */
	uint64_t log_lost;			/* lines left out since the last */
	uint64_t accept_stops;		/* peers had to wait for a descriptor, or memory */
};

/* ---- node.c ---- */

/** sw_cfg_init() - 36 ports, EDR 4x, MTU 4096, 8 VLs. */
void sw_cfg_init(struct sw_cfg *cfg);

/** sw_new() - a switch with all links down. Return: NULL if out of memory. */
struct sw *sw_new(const struct sw_cfg *cfg);

/** sw_free() - close all links and free. */
void sw_free(struct sw *sw);

/**
 * sw_log() - log an event
 *
 * Some 200 lines at once, then ten a second: the next line then has the number of lines left out.
 */
__attribute__((format(printf, 2, 3))) void sw_log(struct sw *sw, const char *fmt, ...);

/**
 * sw_pick_port() - choose a port for a peer
 * @peer: its HELLO
 * @err: the reason if there is none, for the peer's user
 *
 * Return: 1..nports, or 0.
 */
unsigned int sw_pick_port(struct sw *sw, const struct ohca_link_cfg *peer,
			  struct ohca_link_err *err);

/** sw_peer_key() - identifies a peer: a channel adapter's PortGUID; one value for all switches. */
uint64_t sw_peer_key(const struct ohca_link_cfg *peer);

/** sw_link_cfg() - configuration of port @n's links. */
void sw_link_cfg(const struct sw *sw, unsigned int n, struct ohca_link_cfg *cfg);

/** sw_attach() - @l becomes port @n's link (owned from here on) and starts training. */
void sw_attach(struct sw *sw, unsigned int n, struct ohca_link *l);

/**
 * sw_port_ctrl() - handle the control socket of port @n
 *
 * The events of a peer that flaps fast are bounded per call: the rest is handled by the next
 * sw_round(), before any sleep.
 *
 * Return: false if the link is gone (it was freed).
 */
bool sw_port_ctrl(struct sw *sw, unsigned int n);

/**
 * sw_port_detach() - free the link of port @n
 *
 * If it was up: Down, LinkDowned, PortStateChange and trap 128.
 */
void sw_port_detach(struct sw *sw, unsigned int n, const char *why);

/** sw_port_changed() - recompute the data path's copy of a port's PortInfo. */
void sw_port_changed(struct sw *sw, struct sw_port *p);

/**
 * sw_link_effects() - retrain or disable links for Sets that are answered
 *
 * A link whose peer is gone by then is freed.
 */
void sw_link_effects(struct sw *sw);

/** sw_host_ns() - the clock of the configuration in ns, read now */
uint64_t sw_host_ns(const struct sw *sw);

/**
 * sw_now() - the time in ns, read once per round
 *
 * CLOCK_MONOTONIC without the times during which something waited for credit and the host
 * gave the switch no processor.
 */
uint64_t sw_now(struct sw *sw);

/** sw_sl2vl() - table for packets from @in to @out. */
static inline struct ib_sl2vl *sw_sl2vl(struct sw *sw, unsigned int in, unsigned int out)
{
	return &sw->sl2vl[in * (sw->nports + 1) + out];
}

/** sw_clock() - CLOCK_MONOTONIC in ns, with the times that sw_now() leaves out. */
uint64_t sw_clock(struct sw *sw);

/** sw_print_stats() - counters of all attached ports, one line each, to @file. */
void sw_print_stats(struct sw *sw, void *file);

/* ---- forward.c ---- */

/**
 * sw_round() - move frames, once around all ports; wakes peers
 *
 * Bounded: at most some dozens of frames per port.
 *
 * Return: whether a frame moved. If not, none can before a link or timer event.
 */
bool sw_round(struct sw *sw);

/** sw_blocked_lanes() - input lanes of port @n whose heads wait for credit. */
uint32_t sw_blocked_lanes(const struct sw *sw, unsigned int n);

/** sw_forget_heads() - the port's link went down: its frames are gone, its lanes are free. */
void sw_forget_heads(struct sw *sw, struct sw_port *p);

/**
 * sw_count_wait() - bring PortXmitWait and PortVLXmitWait of @p up to date
 *
 * A tick counts, for the port or for a lane, if there was a packet to send and nothing was
 * sent, for want of credit or of a turn (16.1.3.5); however many inputs it came from.
 */
void sw_count_wait(struct sw *sw, struct sw_port *p);

/** sw_too_old() - what waits for @out since @since_ns (0: does not) outlived HOQLife. */
bool sw_too_old(struct sw *sw, const struct sw_port *out, uint64_t since_ns);

/**
 * sw_hoq_discard() - count what HOQLife or VLStalled discarded of lane @vl of @out
 *
 * After VLStallCount of them in sequence the lane is stalled: for 8 * HOQLife all that
 * is for it is discarded at once (IBTA volume 1, 18.2.5.4).
 */
void sw_hoq_discard(struct sw *sw, struct sw_port *out, unsigned int vl);

/* ---- mgmt.c ---- */

/**
 * sw_vl15_rx() - receive a VL15 packet; @data is copied before any check
 *
 * sw_link_effects() must follow, which changes the links.
 */
void sw_vl15_rx(struct sw *sw, unsigned int in, const uint8_t *data, size_t len);

/**
 * sw_count_vl15() - bring VL15Dropped of @p up to date
 *
 * The peer counts the packets that find the port's VL15 buffer full, while the link exists.
 */
void sw_count_vl15(struct sw_port *p);

/**
 * sw_pma_port() - state of port @n for the PMA of @ctx, the switch
 *
 * Updates the counts that peers keep, and waiting times.
 */
struct ib_pma_port *sw_pma_port(void *ctx, unsigned int n);

/** sw_gsi_rx() - receive a data packet for port 0; @data as above. */
void sw_gsi_rx(struct sw *sw, unsigned int in, const uint8_t *data, size_t len);

/** sw_reply_flush() - send answers of port 0 that wait. Return: whether any left. */
bool sw_reply_flush(struct sw *sw);

/** sw_is_own_lid() - @lid is one of port 0's. */
bool sw_is_own_lid(const struct sw *sw, uint16_t lid);

/**
 * sw_trap() - raise a trap
 *
 * Without an SM there is none. It is repeated until it is repressed; of violations one of each
 * kind is reported at a time (ib/trap.h).
 */
void sw_trap(struct sw *sw, enum ib_notice_type type, enum ib_trap_num num,
	     const uint8_t details[54]);

/** sw_send_trap() - send a trap of port 0 to its subnet manager */
void sw_send_trap(struct sw *sw, const struct ib_smp *trap);

/** sw_trap_state_change() - PortStateChange and trap 128. */
void sw_trap_state_change(struct sw *sw);

/**
 * sw_timers() - run due timers: trap repeats, M_Key lease, sampling
 * Return: ns until the next, or UINT64_MAX.
 */
uint64_t sw_timers(struct sw *sw);

/* ---- sma.c ---- */

/** sw_sma_init() - the agent of a switch whose @cfg, @nports and ports are there */
void sw_sma_init(struct sw *sw);

/* ---- loop.c ---- */

struct sw_loop;

/**
 * sw_loop_new() - listen for peers of @sw
 * @path: socket
 * @spin_us: poll that long before sleeping
 * @err: filled in on failure
 *
 * Return: loop or NULL.
 */
struct sw_loop *sw_loop_new(struct sw *sw, const char *path, unsigned int spin_us,
			    struct ohca_link_err *err);

/**
 * sw_loop_uplink() - keep a link to a port of another switch
 * @path: the other's socket
 * @want_port: its port, 0 for any
 *
 * The highest port that is not taken yet is used. While the other switch is not there
 * it is tried again every second.
 *
 * Return: our port, or 0 if there are no more.
 */
unsigned int sw_loop_uplink(struct sw_loop *lp, const char *path, unsigned int want_port);

/**
 * sw_loop_run() - run until stopped
 * @sigfd: signalfd or other descriptor; when readable @on_signal is called and says
 *         whether to go on
 *
 * Return: 0, or -1 if epoll failed.
 */
int sw_loop_run(struct sw_loop *lp, int sigfd, bool (*on_signal)(void *arg, int fd), void *arg);

/** sw_loop_free() - close and unlink the socket; not the switch. */
void sw_loop_free(struct sw_loop *lp);

#endif /* OHCA_SWITCH_H */
