/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the data path calls of watch/, which is above it. */
#ifndef OHCA_FABRIC_TO_WATCH_H
#define OHCA_FABRIC_TO_WATCH_H

#include "data_priv.h"

/**
 * fab_capture_frame() - a data packet at port @dp, which has a tap
 * @vl: its lane there
 * @sent: it left; else it came in
 * @why: it ended there, or FAB_DROP_NONE
 */
void fab_capture_frame(struct fab_data *d, const struct fab_dport *dp, const struct fab_frame *f,
		       unsigned int vl, bool sent, enum fab_drop why);

/**
 * fab_capture_mad() - the same for a MAD, by VL15 if it is an SMP
 * @tap: of its port
 */
void fab_capture_mad(struct fab_data *d, const struct fab_tap *tap, const struct fab_mad *mad,
		     bool sent, enum fab_drop why);

/**
 * fab_capture_links() - the flow control packets (IBTA vol. 1, 7.9.4) of a round, at its end
 *
 * Of each lane of a port whose link is up, and of each direction, there is one if its FCTBS or FCCL
 * has changed: so many packets at most in a round, however many data packets it moved.
 */
void fab_capture_links(struct fab_data *d);

#endif
