/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Faults of a fabric, on purpose: cables that are pulled or worn, nodes that are switched off,
 * wires that lose, damage or delay packets, agents that do not get their SMPs, counters that are
 * preset. Each has a count of what it did, so that what is sent, received and lost adds up. Owner
 * thread only.
 */
#ifndef OHCA_FABRIC_FAULT_H
#define OHCA_FABRIC_FAULT_H

#include "mgmt.h"

/**
 * struct fab_fault - what happens to packets that leave by a port
 * @loss: of 2^32 packets so many do not arrive; the other end counts an error
 * @corrupt: of 2^32 data packets so many have another bit, and an ICRC that says so
 * @delay_ns: packets arrive so much later
 * @mad_due_ns: when the MAD that left last arrives
 * @rng: state of the generator that chooses them
 * @lost, @corrupted: so many were; @lost with those on their way when the link went down
 * @marginal: local physical errors of the other end, less the packets that came well since
 * @downs: times that it went down
 */
struct fab_fault {
	uint32_t loss;
	uint32_t corrupt;
	uint64_t delay_ns;
	uint64_t mad_due_ns;
	uint64_t rng;
	uint64_t lost;
	uint64_t corrupted;
	uint32_t downs;
	uint8_t marginal;
};

/** fab_random_state() - a state of the generator in which all bits of @seed count */
uint64_t fab_random_state(uint64_t seed);

/** fab_random() - the next number of the generator with that state */
static inline uint32_t fab_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return (uint32_t)(*state >> 32);
}

/** fab_fault_hits() - whether what happens to @rate of 2^32 happens now */
static inline bool fab_fault_hits(struct fab_fault *x, uint32_t rate)
{
	return fab_random(&x->rng) < rate;
}

/** fab_fault_loses() - whether the wire loses the next packet */
static inline bool fab_fault_loses(struct fab_fault *x)
{
	if (fab_fault_hits(x, x->loss))
		return true;
	x->marginal -= x->marginal != 0;
	return false;
}

/**
 * fab_fault_damage() - a packet that the wire has lost is an error of port @p, where it leads
 * @x: fault of that direction
 *
 * More of them than PortInfo.LocalPhyErrors, less the packets that come well, are one of
 * LocalLinkIntegrityErrors and trap 129 (7.12.2); at @m->now_ns.
 */
void fab_fault_damage(struct fab_mgmt *m, struct fab_fault *x, uint32_t p);

/**
 * fab_fault_wire() - both ends of the cable at port @p lose and damage packets from now on
 * @loss, @corrupt: of 2^32 packets; 0: none
 * @seed: the same seed, the same packets
 *
 * Return: false: @p has no cable, or out of memory.
 */
bool fab_fault_wire(struct fab_mgmt *m, uint32_t p, uint32_t loss, uint32_t corrupt,
		    uint64_t seed);

/**
 * fab_fault_delay() - packets that leave by port @p arrive @ns later from now on; 0: at once
 *
 * They keep their order, and those of data VLs hold their credits meanwhile. MADs between agents
 * and machines are delayed on the wires of the graph, not on the link of the machine.
 *
 * Return: false: @p has no cable, or out of memory.
 */
bool fab_fault_delay(struct fab_mgmt *m, uint32_t p, uint64_t ns);

/**
 * fab_mad_delay() - whether a MAD that has left by port @p at @m->now_ns arrives later
 * @x: the fault of that port
 *
 * Return: FAB_GOES_ON: no, FAB_UNDER_WAY: fab_mgmt_landed() will be called with a copy, FAB_LOST:
 * FAB_MAD_FLIGHTS are on their way, or out of memory.
 */
enum fab_fate fab_mad_delay(struct fab_mgmt *m, uint32_t p, struct fab_fault *x,
			    const struct fab_mad *mad);

/** fab_mad_timer() - MADs due at @m->now_ns arrive; those of a link that went down are lost */
void fab_mad_timer(struct fab_mgmt *m);

/** fab_mad_forget() - free those that are on their way */
void fab_mad_forget(struct fab_mgmt *m);

/**
 * fab_fault_degrade() - the link of port @p trains anew, at widths and speeds @at_most lets through
 *
 * All bits: the cable is as it was. A link without a common width and speed stays down.
 *
 * Return: false: @p has no cable, or out of memory.
 */
bool fab_fault_degrade(struct fab_mgmt *m, uint32_t p, struct fab_limit at_most, uint64_t now_ns);

/**
 * fab_fault_flap() - pull the cable at port @p now and plug it @down_ns later, @count times
 * @every_ns: from one time to the next, above @down_ns
 *
 * Until then, or until fab_fault_link() or another call for that cable.
 *
 * Return: false: @p has no cable, out of memory, or FAB_FLAPS others do so.
 */
bool fab_fault_flap(struct fab_mgmt *m, uint32_t p, uint64_t down_ns, uint64_t every_ns,
		    uint32_t count, uint64_t now_ns);

/** fab_flap_timer() - do what is due of it at @now_ns, in the order of time */
void fab_flap_timer(struct fab_mgmt *m, uint64_t now_ns);

/**
 * fab_fault_link() - pull or plug the cable at port @p; links come up by themselves
 * Return: false: @p has no cable, or out of memory.
 */
bool fab_fault_link(struct fab_mgmt *m, uint32_t p, bool plugged, uint64_t now_ns);

/**
 * fab_fault_node() - switch a node off, or on again with all that a subnet manager wrote forgotten
 *
 * The node of a virtual machine loses its link as well, but the machine runs on.
 *
 * Return: false: out of memory.
 */
bool fab_fault_node(struct fab_mgmt *m, uint32_t node, bool on, uint64_t now_ns);

/**
 * fab_fault_smp() - every @nth SMP for @node with attribute @attr is lost from now on; 0: none
 * Return: false: there are FAB_SMP_FAULTS already.
 */
bool fab_fault_smp(struct fab_mgmt *m, uint32_t node, uint16_t attr, uint32_t nth);

/** fab_fault_drops() - whether the SMP @s that has come to @node is lost. Counts it. */
bool fab_fault_drops(struct fab_mgmt *m, uint32_t node, const struct ib_smp *s);

/**
 * fab_fault_preset() - counter @name of port @p, without MADs, is @v from now on
 * Return: false: no such counter, or no memory.
 */
bool fab_fault_preset(struct fab *f, uint32_t p, const char *name, uint64_t v);

#endif
