/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Agents of programs, as in the kernel's umad: a file is opened by umad_open_port(), and has agents
 * that a program has registered, and a queue of MADs for them. A request with a time limit is
 * repeated, and ends in the queue with the status ETIMEDOUT.
 *
 * All functions need the lock of wire.h.
 */
#ifndef OHCA_UMAD_AGENT_H
#define OHCA_UMAD_AGENT_H

#include <infiniband/umad.h>

#include "ib/mad.h"

/* Files of a process, agents of a file. */
#define UM_FILES	32u
#define UM_AGENTS	32u
/*
 * MADs that a file keeps for a program that does not read, and their bytes. Further MADs are
 * dropped, except for a single message, and for messages that end a request.
 */
#define UM_QUEUE	8192u
#define UM_QUEUE_BYTES	(64u << 20)
/* Requests of a process that wait for their responses. */
#define UM_PENDING	8192u

/**
 * um_file_open() - open a file. Return: a descriptor that is readable while MADs wait, or -errno
 */
int um_file_open(void);

/**
 * um_file_close() - close a file with its agents, its MADs and its requests. Return: 0 or -EBADF
 */
int um_file_close(int fd);

/**
 * um_agent_add() - register an agent
 * @fd: the file
 * @attr: as of umad_register2(); @oui is used only for classes that have one
 *
 * Return: its number in the file; -EBADF; -EPERM: another agent of the process has one of the
 * methods; -ENOMEM: no number is free.
 */
int um_agent_add(int fd, const struct umad_reg_attr *attr);

/** um_agent_remove() - remove an agent. Return: 0 or -EINVAL */
int um_agent_remove(int fd, int id);

/**
 * um_agent_send() - send a MAD, or a message of several
 * @umad: struct ib_user_mad, then @len bytes
 * @timeout_ms: of a request, for its response; 0: none is expected
 * @retries: number of repetitions
 * @now_ns: time
 *
 * Return: 0 or -errno.
 */
int um_agent_send(int fd, int id, const void *umad, size_t len, unsigned int timeout_ms,
		  unsigned int retries, int64_t now_ns);

/**
 * um_file_receive() - read the oldest MAD of a file
 * @umad: struct ib_user_mad, then room for @len bytes
 * @len: set to the length of the MAD, also with -ENOSPC
 *
 * Return: the agent's number; -EAGAIN: there is none; -ENOSPC: it is longer, and stays;
 * -EBADF.
 */
int um_file_receive(int fd, void *umad, size_t *len);

/**
 * um_agent_deliver() - deliver a received MAD
 * @from: the sender
 * Return: whether an agent accepts it.
 */
bool um_agent_deliver(const struct ib_mad *mad, const ib_mad_addr_t *from);

/**
 * um_file_forget() - in a child of fork(): close our copies of the parent's files. Without the
 *	lock.
 */
void um_file_forget(void);

/** um_agent_timer() - do what is due. Return: when to call again, INT64_MAX: not needed */
int64_t um_agent_timer(int64_t now_ns);

#endif
