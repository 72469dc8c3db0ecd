// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Simulates a kernel that has no SMI at a port, as some have had (linux-rdma/opensm #37):
 * LD_PRELOAD this library, and no agent for class 0x81 can be registered.
 */
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/umad.h>

#define IB_CLASS_DIRECTED	0x81

int umad_register(int fd, int mgmt_class, int version, uint8_t rmpp_version,
		  long method_mask[16 / sizeof(long)])
{
	static int (*real)(int, int, int, uint8_t, long[]);

	if (mgmt_class == IB_CLASS_DIRECTED)
		return -EINVAL;
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "umad_register");
	return real(fd, mgmt_class, version, rmpp_version, method_mask);
}
