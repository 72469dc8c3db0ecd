// SPDX-License-Identifier: GPL-2.0-or-later
/* HMAC-SHA256; see hmac.h. */
#include "hmac.h"

#include <string.h>

#define BLOCK	64u

/* FIPS 180-4, 4.2.2 */
static const uint32_t k256[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
	0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
	0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
	0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
	0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
	0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
	0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
	0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t ror(uint32_t v, unsigned int n)
{
	return v >> n | v << (32 - n);
}

static void add_block(uint32_t h[8], const uint8_t *p)
{
	uint32_t w[64], v[8];

	for (unsigned int i = 0; i < 16; i++)
		w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 |
		       (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
	for (unsigned int i = 16; i < 64; i++)
		w[i] = w[i - 16] + w[i - 7] +
		       (ror(w[i - 15], 7) ^ ror(w[i - 15], 18) ^ w[i - 15] >> 3) +
		       (ror(w[i - 2], 17) ^ ror(w[i - 2], 19) ^ w[i - 2] >> 10);
	memcpy(v, h, sizeof(v));
	for (unsigned int i = 0; i < 64; i++) {
		const uint32_t t1 = v[7] + (ror(v[4], 6) ^ ror(v[4], 11) ^ ror(v[4], 25)) +
				    ((v[4] & v[5]) ^ (~v[4] & v[6])) + k256[i] + w[i];
		const uint32_t t2 = (ror(v[0], 2) ^ ror(v[0], 13) ^ ror(v[0], 22)) +
				    ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));

		memmove(v + 1, v, 7 * sizeof(v[0]));
		v[4] += t1;
		v[0] = t1 + t2;
	}
	for (unsigned int i = 0; i < 8; i++)
		h[i] += v[i];
}

/* Compute the digest of @first, a block or NULL, followed by @len bytes. */
static void digest_of(const uint8_t *first, const void *data, size_t len,
		      uint8_t digest[LINK_SHA256_LEN])
{
	uint32_t h[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
			  0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };
	const uint64_t bits = ((uint64_t)len + (first ? BLOCK : 0)) * 8;
	const uint8_t *p = data;
	uint8_t last[2 * BLOCK] = { 0 };
	size_t n;

	if (first)
		add_block(h, first);
	for (; len >= BLOCK; len -= BLOCK, p += BLOCK)
		add_block(h, p);
	if (len)
		memcpy(last, p, len);
	last[len] = 0x80;
	n = len + 9 > BLOCK ? 2 * BLOCK : BLOCK;
	for (unsigned int i = 0; i < 8; i++)
		last[n - 1 - i] = (uint8_t)(bits >> (8 * i));
	add_block(h, last);
	if (n > BLOCK)
		add_block(h, last + BLOCK);
	for (unsigned int i = 0; i < LINK_SHA256_LEN; i++)
		digest[i] = (uint8_t)(h[i / 4] >> (24 - 8 * (i % 4)));
}

void link_sha256(const void *data, size_t len, uint8_t digest[LINK_SHA256_LEN])
{
	digest_of(NULL, data, len, digest);
}

void link_hmac(const void *key, size_t key_len, const void *data, size_t len,
	       uint8_t code[LINK_SHA256_LEN])
{
	uint8_t pad[BLOCK] = { 0 }, inner[LINK_SHA256_LEN];

	if (key_len > BLOCK)
		link_sha256(key, key_len, pad);
	else
		memcpy(pad, key, key_len);
	for (unsigned int i = 0; i < BLOCK; i++)
		pad[i] ^= 0x36;
	digest_of(pad, data, len, inner);
	for (unsigned int i = 0; i < BLOCK; i++)
		pad[i] ^= 0x36 ^ 0x5c;
	digest_of(pad, inner, sizeof(inner), code);
}
