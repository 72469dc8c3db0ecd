// SPDX-License-Identifier: GPL-2.0-or-later
/* Forged MADs: keys, routes, responses, traps, managers; to all nodes, about all nodes. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <infiniband/umad.h>

#include "fabliar.h"

#define LIDS		8u	/* used LIDs, and some more */
#define PORTS		8u	/* of the switch that has them */
#define KEPT		16u

/* Data read from others: a Set of them with small changes is likely to be accepted. */
struct seen {
	uint16_t attr;
	uint32_t mod;
	uint8_t data[DATA_LEN];
};

static struct port port;
static uint64_t state_of_rnd, tid;
static struct seen kept[KEPT];
static uint64_t keys[KEPT] = { 0, 1, UINT64_MAX };
static unsigned int num_kept, num_keys = 3;
static unsigned long sent, refused, received;

static uint64_t rnd(uint64_t n)
{
	uint64_t z = state_of_rnd += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return (z ^ z >> 31) % n;
}

#define PICK(list)	((list)[rnd(sizeof(list) / sizeof((list)[0]))])

static void noise(uint8_t *at, size_t len)
{
	for (size_t i = 0; i < len; i++)
		at[i] = (uint8_t)rnd(256);
}

/* Changes some of the bytes. */
static void spoil(uint8_t *at, size_t len)
{
	for (uint64_t n = 1 + rnd(4); n; n--)
		at[rnd(len)] = (uint8_t)(rnd(2) ? rnd(256) : rnd(8));
}

static uint16_t a_lid(void)
{
	switch (rnd(16)) {
	case 0:
		return 0xc000 + (uint16_t)rnd(16);
	case 1:
		return (uint16_t)rnd(0x10000);
	case 2:
		return PERMISSIVE;
	case 3:
		return port.sm_lid;
	default:
		return 1 + (uint16_t)rnd(LIDS);
	}
}

/* A key that a node has shown, or probably uses; or a random one. */
static uint64_t a_key(void)
{
	return rnd(4) ? keys[rnd(num_keys)] : rnd(UINT64_MAX);
}

static void learn_key(uint64_t key)
{
	for (unsigned int i = 0; i < num_keys; i++)
		if (keys[i] == key)
			return;
	if (num_keys < KEPT)
		keys[num_keys++] = key;
}

/* ---- subnet management ---- */

static uint32_t a_modifier(uint16_t attr)
{
	switch (attr) {
	case PORT_INFO:
		return (uint32_t)(rnd(PORTS + 1) | rnd(2) << 31);
	case PKEY_TABLE:
		return (uint32_t)(rnd(PORTS) << 16 | rnd(4));
	case SL2VL:
		return (uint32_t)(rnd(PORTS) << 8 | rnd(PORTS));
	case VLARB:
		return (uint32_t)(rnd(5) << 16 | rnd(PORTS));
	case MFT:
		return (uint32_t)(rnd(16) << 28 | rnd(4));
	case SM_INFO:
		return (uint32_t)rnd(6);
	default:
		return (uint32_t)rnd(3);
	}
}

/* Fills in the data of an SMP or of a Notice. */
static void fill(uint8_t *mad, uint16_t attr)
{
	uint8_t *d = mad + DATA;

	switch (rnd(4)) {
	case 0:
		return;
	case 1:
		noise(d, DATA_LEN);
		return;
	default:
		break;
	}
	for (unsigned int i = 0; i < num_kept; i++)
		if (kept[i].attr == attr && rnd(2)) {
			memcpy(d, kept[i].data, DATA_LEN);
			put32(mad + 20, kept[i].mod);
			spoil(d, DATA_LEN);
			return;
		}
	if (attr != PORT_INFO) {
		spoil(d, DATA_LEN);
		return;
	}
	put64(d, a_key());
	put16(d + 16, a_lid());			/* LID */
	put16(d + 18, rnd(2) ? port.lid : a_lid());	/* MasterSMLID */
	d[32] = (uint8_t)(1 + rnd(4));		/* PortState */
	d[33] = (uint8_t)(rnd(8) << 4);		/* PortPhysicalState */
	d[34] = (uint8_t)(rnd(4) << 6);		/* M_KeyProtectBits */
}

/* A Notice of any trap, from any node. */
static void notice(uint8_t *d)
{
	static const uint16_t traps[] = { 64, 65, 66, 67, 128, 129, 130, 131, 144, 145, 256, 257,
					  258, 259, 1144 };

	d[0] = (uint8_t)(rnd(2) << 7 | rnd(5));
	put32(d, get32(d) | (uint32_t)(1 + rnd(4)));
	put16(d + 4, rnd(8) ? PICK(traps) : (uint16_t)rnd(0x10000));
	put16(d + 6, a_lid());
	put16(d + 10, a_lid());
	put16(d + 12, a_lid());
	if (rnd(2))
		spoil(d + 10, 54);
}

static void sm_info(uint8_t *d)
{
	put64(d, rnd(2) ? rnd(16) : rnd(UINT64_MAX));	/* GUID: a smaller one wins */
	put64(d + 8, a_key());
	put32(d + 16, (uint32_t)rnd(1000000));
	d[20] = (uint8_t)(rnd(16) << 4 | (rnd(2) ? 3 : rnd(4)));
}

/* Routes of up to four hops by existing ports, also there and back. */
static void route(uint8_t *mad)
{
	uint8_t hops = (uint8_t)(rnd(8) ? 1 + rnd(2) : rnd(5));
	bool answer = mad[3] & RESP;

	put16(mad + 32, PERMISSIVE);
	put16(mad + 34, rnd(16) ? PERMISSIVE : a_lid());
	mad[7] = hops;
	for (unsigned int i = 1; i <= hops; i++) {
		mad[128 + i] = (uint8_t)(i == 1 ? 1 : rnd(PORTS));
		mad[192 + i] = (uint8_t)(i == hops ? 1 : rnd(PORTS));
	}
	if (!answer)
		return;
	/*
	 * As if from the end of a route of the manager's request. Without hops it would stay here,
	 * and Linux would trust its transaction ID: that crashes the liar's own kernel.
	 */
	if (!hops)
		mad[7] = hops = 1;
	mad[4] |= 0x80;
	mad[6] = hops + 1;
}

static bool smp(void)
{
	static const uint8_t methods[] = { GET, GET, GET, SET, SET, SET, SET, SET, GET_RESP,
					   GET_RESP, TRAP, TRAP, TRAP_REPRESS, SEND, REPORT };
	static const uint16_t attrs[] = { NOTICE, NODE_DESC, NODE_INFO, SWITCH_INFO, GUID_INFO,
					  PORT_INFO, PORT_INFO, PKEY_TABLE, SL2VL, VLARB, LFT, MFT,
					  SM_INFO };
	uint8_t mad[MAD_LEN] = { 1, (uint8_t)(rnd(2) ? CLASS_DR : CLASS_LID), 1 };
	uint16_t attr;

	mad[3] = rnd(16) ? PICK(methods) : (uint8_t)rnd(256);
	attr = mad[3] == TRAP || mad[3] == TRAP_REPRESS ? NOTICE :
	       rnd(16) ? PICK(attrs) : (uint16_t)rnd(0x10000);
	/* a response belongs to a request of the manager, whose TIDs count up */
	put64(mad + 8, mad[3] & RESP ? (1 + rnd(4)) << 32 | (0x1233 + rnd(4096)) : ++tid);
	put16(mad + 16, attr);
	put32(mad + 20, rnd(8) ? a_modifier(attr) : (uint32_t)rnd(UINT32_MAX));
	put64(mad + 24, a_key());
	if (attr == NOTICE)
		notice(mad + DATA);
	else if (attr == SM_INFO)
		sm_info(mad + DATA);
	else
		fill(mad, attr);
	if (mad[1] == CLASS_DR)
		route(mad);
	/* not to the own tables: a loss there affects no other node */
	return port_send(&port, true, mad, mad[1] == CLASS_DR ? PERMISSIVE : a_lid(),
			 mad[3] == GET ? 20 : 0);
}

/* ---- general services ---- */

static bool gmp(void)
{
	static const struct {
		uint8_t class, version;
		uint16_t first, num;	/* attributes */
	} classes[] = {
		{ CLASS_SA, 2, 0x01, 0x40 }, { CLASS_SA, 2, 0x35, 4 }, { CLASS_SA, 2, 0x31, 8 },
		{ CLASS_PERF, 1, 0x10, 0x30 }, { CLASS_PERF, 1, 0x12, 1 }, { CLASS_CM, 2, 0x10, 16 },
		{ CLASS_BM, 1, 0x10, 8 }, { CLASS_DM, 1, 0x10, 0x14 }, { CLASS_SNMP, 1, 0x10, 4 },
		{ CLASS_CC, 2, 0x11, 16 }, { CLASS_VENDOR, 1, 0, 256 },
		{ CLASS_VENDOR_OUI, 1, 0, 256 },
	};
	static const uint8_t methods[] = { GET, SET, SET, SEND, GET_TABLE, DELETE, GET_RESP,
					   GET_TABLE | RESP, SET, TRAP, REPORT, REPORT | RESP };
	unsigned int k = (unsigned int)rnd(sizeof(classes) / sizeof(classes[0]));
	uint8_t mad[MAD_LEN] = { 1, classes[k].class, classes[k].version };

	mad[3] = rnd(16) ? PICK(methods) : (uint8_t)rnd(256);
	if (classes[k].class == CLASS_CM && rnd(4))
		mad[3] = SEND;
	put64(mad + 8, mad[3] & RESP ? (1 + rnd(8)) << 32 | rnd(4096) : ++tid);
	put16(mad + 16, (uint16_t)(classes[k].first + rnd(classes[k].num)));
	put32(mad + 20, (uint32_t)rnd(2));
	if (rnd(2))
		noise(mad + DATA, MAD_LEN - DATA);
	else
		spoil(mad + DATA, MAD_LEN - DATA);
	if (classes[k].class == CLASS_SA) {
		put64(mad + 36, a_key());			/* SM_Key */
		put64(mad + 48, rnd(2) ? rnd(256) : rnd(UINT64_MAX));	/* ComponentMask */
		/* PortGID of others, of existing groups */
		put64(mad + 56, rnd(2) ? 0xff12401bffff0000ull : 0xfe80000000000000ull);
	} else if (classes[k].class == CLASS_PERF) {
		mad[DATA + 1] = (uint8_t)(rnd(4) ? rnd(PORTS) : 255);
	}
	return port_send(&port, false, mad, rnd(3) ? a_lid() : port.sm_lid,
			 mad[3] == GET || mad[3] == SET ? 20 : 0);
}

/* ---- responses ----------------------------------------------------------------- */

/* Responds as a manager with a higher priority than the requester. */
static void answer(uint8_t *mad)
{
	bool dr = mad[1] == CLASS_DR;

	mad[3] = GET_RESP;
	put64(mad + 24, 0);
	if (dr)
		mad[4] |= 0x80;
	sm_info(mad + DATA);
	sent++;
	refused += !port_send(&port, true, mad, dr ? PERMISSIVE : port.sm_lid, 0);
}

static void look(int wait_ms)
{
	uint8_t mad[MAD_LEN];
	int what;

	while ((what = port_recv(&port, mad, wait_ms)) >= 0) {
		uint16_t attr = get16(mad + 16);

		wait_ms = 0;
		if (!what)
			continue;
		received++;
		if (mad[1] != CLASS_DR && mad[1] != CLASS_LID)
			continue;
		learn_key(get64(mad + 24));
		if (attr == PORT_INFO)
			learn_key(get64(mad + DATA));
		if (mad[3] == GET_RESP) {
			struct seen *s = &kept[num_kept < KEPT ? num_kept++ : rnd(KEPT)];

			s->attr = attr;
			s->mod = get32(mad + 20);
			memcpy(s->data, mad + DATA, DATA_LEN);
		} else if (attr == SM_INFO) {
			answer(mad);
		}
	}
}

int lie(uint64_t seed, unsigned long count, bool manager)
{
	char path[64];
	int issm = -1;

	state_of_rnd = seed;
	port_open(&port, true);
	/* while this is open the port sets IsSM, if it accepts that */
	if (manager && !umad_get_issm_path("ohca_0", 1, path, sizeof(path)))
		issm = open(path, O_RDWR);
	while (sent < count) {
		sent++;
		refused += !(rnd(3) ? smp() : gmp());
		look(0);
	}
	look(100);
	printf("%lu MADs, %lu refused, %lu received, %u keys, manager %s\n", sent, refused, received,
	       num_keys, issm >= 0 ? "on" : "off");
	if (issm >= 0)
		close(issm);
	return 0;
}
