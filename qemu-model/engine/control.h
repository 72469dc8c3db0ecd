/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of the control half share with each other only. */
#ifndef OHCA_ENGINE_CONTROL_H
#define OHCA_ENGINE_CONTROL_H

#include "internal.h"

/* What the card says of itself. */
#define OHCA_VENDOR_OUI		0x00525400u	/* the locally administered OUI of QEMU/KVM */
#define OHCA_PART_ID		OHCA_PCI_DEVICE_ID_PF
#define OHCA_HW_REVISION	1u
#define OHCA_FW_VER		((1ull << 32) | (0ull << 16) | 0ull)

#define OHCA_ALL_FEATURES							\
	(1ull << OHCA_FEATURE_EVENT_IDX | 1ull << OHCA_FEATURE_SRQ |		\
	 1ull << OHCA_FEATURE_MCAST | 1ull << OHCA_FEATURE_FRMR |		\
	 1ull << OHCA_FEATURE_MW | 1ull << OHCA_FEATURE_CQ_RESIZE |		\
	 1ull << OHCA_FEATURE_TIMESTAMP | 1ull << OHCA_FEATURE_REREG |		\
	 1ull << OHCA_FEATURE_DM | 1ull << OHCA_FEATURE_SRQ_RESIZE |		\
	 1ull << OHCA_FEATURE_ODP | 1ull << OHCA_FEATURE_EXT_ATOMIC |		\
	 1ull << OHCA_FEATURE_MPE | 1ull << OHCA_FEATURE_APM |			\
	 1ull << OHCA_FEATURE_UD_CSUM | 1ull << OHCA_FEATURE_TSO |		\
	 1ull << OHCA_FEATURE_XRC | 1ull << OHCA_FEATURE_TM |			\
	 1ull << OHCA_FEATURE_QP_COUNTERS | 1ull << OHCA_FEATURE_QUERY_CONTEXT |	\
	 1ull << OHCA_FEATURE_CLOCK | 1ull << OHCA_FEATURE_QP_RESIZE)

/* What this card offers: device memory if there is any, and the kind of windows it has. */
static inline uint64_t ohca_features(const ohca_engine *e)
{
	return (OHCA_ALL_FEATURES & ~(e->cfg.dm_size ? 0 : 1ull << OHCA_FEATURE_DM)) |
	       (e->cfg.mw_type_2a ? 1ull << OHCA_FEATURE_MW_TYPE_2A : 0);
}

/* Limits that no table size sets; all are reported by QUERY_DEVICE. */
#define OHCA_LOG_MAX_SQ_BBS	18u
#define OHCA_LOG_MAX_RQ_WQES	14u
#define OHCA_LOG_MAX_SRQ_WQES	16u
#define OHCA_LOG_MAX_CQE	20u
#define OHCA_LOG_MIN_EQE	5u
#define OHCA_LOG_MAX_EQE	20u
#define OHCA_MAX_RD_ATOMIC	128u
#define OHCA_LOG_MAX_TM_OPS	12u
#define OHCA_MAX_FRMR_PAGES	4096u
#define OHCA_MAX_MR_SIZE	(1ull << 40)
#define OHCA_MAX_ODP_SIZE	(1ull << 57)
#define OHCA_MAX_QUEUE_PAGES	(1u << 16)
#define OHCA_MAX_TOTAL_MCAST	(OHCA_MAX_MCAST_GRP * OHCA_MAX_MCAST_QP)

/** struct ohca_cmd - a command in execution; @aqe: a private copy */
struct ohca_cmd {
	ohca_engine *e;
	struct ohca_hw_aqe aqe;
	struct ohca_hw_acqe rsp;
	uint16_t syndrome;
};

/* Refuse a field of the AQ entry: sets the syndrome, is OHCA_ADMIN_BAD_PARAM. */
#define OHCA_BAD(c, member)							\
	((c)->syndrome = (uint16_t)offsetof(struct ohca_hw_aqe, member),	\
	 OHCA_ADMIN_BAD_PARAM)
/* Refuse a field of the mailbox: the offset there plus the size of the entry. */
#define OHCA_BAD_MBOX(c, type, member)						\
	((c)->syndrome = (uint16_t)(OHCA_AQ_ENTRY_SIZE + offsetof(type, member)),	\
	 OHCA_ADMIN_BAD_PARAM)

static inline void ohca_cmd_result(struct ohca_cmd *c, uint32_t handle)
{
	c->rsp.handle.handle = ohca_to_le32(handle);
}

/*
 * Load a page list of the command; a refused list has the syndrome of member @pl. After
 * OHCA_CMD_MORE the command returns that: it is run again, from the beginning, so what it has
 * changed until here may be changed twice.
 */
#define OHCA_CMD_PAGES(c, p, member, bytes, max)				\
	ohca_cmd_pages((c), (p), &(c)->aqe.member, (bytes), (max),		\
		       offsetof(struct ohca_hw_aqe, member))
int ohca_cmd_pages(struct ohca_cmd *c, struct ohca_pages *p, const struct ohca_hw_pl *pl,
		   uint64_t bytes, uint32_t max, size_t off);
/* The same for the buffer that a queue moves to: it is e->job.buf until the command takes it. */
#define OHCA_CMD_BUF(c, member, bytes)						\
	ohca_cmd_buf((c), &(c)->aqe.member, (bytes), offsetof(struct ohca_hw_aqe, member))
int ohca_cmd_buf(struct ohca_cmd *c, const struct ohca_hw_pl *pl, uint64_t bytes, size_t off);
/* Everything is in e->job.buf: it takes the place of *@p. */
void ohca_cmd_buf_take(struct ohca_cmd *c, struct ohca_pages *p);

/* Read or write @n bytes at @off of the mailbox whose address is at byte @at of the entry:
 * OHCA_AT(member). It must be 4 KiB aligned. */
#define OHCA_AT(member)		offsetof(struct ohca_hw_aqe, member)
int ohca_cmd_mbox_read(struct ohca_cmd *c, size_t at, size_t off, void *buf, size_t n);
int ohca_cmd_mbox_write(struct ohca_cmd *c, size_t at, size_t off, const void *buf, size_t n);

/* Commands: each returns enum ohca_admin_status. */
int ohca_cmd_create_eq(struct ohca_cmd *c);
int ohca_cmd_destroy_eq(struct ohca_cmd *c);
int ohca_cmd_alloc_pd(struct ohca_cmd *c);
int ohca_cmd_dealloc_pd(struct ohca_cmd *c);
int ohca_cmd_create_cq(struct ohca_cmd *c);
int ohca_cmd_destroy_cq(struct ohca_cmd *c);
int ohca_cmd_modify_cq(struct ohca_cmd *c);
int ohca_cmd_resize_cq(struct ohca_cmd *c);
int ohca_cmd_create_srq(struct ohca_cmd *c);
int ohca_cmd_destroy_srq(struct ohca_cmd *c);
int ohca_cmd_modify_srq(struct ohca_cmd *c);
int ohca_cmd_query_srq(struct ohca_cmd *c);
int ohca_cmd_resize_srq(struct ohca_cmd *c);
int ohca_cmd_create_qp(struct ohca_cmd *c);
int ohca_cmd_destroy_qp(struct ohca_cmd *c);
int ohca_cmd_modify_qp(struct ohca_cmd *c);
int ohca_cmd_query_qp(struct ohca_cmd *c);
int ohca_cmd_resize_qp(struct ohca_cmd *c);
int ohca_cmd_reg_mr(struct ohca_cmd *c);
int ohca_cmd_dereg_mr(struct ohca_cmd *c);
int ohca_cmd_rereg_mr(struct ohca_cmd *c);
int ohca_cmd_attach_mcast(struct ohca_cmd *c);
int ohca_cmd_detach_mcast(struct ohca_cmd *c);
int ohca_cmd_alloc_xrcd(struct ohca_cmd *c);
int ohca_cmd_dealloc_xrcd(struct ohca_cmd *c);
int ohca_cmd_alloc_dm(struct ohca_cmd *c);
int ohca_cmd_free_dm(struct ohca_cmd *c);
int ohca_cmd_query_device(struct ohca_cmd *c);
int ohca_cmd_modify_device(struct ohca_cmd *c);
int ohca_cmd_modify_port(struct ohca_cmd *c);
int ohca_cmd_mad_ifc(struct ohca_cmd *c);
int ohca_cmd_query_counters(struct ohca_cmd *c);
int ohca_cmd_update_mr_pages(struct ohca_cmd *c);
int ohca_cmd_page_fault_resume(struct ohca_cmd *c);
int ohca_cmd_query_context(struct ohca_cmd *c);
int ohca_cmd_alloc_counters(struct ohca_cmd *c);
int ohca_cmd_free_counters(struct ohca_cmd *c);
int ohca_cmd_query_counter_set(struct ohca_cmd *c);
int ohca_cmd_bind_counters(struct ohca_cmd *c);

/* engine.c: numbers */
int ohca_ids_init(struct ohca_ids *ids, uint32_t max, uint32_t first);
void ohca_ids_free(struct ohca_ids *ids);
/* A free number, or OHCA_NO_ID. Those below @first never come back once taken. */
#define OHCA_NO_ID	UINT32_MAX
uint32_t ohca_ids_get(struct ohca_ids *ids);
void ohca_ids_put(struct ohca_ids *ids, uint32_t id);

/* tm.c: the tag list of an SRQ whose queue is there. OHCA_ADMIN_OK or _NO_RESOURCE */
int ohca_tm_create(ohca_engine *e, struct ohca_srq *srq, uint32_t num_tags, uint8_t log_ops);
void ohca_tm_free(ohca_engine *e, struct ohca_srq *srq);
/* copy its list operations to where they are in @dst with 1 << @log_size WQEs; 0 or -1 */
int ohca_tm_copy(ohca_engine *e, const struct ohca_srq *srq, const struct ohca_pages *dst,
		 uint8_t log_size);
/* execute the list operations that are posted */
void ohca_tm_run(ohca_engine *e, struct ohca_srq *srq);
/* doorbell.c: as if the SRQ had been rung */
void ohca_db_srq_again(ohca_engine *e, uint32_t srqn);

/* Objects by number, NULL if there is none. */
struct ohca_pd *ohca_pd_get(ohca_engine *e, uint32_t pdn);
struct ohca_cq *ohca_cq_get(ohca_engine *e, uint32_t cqn);
struct ohca_srq *ohca_srq_get(ohca_engine *e, uint32_t srqn);
struct ohca_qp *ohca_qp_get(ohca_engine *e, uint32_t handle);
struct ohca_mr *ohca_mr_get(ohca_engine *e, uint32_t key);
struct ohca_xrcd *ohca_xrcd_get(ohca_engine *e, uint32_t xrcdn);
/* for commands: of an FRMR or a window, whose tag work requests change, the index decides */
struct ohca_mr *ohca_mr_by_index(ohca_engine *e, uint32_t key);
static inline struct ohca_eq *ohca_eq_get(ohca_engine *e, uint32_t eqn)
{
	return eqn < OHCA_MAX_EQ ? e->eq[eqn] : NULL;
}

/* What reset does; nothing refers to the object. */
void ohca_eq_free(ohca_engine *e, struct ohca_eq *eq);
void ohca_cq_free(ohca_engine *e, struct ohca_cq *cq);
void ohca_srq_free(ohca_engine *e, struct ohca_srq *srq);
/* cq.c: give back the numbers of destroyed CQs whose EQE the driver has taken, or @all */
void ohca_cqs_gone(ohca_engine *e, struct ohca_eq *eq, bool all);
void ohca_qp_free(ohca_engine *e, struct ohca_qp *qp);
void ohca_mr_free(ohca_engine *e, struct ohca_mr *mr);
void ohca_pd_free(ohca_engine *e, struct ohca_pd *pd);
void ohca_xrcd_free(ohca_engine *e, struct ohca_xrcd *xrcd);
void ohca_counter_set_free(ohca_engine *e, struct ohca_counter_set *s);
/* counters.c: the QP counts in no set any more */
void ohca_counters_unbind(struct ohca_qp *qp);
/* dm.c */
int ohca_dm_init(ohca_engine *e);
void ohca_dm_exit(ohca_engine *e);
struct ohca_dm *ohca_dm_get(ohca_engine *e, uint32_t handle);
void ohca_dm_free_all(ohca_engine *e);
/* Address of [off, off + n) of @dm, or NULL: not all of it there, or the device is dead. */
void *ohca_dm_ptr(ohca_engine *e, const struct ohca_dm *dm, uint64_t off, uint64_t n);
void ohca_dm_dirty(ohca_engine *e, const struct ohca_dm *dm, uint64_t off, size_t n);
/* mr.c: a QP goes, and what is bound to it becomes invalid (IBTA vol 1, 10.6.7.2.3) */
void ohca_mw_forget(struct ohca_qp *qp);
void ohca_mcast_free_all(ohca_engine *e);

/* odp.c: a table without a page for @bytes in pages of 1 << @shift. enum ohca_admin_status */
int ohca_odp_create(ohca_engine *e, struct ohca_odp **out, uint64_t bytes, uint8_t shift);
void ohca_odp_free(ohca_engine *e, struct ohca_odp *o);
/* Take all pages back, a step of it. Return: none is left */
bool ohca_odp_clear(ohca_engine *e, struct ohca_odp *o);
/* Copy between @buf and the pages from @off on, which is inside; as ohca_mr_read() and
 * _write(). With @write @buf is only read. */
int ohca_odp_copy(ohca_engine *e, const struct ohca_mr *mr, uint64_t off, uint8_t *buf, size_t n,
		  bool write);
/* Bus address of the 8 bytes at @off, a multiple of 8, for writing; 0 or OHCA_MR_FAULT */
int ohca_odp_addr(ohca_engine *e, const struct ohca_mr *mr, uint64_t off, uint64_t *addr);

/* fault.c: all slots are free, and nobody waits */
void ohca_fault_reset(ohca_engine *e);

/* admin.c: both rings start again at index 0 */
void ohca_aq_reset(ohca_engine *e);

/* xrc.c: no target uses @srq any more */
void ohca_xrc_srq_gone(ohca_engine *e, const struct ohca_srq *srq);

/* srq.c: its doorbell was rung, so that it need not be rung again */
void ohca_srq_kick(ohca_engine *e, struct ohca_srq *srq);

/* cq.c */
/* A request to arm with the right SN. @any: any entry, else solicited ones; @ci: 24 bits */
void ohca_cq_arm(ohca_engine *e, struct ohca_cq *cq, bool any, uint32_t ci);
void ohca_cq_moderate(ohca_engine *e, uint64_t now);
uint64_t ohca_cq_deadline(const ohca_engine *e);
/* Write the EQE that @cq has due, if the one before has been taken and there is room. */
bool ohca_cq_deliver(ohca_engine *e, struct ohca_cq *cq);

/* eq.c */
bool ohca_eq_room(const struct ohca_eq *eq);
/* Append @eqe, 32 bytes, with its phase set here; as ohca_eq_push(). */
int ohca_eq_put(ohca_engine *e, struct ohca_eq *eq, void *eqe);
/* Append; the caller has looked for room. -1: the EQ is no memory, the device is FATAL. */
int ohca_eq_push(ohca_engine *e, struct ohca_eq *eq, uint8_t type, uint32_t handle,
		 unsigned int port, uint32_t count);
void ohca_eq_doorbell(ohca_engine *e, struct ohca_eq *eq, uint32_t ci, bool arm);

/* doorbell.c: which page owns what may be rung */
enum ohca_db_kind { OHCA_DB_QP, OHCA_DB_SRQ, OHCA_DB_CQ, OHCA_DB_NUM };
int ohca_db_init(ohca_engine *e);
void ohca_db_free(ohca_engine *e);
void ohca_db_own(ohca_engine *e, enum ohca_db_kind kind, uint32_t n, uint32_t uar);
void ohca_db_disown(ohca_engine *e, enum ohca_db_kind kind, uint32_t n);
void ohca_db_eq_clear(ohca_engine *e, uint32_t eqn);
void ohca_db_clear(ohca_engine *e);
bool ohca_db_pending(const ohca_engine *e);

/* apm.c: what MODIFY_QP does with the alternate path, after it has checked it */
struct ohca_alt_path *ohca_alt_alloc(ohca_engine *e);	/* for qp->alt; NULL: memory */
void ohca_mig_load(struct ohca_qp *qp, const struct ohca_hw_qp_attr *a);
void ohca_mig_rearm(struct ohca_qp *qp);
/* MIGRATED, without alternate path */
void ohca_mig_forget(ohca_engine *e, struct ohca_qp *qp);

/* mad.c */
int ohca_mad_init(ohca_engine *e);
void ohca_mad_free(ohca_engine *e);
void ohca_mad_reset(ohca_engine *e);	/* agents and ports as after power-on */
void ohca_mad_enable(ohca_engine *e);	/* ports begin to train */

#endif /* OHCA_ENGINE_CONTROL_H */
