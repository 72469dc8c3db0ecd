/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a fabric is expected to be. */
#ifndef OHCA_FABRIC_FAULT_EXPECT_H
#define OHCA_FABRIC_FAULT_EXPECT_H

#include "request.h"

/**
 * fab_request_expect() - command expect: the state of a port, one of its counters, or a number of the fabric
 *
 * With r->dry it is looked at only whether the request can be met at all.
 *
 * Return: the reply; NULL: r->why says why it is wrong, or what is there instead.
 */
json_t *fab_request_expect(struct fab_request *r);

#endif
