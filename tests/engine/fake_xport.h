/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A transport that only records calls, for tests of the objects alone. */
#ifndef OHCA_TEST_FAKE_XPORT_H
#define OHCA_TEST_FAKE_XPORT_H

#include <stdint.h>

#include "ohca_hw.h"

/** struct fake_xport - the calls of the objects since the test cleared it */
struct fake_xport {
	unsigned int created, destroyed, states, kicks_sq, kicks_rq, ports, resets;
	unsigned int mads, last_words, resumes, srqs_gone;
	uint32_t last_handle;
	uint8_t last_old;
	uint32_t last_mask;
	struct ohca_hw_av mad_av;
	unsigned int mad_qp;
	uint16_t mad_pkey, mad_slid;
	uint8_t mad[256];
	int fail_create, fail_state;	/* results to return */
	void (*on_kick_sq)(uint32_t handle);
};
extern struct fake_xport fake;

#endif
