// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Bases of counters, which are their values at the last reset, of ports that have counted MADs
 * only; see graph.h.
 */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

#define BASE(member)	offsetof(struct ib_pma_port, base.member)
#define EXT(member)	offsetof(struct ib_pma_port, ext_base.member)

/* Counters of MADs in fab_counters() that a Set of an attribute resets. */
static const uint16_t offset[] = {
	BASE(xmit_data), BASE(rcv_data), BASE(xmit_pkts), BASE(rcv_pkts),
	BASE(xmit_data_sl), BASE(rcv_data_sl),
	EXT(xmit_data), EXT(rcv_data), EXT(xmit_pkts), EXT(rcv_pkts),
	EXT(ucast_xmit_pkts), EXT(ucast_rcv_pkts), EXT(xmit_data_sl), EXT(rcv_data_sl),
};

static_assert(IB_ARRAY_SIZE(offset) == FAB_MAD_BASES, "each has its place");

void fab_bases(const struct fab *f, uint32_t p, struct ib_pma_port *pma)
{
	memset(&pma->base, 0, sizeof(pma->base));
	memset(&pma->ext_base, 0, sizeof(pma->ext_base));
	for (unsigned int i = 0; f->bases && i < FAB_MAD_BASES; i++)
		memcpy((uint8_t *)pma + offset[i], &f->bases[p].value[i], sizeof(uint64_t));
}

bool fab_keep_bases(struct fab *f, uint32_t p, const struct ib_pma_port *pma)
{
	/* of a large array of zeros only the pages that are written need memory */
	if (!f->bases)
		f->bases = calloc(f->ports, sizeof(*f->bases));
	if (!f->bases)
		return false;
	for (unsigned int i = 0; i < FAB_MAD_BASES; i++)
		memcpy(&f->bases[p].value[i], (const uint8_t *)pma + offset[i], sizeof(uint64_t));
	return true;
}

void fab_forget_bases(struct fab *f, uint32_t p)
{
	if (f->bases)
		memset(&f->bases[p], 0, sizeof(f->bases[p]));
}
