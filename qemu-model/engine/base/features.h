/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The identity and features of the device, and the features that the driver has acknowledged. */
#ifndef OHCA_BASE_FEATURES_H
#define OHCA_BASE_FEATURES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/base/le.h"
#include "engine/base/state.h"
#include "ohca_hw.h"

/* The identity of the device. */
#define OHCA_VENDOR_OUI		0x00525400u	/* locally administered OUI of QEMU/KVM */
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
	 1ull << OHCA_FEATURE_CLOCK | 1ull << OHCA_FEATURE_QP_RESIZE |		\
	 1ull << OHCA_FEATURE_BIG_ENDIAN)

/* The features that this device offers, bits of enum ohca_feature; they depend on its cfg. */
static inline uint64_t ohca_features(const ohca_engine *e)
{
	return ((OHCA_ALL_FEATURES & ~(e->cfg.dm_size ? 0 : 1ull << OHCA_FEATURE_DM)) |
		(e->cfg.mw_type_2a ? 1ull << OHCA_FEATURE_MW_TYPE_2A : 0)) & ~e->cfg.lacks;
}

/* Whether the driver has acknowledged a feature */
static inline bool ohca_feature(const ohca_engine *e, enum ohca_feature f)
{
	return atomic_load_explicit(&e->features_ack, memory_order_relaxed) >> f & 1;
}

/*
 * Convert an operand or result of an atomic operation from CPU order to the byte order of guest
 * memory, or back: big-endian if the driver acknowledged OHCA_FEATURE_BIG_ENDIAN, else
 * little-endian.
 */
static inline uint64_t ohca_host64(const ohca_engine *e, uint64_t v)
{
	__le64 le = ohca_to_le64(v);

	return ohca_feature(e, OHCA_FEATURE_BIG_ENDIAN) ? __builtin_bswap64((IB_FORCE uint64_t)le) :
							  (IB_FORCE uint64_t)le;
}

#endif /* OHCA_BASE_FEATURES_H */
