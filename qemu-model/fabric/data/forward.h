/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The arbiters of outputs; see forward.c. */
#ifndef OHCA_FABRIC_DATA_FORWARD_H
#define OHCA_FABRIC_DATA_FORWARD_H

#include "data_priv.h"

/** fab_forward_round() - let the heads of all lanes request outputs, and serve these */
bool fab_forward_round(struct fab_data *d);

#endif
