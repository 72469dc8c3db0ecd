/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One request of the control socket; private to control_answer.c and control_fault.c. */
#ifndef OHCA_FABRIC_CONTROL_REQUEST_H
#define OHCA_FABRIC_CONTROL_REQUEST_H

#include <jansson.h>

#include "mgmt.h"

/**
 * struct fab_request - a request
 * @m: the fabric that is asked
 * @in: the request
 * @first: the first node, or LID, that is asked for
 * @node: which node it is about, or NULL
 * @why: what is wrong with it, for the reply
 */
struct fab_request {
	struct fab_mgmt *m;
	json_t *in;
	uint32_t first;
	const char *node;
	char why[256];
};

/** fab_is_fault_member() - a request of fab_request_fault() may have a member @key */
bool fab_is_fault_member(const char *key);

/**
 * fab_request_fault() - commands link, node, loss, corrupt, drop and preset
 * Return: the reply; NULL: r->why says why, or @command is none of these.
 */
json_t *fab_request_fault(struct fab_request *r, const char *command);

#endif
