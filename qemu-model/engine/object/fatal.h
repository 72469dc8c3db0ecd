/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The fatal state of the device. */
#ifndef OHCA_OBJECT_FATAL_H
#define OHCA_OBJECT_FATAL_H

#include "engine/engine.h"
#include "ohca_hw.h"

/* Raise OHCA_STATUS_FATAL; no DMA after it until reset. */
void ohca_fatal(ohca_engine *e, enum ohca_fatal reason);

#endif /* OHCA_OBJECT_FATAL_H */
