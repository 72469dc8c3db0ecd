/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* OpenHCA hardware contract: includes all parts. See Documentation/hardware-interface.rst. */
#ifndef OHCA_HW_H
#define OHCA_HW_H

#include "ohca_types.h"
#include "ohca_regs.h"
#include "ohca_wqe.h"
#include "ohca_admin.h"
#include "ohca_tm.h"
#include "ohca_layout.h"

#endif /* OHCA_HW_H */
