// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The tables and configuration of the nodes of a fabric with one switch, without counters. A line
 * for each block that is not zero.
 */
#include <stdio.h>
#include <stdlib.h>

#include "fabliar.h"

#define TRIES		10
#define WAIT_MS		5000
#define MAX_PORTS	254u

/* A node, and the route to it. */
struct node {
	struct port *p;
	uint64_t mkey;
	char name[65];
	uint8_t hops, path[4];
};

static uint64_t tid;

/* A Get, which is repeated without a response. */
static void get(struct node *n, uint16_t attr, uint32_t mod, uint8_t *data)
{
	uint8_t mad[MAD_LEN];

	for (int i = 0; i < TRIES; i++) {
		memset(mad, 0, sizeof(mad));
		mad[0] = 1;
		mad[1] = CLASS_DR;
		mad[2] = 1;
		mad[3] = GET;
		mad[7] = n->hops;
		put64(mad + 8, ++tid);
		put16(mad + 16, attr);
		put32(mad + 20, mod);
		put64(mad + 24, n->mkey);
		put16(mad + 32, PERMISSIVE);
		put16(mad + 34, PERMISSIVE);
		memcpy(mad + 129, n->path, n->hops);
		if (!port_send(n->p, true, mad, PERMISSIVE, WAIT_MS))
			continue;
		if (port_recv(n->p, mad, -1) == 1 && get64(mad + 8) << 32 == tid << 32) {
			memcpy(data, mad + DATA, DATA_LEN);
			return;
		}
	}
	fprintf(stderr, "%s does not answer: attribute %#x, modifier %#x\n", n->name, attr, mod);
	exit(1);
}

/* Clears data that are not configuration: counters, and reports to the manager. */
static void blank(uint16_t attr, uint8_t *d)
{
	if (attr == PORT_INFO)
		memset(d + 44, 0, 6);		/* key violations */
	else if (attr == SWITCH_INFO)
		d[11] &= (uint8_t)~0x04;	/* PortStateChange */
}

static void print(const struct node *n, uint16_t attr, uint32_t mod, const uint8_t *d)
{
	static const uint8_t none[DATA_LEN];

	if (!memcmp(d, none, DATA_LEN))
		return;
	printf("%s %#x %#x ", n->name, attr, mod);
	for (unsigned int i = 0; i < DATA_LEN; i++)
		printf("%02x", d[i]);
	puts("");
}

static void show(struct node *n, uint16_t attr, uint32_t mod)
{
	uint8_t d[DATA_LEN];

	get(n, attr, mod, d);
	blank(attr, d);
	print(n, attr, mod, d);
}

static struct node node_at(struct port *p, uint64_t mkey, uint8_t hops, uint8_t port)
{
	struct node n = { .p = p, .mkey = mkey, .name = "a node", .hops = hops,
			  .path = { 1, port } };
	uint8_t d[DATA_LEN];

	get(&n, NODE_DESC, 0, d);
	memcpy(n.name, d, DATA_LEN);
	for (char *c = n.name; *c; c++)
		if (*c == ' ')
			*c = '_';
	return n;
}

static void show_hca(struct node *n)
{
	uint8_t d[DATA_LEN];
	uint8_t port;

	get(n, NODE_INFO, 0, d);
	port = d[36];
	show(n, NODE_INFO, 0);
	show(n, PORT_INFO, port);
	show(n, GUID_INFO, 0);
	show(n, SL2VL, 0);
	for (uint32_t i = 0; i < 4; i++) {
		show(n, PKEY_TABLE, i);
		show(n, VLARB, (i + 1) << 16);
	}
}

/*
 * A line for each 16 ports of a group, because groups get members at any time. @liar: the liar's
 * port, which may join and leave; its bit is left out.
 */
static void show_mft(struct node *n, unsigned int ports, uint16_t cap, unsigned int liar)
{
	uint8_t d[DATA_LEN];

	for (uint32_t block = 0; block < cap / 32u && block < 4; block++)
		for (uint32_t pos = 0; pos <= ports / 16; pos++) {
			get(n, MFT, pos << 28 | block, d);
			for (unsigned int i = 0; i < 32; i++) {
				unsigned int mask = get16(d + 2 * i);

				if (pos == liar / 16)
					mask &= ~(1u << liar % 16);
				if (mask)
					printf("group %#x,%u %#x\n", 0xc000 + 32 * block + i, pos,
					       mask);
			}
		}
}

static void show_switch(struct node *n, unsigned int ports, const bool *active, unsigned int liar)
{
	uint8_t d[DATA_LEN];
	uint16_t top;

	show(n, NODE_INFO, 0);
	get(n, SWITCH_INFO, 0, d);
	top = get16(d + 6);
	show_mft(n, ports, get16(d + 4), liar);
	memset(d + 18, 0, 2);		/* MulticastFDBTop: includes the liar's groups */
	blank(SWITCH_INFO, d);
	print(n, SWITCH_INFO, 0, d);
	for (uint32_t i = 0; i <= top / 64u; i++)
		show(n, LFT, i);
	for (uint32_t i = 0; i <= ports; i++) {
		show(n, PORT_INFO, i);
		if (!active[i])
			continue;
		show(n, PKEY_TABLE, i << 16);
		for (uint32_t k = 1; k <= 4; k++)
			show(n, VLARB, k << 16 | i);
		for (uint32_t k = 0; k <= ports; k++)
			if (active[k])
				show(n, SL2VL, i << 8 | k);
	}
}

int state(uint64_t mkey, const char *name)
{
	bool active[MAX_PORTS + 1] = { false };
	unsigned int ports, liar = 0;
	uint8_t d[DATA_LEN];
	struct node sw, n;
	struct port p;

	port_open(&p, false);
	n = node_at(&p, mkey, 0, 0);
	show_hca(&n);
	sw = node_at(&p, mkey, 1, 0);
	get(&sw, NODE_INFO, 0, d);
	if (d[2] != 2) {
		fprintf(stderr, "%s is no switch\n", sw.name);
		return 1;
	}
	ports = d[3] < MAX_PORTS ? d[3] : MAX_PORTS;
	for (unsigned int i = 1; i <= ports; i++) {
		get(&sw, PORT_INFO, i, d);
		active[i] = (d[32] & 15) == 4;
		if (!active[i])
			continue;
		n = node_at(&p, mkey, 2, (uint8_t)i);
		if (!strncmp(n.name, name, strlen(name)))
			liar = i;
		else
			show_hca(&n);
	}
	if (!liar) {
		fprintf(stderr, "there is no %s\n", name);
		return 1;
	}
	show_switch(&sw, ports, active, liar);
	return 0;
}
