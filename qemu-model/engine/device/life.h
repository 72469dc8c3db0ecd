/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The life of what a driver makes: it begins with a reset and ends with the next.
 *
 * To free all objects takes as long as there are objects, which a guest decides, and whoever resets
 * the device waits. So a reset is a fence, which costs OHCA_FENCE_WORK: the device has another set
 * of tables, and another scheduler, which are empty. Those that it had are of another struct
 * ohca_engine, whose host gives no memory, takes no packet and hears of nothing: what refers to
 * objects there (queues, lists, timers, groups, windows) is there, too, and nothing of it here. The
 * sweep frees them by the functions that commands use, in steps, ohca_poll() by ohca_poll(). The
 * tables, empty again, serve the next life.
 *
 * Numbers and tags of keys go on from life to life, so that what a peer or a driver knows of an old
 * one names nothing of the new. Counters and the SMA are of the device, and have no part in it.
 *
 * The first other set of tables is made with the engine, so that a reset needs no memory. Only a life
 * that ends before that set is empty again needs a third; without memory for that it is freed at
 * once, as long as that takes.
 *
 * A life has all of the budget (base/mem.h), whatever was before it. An engine has no more than
 * twice the budget: while OHCA_MAX_DEAD lives are not swept, it executes no command, without which
 * nothing is made, and a life without a command leaves nothing.
 */
#ifndef OHCA_DEVICE_LIFE_H
#define OHCA_DEVICE_LIFE_H

#include <stdbool.h>

#include "engine/engine.h"

/* The tables of @e, and a scheduler, empty: 0 or -1 (memory). */
int ohca_life_init(ohca_engine *e);
/* The other tables, of the first life that ends: 0 or -1 (memory). */
int ohca_life_spare(ohca_engine *e);
/* What the driver has made is not @e's any more, whose status is 0. Its admin queue is as it was. */
void ohca_life_end(ohca_engine *e);
/* Free some of what lives have left, as @allowance of work covers. Return: there is more */
bool ohca_life_sweep(ohca_engine *e, uint64_t allowance);
/* Free the tables of @e, which is retired and swept, a step of it. Return: it is done */
bool ohca_life_free_some(ohca_engine *e);

#endif /* OHCA_DEVICE_LIFE_H */
