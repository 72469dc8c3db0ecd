// SPDX-License-Identifier: GPL-2.0-or-later
/* The HCA that a front's HELLO requests; see front_priv.h. */
#include <endian.h>
#include <string.h>

#include "front_priv.h"

#define LATE_NS		20000000000ull	/* longest wait of a HELLO: beyond it the clocks differ */
#define UARS_MOST	1024u
#define DM_UNIT		(64ull << 10)
#define DM_MOST		(1ull << 30)
#define WIDTHS		0x1fu		/* 1x, 4x, 8x, 12x, 2x */
#define SPEEDS		0x07u		/* SDR, DDR, QDR */
#define SPEEDS_EXT	0x2fu		/* FDR, EDR, HDR, NDR, XDR */
#define FLAGS		(OHCA_FRONT_PAUSED | OHCA_FRONT_SMP_OFF | OHCA_FRONT_MW_2A | OHCA_FRONT_MOVE)

static bool is_within(unsigned int v, unsigned int least, unsigned int most)
{
	return v >= least && v <= most;
}

/* Whether @v is not empty, and has only bits of @all. */
static bool is_set_of(unsigned int v, unsigned int all)
{
	return v && !(v & ~all);
}

static const char *wrong_port(const struct ohca_front_hello *h)
{
	if (!is_within(h->ports, 1, FAB_HCA_PORTS))
		return "ports";
	if (h->vl_cap != 1 && h->vl_cap != 2 && h->vl_cap != 4 && h->vl_cap != 8 && h->vl_cap != 15)
		return "vl_cap";
	if (!is_within(h->mtu_cap, 1, 5))
		return "mtu_cap";
	if (!is_set_of(h->width_sup, WIDTHS))
		return "width_sup";
	if (!is_set_of(h->speed_sup, SPEEDS))
		return "speed_sup";
	if (h->speed_ext_sup & ~SPEEDS_EXT)
		return "speed_ext_sup";
	if (h->want_port + h->ports > 255u)
		return "want_port";
	return NULL;
}

static const char *wrong_size(const struct ohca_front_hello *h)
{
	const unsigned int uars = le16toh(h->uars);
	const uint64_t dm = le64toh(h->dm_size), mem = le64toh(h->mem_max);

	if (!is_within(le16toh(h->vectors), 1, OHCA_PAGE_VECTORS))
		return "vectors";
	if (!is_within(uars, 2, UARS_MOST) || uars & (uars - 1))
		return "uars";
	if (!is_within(h->log_max_qp, 3, 16))
		return "log_max_qp";
	if (!is_within(h->log_max_cq, 1, 16))
		return "log_max_cq";
	if (!is_within(h->log_max_srq, 1, 16))
		return "log_max_srq";
	if (!is_within(h->log_max_mr, 2, 20))
		return "log_max_mr";
	if (dm % DM_UNIT || dm > DM_MOST)
		return "dm_size";
	if (mem && mem < FAB_FRONT_HCA_LEAST)
		return "mem_max";
	return NULL;
}

static const char *wrong_field(const struct ohca_front_hello *h, uint64_t now_ns)
{
	const uint64_t guid = le64toh(h->node_guid);
	const uint32_t flags = le32toh(h->flags);
	const char *wrong;

	if (!guid || guid > UINT64_MAX - FAB_HCA_PORTS)
		return "node_guid";
	if (flags & ~FLAGS || (flags & OHCA_FRONT_MOVE && !(flags & OHCA_FRONT_PAUSED)))
		return "flags";
	if (now_ns - le64toh(h->clock_ns) > LATE_NS)
		return "clock_ns";
	wrong = wrong_port(h);
	return wrong ? wrong : wrong_size(h);
}

void fab_front_text(char *to, const uint8_t *from, size_t n)
{
	size_t i;

	for (i = 0; i < n && from[i]; i++)
		to[i] = ohca_front_char(from[i]);
	to[i] = 0;
}

const char *fab_front_card(const struct ohca_front_hello *h, uint64_t now_ns, uint64_t mem_max,
			   struct ohca_cfg *cfg)
{
	const char *wrong = wrong_field(h, now_ns);
	const uint32_t flags = le32toh(h->flags);
	const uint64_t mem = le64toh(h->mem_max), most = mem_max ? mem_max : OHCA_MEM_DEFAULT;

	if (wrong)
		return wrong;
	*cfg = (struct ohca_cfg){
		.node_guid = le64toh(h->node_guid),
		.sys_guid = le64toh(h->sys_guid),
		.num_ports = h->ports,
		.vl_cap = h->vl_cap,
		.mtu_cap = h->mtu_cap,
		.width_sup = h->width_sup,
		.speed_sup = h->speed_sup,
		.speed_ext_sup = h->speed_ext_sup,
		.num_vectors = le16toh(h->vectors),
		.num_uars = le16toh(h->uars),
		.log_max_qp = h->log_max_qp,
		.log_max_cq = h->log_max_cq,
		.log_max_srq = h->log_max_srq,
		.log_max_mr = h->log_max_mr,
		.dm_size = le64toh(h->dm_size),
		/* the front may ask for less than the limit, not for more */
		.mem_max = mem && mem < most ? mem : most,
		.lacks = le64toh(h->lacks),
		.mw_type_2a = flags & OHCA_FRONT_MW_2A,
		.smp_off = flags & OHCA_FRONT_SMP_OFF,
	};
	fab_front_text(cfg->node_desc, h->desc, sizeof(cfg->node_desc) - 1);
	return NULL;
}
