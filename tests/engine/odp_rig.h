/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Regions with on-demand paging in a rig, and the driver that serves their page faults. */
#ifndef ODP_RIG_H
#define ODP_RIG_H

#include "rig.h"

#define PAGE	4096u
#define RW	(OHCA_ODP_READ | OHCA_ODP_WRITE)
#define ALL	(OHCA_ACCESS_LOCAL_WRITE | OHCA_ACCESS_REMOTE_WRITE | OHCA_ACCESS_REMOTE_READ | \
		 OHCA_ACCESS_REMOTE_ATOMIC | OHCA_ACCESS_MW_BIND)

/** struct odp - a rig whose regions have no pages; key[i] replaces r.mr[i].key */
struct odp {
	struct rig r;
	struct host_eq eq[2];
	uint32_t pinned[2];	/* the keys of rig_up() */
};

struct host *odp_host(struct odp *t, unsigned int i);
int odp_reg(struct host *h, const struct ohca_cmd_reg_mr *in, uint32_t *key);
int odp_update(struct host *h, uint32_t key, uint64_t first, uint64_t n, const uint64_t *page);
/* Adds pages [first, first + n) to the region of side @i, with @rights; 0 removes them. */
void odp_pages(struct odp *t, unsigned int i, uint64_t first, uint32_t n, uint64_t rights);
void odp_up(struct odp *t, struct rig_opt opt);
void odp_down(struct odp *t);
/* Reads the next page fault of side @i. Return: whether there was one. */
bool odp_fault(struct odp *t, unsigned int i, struct ohca_hw_fault_eqe *f);
int odp_resume(struct odp *t, unsigned int i, uint32_t id, bool ok);
/* Expects a page fault of side @i at @off of its region. */
struct ohca_hw_fault_eqe odp_want_at(struct odp *t, unsigned int i, uint64_t off, uint32_t len,
				     bool write, const char *file, int line);
void odp_none(struct odp *t);
/* Runs, and serves all page faults. Return: their number. */
unsigned int odp_serve(struct odp *t, uint64_t rights);
#define odp_want(t, i, off, len, write) odp_want_at(t, i, off, len, write, __FILE__, __LINE__)

#endif /* ODP_RIG_H */
