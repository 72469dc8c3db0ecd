/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Values in a CQE: status, opcode and flags of a work completion. */
#ifndef OHCA_OBJECT_WC_H
#define OHCA_OBJECT_WC_H

/* values of enum ibv_wc_status */
enum ohca_wc_status {
	OHCA_WC_SUCCESS		= 0,
	OHCA_WC_LOC_LEN		= 1,
	OHCA_WC_LOC_QP_OP	= 2,
	OHCA_WC_LOC_PROT	= 4,
	OHCA_WC_WR_FLUSH	= 5,
	OHCA_WC_MW_BIND		= 6,
	OHCA_WC_BAD_RESP	= 7,
	OHCA_WC_LOC_ACCESS	= 8,
	OHCA_WC_REM_INV_REQ	= 9,
	OHCA_WC_REM_ACCESS	= 10,
	OHCA_WC_REM_OP		= 11,
	OHCA_WC_RETRY_EXC	= 12,
	OHCA_WC_RNR_RETRY_EXC	= 13,
	OHCA_WC_REM_ABORT	= 16,
	OHCA_WC_TM_ERR		= 22,
	OHCA_WC_TM_RNDV_INCOMPLETE = 23,
};

/* values of enum ibv_wc_opcode; only the kernel has REG_MR */
enum ohca_wc_opcode {
	OHCA_WCO_SEND		= 0,
	OHCA_WCO_RDMA_WRITE	= 1,
	OHCA_WCO_RDMA_READ	= 2,
	OHCA_WCO_CMP_SWAP	= 3,
	OHCA_WCO_FETCH_ADD	= 4,
	OHCA_WCO_BIND_MW	= 5,
	OHCA_WCO_LOCAL_INV	= 6,
	OHCA_WCO_TSO		= 7,
	OHCA_WCO_FLUSH		= 8,
	OHCA_WCO_ATOMIC_WRITE	= 9,
	OHCA_WCO_REG_MR		= 10,
	OHCA_WCO_MASKED_CMP_SWAP = 11,	/* only the kernel has this and the next */
	OHCA_WCO_MASKED_FETCH_ADD = 12,
	OHCA_WCO_RECV		= 128,
	OHCA_WCO_RECV_IMM	= 129,
	OHCA_WCO_TM_ADD		= 130,
	OHCA_WCO_TM_DEL		= 131,
	OHCA_WCO_TM_SYNC	= 132,
	OHCA_WCO_TM_RECV	= 133,
	OHCA_WCO_TM_NO_TAG	= 134,
};

#define OHCA_WCF_GRH		1u
#define OHCA_WCF_WITH_IMM	2u
#define OHCA_WCF_IP_CSUM_OK	4u
#define OHCA_WCF_WITH_INV	8u
#define OHCA_WCF_TM_SYNC_REQ	16u
#define OHCA_WCF_TM_MATCH	32u
#define OHCA_WCF_TM_DATA_VALID	64u

#endif /* OHCA_OBJECT_WC_H */
