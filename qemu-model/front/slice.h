/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Time slices of threads on the way between a guest and its HCA. */
#ifndef OHCA_FRONT_SLICE_H
#define OHCA_FRONT_SLICE_H

#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OHCA_SLICE_NS	100000u

/* First version of the kernel's struct sched_attr, whose header conflicts with the C library's. */
struct ohca_sched_attr {
	uint32_t size;
	uint32_t policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime;
	uint64_t deadline;
	uint64_t period;
};

/**
 * ohca_short_slice() - let the calling thread run soon after a wake-up
 *
 * A thread with a short slice (Linux 6.12 and later) gets a CPU on which virtual CPUs spin within
 * microseconds instead of at the end of their slices.
 *
 * Return: 0, or errno: slices are longer then.
 */
static inline int ohca_short_slice(void)
{
#if defined(SYS_sched_getattr) && defined(SYS_sched_setattr)
	struct ohca_sched_attr a = { .size = sizeof(a) };

	if (syscall(SYS_sched_getattr, 0, &a, sizeof(a), 0))
		return errno;
	a.size = sizeof(a);
	a.flags = 0;
	a.runtime = OHCA_SLICE_NS;
	return syscall(SYS_sched_setattr, 0, &a, 0) ? errno : 0;
#else
	return ENOSYS;
#endif
}

#endif /* OHCA_FRONT_SLICE_H */
