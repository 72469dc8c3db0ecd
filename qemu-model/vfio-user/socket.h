/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The socket to a VMM: whole messages with their descriptors. Receiving never blocks. Sending waits
 * at most VU_SEND_MS: then the VMM, which does not read, is given up. One thread.
 */
#ifndef OHCA_VFIO_USER_SOCKET_H
#define OHCA_VFIO_USER_SOCKET_H

#include <stdbool.h>
#include <stddef.h>

#include "vfio-user/proto.h"

#define VU_SEND_MS	1000

/**
 * struct vu_message - a message while it is received
 * @hdr: its header; @byte: all of it, @have bytes so far
 * @fd: [@fds] descriptors that were passed with it
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

/** enum vu_got - result of vu_socket_get() */
enum vu_got { VU_GOT_PART, VU_GOT_MESSAGE, VU_GOT_END };

/**
 * vu_socket_get() - receive the next part of a message
 * @m: its begin from the last call, or @have of 0
 * @why: with VU_GOT_END: why the connection cannot be used; empty: the VMM has closed it
 *
 * Return: VU_GOT_MESSAGE: it is complete, its header is valid, and the caller owns its descriptors.
 */
enum vu_got vu_socket_get(int sock, struct vu_message *m, const char **why);

/** vu_message_free() - close descriptors that are left, and prepare for the next message */
void vu_message_free(struct vu_message *m);

/**
 * vu_socket_reply() - answer a command, unless it requests no reply
 * @h: of the command
 * @error: errno, or 0
 * @head, @head_len, @data, @len: the bytes behind the header, in two parts; not sent with an @error
 *
 * Return: false: the VMM does not accept it in time.
 */
bool vu_socket_reply(int sock, const struct vu_hdr *h, int error, const void *head, size_t head_len,
		     const void *data, size_t len);

#endif /* OHCA_VFIO_USER_SOCKET_H */
