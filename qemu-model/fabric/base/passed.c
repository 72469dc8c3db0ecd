// SPDX-License-Identifier: GPL-2.0-or-later
/* Descriptors in messages of protocols that have none; see passed.h. */
#include "passed.h"

#include <string.h>

void fab_passed_close(struct fab_closer *c, struct msghdr *m)
{
	for (struct cmsghdr *cm = CMSG_FIRSTHDR(m); cm; cm = CMSG_NXTHDR(m, cm)) {
		if (cm->cmsg_level != SOL_SOCKET || cm->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = CMSG_LEN(0); at + sizeof(int) <= cm->cmsg_len; at += sizeof(int)) {
			int fd;

			memcpy(&fd, (const char *)cm + at, sizeof(fd));
			fab_closer_close(c, fd);
		}
	}
}
