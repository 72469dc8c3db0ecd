/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Faults that are injected into a fabric: cables that are pulled or worn, nodes that are switched
 * off, wires that lose, damage or delay packets, MADs that are lost or late, counters that are
 * preset. Each counts its effects, so that the numbers of sent, received and lost packets add up.
 * Owner thread only.
 */
#ifndef OHCA_FABRIC_FAULT_H
#define OHCA_FABRIC_FAULT_H

#include "fabric/mgmt/mgmt.h"
#include "fabric/mgmt/to_fault.h"

/**
 * fab_fault_wire() - let both ends of the cable at port @p lose and damage packets
 * @loss, @corrupt: of 2^32 packets; 0: none
 * @seed: the same seed affects the same packets
 *
 * Return: false: @p has no cable, or out of memory.
 */
bool fab_fault_wire(struct fab_mgmt *m, uint32_t p, uint32_t loss, uint32_t corrupt,
		    uint64_t seed);

/**
 * fab_fault_errors() - flip bits of packets that leave by both ends of the cable at port @p
 * @bits: mean number of bits from one error to the next; 0: no errors
 * @seed: of the generator that fab_fault_wire() uses, too
 *
 * A packet with an error is lost, so long packets are lost more often.
 *
 * Return: false: @p has no cable, or out of memory.
 */
bool fab_fault_errors(struct fab_mgmt *m, uint32_t p, uint64_t bits, uint64_t seed);

/**
 * fab_fault_burst() - set the probability that the cable loses a packet behind a lost one
 * @p: of a fab_fault_wire() that has succeeded; that sets both probabilities to the same value
 * @stays: of 2^32 such packets
 */
void fab_fault_burst(struct fab_mgmt *m, uint32_t p, uint32_t stays);

/**
 * fab_fault_delay() - delay packets that leave by port @p by @ns; 0: no delay
 *
 * They keep their order, and those of data VLs occupy their credits meanwhile.
 *
 * Return: false: @p has no cable, or out of memory.
 */
bool fab_fault_delay(struct fab_mgmt *m, uint32_t p, uint64_t ns);

/**
 * fab_fault_port_stall() - let port @p accept no packets of data lanes, so that its peer has no
 *	credit
 * @until_ns: end; UINT64_MAX: until fab_fault_port_resume(), or its node is switched off
 *
 * Packets on their way there arrive.
 *
 * Return: false: @p has no cable, or out of memory.
 */
bool fab_fault_port_stall(struct fab_mgmt *m, uint32_t p, uint64_t until_ns);

/** fab_fault_port_resume() - end a stall of port @p */
void fab_fault_port_resume(struct fab_mgmt *m, uint32_t p);

/**
 * fab_fault_credits() - lose credits of lane @vl for packets that leave by port @p
 * @blocks: of 64 bytes, FAB_WIRE_BLOCKS at most; 0: none
 *
 * Lasts until the link trains. The link is up, and both ends are ports of switches in this process.
 *
 * Return: false: out of memory.
 */
bool fab_fault_credits(struct fab_mgmt *m, uint32_t p, unsigned int vl, uint16_t blocks);

/**
 * fab_fault_degrade() - train the link of port @p again, limited to widths and speeds in @at_most
 *
 * All bits: the cable is repaired. A link without a common width and speed stays down.
 *
 * Return: false: @p has no cable, or out of memory.
 */
bool fab_fault_degrade(struct fab_mgmt *m, uint32_t p, struct fab_limit at_most, uint64_t now_ns);

/**
 * fab_fault_flap() - pull the cable at port @p now and plug it @down_ns later, @count times
 * @every_ns: time from one pull to the next, above @down_ns
 *
 * fab_fault_link() or another call for that cable ends it earlier.
 *
 * Return: false: @p has no cable, out of memory, or FAB_FLAPS other cables flap.
 */
bool fab_fault_flap(struct fab_mgmt *m, uint32_t p, uint64_t down_ns, uint64_t every_ns,
		    uint32_t count, uint64_t now_ns);

/**
 * fab_fault_link() - pull or plug the cable at port @p; links come up by themselves
 * Return: false: @p has no cable, or out of memory.
 */
bool fab_fault_link(struct fab_mgmt *m, uint32_t p, bool plugged, uint64_t now_ns);

/**
 * fab_fault_swap() - exchange the far ends of the cables at ports @a and @b, as by a mistake
 *
 * Both links go down, and come up where the cables lead now; faults of a cable stay with the cable.
 * A stall stays with its port.
 *
 * Return: false: one of them has no cable, both have the same, one leads out of the graph, or out
 * of memory.
 */
bool fab_fault_swap(struct fab_mgmt *m, uint32_t a, uint32_t b, uint64_t now_ns);

/**
 * fab_fault_node() - switch a node off, or on again without anything that a subnet manager wrote
 *
 * The node of a virtual machine loses its link as well, but the machine continues to run.
 *
 * Return: false: out of memory.
 */
bool fab_fault_node(struct fab_mgmt *m, uint32_t node, bool on, uint64_t now_ns);

/**
 * fab_fault_drop() - lose each @nth request of @node for @a; 0: none
 *
 * A request is a MAD without the R bit, as all messages of the communication management are. SMPs
 * count if they are for the node; MADs of other classes also count if the node sends them.
 *
 * Return: false: FAB_MAD_FAULTS faults for others exist.
 */
bool fab_fault_drop(struct fab_mgmt *m, uint32_t node, const struct fab_attribute *a, uint32_t nth);

/**
 * fab_fault_late() - delay these requests by @ns; 0: no delay
 *
 * Other MADs are not delayed, and overtake them. FAB_MAD_FLIGHTS MADs may be delayed at a time.
 *
 * Return: as fab_fault_drop().
 */
bool fab_fault_late(struct fab_mgmt *m, uint32_t node, const struct fab_attribute *a, uint64_t ns);

/**
 * fab_fault_refuse() - answer Get, Set and similar requests of @node for @a with @status; 0: as
 *	usual
 * @status: of a MAD's header (13.4.7), host order
 *
 * Neither the agents nor a program or machine at the node get such requests. It does not apply to
 * SMPs, nor to messages of the communication management, which have no answer.
 *
 * Return: as fab_fault_drop().
 */
bool fab_fault_refuse(struct fab_mgmt *m, uint32_t node, const struct fab_attribute *a, uint16_t status);

/**
 * fab_fault_guid() - let the agent of @node report the GUIDs of @other as its own
 * @other: a node; @node itself: its own GUIDs; FAB_NONE: NodeGUID and PortGUIDs are 0
 *
 * NodeGUID, and PortGUIDs by number; SystemImageGUID stays. The fabric's own commands show the true
 * ones.
 */
void fab_fault_guid(struct fab *f, uint32_t node, uint32_t other);

/**
 * fab_fault_stick() - let performance managers read counter @name of port @p as all ones
 *
 * Resets do not change that, fab_fault_preset() of that counter ends it. The port counts as before.
 *
 * Return: false: no such counter, or no memory.
 */
bool fab_fault_stick(struct fab *f, uint32_t p, const char *name);

/**
 * fab_fault_preset() - set counter @name of port @p, without MADs, to @v
 *
 * Performance managers read that value, whatever they have reset before. A running sample interval
 * does not count the change.
 *
 * Return: false: no such counter, or no memory.
 */
bool fab_fault_preset(struct fab *f, uint32_t p, const char *name, uint64_t v);

#endif
