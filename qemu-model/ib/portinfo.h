/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * PortInfo of HCA ports and switch ports: the check of a SubnSet, the port state machine (IBTA
 * volume 1, 7.2 and 14.2.5.6) and M_Key protection (14.2.4).
 */
#ifndef OHCA_IB_PORTINFO_H
#define OHCA_IB_PORTINFO_H

#include "smp.h"

/* Kind of port: which PortInfo components exist and may be set (table 146). */
enum ib_pi_kind {
	IB_PI_CA,		/* channel adapter port */
	IB_PI_SWITCH_PORT0,	/* switch management port (base or enhanced) */
	IB_PI_SWITCH_EXT,	/* external switch port */
};

/* ib_port_info_set() *@effects: what the caller has to do or report */
#define IB_PI_EFF_STATE		(1u << 0)	/* PortState changed by ARMED/ACTIVE */
#define IB_PI_EFF_LINK_DOWN	(1u << 1)	/* link must go down and train again */
#define IB_PI_EFF_LINK_DISABLE	(1u << 2)	/* link must go down and stay there */
#define IB_PI_EFF_LID		(1u << 3)	/* LID or LMC changed */
#define IB_PI_EFF_SM		(1u << 4)	/* SM LID or SM SL changed */
#define IB_PI_EFF_REREG		(1u << 5)	/* ClientReregister was set */
#define IB_PI_EFF_GID		(1u << 6)	/* GID prefix changed */
#define IB_PI_EFF_MTU		(1u << 7)	/* NeighborMTU changed */
#define IB_PI_EFF_VLS		(1u << 8)	/* OperationalVLs changed */
#define IB_PI_EFF_VLARB		(1u << 9)	/* VLHighLimit changed */
#define IB_PI_EFF_WIDTH_SPEED	(1u << 10)	/* enabled widths or speeds changed */
#define IB_PI_EFF_MKEY		(1u << 11)	/* M_Key, protection or lease written */
#define IB_PI_EFF_ENFORCE	(1u << 12)	/* partition enforcement or raw filter */
#define IB_PI_EFF_LINK_SLEEP	(1u << 13)	/* with LINK_DOWN: the link does not poll */

/**
 * ib_port_info_set() - apply a SubnSet(PortInfo)
 * @pi: the port's PortInfo, changed in place; read-only components do not change
 * @new: PortInfo of the Set
 * @kind: kind of port
 * @effects: result: IB_PI_EFF_*, a set of bits
 *
 * An invalid component keeps its value, and the status is IB_MAD_BAD_FIELD; valid components are
 * still applied. If the combination of PortState and PortPhysicalState is invalid, no state
 * changes. PortState DOWN and physical states are only reported in @effects: the caller changes the
 * link and then calls ib_port_link_down() or ib_port_link_up().
 *
 * Return: enum ib_mad_status for the response.
 */
uint16_t ib_port_info_set(struct ib_port_info *pi, const struct ib_port_info *new,
			  enum ib_pi_kind kind, uint32_t *effects);

/** ib_port_due_phys() - PortPhysicalState after the change @due of the link, IB_PI_EFF_LINK_* */
static inline uint8_t ib_port_due_phys(uint32_t due)
{
	return due & IB_PI_EFF_LINK_DISABLE ? IB_PHYS_DISABLED :
	       due & IB_PI_EFF_LINK_SLEEP ? IB_PHYS_SLEEP : IB_PHYS_POLLING;
}

/** ib_port_link_up() - training finished: set LinkUp and Init. Return: true if it was down. */
bool ib_port_link_up(struct ib_port_info *pi);

/**
 * ib_port_link_down() - the link went down: set PortState Down
 * @phys: new physical state: IB_PHYS_SLEEP, IB_PHYS_POLLING or IB_PHYS_DISABLED
 * Return: true if the link was up before.
 */
bool ib_port_link_down(struct ib_port_info *pi, uint8_t phys);

/**
 * ib_port_rx_data() - a data packet arrived: Armed becomes Active. Return: true if it was Armed.
 */
bool ib_port_rx_data(struct ib_port_info *pi);

/**
 * struct ib_port_profile - capabilities of a port, for ib_port_info_init()
 * @width: LinkWidthSupported mask
 * @speed: LinkSpeedSupported mask, with IB_SPEED_FDR10
 * @speed_ext: LinkSpeedExtSupported mask, with the bits of LinkSpeedExtSupported2
 */
struct ib_port_profile {
	uint8_t width;
	uint8_t speed;
	uint8_t speed_ext;
	uint8_t mtu_cap;	/* MTU code */
	uint8_t vl_cap;		/* VLCap code */
	uint8_t vlarb_cap;	/* entries of each arbitration table */
	uint8_t guid_cap;
	uint32_t cap_mask;
	uint16_t cap_mask2;
};

/**
 * ib_port_info_init() - set PortInfo of a port whose link is down
 *
 * Widths, speeds, MTU and VLs are set so that the SM need not retrain a link between two ports with
 * the same profile. Speeds and widths set the capability bits that they need. Port 0 of a switch is
 * Active.
 */
void ib_port_info_init(struct ib_port_info *pi, const struct ib_port_profile *prof,
		       uint8_t local_port, enum ib_pi_kind kind);

/**
 * ib_port_negotiate() - set the result of the training of a link between two ports
 * @pi: this port; sets width_active, speed_active, speed_ext_active, mtu and op_vls
 * @width: peer's enabled widths
 * @speed: peer's enabled speeds
 * @speed_ext: peer's enabled extended speeds
 * @mtu_cap: peer's MTUCap
 * @vl_cap: peer's VLCap
 *
 * Return: 0, or -1 if there is no common width or speed (the link stays down).
 */
int ib_port_negotiate(struct ib_port_info *pi, uint8_t width, uint8_t speed, uint8_t speed_ext,
		      uint8_t mtu_cap, uint8_t vl_cap);

/* ib_mkey_check() results */
enum ib_mkey_verdict {
	IB_MKEY_OK,		/* proceed */
	IB_MKEY_OK_HIDE,	/* proceed, but return the M_Key as zero */
	IB_MKEY_BAD,		/* violation: no answer; count it, start the lease, trap 256 */
};

/**
 * ib_mkey_check() - check the M_Key of an SMP (14.2.4, table 141)
 * @pi: PortInfo with M_Key and protection bits
 * @s: the SMP
 *
 * Checks Get, Set and TrapRepress; other methods, and ports whose M_Key is zero, need no M_Key.
 */
enum ib_mkey_verdict ib_mkey_check(const struct ib_port_info *pi, const struct ib_smp *s);

#endif
