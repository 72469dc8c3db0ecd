/* SPDX-License-Identifier: GPL-2.0-or-later */
/* FLUSH for persistence, which the host executes. */
#ifndef OHCA_TRANSPORT_PERSIST_H
#define OHCA_TRANSPORT_PERSIST_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "engine/object/mr_access.h"

struct ohca_xport;

/**
 * struct ohca_persist - a FLUSH for persistence that is under way, or whose repetition is waited for
 * @xp: its QP; NULL: the QP is destroyed or reset
 * @psn, @rkey, @range: identify the FLUSH when it is repeated
 * @done: bytes of @range that the host was given
 * @tag: of the host's work, not 0; 0: it has none
 * @seen_ns: time of the last request
 */
struct ohca_persist {
	const struct ohca_xport *xp;
	struct ohca_mr_range range;
	uint64_t done, tag, seen_ns;
	uint32_t psn, rkey;
};

/**
 * ohca_persist() - have the host flush a range to persistence; owner, in a burst of DMA
 * @xp: responder; @psn, @rkey: of its FLUSH
 * @r: from the check of @rkey, done now
 *
 * Return: true if it is persistent; false: the FLUSH must be repeated.
 */
bool ohca_persist(ohca_engine *e, const struct ohca_xport *xp, uint32_t psn, uint32_t rkey,
		  const struct ohca_mr_range *r);
/* Drops the FLUSH of the QP; the host may complete its work. */
void ohca_persist_forget(ohca_engine *e, const struct ohca_xport *xp);

#endif /* OHCA_TRANSPORT_PERSIST_H */
