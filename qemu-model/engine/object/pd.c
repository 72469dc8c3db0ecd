/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Protection domains. */
#include "engine/base/cmd.h"
#include "engine/base/ids.h"
#include "engine/base/le.h"
#include "engine/base/mem.h"
#include "engine/base/state.h"
#include "engine/object/pd.h"
#include "ohca_hw.h"

struct ohca_pd *ohca_pd_get(ohca_engine *e, uint32_t pdn)
{
	return pdn < e->max_pd ? e->pd[pdn] : NULL;
}

int ohca_cmd_alloc_pd(struct ohca_cmd *c)
{
	ohca_engine *e = c->e;
	uint32_t uar = ohca_le32(c->aqe.alloc_pd.uar);
	struct ohca_pd *pd;

	if (uar >= e->cfg.num_uars)
		return OHCA_BAD(c, alloc_pd.uar);
	pd = ohca_mem_get(e, sizeof(*pd));
	if (!pd)
		return OHCA_ADMIN_NO_RESOURCE;
	pd->pdn = ohca_ids_get(&e->pd_ids);
	if (pd->pdn == OHCA_NO_ID) {
		ohca_mem_put(e, pd, sizeof(*pd));
		return OHCA_ADMIN_NO_RESOURCE;
	}
	pd->uar = uar;
	e->pd[pd->pdn] = pd;
	ohca_cmd_result(c, pd->pdn);
	return OHCA_ADMIN_OK;
}

void ohca_pd_free(ohca_engine *e, struct ohca_pd *pd)
{
	e->pd[pd->pdn] = NULL;
	ohca_ids_put(&e->pd_ids, pd->pdn);
	ohca_mem_put(e, pd, sizeof(*pd));
}

int ohca_cmd_dealloc_pd(struct ohca_cmd *c)
{
	struct ohca_pd *pd = ohca_pd_get(c->e, ohca_le32(c->aqe.handle.handle));

	if (!pd)
		return OHCA_ADMIN_BAD_HANDLE;
	if (pd->refs)
		return OHCA_ADMIN_BUSY;
	ohca_pd_free(c->e, pd);
	return OHCA_ADMIN_OK;
}
