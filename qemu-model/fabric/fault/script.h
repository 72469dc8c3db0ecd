/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Scripts: faults with times (Documentation/control.rst). A script has one in each line, in
 * the words of ohca-fabric's command line:
 *
 *	at 1.5s link down 'leaf 1':3
 *	every 1s from 2s for 10s link flap spine1:any --down 100ms
 *	about 1s for 10s link flap spine2:any
 *	at 13s expect links_active is 36 --within 5s
 *	when links_active below 30 for 60s do node revive spine1
 *
 * An expectation with a time limit is checked each ms until it is met. If a check is late by more
 * than a ms, all later lines are delayed by as much. A condition is checked each ms, too, and its
 * request is done once, when the condition is met; late checks are skipped.
 *
 * A script is checked as a whole before its first line is executed. Callers pass the time. Faults
 * are done at their times, in the order of times and lines, so that the same script and the same
 * seed have the same effects. Owner thread only.
 */
#ifndef OHCA_FABRIC_SCRIPT_H
#define OHCA_FABRIC_SCRIPT_H

#include "request.h"

#define FAB_SCRIPT_LINES	1024u	/* with a fault */
#define FAB_SCRIPT_REPEATS	1000000u	/* of one line */
#define FAB_SCRIPT_ERRORS	20u	/* that are reported */
#define FAB_SCRIPT_LOG		4096u	/* last executed lines that are kept */
#define FAB_SCRIPT_TURN		32u	/* faults that are done before the fabric does other work */

/**
 * struct fab_script_entry - a line that was executed
 * @ns: its time, since the start
 * @line: its number, from 1
 * @skipped: its condition was never met, and nothing was done
 * @why: why it failed, or the actual value of an expectation that is not met; empty: it succeeded
 */
struct fab_script_entry {
	uint64_t ns;
	unsigned int line;
	bool skipped;
	char why[96];
};

/**
 * struct fab_script_error - an error in a script
 * @line: its number, from 1
 * @text: the error, and what to do
 */
struct fab_script_error {
	unsigned int line;
	char text[FAB_REQUEST_WHY + 64];
};

/**
 * fab_script_start() - start a script at @m->now_ns, in place of the running one
 * @text: [@len] of any bytes
 * @error: [FAB_SCRIPT_ERRORS] filled in with its errors
 * @ends_ns: time from now to the last fault, at most
 *
 * Its random choices depend only on @m->seed, not on earlier choices.
 *
 * Return: number of errors, at most FAB_SCRIPT_ERRORS; 0: it runs.
 */
unsigned int fab_script_start(struct fab_mgmt *m, const char *text, size_t len,
			      struct fab_script_error *error, uint64_t *ends_ns);

/** fab_script_number() - number of the running or last script, which is unique; 0: there is none */
static inline uint64_t fab_script_number(const struct fab_mgmt *m)
{
	return m->script ? m->scripts : 0;
}

/** fab_script_stop() - end the script; faults that it has made stay. NULL does nothing. */
void fab_script_stop(struct fab_mgmt *m);

/**
 * fab_script_left() - faults still to be made, 1 for each random line; *@failed: number that failed
 */
uint64_t fab_script_left(const struct fab_mgmt *m, uint64_t *failed);

/** fab_script_played() - number of lines that were executed so far */
uint64_t fab_script_played(const struct fab_mgmt *m);

/**
 * fab_script_entry() - result of the line that was executed as number @n; NULL: it is not kept any
 *	more
 */
const struct fab_script_entry *fab_script_entry(const struct fab_mgmt *m, uint64_t n);

/** fab_script_late() - ns by which the next fault is late at @m->now_ns; 0: none is late */
uint64_t fab_script_late(const struct fab_mgmt *m);

/**
 * fab_script_timer() - make the faults that are due at @now_ns; call it before fab_mgmt_timer()
 *
 * At most FAB_SCRIPT_TURN of them. The rest is due at once, and is made in the next calls, in
 * the same order and with the same effects as at its time.
 *
 * Return: ns until the next one, or UINT64_MAX.
 */
uint64_t fab_script_timer(struct fab_mgmt *m, uint64_t now_ns);

#endif
