/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads and writes classic pcap files of ERF records (link type 197). */
#ifndef TESTS_IB_PCAP_H
#define TESTS_IB_PCAP_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define PCAP_MAGIC	0xa1b2c3d4u
#define LINKTYPE_ERF	197u
#define ERF_INFINIBAND	21u
#define ERF_HDR_LEN	16u

/* Opens @path and checks its format. Return: NULL if it is not there or has another format. */
static inline FILE *pcap_open(const char *path)
{
	uint32_t h[6];
	FILE *f = fopen(path, "rb");

	if (f && (fread(h, sizeof(h), 1, f) != 1 || h[0] != PCAP_MAGIC || h[5] != LINKTYPE_ERF)) {
		fclose(f);
		f = NULL;
	}
	return f;
}

/*
 * Reads the next InfiniBand frame, LRH to VCRC. Return: its length, 0 at the end, -1 if malformed.
 */
static inline int pcap_next(FILE *f, uint8_t *buf, size_t room)
{
	uint32_t h[4];
	uint8_t erf[ERF_HDR_LEN];
	unsigned int wlen;

	if (fread(h, sizeof(h), 1, f) != 1)
		return 0;
	if (h[2] < ERF_HDR_LEN || h[2] - ERF_HDR_LEN > room)
		return -1;
	if (fread(erf, sizeof(erf), 1, f) != 1 || (erf[8] & 0x7f) != ERF_INFINIBAND)
		return -1;
	if (fread(buf, h[2] - ERF_HDR_LEN, 1, f) != 1)
		return -1;
	wlen = (unsigned int)(erf[14] << 8 | erf[15]);
	return wlen <= h[2] - ERF_HDR_LEN ? (int)wlen : -1;
}

static inline FILE *pcap_create(const char *path)
{
	const uint32_t h[6] = { PCAP_MAGIC, 2 | 4 << 16, 0, 0, 65535, LINKTYPE_ERF };
	FILE *f = fopen(path, "wb");

	if (f && fwrite(h, sizeof(h), 1, f) != 1) {
		fclose(f);
		f = NULL;
	}
	return f;
}

static inline int pcap_write(FILE *f, const uint8_t *frame, size_t len)
{
	uint32_t h[4] = { 0, 0, (uint32_t)(len + ERF_HDR_LEN), (uint32_t)(len + ERF_HDR_LEN) };
	uint8_t erf[ERF_HDR_LEN] = { 0 };

	erf[8] = ERF_INFINIBAND;
	erf[9] = 0x04;			/* varying record length */
	erf[10] = (uint8_t)((len + ERF_HDR_LEN) >> 8);
	erf[11] = (uint8_t)(len + ERF_HDR_LEN);
	erf[14] = (uint8_t)(len >> 8);
	erf[15] = (uint8_t)len;
	return fwrite(h, sizeof(h), 1, f) == 1 && fwrite(erf, sizeof(erf), 1, f) == 1 &&
	       fwrite(frame, len, 1, f) == 1 ? 0 : -1;
}

#endif
