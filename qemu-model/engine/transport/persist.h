/* SPDX-License-Identifier: GPL-2.0-or-later */
/* FLUSH for persistence, which the host does. */
#ifndef OHCA_TRANSPORT_PERSIST_H
#define OHCA_TRANSPORT_PERSIST_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "engine/object/mr_access.h"

struct ohca_xport;

#define OHCA_PERSISTS	8u	/* that the host is at, or that wait to be asked for again */

/**
 * struct ohca_persist - a FLUSH for persistence that is under way
 * @xp: whose it is; NULL: nobody's any more
 * @psn, @rkey, @range: which FLUSH, to know it when it comes again
 * @done: bytes of @range that the host was given
 * @tag: of what the host is at, not 0; 0: it is at nothing
 * @seen_ns: when the FLUSH came last
 */
struct ohca_persist {
	const struct ohca_xport *xp;
	struct ohca_mr_range range;
	uint64_t done, tag, seen_ns;
	uint32_t psn, rkey;
};

/**
 * ohca_persist() - have the host make a range persistent; owner, in a burst of DMA
 * @xp: responder; @psn, @rkey: of its FLUSH
 * @r: from the check of @rkey, done now
 *
 * Return: true if it is; false: the same FLUSH must come again.
 */
bool ohca_persist(ohca_engine *e, const struct ohca_xport *xp, uint32_t psn, uint32_t rkey,
		  const struct ohca_mr_range *r);
/* The QP has no FLUSH under way any more; what the host is at it may end. */
void ohca_persist_forget(ohca_engine *e, const struct ohca_xport *xp);

#endif /* OHCA_TRANSPORT_PERSIST_H */
