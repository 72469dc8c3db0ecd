// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The system calls of a 32-bit program: the driver refuses it a context, which a 64-bit one gets.
 */
#define _GNU_SOURCE
#include "local.h"

#include <errno.h>
#include <fcntl.h>
#include <ohca_hw.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/ohca-abi.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __x86_64__

#define I386_WRITE	4	/* write() in the system call table of 32-bit programs */

/* A request to uverbs and its response, in memory with 32-bit addresses. */
struct get_context {
	struct ib_uverbs_cmd_hdr hdr;
	struct ib_uverbs_get_context core;
	struct ohca_alloc_ucontext_req driver;
	struct ib_uverbs_get_context_resp resp;
	struct ohca_alloc_ucontext_resp driver_resp;
} __attribute__((packed, aligned(8)));

#define REQUEST	offsetof(struct get_context, resp)

/* The write() of a 32-bit program. Return: bytes, or an errno as a negative number. */
static int write_32(int fd, const void *buf, size_t len)
{
	int ret;

	__asm__ volatile("int $0x80" : "=a" (ret)
			 : "a" (I386_WRITE), "b" (fd), "c" (buf), "d" (len)
			 : "memory", "cc", "r8", "r9", "r10", "r11");
	return ret;
}

/* Opens the first device's file, without a context of its own. */
static int open_uverbs(void)
{
	struct ibv_context *ctx = device_open();
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "/dev/infiniband/%s", ctx->device->dev_name);
	ibv_close_device(ctx);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		fail("%s: %s", path, strerror(errno));
	return fd;
}

void narrow_main(void)
{
	struct get_context *cmd = mmap(NULL, sizeof(*cmd), PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	int fd = open_uverbs();
	int ret;

	if (cmd == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	*cmd = (struct get_context){
		.hdr = {
			.command = IB_USER_VERBS_CMD_GET_CONTEXT,
			.in_words = REQUEST / 4,
			.out_words = (sizeof(*cmd) - REQUEST) / 4,
		},
		.core.response = (uintptr_t)&cmd->resp,
		.driver.hw_major = OHCA_MAJOR,
	};
	ret = write_32(fd, cmd, REQUEST);
	if (ret != -EOPNOTSUPP)
		fail("a 32-bit program's call returned %d", ret);
	/* the same bytes: only the kind of program differs */
	if (write(fd, cmd, REQUEST) != (ssize_t)REQUEST)
		fail("a 64-bit program's call: %s", strerror(errno));
	if (!cmd->driver_resp.uar_mmap_size)
		fail("a 64-bit program's call has no answer");
	close((int)cmd->resp.async_fd);
	close(fd);
	printf("32-bit program refused\n");
}

#else

void narrow_main(void)
{
	fail("this architecture has no 32-bit system calls in a 64-bit program");
}

#endif
