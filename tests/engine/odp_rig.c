/* SPDX-License-Identifier: GPL-2.0-or-later */
/* See odp_rig.h. */
#include "engine/base/limits.h"
#include "odp_rig.h"

struct host *odp_host(struct odp *t, unsigned int i)
{
	return t->r.h[i];
}

int odp_reg(struct host *h, const struct ohca_cmd_reg_mr *in, uint32_t *key)
{
	struct ohca_hw_aqe c = host_aqe(in, sizeof(*in));
	struct ohca_hw_acqe rsp;
	int rc = host_cmd(h, OHCA_CMD_REG_MR, &c, &rsp);

	if (!rc)
		*key = rsp.handle.handle;
	return rc;
}

int odp_update(struct host *h, uint32_t key, uint64_t first, uint64_t n, const uint64_t *page)
{
	struct ohca_hw_aqe c = HOST_AQE(update_mr, .first = first, .npages = n, .key = key);

	if (page) {
		c.update_mr.addr = h->mbox[0];
		memcpy(host_ptr(h, h->mbox[0]), page, n * 8);
	} else {
		c.update_mr.flags = OHCA_UPDATE_MR_INVALIDATE;
	}
	return host_cmd(h, OHCA_CMD_UPDATE_MR_PAGES, &c, NULL);
}

void odp_pages(struct odp *t, unsigned int i, uint64_t first, uint32_t n, uint64_t rights)
{
	struct host_mr *mr = &t->r.mr[i];
	uint64_t page[OHCA_ODP_BATCH];

	if (!rights) {
		assert_int_equal(odp_update(odp_host(t, i), mr->key, first, n, NULL), 0);
		return;
	}
	for (uint32_t k = 0; k < n; k++)
		page[k] = mr->buf.page[first + k] | rights;
	assert_int_equal(odp_update(odp_host(t, i), mr->key, first, n, page), 0);
}

void odp_up(struct odp *t, struct rig_opt opt)
{
	rig_up(&t->r, opt);
	for (unsigned int i = 0; i < 2; i++) {
		struct host_mr *mr = &t->r.mr[i];
		struct ohca_cmd_reg_mr in = {
			.pl.page_shift = 12,
			.iova = mr->iova,
			.length = mr->len,
			.pdn = odp_host(t, i)->pdn,
			.access = ALL,
			.type = OHCA_MR_ODP,
		};

		if (i < t->r.nh) {
			host_eq_create(odp_host(t, i), &t->eq[i], OHCA_LOG_MAX_FAULTS,
				       OHCA_EQ_FAULT, 2);
			host_eq_db(odp_host(t, i), &t->eq[i], true);
		}
		t->pinned[i] = mr->key;
		assert_int_equal(odp_reg(odp_host(t, i), &in, &mr->key), 0);
	}
}

void odp_down(struct odp *t)
{
	rig_down(&t->r);
}

bool odp_fault(struct odp *t, unsigned int i, struct ohca_hw_fault_eqe *f)
{
	struct ohca_hw_eqe e;

	if (!host_eq_poll(odp_host(t, i), &t->eq[i], &e))
		return false;
	host_eq_db(odp_host(t, i), &t->eq[i], true);
	assert_int_equal(e.type, OHCA_EVENT_PAGE_FAULT);
	memcpy(f, &e, sizeof(*f));
	return true;
}

int odp_resume(struct odp *t, unsigned int i, uint32_t id, bool ok)
{
	struct ohca_hw_aqe c = HOST_AQE(fault_resume, .id = id,
					.flags = ok ? 0 : OHCA_FAULT_FAILED);

	return host_cmd(odp_host(t, i), OHCA_CMD_PAGE_FAULT_RESUME, &c, NULL);
}

struct ohca_hw_fault_eqe odp_want_at(struct odp *t, unsigned int i, uint64_t off, uint32_t len,
				     bool write, const char *file, int line)
{
	struct ohca_hw_fault_eqe f;

	if (!odp_fault(t, i, &f)) {
		print_error("no fault at %llu\n", (unsigned long long)off);
		_fail(file, line);
	}
	if (f.key != t->r.mr[i].key || f.addr != t->r.mr[i].iova + off || f.length != len ||
	    f.flags != (write ? OHCA_FAULT_WRITE : 0)) {
		print_error("fault at %lld length %u flags %u, not at %llu length %u write %u\n",
			    (long long)(f.addr - t->r.mr[i].iova), f.length, f.flags,
			    (unsigned long long)off, len, write);
		_fail(file, line);
	}
	return f;
}

void odp_none(struct odp *t)
{
	struct ohca_hw_fault_eqe f;

	for (unsigned int i = 0; i < t->r.nh; i++)
		assert_false(odp_fault(t, i, &f));
}

unsigned int odp_serve(struct odp *t, uint64_t rights)
{
	struct ohca_hw_fault_eqe f;
	unsigned int n = 0, idle = 0;

	while (idle < 3) {
		idle++;
		rig_time(&t->r, 2);
		for (unsigned int i = 0; i < t->r.nh; i++)
			while (odp_fault(t, i, &f)) {
				unsigned int side = f.key == t->r.mr[i].key ? i : 1;
				uint64_t first = (f.addr - t->r.mr[side].iova) / PAGE;

				odp_pages(t, side, first, 1, rights);
				assert_int_equal(odp_resume(t, i, f.id, true), 0);
				idle = 0;
				assert_in_range(n++, 0, 100000);
			}
	}
	return n;
}
