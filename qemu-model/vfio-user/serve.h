/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The server: one VMM after the other gets the card. The VMM is not trusted: each of its messages
 * is checked, it can end only its own connection, and an error states what was wrong.
 *
 * One limit remains: a VMM can block this process, but no other card. It can pass a descriptor of a
 * file whose server (FUSE, NFS) does not answer a request for the file's size or a close, or it
 * can make a write of an eventfd block (vfio-user/irq.h). Only SIGKILL ends the process then.
 */
#ifndef OHCA_VFIO_USER_SERVE_H
#define OHCA_VFIO_USER_SERVE_H

#include "vfio-user/card.h"

#define VU_COMPLAINTS	16u	/* refused messages of a VMM that are each printed */

/**
 * vu_serve() - serve VMMs until @stop
 * @cfg: the card
 * @listener: a listening stream socket; it stays the caller's
 * @stop: readable when the server must end
 *
 * Return: false: it cannot continue; the error was printed.
 */
bool vu_serve(const struct vu_cfg *cfg, int listener, int stop);

/**
 * vu_serve_one() - serve a VMM that has connected, until it disconnects or @stop is readable
 * @sock: its socket, which is closed
 */
void vu_serve_one(const struct vu_cfg *cfg, int sock, int stop);

#endif /* OHCA_VFIO_USER_SERVE_H */
