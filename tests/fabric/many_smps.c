// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A program with many SMPs outstanding: many_smps COUNT [SECONDS]
 *
 * It sends COUNT directed Gets of NodeDescription to its node and to its switch in turn, sleeps for
 * SECONDS, and then receives. It prints the number of answers and of errors in one line. The status
 * is 0 if there is one answer or error for each request.
 */
#include <infiniband/umad.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAD_LEN		256
#define SILENCE_MS	5000	/* no answer comes after that */

static int send_get(int fd, int agent, uint8_t *umad, uint32_t tid)
{
	uint8_t *mad = umad_get_mad(umad);

	memset(umad, 0, umad_size() + MAD_LEN);
	umad_set_addr(umad, 0xffff, 0, 0, 0);
	mad[0] = mad[2] = 1;		/* BaseVersion, ClassVersion */
	mad[1] = 0x81;			/* directed route */
	mad[3] = 1;			/* Get */
	mad[7] = tid & 1;		/* HopCount */
	for (int i = 0; i < 4; i++)
		mad[12 + i] = (uint8_t)(tid >> (24 - 8 * i));
	mad[17] = 0x10;			/* NodeDescription */
	memset(mad + 32, 0xff, 4);	/* DrSLID, DrDLID */
	mad[129] = 1;			/* InitialPath[1] */
	return umad_send(fd, agent, umad, MAD_LEN, 0, 0);
}

int main(int argc, char **argv)
{
	const unsigned int count = argc > 1 ? (unsigned int)atoi(argv[1]) : 1000;
	const unsigned int seconds = argc > 2 ? (unsigned int)atoi(argv[2]) : 0;
	unsigned int answered = 0, failed = 0, sent = 0, again = 0;
	uint8_t *seen = calloc(count, 1), *umad;
	int fd, agent;

	if (umad_init() < 0 || !seen)
		return 2;
	fd = umad_open_port(NULL, 1);
	agent = fd < 0 ? -1 : umad_register(fd, 0x81, 1, 0, NULL);
	umad = umad_alloc(1, umad_size() + MAD_LEN);
	if (agent < 0 || !umad)
		return 2;
	for (; sent < count; sent++)
		if (send_get(fd, agent, umad, sent) < 0)
			break;
	sleep(seconds);
	while (answered + failed < sent) {
		int len = MAD_LEN;
		const uint8_t *mad = umad_get_mad(umad);
		uint32_t tid;

		if (umad_recv(fd, umad, &len, SILENCE_MS) < 0)
			break;
		tid = (uint32_t)mad[12] << 24 | mad[13] << 16 | mad[14] << 8 | mad[15];
		if (tid >= count || seen[tid]++)
			again++;
		else if (umad_status(umad))
			failed++;
		else
			answered++;
	}
	printf("%u sent, %u answered, %u failed, %u lost, %u more than once\n", sent, answered,
	       failed, sent - answered - failed, again);
	umad_unregister(fd, agent);
	umad_close_port(fd);
	return sent != count || answered + failed != sent || again;
}
