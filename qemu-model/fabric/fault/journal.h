/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What was done to a fabric by its control socket, when and by whom: the last commands, as their words. */
#ifndef OHCA_FABRIC_JOURNAL_H
#define OHCA_FABRIC_JOURNAL_H

#include <stdint.h>

#define FAB_JOURNAL		1024u	/* commands that are kept */
#define FAB_JOURNAL_TEXT	224u	/* bytes of one, with a 0; what is longer is cut */

struct fab_request;

/**
 * struct fab_journal_entry - a command that was done
 * @ns: when, of the fabric's clock
 * @script: number of the script whose line @line it was; 0: a client's, of process @pid
 * @text: as it is written on a command line or in a script; of a port by chance the number
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
 * fab_journal_add() - request @r was done; at r->m->now_ns
 *
 * Without a journal (r->m->journal) it does nothing.
 */
void fab_journal_add(const struct fab_request *r);

#endif
