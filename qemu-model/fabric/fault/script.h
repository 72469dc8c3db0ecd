/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Faults that are made at their time (Documentation/control.rst). A script has one in each line, in
 * the words of ohca-fabric's command line:
 *
 *	at 1.5s link down 'leaf 1':3
 *	every 1s from 2s for 10s link flap spine1:any --down 100ms
 *	about 1s for 10s link flap spine2:any
 *	at 13s expect links_active is 36 --within 5s
 *	when links_active below 30 for 60s do node revive spine1
 *
 * What is expected within a time is looked at each ms until it is so. If a look is late by more than a ms,
 * all that follows is later by as much. A condition is looked at each ms, too, and what is behind it is done
 * once, when it is so; late looks are left out.
 *
 * It is checked as a whole before any of it is played. It is played by the time that is passed in,
 * each fault at its time in the order of times and lines, so that the same script and the same
 * seed do the same. Owner thread only.
 */
#ifndef OHCA_FABRIC_SCRIPT_H
#define OHCA_FABRIC_SCRIPT_H

#include "request.h"

#define FAB_SCRIPT_LINES	1024u	/* with a fault */
#define FAB_SCRIPT_REPEATS	1000000u	/* of one line */
#define FAB_SCRIPT_ERRORS	20u	/* that are told */
#define FAB_SCRIPT_LOG		4096u	/* lines that were played last */
#define FAB_SCRIPT_TURN		32u	/* faults that are made before the fabric sees to others */

/**
 * struct fab_script_entry - a line that was played
 * @ns: when, from the begin
 * @line: from 1
 * @skipped: its condition was never so, and nothing was done
 * @why: why it could not be done, or what was there instead of what was expected; empty: it is done
 */
struct fab_script_entry {
	uint64_t ns;
	unsigned int line;
	bool skipped;
	char why[96];
};

/**
 * struct fab_script_error - what is wrong with a script
 * @line: from 1
 * @text: what it is, and what to do
 */
struct fab_script_error {
	unsigned int line;
	char text[FAB_REQUEST_WHY + 64];
};

/**
 * fab_script_start() - play a script from @m->now_ns on, instead of the one that plays
 * @text: [@len] of any bytes
 * @error: [FAB_SCRIPT_ERRORS] filled in if it is wrong
 * @ends_ns: when the last fault is made, at the latest, from now
 *
 * What was chosen by chance before does not count: the choices of a script depend on @m->seed.
 *
 * Return: number of errors, and at most FAB_SCRIPT_ERRORS; 0: it plays.
 */
unsigned int fab_script_start(struct fab_mgmt *m, const char *text, size_t len,
			      struct fab_script_error *error, uint64_t *ends_ns);

/** fab_script_number() - of the script that plays, or has ended: no two have the same; 0: there is none */
static inline uint64_t fab_script_number(const struct fab_mgmt *m)
{
	return m->script ? m->scripts : 0;
}

/** fab_script_stop() - play no more of it; the faults that it has made stay. NULL is none. */
void fab_script_stop(struct fab_mgmt *m);

/** fab_script_left() - faults that are still to be made, of each line by chance 1; *@failed: that could not be made */
uint64_t fab_script_left(const struct fab_mgmt *m, uint64_t *failed);

/** fab_script_played() - lines that were played so far */
uint64_t fab_script_played(const struct fab_mgmt *m);

/** fab_script_entry() - what became of the line that was played as number @n; NULL: it is not known any more */
const struct fab_script_entry *fab_script_entry(const struct fab_mgmt *m, uint64_t n);

/** fab_script_late() - ns at @m->now_ns since the next fault was due; 0: none is late */
uint64_t fab_script_late(const struct fab_mgmt *m);

/**
 * fab_script_timer() - make the faults that are due at @now_ns; before fab_mgmt_timer()
 *
 * At most FAB_SCRIPT_TURN of them. What is left is due at once, and is made in the next calls, in
 * the same order and as at its time.
 *
 * Return: ns until the next one, or UINT64_MAX.
 */
uint64_t fab_script_timer(struct fab_mgmt *m, uint64_t now_ns);

#endif
