/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What sys.c and sys_mem.c share. */
#ifndef FUZZ_SYS_PRIV_H
#define FUZZ_SYS_PRIV_H

#include <stdbool.h>
#include <stdint.h>

#include "sys.h"

#define MSGS	64u	/* that a socket takes before EAGAIN */
#define MSG_FDS	3u

enum kind { SOCKET, PIPE, MEMFD };

struct object;
struct sys_mem;

/** struct message - one record of a socket */
struct message {
	size_t len;
	unsigned int nfds;
	struct object *fd[MSG_FDS];
	uint8_t data[640];
};

/**
 * struct object - what descriptors stand for
 * @refs: descriptors, and messages that it is in
 * @peer, @err, @shut, @orphan, @first, @num, @msg: of a socket: the other end, what the next call
 *	fails with, shutdown(), the other end is gone, what came
 * @bytes: in a pipe
 * @seals, @size, @mem: of a memfd
 */
struct object {
	enum kind kind;
	unsigned int refs;
	struct object *peer;
	int err;
	bool shut, orphan;
	unsigned int first, num;
	struct message msg[MSGS];
	size_t bytes;
	int seals;
	size_t size;
	struct sys_mem *mem;
};

/** sys_object() - what @fd stands for; abort if it is not open */
struct object *sys_object(int fd);

/** sys_mem_get() - memory of @size bytes, all zero */
struct sys_mem *sys_mem_get(size_t size);
/** sys_mem_put() - its last descriptor is closed; it may be mapped all the same */
void sys_mem_put(struct sys_mem *m);
/** sys_mem_next() - the next reservation of addresses is for a mapping of @m */
void sys_mem_next(struct sys_mem *m);
/** sys_mem_end() - abort if any is mapped; all may be used again */
void sys_mem_end(void);

#endif /* FUZZ_SYS_PRIV_H */
