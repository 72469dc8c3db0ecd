/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The socket to a VMM: whole messages with their descriptors. It never blocks in receiving, and in
 * sending no longer than VU_SEND_MS: then the VMM, which does not read, is given up. One thread.
 */
#ifndef OHCA_VFIO_USER_SOCKET_H
#define OHCA_VFIO_USER_SOCKET_H

#include <stdbool.h>
#include <stddef.h>

#include "vfio-user/proto.h"

#define VU_SEND_MS	1000

/**
 * struct vu_message - a message as it comes
 * @hdr: its begin; @byte: all of it, @have bytes yet
 * @fd: descriptors that came with it, @fds of them
 */
struct vu_message {
	union {
		struct vu_hdr hdr;
		uint8_t byte[VU_MESSAGE];
	};
	uint32_t have;
	int fd[VU_FDS];
	unsigned int fds;
};

/** enum vu_got - what vu_socket_get() has found */
enum vu_got { VU_GOT_PART, VU_GOT_MESSAGE, VU_GOT_END };

/**
 * vu_socket_get() - receive what there is of a message
 * @m: its begin from the last call, or @have of 0
 * @why: with VU_GOT_END: why the connection is of no use; empty: the VMM has closed it
 *
 * Return: VU_GOT_MESSAGE: it is whole, its header is valid, and its descriptors are the caller's.
 */
enum vu_got vu_socket_get(int sock, struct vu_message *m, const char **why);

/** vu_message_free() - close descriptors that are left, and begin with the next message */
void vu_message_free(struct vu_message *m);

/**
 * vu_socket_reply() - answer a command, unless it wants no reply
 * @h: of the command
 * @error: errno, or 0
 * @head, @head_len, @data, @len: what follows the header, in two parts; nothing if there is an @error
 *
 * Return: false: the VMM does not take it.
 */
bool vu_socket_reply(int sock, const struct vu_hdr *h, int error, const void *head, size_t head_len,
		     const void *data, size_t len);

#endif /* OHCA_VFIO_USER_SOCKET_H */
