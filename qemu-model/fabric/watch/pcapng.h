/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Blocks and options of a pcapng file, in the byte order of the host (draft-ietf-opsawg-pcapng). */
#ifndef OHCA_FABRIC_PCAPNG_H
#define OHCA_FABRIC_PCAPNG_H

#define PCAPNG_SECTION		0x0a0d0d0au
#define PCAPNG_INTERFACE	1u
#define PCAPNG_STATISTICS	5u
#define PCAPNG_PACKET		6u
#define PCAPNG_BYTE_ORDER	0x1a2b3c4du

/* Wireshark reads InfiniBand as ERF records; it does not know link type 247. */
#define PCAPNG_LINKTYPE_ERF	197u

#define PCAPNG_OPT_END		0u
#define PCAPNG_OPT_COMMENT	1u
#define PCAPNG_IF_NAME		2u
#define PCAPNG_IF_TSRESOL	9u
#define PCAPNG_ISB_IFRECV	4u
#define PCAPNG_ISB_IFDROP	5u
#define PCAPNG_SHB_USERAPPL	4u

#endif
