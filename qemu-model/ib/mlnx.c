/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Vendor specific attributes; see mlnx.h. */
#include "field.h"
#include "mlnx.h"
#include "rate.h"

#define VENDOR_MELLANOX	0x0002c9u
#define VENDOR_BULL	0x00119fu
#define CLASS_VERSION	1u
#define RESP_TIME	8u	/* 1 ms */

/*
 * Device IDs for which OpenSM queries MLNXExtendedPortInfo with any vendor ID: ConnectX-3 to
 * ConnectX-6, BlueField, and switches from SwitchX to Quantum.
 */
static const struct {
	uint16_t first, last;
} any_vendor[] = {
	{ 0x1003, 0x101b }, { 0xa2d2, 0xa2d2 }, { 0xc738, 0xc73b }, { 0xc839, 0xc839 },
	{ 0xcb20, 0xcb20 }, { 0xcf08, 0xcf09 }, { 0xd2f0, 0xd2f0 },
};

bool ib_mlnx_ids(uint32_t vendor_id, uint16_t device_id)
{
	if (vendor_id == VENDOR_MELLANOX || vendor_id == VENDOR_BULL)
		return true;
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(any_vendor); i++)
		if (device_id >= any_vendor[i].first && device_id <= any_vendor[i].last)
			return true;
	return false;
}

static uint8_t epi_speed(uint8_t mask)
{
	return mask & IB_SPEED_FDR10 ? IB_MLNX_FDR10 : 0;
}

void ib_mlnx_epi_get(const struct ib_port_info *pi, uint8_t d[IB_SMP_DATA_LEN])
{
	memset(d, 0, IB_SMP_DATA_LEN);
	d[IB_MLNX_EPI_SUPPORTED] = epi_speed(pi->speed_supported);
	d[IB_MLNX_EPI_ENABLED] = epi_speed(pi->speed_enabled);
	d[IB_MLNX_EPI_ACTIVE] = pi->state == IB_PS_DOWN ? 0 : epi_speed(pi->speed_active);
}

uint16_t ib_mlnx_epi_set(struct ib_port_info *pi, const uint8_t d[IB_SMP_DATA_LEN], bool *changed)
{
	const uint8_t want = d[IB_MLNX_EPI_ENABLED];

	*changed = false;
	if (!(d[IB_MLNX_EPI_CHANGE] & 1))
		return IB_MAD_OK;
	if (want & ~epi_speed(pi->speed_supported))
		return IB_MAD_BAD_FIELD;
	*changed = want != epi_speed(pi->speed_enabled);
	pi->speed_enabled &= (uint8_t)~IB_SPEED_FDR10;
	if (want)
		pi->speed_enabled |= IB_SPEED_FDR10;
	return IB_MAD_OK;
}

/* ClassPortInfo (13.4.8.1): versions and RespTimeValue; no traps, no redirection. */
static void mlnx_class_port_info(uint8_t *d)
{
	d[0] = IB_MAD_BASE_VERSION;
	d[1] = CLASS_VERSION;
	d[7] = RESP_TIME;
}

/*
 * GeneralInfo: 8 reserved bytes, then the descriptions of hardware, firmware, extended firmware
 * version and software. There is no firmware, so its version and its date are 0.
 */
#define GI_HW_REVISION	8u
#define GI_HW_DEVICE_ID	10u
#define GI_HW_UPTIME	36u
#define GI_FW_PSID	56u
#define GI_PSID_LEN	16u

static void general_info(const struct ib_mlnx_info *info, uint8_t *d)
{
	ib_put_be16(d + GI_HW_REVISION, info->revision);
	ib_put_be16(d + GI_HW_DEVICE_ID, info->device_id);
	ib_put_be32(d + GI_HW_UPTIME, info->uptime);
	for (unsigned int i = 0; i < GI_PSID_LEN && info->psid[i]; i++)
		d[GI_FW_PSID + i] = (uint8_t)info->psid[i];
}

bool ib_mlnx_process(const struct ib_mlnx_info *info, struct ib_mad *mad)
{
	struct ib_mad_hdr *h = &mad->hdr;
	const uint16_t attr = ib_be16(h->attr_id);

	if (h->method != IB_METHOD_GET && h->method != IB_METHOD_SET)
		return false;
	if (h->base_version != IB_MAD_BASE_VERSION || h->class_version != CLASS_VERSION) {
		ib_mad_make_resp(h, IB_MAD_BAD_VERSION);
		return true;
	}
	if (h->method == IB_METHOD_SET ||
	    (attr != IB_ATTR_CLASS_PORT_INFO && attr != IB_MLNX_ATTR_GENERAL_INFO))
		return ib_mad_refuse(h);
	memset(mad->data, 0, sizeof(mad->data));
	if (attr == IB_ATTR_CLASS_PORT_INFO)
		mlnx_class_port_info(mad->data);
	else
		general_info(info, mad->data);
	ib_mad_make_resp(h, IB_MAD_OK);
	return true;
}
