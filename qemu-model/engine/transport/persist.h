/* SPDX-License-Identifier: GPL-2.0-or-later */
/* FLUSH for persistence, which the host executes; see persist.c. */
#ifndef OHCA_TRANSPORT_PERSIST_H
#define OHCA_TRANSPORT_PERSIST_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "engine/object/mr_access.h"

struct ohca_xport;

/**
 * struct ohca_persist - a FLUSH for persistence that is under way, or that waits for its repetition
 * @xp: its QP; NULL: the QP was destroyed or reset
 * @range, @psn, @rkey: identify the repeated FLUSH
 * @done: bytes of @range that were passed to the host
 * @tag: tag of the host's work, not 0; 0: the host does nothing
 * @seen_ns: time of the last request, ns
 */
struct ohca_persist {
	const struct ohca_xport *xp;
	struct ohca_mr_range range;
	uint64_t done, tag, seen_ns;
	uint32_t psn, rkey;
};

/**
 * ohca_persist() - let the host flush a range to persistence; owner, in a burst of DMA
 * @xp: responder
 * @psn, @rkey: PSN and R_Key of its FLUSH
 * @r: result of the check of @rkey in this call of the owner function
 *
 * Return: true if the range is persistent; false if the FLUSH must be repeated.
 */
bool ohca_persist(ohca_engine *e, const struct ohca_xport *xp, uint32_t psn, uint32_t rkey,
		  const struct ohca_mr_range *r);
/* Drop the FLUSH of the QP; the host may still complete its work. */
void ohca_persist_forget(ohca_engine *e, const struct ohca_xport *xp);

#endif /* OHCA_TRANSPORT_PERSIST_H */
