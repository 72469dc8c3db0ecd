/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Constants that are not configurable: sizes of tables, and limits. */
#ifndef OHCA_BASE_LIMITS_H
#define OHCA_BASE_LIMITS_H

#define OHCA_CACHE_LINE	64	/* bytes */
#define OHCA_MAX_PORTS	2
#define OHCA_FIRST_QP	4	/* lower handles are the ports' SMI and GSI QPs */
#define OHCA_MAX_EQ	64
#define OHCA_MAX_PKEYS	128
#define OHCA_MAX_GIDS	256
#define OHCA_MAX_COUNTER_SETS	4096
#define OHCA_MAX_DEAD	2	/* ended lives that are not swept; commands wait at this number */
#define OHCA_LOCAL_DMA_LKEY	0x00000100u	/* index 1, tag 0: reserved */
#define OHCA_LOG_MAX_FAULTS	7u
#define OHCA_MAX_FAULTS		(1u << OHCA_LOG_MAX_FAULTS)
#define OHCA_MAX_TAGS		1024u	/* in one SRQ */
#define OHCA_MAX_ALL_TAGS	(1u << 17)	/* in all SRQs */
#define OHCA_MCAST_BUCKETS	1024
#define OHCA_MAX_MCAST_GRP	8192
#define OHCA_MAX_MCAST_QP	256
#define OHCA_MAX_MR_PAGES	(1u << 27)

/* Limits that do not depend on the size of a table. */
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

#endif /* OHCA_BASE_LIMITS_H */
