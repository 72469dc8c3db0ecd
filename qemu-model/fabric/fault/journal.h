/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Journal: the last commands of clients and scripts that changed the fabric, when and by whom. */
#ifndef OHCA_FABRIC_JOURNAL_H
#define OHCA_FABRIC_JOURNAL_H

#include <stdint.h>

#define FAB_JOURNAL		1024u	/* commands that are kept */
#define FAB_JOURNAL_TEXT	224u	/* bytes of one, with the terminator; longer ones are cut */

struct fab_request;

/**
 * struct fab_journal_entry - a command that was done
 * @ns: its time, of the fabric's clock
 * @script: number of the script that contains it, in line @line; 0: it is a client's, of process
 *	@pid
 * @text: as on a command line or in a script; a port that was chosen randomly has its number
 */
struct fab_journal_entry {
	uint64_t ns;
	uint64_t script;
	unsigned int line;
	int pid;
	char text[FAB_JOURNAL_TEXT];
};

/**
 * struct fab_journal - the last FAB_JOURNAL of @count
 * @pid: process of the client that is served, 0: unknown
 */
struct fab_journal {
	int pid;
	uint64_t count;
	struct fab_journal_entry entry[FAB_JOURNAL];
};

/**
 * fab_journal_add() - add request @r, which was done at r->m->now_ns
 *
 * Does nothing without a journal (r->m->journal).
 */
void fab_journal_add(const struct fab_request *r);

#endif
