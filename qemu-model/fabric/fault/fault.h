/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Faults of a fabric, on purpose: cables that are pulled or worn, nodes that are switched off,
 * wires that lose, damage or delay packets, MADs that are lost or late, counters that are preset.
 * Each has a count of what it did, so that what is sent, received and lost adds up. Owner
 * thread only.
 */
#ifndef OHCA_FABRIC_FAULT_H
#define OHCA_FABRIC_FAULT_H

#include "fabric/mgmt/mgmt.h"
#include "fabric/mgmt/to_fault.h"

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
 * fab_fault_errors() - bits of packets that leave by both ends of the cable at port @p are others from now on
 * @bits: from one such bit to the next, on the average; 0: there are none
 * @seed: as fab_fault_wire() has it, from whose generator these are
 *
 * A packet with such a bit is lost, so long ones are lost more often.
 *
 * Return: false: @p has no cable, or out of memory.
 */
bool fab_fault_errors(struct fab_mgmt *m, uint32_t p, uint64_t bits, uint64_t seed);

/**
 * fab_fault_burst() - a packet behind one that the cable has lost is lost by another chance than others
 * @p: of fab_fault_wire(), which has succeeded and sets both chances to the same
 * @stays: of 2^32 such packets
 */
void fab_fault_burst(struct fab_mgmt *m, uint32_t p, uint32_t stays);

/**
 * fab_fault_delay() - packets that leave by port @p arrive @ns later from now on; 0: at once
 *
 * They keep their order, and those of data VLs hold their credits meanwhile.
 *
 * Return: false: @p has no cable, or out of memory.
 */
bool fab_fault_delay(struct fab_mgmt *m, uint32_t p, uint64_t ns);

/**
 * fab_fault_port_stall() - port @p takes no packets of data lanes from now on, so its peer has no credit
 * @until_ns: until then; UINT64_MAX: until fab_fault_port_resume(), or its node is switched off
 *
 * What is on its way there arrives.
 *
 * Return: false: @p has no cable, or out of memory.
 */
bool fab_fault_port_stall(struct fab_mgmt *m, uint32_t p, uint64_t until_ns);

/** fab_fault_port_resume() - port @p takes packets again, if it did not */
void fab_fault_port_resume(struct fab_mgmt *m, uint32_t p);

/**
 * fab_fault_credits() - of lane @vl of what leaves by port @p so many credits are lost from now on
 * @blocks: of 64 bytes, FAB_WIRE_BLOCKS at most; 0: none
 *
 * Until the link trains. It is up, and both ends are ports of switches in this process.
 *
 * Return: false: out of memory.
 */
bool fab_fault_credits(struct fab_mgmt *m, uint32_t p, unsigned int vl, uint16_t blocks);

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

/**
 * fab_fault_link() - pull or plug the cable at port @p; links come up by themselves
 * Return: false: @p has no cable, or out of memory.
 */
bool fab_fault_link(struct fab_mgmt *m, uint32_t p, bool plugged, uint64_t now_ns);

/**
 * fab_fault_swap() - the cables at ports @a and @b change their far ends, by mistake
 *
 * Both links go down, and come up where the cables lead now; what is wrong with a cable goes with it. A
 * port that stalls goes on.
 *
 * Return: false: one of them has no cable, both have the same, one leads out of the graph, or out of memory.
 */
bool fab_fault_swap(struct fab_mgmt *m, uint32_t a, uint32_t b, uint64_t now_ns);

/**
 * fab_fault_node() - switch a node off, or on again with all that a subnet manager wrote forgotten
 *
 * The node of a virtual machine loses its link as well, but the machine runs on.
 *
 * Return: false: out of memory.
 */
bool fab_fault_node(struct fab_mgmt *m, uint32_t node, bool on, uint64_t now_ns);

/**
 * fab_fault_drop() - each @nth request of @node that is about @a is lost from now on; 0: none
 *
 * A request is a MAD without the R bit, which all messages of the communication management are. Of SMPs
 * those for the node count, of other classes those that it sends, too.
 *
 * Return: false: FAB_MAD_FAULTS of them are about others.
 */
bool fab_fault_drop(struct fab_mgmt *m, uint32_t node, const struct fab_attribute *a, uint32_t nth);

/**
 * fab_fault_late() - these requests go on @ns later from now on; 0: at once
 *
 * Nothing else is late: other MADs overtake them. FAB_MAD_FLIGHTS may be late at a time.
 *
 * Return: as fab_fault_drop().
 */
bool fab_fault_late(struct fab_mgmt *m, uint32_t node, const struct fab_attribute *a, uint64_t ns);

/**
 * fab_fault_refuse() - Get, Set and the like of @node that are about @a are answered with @status from now
 *	on; 0: as they should be
 * @status: of a MAD's header (13.4.7), host order
 *
 * The agents are not asked, nor a program or machine at the node. It is not for SMPs, nor for messages of
 * the communication management, which have no answer.
 *
 * Return: as fab_fault_drop().
 */
bool fab_fault_refuse(struct fab_mgmt *m, uint32_t node, const struct fab_attribute *a, uint16_t status);

/**
 * fab_fault_guid() - the agent of @node tells the GUIDs of @other as its own from now on
 * @other: a node; @node itself: its own ones; FAB_NONE: NodeGUID and PortGUIDs are 0
 *
 * NodeGUID, and PortGUIDs by number; SystemImageGUID stays. The fabric's own commands have the true ones.
 */
void fab_fault_guid(struct fab *f, uint32_t node, uint32_t other);

/**
 * fab_fault_stick() - performance managers read counter @name of port @p as all ones from now on
 *
 * Whatever they reset, until fab_fault_preset() of that counter. What the port counts is as before.
 *
 * Return: false: no such counter, or no memory.
 */
bool fab_fault_stick(struct fab *f, uint32_t p, const char *name);

/**
 * fab_fault_preset() - counter @name of port @p, without MADs, is @v from now on
 *
 * So do performance managers see it, whatever they have reset before. A sample interval that runs
 * does not count the change.
 *
 * Return: false: no such counter, or no memory.
 */
bool fab_fault_preset(struct fab *f, uint32_t p, const char *name, uint64_t v);

#endif
