/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Requests of the control socket; the functions that the files of control/ share. */
#ifndef OHCA_FABRIC_REQUESTS_H
#define OHCA_FABRIC_REQUESTS_H

#include "fabric/fault/request.h"
#include "fabric/watch/spool.h"

#define FAB_PAGE_PORTS	512u	/* ports of a reply; the node that reaches it is the last */

/**
 * fab_request_page() - find the nodes of this part of the reply: from @r->first on, or the named
 *	one
 * @end: all nodes of this part are before it
 *
 * Return: false: there are none, r->why has the error.
 */
bool fab_request_page(struct fab_request *r, uint32_t *end);

/** fab_is_capture_member() - whether a request for a capture may have a member @key */
bool fab_is_capture_member(const char *key);

/**
 * fab_request_capture() - command capture: fills in r->capture
 * Return: the reply; NULL: r->why has the error.
 */
json_t *fab_request_capture(struct fab_request *r);

/** fab_is_trace_member() - whether a request for the path of a packet may have a member @key */
bool fab_is_trace_member(const char *key);

/** fab_request_trace() - command trace. Return: the reply; NULL: r->why has the error. */
json_t *fab_request_trace(struct fab_request *r);

/** fab_is_adaptive_member() - whether a request for adaptive routing may have a member @key */
bool fab_is_adaptive_member(const char *key);

/** fab_request_adaptive() - command adaptive. Return: the reply; NULL: r->why has the error. */
json_t *fab_request_adaptive(struct fab_request *r);

/**
 * fab_adaptive_json() - its member of status; @d: or NULL. Return: NULL: it is off at all switches.
 */
json_t *fab_adaptive_json(const struct fab *f, const struct fab_data *d);

/** fab_guid_json() - a GUID as in replies */
json_t *fab_guid_json(uint64_t guid);

/** fab_text_json() - @len bytes @text; if it is not UTF-8, bytes from 0x80 on become '?' */
json_t *fab_text_json(const char *text, size_t len);

/** fab_desc_json() - the same for a NodeDescription, which is any bytes */
json_t *fab_desc_json(const struct fab_desc *d);

/** fab_type_name() - the type of a node, as in replies */
const char *fab_type_name(const struct fab_node *n);

/** fab_state_name() - PortState, as in replies */
const char *fab_state_name(uint8_t state);

/** fab_request_tables() - command tables. Return: the reply; NULL: r->why has the error. */
json_t *fab_request_tables(struct fab_request *r);

/** fab_request_script() - command script. Return: as above, or a reply with the script's errors. */
json_t *fab_request_script(struct fab_request *r);

/** fab_request_log() - command log. Return: the reply; NULL: out of memory. */
json_t *fab_request_log(struct fab_request *r);

/** fab_is_run_member() - whether a request for virtual time may have a member @key */
bool fab_is_run_member(const char *key);

/** fab_request_run() - command run: virtual time. Return: the reply; NULL: r->why has the error. */
json_t *fab_request_run(struct fab_request *r);

#endif
