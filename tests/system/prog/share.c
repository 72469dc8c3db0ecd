// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Several processes of one machine. One of them passes a context, memory and device memory on to
 * another, which uses them even after the first was killed. Children access their copies of
 * registered pages.
 */
#define _GNU_SOURCE
#include "local.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define HALF	(PEER_BUF / 2)
#define DM_LEN	8192u
#define DM_HALF	(DM_LEN / 2)

/** struct note - message of the objects' owner, sent with the two files */
struct note {
	uint64_t addr;		/* of the region, in the owner */
	uint32_t pd, mr, dm;	/* handles */
	uint32_t rkey, dm_rkey;
};

static void note_send(int sock, const struct note *note, int fd0, int fd1)
{
	int fds[2] = { fd0, fd1 };
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(fds))];
	} c = { .head = { CMSG_LEN(sizeof(fds)), SOL_SOCKET, SCM_RIGHTS } };
	struct iovec iov = { (void *)note, sizeof(*note) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &c,
			    .msg_controllen = sizeof(c) };

	memcpy(CMSG_DATA(&c.head), fds, sizeof(fds));
	if (sendmsg(sock, &m, 0) != sizeof(*note))
		fail("sendmsg: %s", strerror(errno));
}

static void note_get(int sock, struct note *note, int *fd0, int *fd1)
{
	int fds[2];
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(fds))];
	} c;
	struct iovec iov = { note, sizeof(*note) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &c,
			    .msg_controllen = sizeof(c) };

	if (recvmsg(sock, &m, 0) != sizeof(*note) || m.msg_controllen != sizeof(c))
		fail("recvmsg: no note");
	memcpy(fds, CMSG_DATA(&c.head), sizeof(fds));
	*fd0 = fds[0];
	*fd1 = fds[1];
}

static void say(int fd)
{
	if (write(fd, "x", 1) != 1)
		fail("nobody listens");
}

static void hear(int fd)
{
	char c;

	if (read(fd, &c, 1) != 1)
		fail("the other process is gone");
}

static void pair(int s[2])
{
	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, s))
		fail("socketpair: %s", strerror(errno));
}

static void *shared(int fd)
{
	void *m = mmap(NULL, PEER_BUF, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (m == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	return m;
}

/* Creates all objects, passes them on, and exits without destroying them. */
static void owner(int sock)
{
	const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	struct ibv_alloc_dm_attr attr = { .length = DM_LEN };
	struct ibv_context *ctx = device_open();
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	int fd = memfd_create("region", 0);
	struct ibv_mr *mr, *dm_mr;
	uint8_t *mem, dm_mem[DM_LEN];
	struct ibv_dm *dm;
	struct note note;

	if (fd < 0 || ftruncate(fd, PEER_BUF))
		fail("memfd: %s", strerror(errno));
	mem = shared(fd);
	fill(mem, HALF, 1);
	mr = ibv_reg_mr(pd, mem, PEER_BUF, all);
	dm = ibv_alloc_dm(ctx, &attr);
	if (!mr || !dm)
		fail("ibv_reg_mr or ibv_alloc_dm: %s", strerror(errno));
	dm_mr = ibv_reg_dm_mr(pd, dm, 0, DM_LEN, all | IBV_ACCESS_ZERO_BASED);
	if (!dm_mr)
		fail("ibv_reg_dm_mr: %s", strerror(errno));
	if (ibv_memcpy_from_dm(dm_mem, dm, 0, DM_LEN))
		fail("ibv_memcpy_from_dm");
	for (unsigned int i = 0; i < DM_LEN; i++)
		if (dm_mem[i])
			fail("new device memory is not zero at %u", i);
	fill(dm_mem, DM_HALF, 2);
	if (ibv_memcpy_to_dm(dm, 0, dm_mem, DM_HALF))
		fail("ibv_memcpy_to_dm");
	note = (struct note) {
		.addr = (uintptr_t)mem, .pd = pd->handle, .mr = mr->handle, .dm = dm->handle,
		.rkey = mr->rkey, .dm_rkey = dm_mr->rkey,
	};
	note_send(sock, &note, ctx->cmd_fd, fd);
	hear(sock);
	check(mem, HALF, 1, "region");
	check(mem + HALF, HALF, 3, "what the importer wrote");
	if (ibv_memcpy_from_dm(dm_mem, dm, 0, DM_LEN))
		fail("ibv_memcpy_from_dm");
	check(dm_mem, DM_HALF, 2, "device memory");
	check(dm_mem + DM_HALF, DM_HALF, 4, "what the importer wrote to device memory");
	_exit(0);
}

/* One RDMA operation of the importer between its own memory and an imported object. */
static void rdma(struct peer *p, enum ibv_wr_opcode op, uint64_t raddr, uint32_t rkey, uint32_t len,
		 const char *what)
{
	struct ibv_sge sge = { (uintptr_t)p->buf, len, p->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = op,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = raddr, .rkey = rkey },
	};

	send_post_raw(p, &wr);
	wc_expect(p->scq, 1, IBV_WC_SUCCESS, what);
}

static void importer_traffic(struct peer *p, const struct note *note, const struct ibv_mr *mr,
			     uint32_t seed)
{
	struct ibv_sge sge = { note->addr, 4096, mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};

	memset(p->buf, 0, PEER_BUF);
	rdma(p, IBV_WR_RDMA_READ, note->addr, mr->rkey, HALF, "READ of an imported region");
	check(p->buf, HALF, 1, "READ of an imported region");
	fill(p->buf, HALF, seed);
	rdma(p, IBV_WR_RDMA_WRITE, note->addr + HALF, mr->rkey, HALF, "WRITE to an imported region");
	rdma(p, IBV_WR_RDMA_READ, 0, note->dm_rkey, DM_HALF, "READ of device memory");
	check(p->buf, DM_HALF, 2, "READ of device memory");
	fill(p->buf, DM_HALF, 4);
	rdma(p, IBV_WR_RDMA_WRITE, DM_HALF, note->dm_rkey, DM_HALF, "WRITE to device memory");
	/* also as local memory: by its address in the owner */
	recv_post(p, 3, HALF, 4096);
	send_post_raw(p, &wr);
	wc_expect(p->scq, 2, IBV_WC_SUCCESS, "SEND from an imported region");
	wc_expect(p->rcq, 3, IBV_WC_SUCCESS, "SEND from an imported region");
	check(p->buf + HALF, 4096, 1, "SEND from an imported region");
}

/* Uses another process's objects, before and after the end of that process. */
static void importer(int sock, int go)
{
	struct peer p = { .sock = -1 };
	uint8_t dm_mem[DM_LEN], *mem;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_dm *dm;
	struct note note;
	int cmd_fd, fd;

	note_get(sock, &note, &cmd_fd, &fd);
	if (ibv_import_device(fd))
		fail("a file that is no device was imported");
	mem = shared(fd);
	ctx = ibv_import_device(cmd_fd);
	if (!ctx)
		fail("ibv_import_device: %s", strerror(errno));
	pd = ibv_import_pd(ctx, note.pd);
	if (!pd)
		fail("ibv_import_pd: %s", strerror(errno));
	mr = ibv_import_mr(pd, note.mr);
	dm = ibv_import_dm(ctx, note.dm);
	if (!mr || !dm)
		fail("ibv_import_mr or ibv_import_dm: %s", strerror(errno));
	if (mr->rkey != note.rkey || mr->length != PEER_BUF)
		fail("imported region: R_Key %#x, %zu bytes", mr->rkey, mr->length);
	/* an invalid handle cannot be imported */
	if (ibv_import_pd(ctx, note.mr) || ibv_import_pd(ctx, 0xffff) ||
	    ibv_import_mr(pd, note.pd) || ibv_import_mr(pd, 0xffff) ||
	    ibv_import_dm(ctx, note.pd) || ibv_import_dm(ctx, 0xffff))
		fail("something was imported that is not there");
	if (ibv_memcpy_from_dm(dm_mem, dm, 0, DM_LEN))
		fail("ibv_memcpy_from_dm");
	check(dm_mem, DM_HALF, 2, "imported device memory");
	if (!ibv_memcpy_from_dm(dm_mem, dm, 4, DM_LEN) || !ibv_memcpy_from_dm(dm_mem, dm, 2, 4) ||
	    !ibv_memcpy_to_dm(dm, DM_LEN, dm_mem, 4) || !ibv_memcpy_to_dm(dm, 0, dm_mem, 3) ||
	    !ibv_memcpy_to_dm(dm, ~0ull - 3, dm_mem, 8))
		fail("an access outside of device memory was allowed");

	peer_open_on(&p, IBV_QPT_RC, ctx, pd);
	peer_connect(&p);
	importer_traffic(&p, &note, mr, 3);
	say(sock);
	/* the owner has exited; its pages still belong to the region */
	hear(go);
	importer_traffic(&p, &note, mr, 5);
	check(mem, HALF, 1, "region of the dead");
	check(mem + HALF, HALF, 5, "what was written to the region of the dead");
	if (ibv_memcpy_from_dm(dm_mem, dm, 0, DM_LEN))
		fail("ibv_memcpy_from_dm");
	check(dm_mem + DM_HALF, DM_HALF, 4, "device memory of the dead");
	peer_close_on(&p);
	ibv_unimport_dm(dm);
	ibv_unimport_mr(mr);
	ibv_unimport_pd(pd);
	if (ibv_close_device(ctx))
		fail("ibv_close_device");
	_exit(0);
}

static void reap(pid_t pid, const char *who)
{
	int status;

	if (waitpid(pid, &status, 0) != pid || status)
		fail("the %s ended with status %#x", who, status);
}

/* All device memory can be allocated: no process has any, and none has leaked. */
static void dm_all(struct ibv_context *ctx)
{
	struct ibv_alloc_dm_attr attr = { .length = 0 };
	struct ibv_device_attr_ex a;
	struct ibv_dm *dm;

	if (ibv_query_device_ex(ctx, NULL, &a) || !a.max_dm_size)
		fail("no device memory");
	attr.length = a.max_dm_size;
	dm = ibv_alloc_dm(ctx, &attr);
	if (!dm)
		fail("not all of the device memory came back: %s", strerror(errno));
	if (ibv_free_dm(dm))
		fail("ibv_free_dm");
	attr.length++;
	if (ibv_alloc_dm(ctx, &attr) || errno != EINVAL)
		fail("more device memory than there is");
}

void share_main(void)
{
	struct ibv_context *ctx;
	pid_t own, imp;
	int s[2], go[2];

	pair(s);
	pair(go);
	own = fork();
	if (!own)
		owner(s[0]);
	imp = fork();
	if (!imp)
		importer(s[1], go[1]);
	close(s[0]);
	close(s[1]);
	reap(own, "owner");
	say(go[0]);
	reap(imp, "importer");
	ctx = device_open();
	dm_all(ctx);
	ibv_close_device(ctx);
	printf("objects outlived their owner\n");
}

/* Device memory is not allocated again while it is mapped, and is zeroed for the next owner. */
void dm_main(void)
{
	struct ibv_context *ctx = device_open(), *other = device_open(), *twin;
	struct ibv_alloc_dm_attr attr = { .length = 4 };
	struct ibv_dm *dm, *import, *rest;
	struct ibv_device_attr_ex a;
	uint32_t page[1024];

	dm_all(ctx);
	if (ibv_query_device_ex(ctx, NULL, &a))
		fail("ibv_query_device_ex");
	attr.length = a.max_dm_size;
	dm = ibv_alloc_dm(ctx, &attr);
	memset(page, 0x5a, sizeof(page));
	for (uint64_t off = 0; off < attr.length; off += sizeof(page))
		if (ibv_memcpy_to_dm(dm, off, page, sizeof(page)))
			fail("ibv_memcpy_to_dm");
	twin = ibv_import_device(dup(ctx->cmd_fd));
	import = twin ? ibv_import_dm(twin, dm->handle) : NULL;
	if (!import)
		fail("import: %s", strerror(errno));
	if (ibv_import_dm(other, dm->handle))
		fail("another context's device memory was imported");
	if (ibv_free_dm(dm))
		fail("ibv_free_dm");
	/* freed, but mapped: still not available */
	attr.length = 4;
	if (ibv_alloc_dm(other, &attr) || errno != ENOMEM)
		fail("device memory that somebody maps was given away");
	if (ibv_memcpy_from_dm(page, import, 0, sizeof(page)) || page[0] != 0x5a5a5a5a)
		fail("freed device memory changed under its mapping");
	ibv_unimport_dm(import);
	attr.length = a.max_dm_size;
	rest = ibv_alloc_dm(other, &attr);
	if (!rest)
		fail("device memory did not come back: %s", strerror(errno));
	for (uint64_t off = 0; off < attr.length; off += sizeof(page)) {
		if (ibv_memcpy_from_dm(page, rest, off, sizeof(page)))
			fail("ibv_memcpy_from_dm");
		for (unsigned int i = 0; i < 1024; i++)
			if (page[i])
				fail("somebody else's data in new device memory");
	}
	if (ibv_free_dm(rest))
		fail("ibv_free_dm");
	ibv_close_device(twin);
	ibv_close_device(other);
	dm_all(ctx);
	ibv_close_device(ctx);
	printf("device memory kept apart\n");
}

static void fork_traffic(struct peer *p, uint32_t seed)
{
	for (uint32_t off = 0; off < HALF; off += 65536) {
		fill(p->buf + off, 65536, seed + off);
		send_post(p, IBV_WR_RDMA_WRITE, 7, off, 65536, HALF + off);
		wc_expect(p->scq, 7, IBV_WC_SUCCESS, "WRITE");
		check(p->buf + HALF + off, 65536, seed + off, "after a fork");
	}
}

void fork_main(bool init)
{
	struct peer p = { .sock = -1 };
	int s[2];

	if (init && ibv_fork_init())
		fail("ibv_fork_init");
	peer_open(&p, IBV_QPT_RC);
	peer_connect(&p);
	for (uint32_t round = 0; round < 8; round++) {
		pid_t pid;

		pair(s);
		fork_traffic(&p, 100 * round);
		pid = fork();
		if (!pid) {
			/* half of the children before the parent writes, half after */
			if (round & 1)
				hear(s[1]);
			if (!init || ibv_is_fork_initialized() == IBV_FORK_UNNEEDED) {
				check(p.buf, 65536, 100 * round, "the child's copy");
				memset(p.buf, 0xee, PEER_BUF);
			}
			say(s[1]);
			hear(s[1]);
			_exit(0);
		}
		if (round & 1) {
			fork_traffic(&p, 100 * round + 1);
			say(s[0]);
		}
		hear(s[0]);
		check(p.buf, 65536, 100 * round + (round & 1), "the parent's memory");
		/* while the child runs, and after its end */
		fork_traffic(&p, 100 * round + 2);
		say(s[0]);
		reap(pid, "child");
		fork_traffic(&p, 100 * round + 3);
		close(s[0]);
		close(s[1]);
	}
	peer_close(&p);
	printf("children harmed nothing\n");
}
