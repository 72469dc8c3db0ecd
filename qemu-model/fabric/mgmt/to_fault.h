/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The functions of fault/ that management calls, although fault/ is above it. */
#ifndef OHCA_FABRIC_TO_FAULT_H
#define OHCA_FABRIC_TO_FAULT_H

#include "mgmt.h"

#define FAB_FLAP_TURN	32u	/* changes of cables before the fabric does other work */

#define FAB_FLAP_LATE_NS	1000000000u	/* later flaps do not catch up */

/**
 * fab_flap_timer() - pull and plug the cables that flap, as is due at @now_ns, in the order of time
 *
 * At most FAB_FLAP_TURN changes. A cable whose change is FAB_FLAP_LATE_NS late skips the periods
 * that have passed; fab_mgmt_stats.flaps_skipped counts them. The rest is due at once, see
 * fab_due().
 *
 * Return: whether nothing is left.
 */
bool fab_flap_timer(struct fab_mgmt *m, uint64_t now_ns);

#endif
