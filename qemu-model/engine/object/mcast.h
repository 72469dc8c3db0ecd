/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Multicast groups. */
#ifndef OHCA_OBJECT_MCAST_H
#define OHCA_OBJECT_MCAST_H

#include <stdint.h>

#include "engine/engine.h"

struct ohca_cmd;
struct ohca_qp;

/**
 * struct ohca_mcast_member - a QP of a group
 * @qp: the QP
 * @refs: attaches minus detaches, perhaps with several MLIDs. The QP receives each datagram once.
 */
struct ohca_mcast_member {
	struct ohca_qp *qp;
	uint32_t refs;
};

/**
 * struct ohca_mcast_grp - QPs attached to one MGID
 * @next: hash chain
 * @mgid: the MGID, as on the wire
 * @num: members; @cap: size of @member
 * @member: the QPs
 */
struct ohca_mcast_grp {
	struct ohca_mcast_grp *next;
	uint8_t mgid[16];
	uint32_t num, cap;
	struct ohca_mcast_member *member;
};

/* For ohca_new(): derive the keys of the hash table from the host's seed */
void ohca_mcast_init(ohca_engine *e);
/* Group of @mgid or NULL */
struct ohca_mcast_grp *ohca_mcast_find(ohca_engine *e, const uint8_t mgid[16]);
/* Free groups, as far as the allowance of work covers. Return: true if none is left */
bool ohca_mcast_free_some(ohca_engine *e);

/* Commands: each returns enum ohca_admin_status. */
int ohca_cmd_attach_mcast(struct ohca_cmd *c);
int ohca_cmd_detach_mcast(struct ohca_cmd *c);

#endif /* OHCA_OBJECT_MCAST_H */
