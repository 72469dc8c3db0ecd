/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One machine for all inputs: to make an engine and its memory for each takes longer than
 * most inputs run.
 */
#ifndef FUZZ_RENEW_H
#define FUZZ_RENEW_H

#include "host.h"

/**
 * renewed() - the process's machine, made by the first call, as a new one is
 * @cfg, @mem: as of host_new_cfg(); the same in each call
 *
 * What outlives a reset (counters, the numbers that come next, tags of keys) is set back, too,
 * so that an input does the same wherever it comes in a run.
 */
struct host *renewed(const struct ohca_cfg *cfg, uint64_t mem);

/** retire() - to be called at the end of an input: the engine is reset, as a driver does it */
void retire(struct host *h);

/** must_be_empty() - abort if the engine, which was reset, has an object or memory */
void must_be_empty(const ohca_engine *e);

#endif /* FUZZ_RENEW_H */
