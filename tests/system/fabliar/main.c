// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ohca-fabliar lie SEED COUNT [sm]
 * ohca-fabliar state M_KEY NODE
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <infiniband/umad.h>

#include "fabliar.h"

#define DEVICE	"ohca_0"
#define QKEY	0x80010000u

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int agent(const struct port *p, int class, bool listen)
{
	long methods[16 / sizeof(long)] = { 0 };
	int id;

	if (listen)
		methods[0] = 1l << GET | 1l << SET | 1l << SEND | 1l << TRAP | 1l << REPORT |
			     1l << TRAP_REPRESS;
	id = umad_register(p->fd, class, 1, 0, listen ? methods : NULL);
	if (id < 0) {
		errno = -id;
		die("umad_register");
	}
	return id;
}

void port_open(struct port *p, bool listen)
{
	umad_port_t port;

	if (umad_init() < 0)
		die("umad_init");
	p->fd = umad_open_port(DEVICE, 1);
	if (p->fd < 0)
		die("umad_open_port");
	if (umad_get_port(DEVICE, 1, &port))
		die("umad_get_port");
	p->lid = (uint16_t)port.base_lid;
	p->sm_lid = (uint16_t)port.sm_lid;
	umad_release_port(&port);
	p->smi = agent(p, CLASS_DR, listen);
	if (listen)
		agent(p, CLASS_LID, true);
	p->gsi = agent(p, CLASS_PERF, false);
}

static void *packet(void)
{
	static void *umad;

	if (!umad)
		umad = calloc(1, umad_size() + MAD_LEN);
	if (!umad)
		die("calloc");
	memset(umad, 0, umad_size());
	return umad;
}

bool port_send(struct port *p, bool smi, const uint8_t *mad, uint16_t dlid, int timeout_ms)
{
	void *umad = packet();

	memcpy(umad_get_mad(umad), mad, MAD_LEN);
	umad_set_addr(umad, dlid, smi ? 0 : 1, 0, smi ? 0 : (int)QKEY);
	return !umad_send(p->fd, smi ? p->smi : p->gsi, umad, MAD_LEN, timeout_ms, 0);
}

int port_recv(struct port *p, uint8_t *mad, int timeout_ms)
{
	void *umad = packet();
	int len = MAD_LEN;

	if (umad_recv(p->fd, umad, &len, timeout_ms) < 0)
		return -1;
	memcpy(mad, umad_get_mad(umad), MAD_LEN);
	return !umad_status(umad);
}

int main(int argc, char **argv)
{
	if (argc >= 4 && !strcmp(argv[1], "lie"))
		return lie(strtoull(argv[2], NULL, 0), strtoul(argv[3], NULL, 0), argc > 4);
	if (argc == 4 && !strcmp(argv[1], "state"))
		return state(strtoull(argv[2], NULL, 0), argv[3]);
	fprintf(stderr, "usage: %s lie SEED COUNT [sm] | state M_KEY NODE\n", argv[0]);
	return 2;
}
