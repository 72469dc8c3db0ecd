// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ohca-hub - the management network of a lab with more than two nodes
 *
 * ohca-hub LOCAL REMOTE NODES binds a datagram socket LOCAL.K for each node K of 1 to
 * NODES, takes Ethernet frames that QEMU sends there (-netdev dgram) and passes
 * them on to the sockets REMOTE.K that QEMU binds: to the one that owns the
 * destination address, or to all others. Frames that a node cannot take now are
 * dropped, as any Ethernet does.
 */
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define MAX_NODES 64
#define MAX_ADDRS 256

static struct { uint8_t mac[6]; int node; } table[MAX_ADDRS];
static unsigned int used;

static int lookup(const uint8_t *mac)
{
	for (unsigned int i = 0; i < used; i++)
		if (!memcmp(table[i].mac, mac, 6))
			return table[i].node;
	return -1;
}

static void learn(const uint8_t *mac, int node)
{
	if ((mac[0] & 1) || used == MAX_ADDRS || lookup(mac) >= 0)
		return;
	memcpy(table[used].mac, mac, 6);
	table[used++].node = node;
}

static int address(struct sockaddr_un *a, const char *prefix, int k)
{
	memset(a, 0, sizeof(*a));
	a->sun_family = AF_UNIX;
	return snprintf(a->sun_path, sizeof(a->sun_path), "%s.%d", prefix, k) <
	       (int)sizeof(a->sun_path) ? 0 : -1;
}

int main(int argc, char **argv)
{
	struct sockaddr_un peer[MAX_NODES], local;
	struct pollfd pfd[MAX_NODES];
	static uint8_t frame[70000];
	int n = argc == 4 ? atoi(argv[3]) : 0;

	if (n < 1 || n > MAX_NODES) {
		fprintf(stderr, "usage: ohca-hub LOCAL-PREFIX REMOTE-PREFIX NODES\n");
		return 2;
	}
	for (int i = 0; i < n; i++) {
		pfd[i].fd = socket(AF_UNIX, SOCK_DGRAM, 0);
		pfd[i].events = POLLIN;
		if (address(&local, argv[1], i + 1) || address(&peer[i], argv[2], i + 1) ||
		    bind(pfd[i].fd, (struct sockaddr *)&local, sizeof(local))) {
			perror(argv[1]);
			return 1;
		}
	}
	while (poll(pfd, n, -1) >= 0) {
		for (int i = 0; i < n; i++) {
			/* A bounded burst, so that no node keeps the others waiting. */
			for (int burst = 0; burst < 64 && pfd[i].revents; burst++) {
				ssize_t len = recv(pfd[i].fd, frame, sizeof(frame), MSG_DONTWAIT);
				int to;

				if (len < 14)
					break;
				learn(frame + 6, i);
				to = frame[0] & 1 ? -1 : lookup(frame);
				for (int k = 0; k < n; k++)
					if (k != i && (to < 0 || to == k))
						sendto(pfd[i].fd, frame, len, MSG_DONTWAIT,
						       (struct sockaddr *)&peer[k], sizeof(peer[k]));
			}
		}
	}
	perror("poll");
	return 1;
}
