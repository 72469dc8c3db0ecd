/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What management calls of fault/, which is above it. */
#ifndef OHCA_FABRIC_TO_FAULT_H
#define OHCA_FABRIC_TO_FAULT_H

#include "mgmt.h"

/** fab_flap_timer() - do what is due of it at @now_ns, in the order of time */
void fab_flap_timer(struct fab_mgmt *m, uint64_t now_ns);

#endif
