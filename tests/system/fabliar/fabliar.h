/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ohca-fabliar: attacks by root of a node on a fabric. One command sends forged MADs. The other
 * prints the configuration of the other nodes, so that a test can compare it.
 */
#ifndef FABLIAR_H
#define FABLIAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define MAD_LEN		256u
#define DATA		64u		/* of an SMP */
#define DATA_LEN	64u
#define PERMISSIVE	0xffffu

/* Management classes and methods (IBTA vol 1, 13.4). */
enum {
	CLASS_LID = 0x01, CLASS_SA = 0x03, CLASS_PERF = 0x04, CLASS_BM = 0x05, CLASS_DM = 0x06,
	CLASS_CM = 0x07, CLASS_SNMP = 0x08, CLASS_VENDOR = 0x09, CLASS_CC = 0x21,
	CLASS_VENDOR_OUI = 0x30, CLASS_DR = 0x81,
};

enum {
	GET = 0x01, SET = 0x02, SEND = 0x03, TRAP = 0x05, REPORT = 0x06, TRAP_REPRESS = 0x07,
	GET_TABLE = 0x12, DELETE = 0x15, RESP = 0x80, GET_RESP = 0x81,
};

/* Attributes of SMPs (14.2.5). */
enum {
	NOTICE = 0x02, NODE_DESC = 0x10, NODE_INFO = 0x11, SWITCH_INFO = 0x12, GUID_INFO = 0x14,
	PORT_INFO = 0x15, PKEY_TABLE = 0x16, SL2VL = 0x17, VLARB = 0x18, LFT = 0x19, MFT = 0x1b,
	SM_INFO = 0x20,
};

/**
 * struct port - the own port, opened for MADs
 * @fd: of libibumad
 * @smi, @gsi: agents that send by QP0 and by QP1
 * @lid: of the port
 * @sm_lid: of its subnet manager, as the port knows it
 */
struct port {
	int fd, smi, gsi;
	uint16_t lid, sm_lid;
};

/** port_open() - opens the first port of ohca_0; @listen: also for requests to software */
void port_open(struct port *p, bool listen);

/**
 * port_send() - sends one MAD
 * @timeout_ms: time limit of the response, 0: no response is expected
 * Return: whether the kernel accepted it.
 */
bool port_send(struct port *p, bool smi, const uint8_t *mad, uint16_t dlid, int timeout_ms);

/**
 * port_recv() - receives a MAD, or the end of a request without a response
 * Return: 1: @mad is filled in; 0: a request got no response; -1: nothing within @timeout_ms.
 */
int port_recv(struct port *p, uint8_t *mad, int timeout_ms);

/** lie() - sends @count MADs that depend only on @seed and on received MADs */
int lie(uint64_t seed, unsigned long count, bool manager);

/** state() - prints the configuration of all nodes except @name; @mkey: key for the requests */
int state(uint64_t mkey, const char *name);

static inline void put16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static inline void put32(uint8_t *p, uint32_t v)
{
	put16(p, (uint16_t)(v >> 16));
	put16(p + 2, (uint16_t)v);
}

static inline void put64(uint8_t *p, uint64_t v)
{
	put32(p, (uint32_t)(v >> 32));
	put32(p + 4, (uint32_t)v);
}

static inline uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t get32(const uint8_t *p)
{
	return (uint32_t)get16(p) << 16 | get16(p + 2);
}

static inline uint64_t get64(const uint8_t *p)
{
	return (uint64_t)get32(p) << 32 | get32(p + 4);
}

#endif
