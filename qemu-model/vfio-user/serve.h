/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The server: one VMM after the other has the card. The VMM is not trusted: each of its messages is
 * checked, it can end nothing but its own connection, and it is told by an error what was wrong.
 *
 * One limit remains: a VMM can hold this process up, but no other card. It passes a descriptor of a
 * file whose server (FUSE, NFS) does not answer when it is asked for the file's size or closed, or it
 * makes a write of an eventfd block (vfio-user/irq.h). Only SIGKILL ends the process then.
 */
#ifndef OHCA_VFIO_USER_SERVE_H
#define OHCA_VFIO_USER_SERVE_H

#include "vfio-user/card.h"

#define VU_COMPLAINTS	16u	/* messages of a VMM that are refused with a line of their own */

/**
 * vu_serve() - serve VMMs until told to end
 * @cfg: the card
 * @listener: a listening stream socket; it stays the caller's
 * @stop: readable: it is time to end
 *
 * Return: false: it cannot go on, which was said.
 */
bool vu_serve(const struct vu_cfg *cfg, int listener, int stop);

/**
 * vu_serve_one() - serve a VMM that has connected, until it goes or @stop is readable
 * @sock: its socket, which is closed
 */
void vu_serve_one(const struct vu_cfg *cfg, int sock, int stop);

#endif /* OHCA_VFIO_USER_SERVE_H */
