/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A hostile guest: libFuzzer writes admin queue entries, mailboxes, page tables and rings, rings
 * doorbells, writes registers, removes memory and pulls cables, while the guest's QPs send. Two
 * ports of one engine are joined, so that a QP of the guest receives what another one sends.
 *
 * The input is a program: one byte selects an action, the bytes after it are operands.
 */
#include "guest.h"

#define MAX_OPS		400u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct guest g;
	struct host *h;
	uint8_t b;

	guest_new(&g, data, size, false);
	h = g.h;
	for (unsigned int i = 0; i < MAX_OPS && g.in.p < g.in.end; i++) {
		b = get(&g.in);
		switch (b % 16) {
		case 0:
			host_run(&h, 1, 1000ull << (b >> 4));
			break;
		case 1:
			h->hole = guest_page(&g);
			h->hole_len = (uint64_t)(b >> 4) * HOST_PAGE;
			break;
		case 2:
			h->pieces = b & 16;
			break;
		case 3:
			guest_port(&g);
			break;
		case 4:
			ohca_mmio_write(h->e, get(&g.in) & ~3u, get_n(&g.in, 8), b & 16 ? 4 : 8);
			g.wild = true;
			break;
		case 5:
			if (b >= 0xf0)
				guest_start(&g);
			break;
		case 6:
		case 7:
			guest_write(&g);
			break;
		case 8:
		case 12:
			guest_post(&g);
			break;
		case 9:
		case 10:
			guest_doorbell(&g);
			break;
		case 11:
			for (unsigned int n = 0; n < 4; n++)
				host_step(&h, 1);
			break;
		default:
			guest_command(&g);
		}
	}
	host_run(&h, 1, HOST_MS);
	guest_end(&g);
	return 0;
}
