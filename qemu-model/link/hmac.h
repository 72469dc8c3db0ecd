/* SPDX-License-Identifier: GPL-2.0-or-later */
/* HMAC-SHA256 (FIPS 180-4, RFC 2104), for the proof that a peer has a token. */
#ifndef OHCA_LINK_HMAC_H
#define OHCA_LINK_HMAC_H

#include <stddef.h>
#include <stdint.h>

#define LINK_SHA256_LEN	32

/** link_sha256() - compute the digest of @len bytes; any thread */
void link_sha256(const void *data, size_t len, uint8_t digest[LINK_SHA256_LEN]);

/** link_hmac() - compute the code of @len bytes with @key; any thread */
void link_hmac(const void *key, size_t key_len, const void *data, size_t len,
	       uint8_t code[LINK_SHA256_LEN]);

#endif /* OHCA_LINK_HMAC_H */
