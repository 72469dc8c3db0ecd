/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * States of the engine that a target with calls of reach_look() must reach. They are counted, and
 * the counts are printed at the end. 'make check' fails if one of them is 0, even with the corpus
 * alone.
 */
#ifndef FUZZ_REACH_H
#define FUZZ_REACH_H

#include <stdbool.h>
#include <stdint.h>

#include "host.h"

enum reach {
	REACH_SQD,		/* attributes were changed in SQD */
	REACH_REARM,		/* an alternate path was loaded */
	REACH_ARMED,		/* the peer has one, too */
	REACH_MIGRATED,		/* and it became the primary path */
	REACH_PACED,		/* a QP has a static rate below that of its port, and has sent */
	REACH_PORT2,		/* a QP of the second port has received a request */
	REACH_AHEAD,		/* WRITEs of the peer arrived early; only with a peer */
	REACH_NUM
};

/** reached() - counts @what if @yes */
void reached(enum reach what, bool yes);
/** reach_look() - counts events and states of the QPs of @h; call it before the reset */
void reach_look(struct host *h);

#endif /* FUZZ_REACH_H */
