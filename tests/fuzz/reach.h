/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a target that calls reach_look() must get the engine to do. It is counted, the counts are
 * printed at the end, and 'make check' fails if one of them is 0, of the corpus alone, too.
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
	REACH_MIGRATED,		/* and it is the primary one now */
	REACH_PACED,		/* a QP has a static rate below that of its port, and has sent */
	REACH_PORT2,		/* a QP of the second port has received a request */
	REACH_AHEAD,		/* WRITEs of a peer came before their turn; of a target that has one */
	REACH_NUM
};

/** reached() - count @what if @yes */
void reached(enum reach what, bool yes);
/** reach_look() - count what the QPs of @h have done, and its events; before it is reset */
void reach_look(struct host *h);

#endif /* FUZZ_REACH_H */
