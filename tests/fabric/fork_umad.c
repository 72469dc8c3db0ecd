// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A program that forks with a port open: in the child every call fails, in the parent all work. The
 * status is 0 if that is so.
 */
#include <errno.h>
#include <infiniband/umad.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAD_LEN	256

/* Sends a Get of the switch's NodeDescription. Return: the result of umad_send(). */
static int send_get(int fd, int agent, unsigned char *umad)
{
	unsigned char *mad = umad_get_mad(umad);

	memset(umad, 0, umad_size() + MAD_LEN);
	umad_set_addr(umad, 0xffff, 0, 0, 0);
	mad[0] = mad[2] = mad[3] = 1;	/* BaseVersion, ClassVersion, Get */
	mad[1] = 0x81;			/* directed route */
	mad[7] = 1;			/* HopCount */
	mad[17] = 0x10;			/* NodeDescription */
	memset(mad + 32, 0xff, 4);	/* DrSLID, DrDLID */
	mad[129] = 1;			/* InitialPath[1] */
	return umad_send(fd, agent, umad, MAD_LEN, 1000, 3);
}

static int child(int fd, int agent, unsigned char *umad)
{
	int len = MAD_LEN;

	return send_get(fd, agent, umad) != -EIO || umad_recv(fd, umad, &len, 100) != -EIO ||
	       umad_open_port(NULL, 1) != -EIO || umad_register(fd, 4, 1, 0, NULL) != -EIO ||
	       umad_close_port(fd) == 0;
}

int main(void)
{
	unsigned char *umad;
	int fd, agent, status, len = MAD_LEN;
	pid_t pid;

	if (umad_init() < 0)
		return 2;
	fd = umad_open_port(NULL, 1);
	agent = fd < 0 ? -1 : umad_register(fd, 0x81, 1, 0, NULL);
	umad = umad_alloc(1, umad_size() + MAD_LEN);
	if (agent < 0 || !umad)
		return 2;
	/* one answer is there, and stays for the parent */
	if (send_get(fd, agent, umad) || umad_poll(fd, 5000))
		return 2;
	pid = fork();
	if (!pid)
		_exit(child(fd, agent, umad));
	if (waitpid(pid, &status, 0) != pid || status)
		return 1;
	for (int i = 0; i < 2; i++)
		if (umad_recv(fd, umad, &len, 5000) != agent || umad_status(umad) ||
		    (!i && send_get(fd, agent, umad)))
			return 1;
	return 0;
}
