/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One request of the control socket; private to control_*.c and script.c. */
#ifndef OHCA_FABRIC_CONTROL_REQUEST_H
#define OHCA_FABRIC_CONTROL_REQUEST_H

#include <jansson.h>

#include "spool.h"

/**
 * struct fab_request - a request
 * @m: the fabric that is asked
 * @in: the request
 * @first: the first node, or LID, that is asked for
 * @node: which node it is about, or NULL
 * @capture: what it wants to have captured, or NULL: nothing can be
 * @dry: it is checked only, not done
 * @why: what is wrong with it, for the reply
 */
struct fab_request {
	struct fab_mgmt *m;
	json_t *in;
	uint32_t first;
	const char *node;
	struct fab_spool_cfg *capture;
	bool dry;
	char why[256];
};

/** fab_is_fault_command() - fab_request_fault() knows @command */
bool fab_is_fault_command(const char *command);

/**
 * fab_request_fault() - commands link, node, loss, corrupt, delay, drop and preset
 * Return: the reply; NULL: r->why says why.
 */
json_t *fab_request_fault(struct fab_request *r, const char *command);

/** fab_is_capture_member() - a request for a capture may have a member @key */
bool fab_is_capture_member(const char *key);

/**
 * fab_request_capture() - command capture: fills in r->capture
 * Return: the reply; NULL: r->why says why.
 */
json_t *fab_request_capture(struct fab_request *r);

/** fab_is_trace_member() - a request for the way of a packet may have a member @key */
bool fab_is_trace_member(const char *key);

/** fab_request_trace() - command trace. Return: the reply; NULL: r->why says why. */
json_t *fab_request_trace(struct fab_request *r);

/** fab_guid_json() - a GUID as replies have it */
json_t *fab_guid_json(uint64_t guid);

/** fab_text_json() - @len bytes @text, those from 0x80 on as '?' if it is not UTF-8 */
json_t *fab_text_json(const char *text, size_t len);

/** fab_desc_json() - the same of a NodeDescription, which is any bytes */
json_t *fab_desc_json(const struct fab_desc *d);

/** fab_type_name() - the type of a node, as replies have it */
const char *fab_type_name(const struct fab_node *n);

/** fab_state_name() - PortState, as replies have it */
const char *fab_state_name(uint8_t state);

/** fab_request_script() - command script. Return: as above, or a reply with its errors. */
json_t *fab_request_script(struct fab_request *r);

#endif
