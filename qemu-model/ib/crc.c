/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ICRC by zlib's CRC-32, VCRC by eight tables; see crc.h. */
#include <zlib.h>

#include "crc.h"
#include "packet.h"
#include "vcrc_table.h"

int ib_icrc_iov(const struct iovec *iov, unsigned int n, uint32_t *icrc)
{
	uint8_t m[IB_LRH_LEN + IB_GRH_LEN + IB_BTH_LEN];
	const uint8_t *p;
	uint8_t lnh;
	size_t len, hdr = IB_LRH_LEN;
	uLong crc;

	if (n == 0 || iov[0].iov_len < IB_LRH_LEN)
		return -1;
	p = iov[0].iov_base;
	len = iov[0].iov_len;
	lnh = p[1] & 3;
	if (lnh != IB_LNH_IBA_LOCAL && lnh != IB_LNH_IBA_GLOBAL)
		return -1;
	if (lnh == IB_LNH_IBA_GLOBAL)
		hdr += IB_GRH_LEN;
	if (len < hdr + IB_BTH_LEN)
		return -1;

	memcpy(m, p, hdr + IB_BTH_LEN);
	if (lnh == IB_LNH_IBA_LOCAL) {
		m[0] |= 0xf0;			/* LRH.VL */
	} else {
		memset(m, 0xff, IB_LRH_LEN);	/* routers replace the LRH */
		m[8] |= 0x0f;			/* GRH traffic class, flow label */
		m[9] = m[10] = m[11] = 0xff;
		m[15] = 0xff;			/* hop limit */
	}
	m[hdr + 4] = 0xff;			/* BTH FECN, BECN, reserved */

	crc = crc32(0, m, (uInt)(hdr + IB_BTH_LEN));
	crc = crc32(crc, p + hdr + IB_BTH_LEN, (uInt)(len - hdr - IB_BTH_LEN));
	for (unsigned int i = 1; i < n; i++)
		if (iov[i].iov_len)
			crc = crc32(crc, iov[i].iov_base, (uInt)iov[i].iov_len);
	*icrc = (uint32_t)crc;
	return 0;
}

int ib_icrc(const uint8_t *pkt, size_t len, uint32_t *icrc)
{
	struct iovec iov = { .iov_base = (void *)(uintptr_t)pkt, .iov_len = len };

	return ib_icrc_iov(&iov, 1, icrc);
}

bool ib_icrc_ok(const uint8_t *pkt, size_t len)
{
	uint32_t crc;

	if (len < IB_ICRC_LEN || ib_icrc(pkt, len - IB_ICRC_LEN, &crc) < 0)
		return false;
	return crc == ib_icrc_get(pkt + len - IB_ICRC_LEN);
}

uint16_t ib_vcrc_update(uint16_t crc, const void *data, size_t len)
{
	const uint8_t *p = data;

	for (; len >= 8; len -= 8, p += 8)
		crc = ib_vcrc_table[7][(p[0] ^ crc) & 0xff] ^
		      ib_vcrc_table[6][(p[1] ^ (crc >> 8)) & 0xff] ^
		      ib_vcrc_table[5][p[2]] ^ ib_vcrc_table[4][p[3]] ^
		      ib_vcrc_table[3][p[4]] ^ ib_vcrc_table[2][p[5]] ^
		      ib_vcrc_table[1][p[6]] ^ ib_vcrc_table[0][p[7]];
	for (; len; len--)
		crc = (uint16_t)(crc >> 8 ^ ib_vcrc_table[0][(crc ^ *p++) & 0xff]);
	return crc;
}
