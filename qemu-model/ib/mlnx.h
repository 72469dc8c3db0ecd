/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Vendor specific attributes that tools and subnet managers ask of nodes with vendor and device
 * IDs of Mellanox (NVIDIA) or of a vendor with the same chips. OpenSM, libibnetdisc and vendstat
 * decide by these IDs alone, so a node that has them has to answer.
 *
 * MLNXExtendedPortInfo is an SMP attribute (sma.h) with FDR10, the speed that PortInfo does not
 * have. The class 0x0A has GeneralInfo, which vendstat -N and ibdiagnet show. The layouts are
 * those of ib_mlnx_ext_port_info_t (OpenSM) and of vendstat.c (infiniband-diags).
 */
#ifndef OHCA_IB_MLNX_H
#define OHCA_IB_MLNX_H

#include "smp.h"

/** ib_mlnx_ids() - whether a node with these IDs of its NodeInfo has the attributes */
bool ib_mlnx_ids(uint32_t vendor_id, uint16_t device_id);

/* MLNXExtendedPortInfo: offsets of its bytes, all other bytes are reserved */
#define IB_MLNX_EPI_CHANGE	3u	/* StateChangeEnable: a Set writes the next but one */
#define IB_MLNX_EPI_SUPPORTED	7u	/* LinkSpeedSupported */
#define IB_MLNX_EPI_ENABLED	11u	/* LinkSpeedEnabled */
#define IB_MLNX_EPI_ACTIVE	15u	/* LinkSpeedActive */
#define IB_MLNX_FDR10		1u	/* of the last three */

/** ib_mlnx_epi_get() - MLNXExtendedPortInfo of a port */
void ib_mlnx_epi_get(const struct ib_port_info *pi, uint8_t d[IB_SMP_DATA_LEN]);

/**
 * ib_mlnx_epi_set() - a Set of MLNXExtendedPortInfo
 * @pi: the port's PortInfo, whose mask of enabled speeds has FDR10
 * @d: what was written
 * @changed: FDR10 is enabled now and was not, or the other way round: the next training uses it
 *
 * Return: IB_MAD_OK, or IB_MAD_BAD_FIELD for a speed that is not supported, which changes nothing.
 */
uint16_t ib_mlnx_epi_set(struct ib_port_info *pi, const uint8_t d[IB_SMP_DATA_LEN], bool *changed);

/* Attributes of the class IB_CLASS_MLNX beside ClassPortInfo */
#define IB_MLNX_ATTR_GENERAL_INFO	0x0017u

/**
 * struct ib_mlnx_info - what GeneralInfo says of a node
 * @device_id: as of its NodeInfo
 * @revision: of its hardware
 * @uptime: seconds
 * @psid: name of its configuration, at most 16 characters
 */
struct ib_mlnx_info {
	uint16_t device_id;
	uint16_t revision;
	uint32_t uptime;
	const char *psid;
};

/**
 * ib_mlnx_process() - answer a MAD of the class IB_CLASS_MLNX, in place
 * @mad: the request; the response with true
 *
 * Get of ClassPortInfo and of GeneralInfo is answered. Any other Get or Set gets
 * IB_MAD_BAD_METHOD_ATTR, one with a wrong version IB_MAD_BAD_VERSION.
 *
 * Return: false: it is no request, and nothing is to be sent.
 */
bool ib_mlnx_process(const struct ib_mlnx_info *info, struct ib_mad *mad);

#endif
