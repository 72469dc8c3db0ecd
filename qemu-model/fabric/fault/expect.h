/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Expectations of a fabric. */
#ifndef OHCA_FABRIC_FAULT_EXPECT_H
#define OHCA_FABRIC_FAULT_EXPECT_H

#include "request.h"

/**
 * fab_request_expect() - command expect: the state of a port, one of its counters, or a number of
 *	the fabric
 *
 * With r->dry it only checks whether the expectation can be met at all.
 *
 * Return: the reply; NULL: r->why has the error, or the actual value.
 */
json_t *fab_request_expect(struct fab_request *r);

#endif
