// SPDX-License-Identifier: GPL-2.0-or-later
/* Sizes of rounds, and the progress that tests read. See rounds.h. */
#include "rounds.h"
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MOST_TIMED	(2u << 20)	/* bytes of a round with a time limit */

const uint32_t round_sizes[ROUND_SIZES] = {
	1, 2, 3, 7, 64, 1000, 4096, 8191, 8192, 8193, 65536, 1000003, 4u << 20, ROUND_MOST,
};

uint32_t round_size(uint64_t *dice)
{
	const uint32_t most = MOST_TIMED >> rnd(dice) % 21;

	return 1 + (uint32_t)rnd(dice) % most;
}

void rounds_tell(const char *name, int number, uint32_t rounds, uint64_t lost, uint64_t healed)
{
	static int fd = -1;
	char text[64];
	int n;

	if (fd < 0) {
		snprintf(text, sizeof(text), "/tmp/%s.%d", name, number);
		fd = open(text, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	}
	n = snprintf(text, sizeof(text), "%10u %10llu %10llu\n", rounds, (unsigned long long)lost,
		     (unsigned long long)healed);
	if (pwrite(fd, text, (size_t)n, 0) != n)
		fail("/tmp/%s.%d: %s", name, number, strerror(errno));
}

bool rounds_go_on(const char *name, int64_t end)
{
	char path[64];

	snprintf(path, sizeof(path), "/tmp/%s.stop", name);
	return ms_now() < end && access(path, F_OK);
}
