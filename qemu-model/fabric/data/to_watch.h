/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The functions of watch/ that the data path calls, although watch/ is above it. */
#ifndef OHCA_FABRIC_TO_WATCH_H
#define OHCA_FABRIC_TO_WATCH_H

#include "data_priv.h"

/**
 * fab_capture_frame() - capture a data packet at port @dp, which has a tap
 * @vl: its lane there
 * @sent: it left by @dp; else it arrived
 * @why: why it was dropped there, or FAB_DROP_NONE
 */
void fab_capture_frame(struct fab_data *d, const struct fab_dport *dp, const struct fab_frame *f,
		       unsigned int vl, bool sent, enum fab_drop why);

/**
 * fab_capture_mad() - capture a MAD, on VL15 if it is an SMP; @sent and @why as of
 *	fab_capture_frame()
 * @tap: captures of its port
 */
void fab_capture_mad(struct fab_data *d, const struct fab_tap *tap, const struct fab_mad *mad,
		     bool sent, enum fab_drop why);

/**
 * fab_capture_links() - capture the flow control packets (IBTA vol. 1, 7.9.4) of a round, at its
 *	end
 *
 * Writes one for each lane and each direction of a port whose link is up, if its FCTBS or FCCL has
 * changed: no more in a round, however many data packets it moved.
 */
void fab_capture_links(struct fab_data *d);

#endif
