// SPDX-License-Identifier: GPL-2.0-or-later
/* The file of a subnet manager; see issm.h. */
#include "issm.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "node.h"

#define LOOK_NS		50000000ll	/* between checks: there is no event when it is opened */

static int writer = -1;
static bool is_open;

int um_issm_path(char *path, size_t size)
{
	int fds[2];

	if (writer < 0) {
		if (pipe2(fds, O_CLOEXEC | O_NONBLOCK))
			return -errno;
		close(fds[0]);
		writer = fds[1];
	}
	if (snprintf(path, size, "/proc/self/fd/%d", writer) >= (int)size)
		return -ENAMETOOLONG;
	return 0;
}

int64_t um_issm_update(int64_t now_ns)
{
	struct pollfd p = { .fd = writer };

	if (writer < 0 || poll(&p, 1, 0) < 0)
		return INT64_MAX;
	is_open = !(p.revents & POLLERR);
	um_node_set_sm(is_open);
	return is_open ? INT64_MAX : now_ns + LOOK_NS;
}

int um_issm_fd(void)
{
	return is_open ? writer : -1;
}
