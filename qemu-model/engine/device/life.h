/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Lives: a life is all objects that a driver creates between two resets of the device.
 *
 * A guest chooses the number of objects, so to free them all may take long, and the thread that
 * resets the device waits. So a reset does not free them. It costs at most OHCA_FENCE_WORK: it
 * gives the device another, empty set of tables and another, empty scheduler. It moves the old ones
 * to another struct ohca_engine, the ended life. Everything that refers to the old objects (queues,
 * lists, timers, multicast groups, windows) moves with them, and nothing in the device refers to it
 * any more. The host of an ended life provides no memory and accepts no packets. The sweep frees
 * the old objects in steps, one in each ohca_poll(), by the same functions as commands. A later
 * life uses the emptied tables.
 *
 * Object numbers and tags of keys continue from life to life, so a number or key of an old life
 * does not match an object of a new one. Counters and the SMA belong to the device, not to a life.
 *
 * ohca_new() allocates the second set of tables, so a reset needs no memory. A reset needs a third
 * set only if the second one is not empty yet. If there is no memory for it, the reset itself frees
 * the objects, however long that takes.
 *
 * Each life has the whole budget (base/mem.h). An engine uses at most twice the budget: while
 * OHCA_MAX_DEAD lives are not swept, it executes no commands. So the driver creates no objects, and
 * a further reset ends no further life.
 */
#ifndef OHCA_DEVICE_LIFE_H
#define OHCA_DEVICE_LIFE_H

#include <stdbool.h>

#include "engine/engine.h"

/* Allocate the tables of @e and a scheduler, empty. 0 or -1 (memory) */
int ohca_life_init(ohca_engine *e);
/* Allocate the second set of tables, for the first reset. 0 or -1 (memory) */
int ohca_life_spare(ohca_engine *e);
/* End the life of @e, whose status is 0. The admin queue stays as it is. */
void ohca_life_end(ohca_engine *e);
/*
 * Free objects of ended lives, as far as @allowance of work covers. Return: true if some are left
 */
bool ohca_life_sweep(ohca_engine *e, uint64_t allowance);
/*
 * Free the tables of @e, which is retired and swept, as far as the allowance of work covers.
 * Return: true if it is done
 */
bool ohca_life_free_some(ohca_engine *e);

#endif /* OHCA_DEVICE_LIFE_H */
