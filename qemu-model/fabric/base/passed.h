/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Descriptors in messages that must not have them. If the receiver of a message has no room for
 * them, the kernel closes them in the receiver's thread, and that may last for any time (closer.h).
 * So the receiver here has room for all of them, and passes them to the closer.
 *
 * Limit: if the process has no descriptor left, the kernel closes those that come.
 */
#ifndef OHCA_FABRIC_PASSED_H
#define OHCA_FABRIC_PASSED_H

#include <sys/socket.h>

#include "fabric/base/closer.h"

#define FAB_PASSED_MOST		253u	/* in a message: SCM_MAX_FD of Linux */

/** union fab_passed - room for the descriptors of a message */
union fab_passed {
	char buf[CMSG_SPACE(FAB_PASSED_MOST * sizeof(int))];
	struct cmsghdr align;
};

/**
 * fab_passed_expect() - make @m ready for descriptors
 *
 * The caller sets its other members, and receives with MSG_CMSG_CLOEXEC.
 */
static inline void fab_passed_expect(struct msghdr *m, union fab_passed *room)
{
	m->msg_control = room->buf;
	m->msg_controllen = sizeof(room->buf);
}

/** fab_passed_close() - pass the descriptors of @m, which was received, to @c; NULL: close them */
void fab_passed_close(struct fab_closer *c, struct msghdr *m);

#endif
