/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A descriptor in a message that may have none. */
#ifndef PASS_H
#define PASS_H

#include <fcntl.h>
#include <unistd.h>

#include "cases.h"
#include "../engine/fds.h"

/* Sends the read end of a pipe, and closes it here. Return: the write end. */
static inline int pass_pipe(int fd)
{
	int ends[2];

	assert_int_equal(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
	assert_int_equal(fds_send(fd, "", 1, &ends[0], 1, 0), 1);
	close(ends[0]);
	return ends[1];
}

#endif
