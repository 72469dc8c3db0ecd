/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A request of the control socket or of a line of a script, and the requests for faults. */
#ifndef OHCA_FABRIC_REQUEST_H
#define OHCA_FABRIC_REQUEST_H

#include <jansson.h>

#include "fabric/mgmt/mgmt.h"

struct fab_data;
struct fab_spool_cfg;

#define FAB_REQUEST_WHY	512u

/**
 * struct fab_request - a request
 * @m: management of the fabric
 * @data: its data path, or NULL
 * @in: the request
 * @first: the first node, or LID, of the reply
 * @node: name of the node, or NULL
 * @found: the name was looked up before, it is that of node @at
 * @capture: filled in with the capture that it requests, or NULL: captures are not possible
 * @num: number of the port, which may have been chosen randomly
 * @line: of the script that contains it; 0: it is a client's
 * @dry: it is only checked, not done
 * @why: its error, for the reply
 */
struct fab_request {
	struct fab_mgmt *m;
	const struct fab_data *data;
	json_t *in;
	uint32_t first;
	const char *node;
	bool found;
	uint32_t at;
	unsigned int num;
	unsigned int line;
	struct fab_spool_cfg *capture;
	bool dry;
	char why[FAB_REQUEST_WHY];
};

/**
 * fab_request_node() - the node that the request names, by any of its names (names.h)
 * Return: FAB_NONE: there is none, r->why lists the nodes.
 */
uint32_t fab_request_node(struct fab_request *r);

/**
 * fab_request_unknown() - write to r->why that there is no @name, what to do, and what there is
 * @what: kind of the name: node or port
 * @todo: what to do
 */
void fab_request_unknown(struct fab_request *r, const char *what, const char *name,
			 const char *todo);

/**
 * fab_request_only() - check that @r has only members in @keys. Return: false: r->why has the wrong
 *	one.
 */
bool fab_request_only(struct fab_request *r, const char *keys);

/** fab_is_fault_command() - whether fab_request_fault() knows @command */
bool fab_is_fault_command(const char *command);

/**
 * fab_request_fault() - commands link, node, swap, loss, ber, corrupt, delay, stall, resume,
 *	credits, drop, refuse, guid, preset and expect
 * Return: the reply; NULL: r->why has the error.
 */
json_t *fab_request_fault(struct fab_request *r, const char *command);

#endif
