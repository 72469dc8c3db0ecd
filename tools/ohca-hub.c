// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ohca-hub - the management network of a lab with other than two nodes
 *
 * ohca-hub SOCKET listens on a UNIX stream socket and prints that it is ready. The QEMU of each node
 * connects to the socket (-netdev stream). The hub forwards Ethernet frames to the node that owns the
 * destination address, or to all others. In front of each frame is its length, 4 bytes, big endian.
 * For a node that does not read, it queues up to QUEUE bytes and drops further frames.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MAX_NODES 64
#define MAX_ADDRS 256
#define MAX_FRAME 70000u
#define IN_SIZE (4 * MAX_FRAME)	/* whole frames, and the beginning of one */
#define QUEUE (2u << 20)

/** struct node - a connection; @fd -1: free */
struct node {
	int fd;
	uint32_t in_len, out_pos, out_len;
	uint8_t *in, *out;
};

static struct node nodes[MAX_NODES];
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

static void leave(int k)
{
	close(nodes[k].fd);
	free(nodes[k].in);
	free(nodes[k].out);
	memset(&nodes[k], 0, sizeof(nodes[k]));
	nodes[k].fd = -1;
	for (unsigned int i = 0; i < used; )
		if (table[i].node == k)
			table[i] = table[--used];
		else
			i++;
}

static void join(int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return;
	for (int k = 0; k < MAX_NODES; k++) {
		struct node *n = &nodes[k];

		if (n->fd >= 0)
			continue;
		n->in = malloc(IN_SIZE);
		n->out = malloc(QUEUE);
		n->fd = fd;
		if (!n->in || !n->out)
			leave(k);
		return;
	}
	close(fd);
}

/* Queue a frame with its length in front of it; false: there is no room. */
static bool queue(struct node *n, const uint8_t *data, uint32_t len)
{
	if (n->out_pos && n->out_len + len > QUEUE) {
		memmove(n->out, n->out + n->out_pos, n->out_len - n->out_pos);
		n->out_len -= n->out_pos;
		n->out_pos = 0;
	}
	if (n->out_len + len > QUEUE)
		return false;
	memcpy(n->out + n->out_len, data, len);
	n->out_len += len;
	return true;
}

/* Send queued bytes without waiting; false: the node has closed the connection. */
static bool flush(struct node *n)
{
	while (n->out_pos < n->out_len) {
		ssize_t len = send(n->fd, n->out + n->out_pos, n->out_len - n->out_pos,
				   MSG_NOSIGNAL);

		if (len < 0)
			return errno == EAGAIN || errno == EINTR;
		n->out_pos += (uint32_t)len;
	}
	n->out_pos = n->out_len = 0;
	return true;
}

static void forward(int from, const uint8_t *frame, uint32_t len)
{
	const uint8_t *mac = frame + 4;
	int to = mac[0] & 1 ? -1 : lookup(mac);

	learn(mac + 6, from);
	for (int k = 0; k < MAX_NODES; k++)
		if (k != from && nodes[k].fd >= 0 && (to < 0 || to == k))
			queue(&nodes[k], frame, len);
}

/* Receive all available bytes; false: the node has closed, or has sent a wrong length. */
static bool receive(int k)
{
	struct node *n = &nodes[k];
	ssize_t got = recv(n->fd, n->in + n->in_len, IN_SIZE - n->in_len, 0);
	uint32_t pos = 0;

	if (got <= 0)
		return got < 0 && (errno == EAGAIN || errno == EINTR);
	n->in_len += (uint32_t)got;
	while (n->in_len - pos >= 4) {
		const uint8_t *p = n->in + pos;
		uint32_t len = (uint32_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3];

		if (len < 14 || len > MAX_FRAME - 4)
			return false;
		if (n->in_len - pos < 4 + len)
			break;
		forward(k, p, 4 + len);
		pos += 4 + len;
	}
	memmove(n->in, n->in + pos, n->in_len - pos);
	n->in_len -= pos;
	return true;
}

int main(int argc, char **argv)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	struct pollfd pfd[MAX_NODES + 1];
	int listener;

	if (argc != 2 || strlen(argv[1]) >= sizeof(sa.sun_path)) {
		fprintf(stderr, "usage: ohca-hub SOCKET\n");
		return 2;
	}
	for (int k = 0; k < MAX_NODES; k++)
		nodes[k].fd = -1;
	strcpy(sa.sun_path, argv[1]);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (listener < 0 || bind(listener, (struct sockaddr *)&sa, sizeof(sa)) ||
	    listen(listener, MAX_NODES)) {
		perror(argv[1]);
		return 1;
	}
	puts("ohca-hub: ready");
	fflush(stdout);
	for (;;) {
		pfd[MAX_NODES] = (struct pollfd){ .fd = listener, .events = POLLIN };
		for (int k = 0; k < MAX_NODES; k++)
			pfd[k] = (struct pollfd){
				.fd = nodes[k].fd,
				.events = POLLIN | (nodes[k].out_len ? POLLOUT : 0),
			};
		if (poll(pfd, MAX_NODES + 1, -1) < 0 && errno != EINTR) {
			perror("poll");
			return 1;
		}
		for (int k = 0; k < MAX_NODES; k++)
			if (pfd[k].revents & ~POLLOUT && nodes[k].fd >= 0 && !receive(k))
				leave(k);
		for (int k = 0; k < MAX_NODES; k++)
			if (nodes[k].out_len && !flush(&nodes[k]))
				leave(k);
		if (pfd[MAX_NODES].revents)
			join(listener);
	}
}
