/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The admin queue. */
#ifndef OHCA_DEVICE_ADMIN_H
#define OHCA_DEVICE_ADMIN_H

#include <stdbool.h>

#include "engine/engine.h"

/* Execute up to @budget AQ entries; true if more wait */
bool ohca_admin_run(ohca_engine *e, unsigned int budget);
/* Both rings start again at index 0 */
void ohca_aq_reset(ohca_engine *e);

#endif /* OHCA_DEVICE_ADMIN_H */
