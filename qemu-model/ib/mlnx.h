/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Vendor specific attributes of nodes with vendor and device IDs of Mellanox (NVIDIA), or of a
 * vendor that uses the same chips. OpenSM, libibnetdisc and vendstat query these attributes if the
 * IDs match, so a node with such IDs has to answer.
 *
 * MLNXExtendedPortInfo is an SMP attribute (sma.h) for FDR10, a speed that PortInfo does not
 * define. GeneralInfo is an attribute of class 0x0A, which vendstat -N and ibdiagnet show. The
 * layouts are those of ib_mlnx_ext_port_info_t (OpenSM) and of vendstat.c (infiniband-diags).
 */
#ifndef OHCA_IB_MLNX_H
#define OHCA_IB_MLNX_H

#include "smp.h"

/** ib_mlnx_ids() - whether a node with these IDs of its NodeInfo has the attributes */
bool ib_mlnx_ids(uint32_t vendor_id, uint16_t device_id);

/* MLNXExtendedPortInfo: offsets of its fields; all other bytes are reserved */
#define IB_MLNX_EPI_CHANGE	3u	/* StateChangeEnable: a Set changes LinkSpeedEnabled */
#define IB_MLNX_EPI_SUPPORTED	7u	/* LinkSpeedSupported */
#define IB_MLNX_EPI_ENABLED	11u	/* LinkSpeedEnabled */
#define IB_MLNX_EPI_ACTIVE	15u	/* LinkSpeedActive */
#define IB_MLNX_FDR10		1u	/* bit of the last three */

/** ib_mlnx_epi_get() - write MLNXExtendedPortInfo of a port to @d */
void ib_mlnx_epi_get(const struct ib_port_info *pi, uint8_t d[IB_SMP_DATA_LEN]);

/**
 * ib_mlnx_epi_set() - apply a Set of MLNXExtendedPortInfo
 * @pi: PortInfo of the port; its mask of enabled speeds includes FDR10
 * @d: the attribute of the Set
 * @changed: result: FDR10 was enabled or disabled; the next training uses it
 *
 * Return: IB_MAD_OK, or IB_MAD_BAD_FIELD if the speed is not supported; then nothing changes.
 */
uint16_t ib_mlnx_epi_set(struct ib_port_info *pi, const uint8_t d[IB_SMP_DATA_LEN], bool *changed);

/* The attribute of class IB_CLASS_MLNX beside ClassPortInfo */
#define IB_MLNX_ATTR_GENERAL_INFO	0x0017u

/**
 * struct ib_mlnx_info - contents of GeneralInfo
 * @device_id: DeviceID of NodeInfo
 * @revision: revision of the hardware
 * @uptime: seconds since power-on
 * @psid: name of the node's configuration, at most 16 characters
 */
struct ib_mlnx_info {
	uint16_t device_id;
	uint16_t revision;
	uint32_t uptime;
	const char *psid;
};

/**
 * ib_mlnx_process() - answer a MAD of class IB_CLASS_MLNX, in place
 * @info: contents of GeneralInfo
 * @mad: the request; if true is returned, the response
 *
 * It supports Get of ClassPortInfo and of GeneralInfo. The status of any other Get or Set is
 * IB_MAD_BAD_METHOD_ATTR, that of a wrong version IB_MAD_BAD_VERSION.
 *
 * Return: true: send the response; false: it is no request, send nothing.
 */
bool ib_mlnx_process(const struct ib_mlnx_info *info, struct ib_mad *mad);

#endif
