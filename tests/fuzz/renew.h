/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One machine for all inputs, because making an engine and its memory takes longer than most inputs
 * run.
 */
#ifndef FUZZ_RENEW_H
#define FUZZ_RENEW_H

#include "host.h"

/**
 * renewed() - returns the process's machine in the state of a new one; the first call makes it
 * @cfg, @mem: as for host_new_cfg(); the same in each call
 *
 * State that survives a reset (counters, next numbers, tags of keys) is restored, too, so that an
 * input has the same effect at any position in a run.
 */
struct host *renewed(const struct ohca_cfg *cfg, uint64_t mem);

/** retire() - call it at the end of an input: resets the engine, as a driver does */
void retire(struct host *h);

/** must_be_empty() - aborts if the engine, after its reset, has an object or memory */
void must_be_empty(const ohca_engine *e);

#endif /* FUZZ_RENEW_H */
