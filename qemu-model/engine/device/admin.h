/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The admin queue. */
#ifndef OHCA_DEVICE_ADMIN_H
#define OHCA_DEVICE_ADMIN_H

#include <stdbool.h>

#include "engine/engine.h"

/*
 * Execute up to @budget commands of the admin queue, as far as the allowance of work covers.
 * Return: true if more commands wait. The owner calls.
 */
bool ohca_admin_run(ohca_engine *e, unsigned int budget);
/* Reset the indices of both rings to 0, and drop the command in execution. The owner calls. */
void ohca_aq_reset(ohca_engine *e);

#endif /* OHCA_DEVICE_ADMIN_H */
