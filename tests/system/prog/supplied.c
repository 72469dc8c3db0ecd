// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A CQ whose memory the consumer passes by the core's attributes, and not in the provider's part of
 * the call: the completions are written there, or the call is refused.
 */
#define _GNU_SOURCE
#include "local.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <ohca_hw.h>
#include <ohca_layout.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ohca-abi.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define LOG	4u
#define SIZE	4096u	/* bytes, more than a CQ of 1 << LOG entries needs */

/* From enum uverbs_attrs_create_cq_cmd_attr_ids; this guest's headers may be older. */
enum {
	BUFFER_VA = 8,
	BUFFER_LENGTH,
	BUFFER_FD,
	BUFFER_OFFSET,
};

/** struct call - a call to create a CQ, with room for all attributes */
struct call {
	struct ib_uverbs_ioctl_hdr hdr;
	struct ib_uverbs_attr attrs[16];
};

static struct ib_uverbs_attr *add(struct call *c, uint16_t id, uint16_t len, uint64_t data)
{
	struct ib_uverbs_attr *a = &c->attrs[c->hdr.num_attrs++];

	a->attr_id = id;
	a->len = len;
	a->flags = UVERBS_ATTR_F_MANDATORY;
	a->data = data;
	return a;
}

/** struct buffer - passed memory: @length bytes at @va, or from @offset on in @fd */
struct buffer {
	const void *va;
	uint64_t length;
	int fd;
	uint64_t offset;
};

/*
 * Creates a CQ. The provider's part of the call contains @own. Returns 0 with @handle, or an errno.
 */
static int create(struct ibv_context *ctx, const void *own, const struct buffer *b,
		  uint32_t *handle)
{
	struct ohca_create_cq_req req = {
		.log_size = LOG, .buf_addr = (uintptr_t)own, .buf_size = SIZE,
	};
	struct ohca_create_cq_resp resp;
	struct call c = {
		.hdr = { .object_id = UVERBS_OBJECT_CQ, .method_id = UVERBS_METHOD_CQ_CREATE },
	};
	struct ib_uverbs_attr *id = add(&c, UVERBS_ATTR_CREATE_CQ_HANDLE, 0, 0);
	uint32_t cqe;

	add(&c, UVERBS_ATTR_CREATE_CQ_CQE, 4, 1 << LOG);
	add(&c, UVERBS_ATTR_CREATE_CQ_USER_HANDLE, 8, 0);
	add(&c, UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, 4, 0);
	add(&c, UVERBS_ATTR_CREATE_CQ_FLAGS, 4, 0);
	add(&c, UVERBS_ATTR_CREATE_CQ_RESP_CQE, sizeof(cqe), (uintptr_t)&cqe);
	add(&c, UVERBS_ATTR_UHW_IN, sizeof(req), (uintptr_t)&req);
	add(&c, UVERBS_ATTR_UHW_OUT, sizeof(resp), (uintptr_t)&resp);
	if (b && b->va) {
		add(&c, BUFFER_VA, 8, (uintptr_t)b->va);
	} else if (b) {
		add(&c, BUFFER_FD, 0, 0)->data_s64 = b->fd;
		add(&c, BUFFER_OFFSET, 8, b->offset);
	}
	if (b)
		add(&c, BUFFER_LENGTH, 8, b->length);
	c.hdr.length = (uint16_t)(sizeof(c.hdr) + c.hdr.num_attrs * sizeof(c.attrs[0]));
	if (ioctl(ctx->cmd_fd, RDMA_VERBS_IOCTL, &c.hdr))
		return errno;
	*handle = (uint32_t)id->data;
	return 0;
}

/* Creates a QP in the error state with sends to the CQ with this handle: one is flushed. */
static void flush_one(struct peer *p, uint32_t handle)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_send_wr wr = { .wr_id = 77, .opcode = IBV_WR_SEND };
	uint32_t own = p->scq->handle;
	struct ibv_qp *qp;

	/* the provider does not know this CQ, and uses only its handle */
	p->scq->handle = handle;
	qp = peer_qp(p, p->pd);
	p->scq->handle = own;
	if (ibv_destroy_qp(p->qp) || ibv_modify_qp(qp, &attr, IBV_QP_STATE))
		fail("QP: %s", strerror(errno));
	p->qp = qp;
	send_post_raw(p, &wr);
}

static bool zero(const uint8_t *m)
{
	return !m[0] && !memcmp(m, m + 1, SIZE - 1);
}

/* The first entry at @m must become a completion. */
static void expect_cqe(const uint8_t *m, const char *where)
{
	const struct ohca_hw_cqe *e = (const void *)(m + OHCA_CQ_RING_OFFSET);
	int64_t end = ms_now() + 20000;

	while (!(__atomic_load_n(&e->owner, __ATOMIC_ACQUIRE) & 1))
		if (ms_now() > end)
			fail("no completion in %s", where);
	if (e->wr_id != 77)
		fail("a completion of %llu in %s", (unsigned long long)e->wr_id, where);
}

static uint8_t *page(int fd)
{
	void *m = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
		       fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);

	if (m == MAP_FAILED)
		fail("mmap: %s", strerror(errno));
	return m;
}

/* The device writes a CQ as normal memory, but a dma-buf may belong to another device. */
static void dmabuf(struct peer *p, const uint8_t *own)
{
	struct udmabuf_create create_buf = { .size = SIZE };
	int dev = open("/dev/udmabuf", O_RDWR), mem = memfd_create("cq", MFD_ALLOW_SEALING);
	struct buffer b = { .length = SIZE };
	uint32_t handle;
	int err;

	if (dev < 0)
		return;
	if (mem < 0 || ftruncate(mem, SIZE) || fcntl(mem, F_ADD_SEALS, F_SEAL_SHRINK))
		fail("memfd: %s", strerror(errno));
	create_buf.memfd = (uint32_t)mem;
	b.fd = ioctl(dev, UDMABUF_CREATE, &create_buf);
	if (b.fd < 0)
		fail("UDMABUF_CREATE: %s", strerror(errno));
	err = create(p->ctx, own, &b, &handle);
	if (err != EOPNOTSUPP)
		fail("a CQ in a dma-buf: %s", strerror(err));
	close(b.fd);
	close(mem);
	close(dev);
}

void supplied_main(void)
{
	struct peer p = { .sock = -1 };
	uint8_t *own = page(-1), *mem = page(-1);
	struct buffer b = { .va = mem, .length = SIZE };
	uint32_t handle;
	int err;

	peer_open(&p, IBV_QPT_RC);
	/* the call itself is valid */
	err = create(p.ctx, own, NULL, &handle);
	if (err)
		fail("a CQ in the provider's memory: %s", strerror(err));
	flush_one(&p, handle);
	expect_cqe(own, "the provider's memory");
	memset(own, 0, SIZE);

	err = create(p.ctx, own, &b, &handle);
	if (err == EPROTONOSUPPORT || err == EOPNOTSUPP) {
		if (create(p.ctx, own, &(struct buffer){ .fd = 0, .length = SIZE }, &handle) != err)
			fail("a dma-buf is not refused as memory is");
		printf("such memory is refused\n");
		return;
	}
	if (err)
		fail("a CQ in supplied memory: %s", strerror(err));
	flush_one(&p, handle);
	expect_cqe(mem, "the supplied memory");
	if (!zero(own))
		fail("the provider's memory was written");
	/* too short for the entries of the provider's part */
	b.length = ohca_cq_buf_size(LOG) - 1;
	if (!create(p.ctx, own, &b, &handle))
		fail("a CQ in memory that is too short");
	dmabuf(&p, own);
	printf("completions lay in supplied memory\n");
}
