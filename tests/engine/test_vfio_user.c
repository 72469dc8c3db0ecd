// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The card of ohca-vfio-user, as a virtual machine monitor has it: configuration space, memory,
 * interrupts, reset, the loss of the fabric; and a driver that works with it.
 */
#include "vmm.h"

/* ---- the card ------------------------------------------------------------------- */

struct bare {
	struct world *w;
	struct vmm v;
	unsigned int fds;
	int mem;
};

#define BYTES	(1u << 20)
#define IOVA	0x100000ull
#define BIG	(32u << 20)		/* too much to do without */

static int bare_setup(void **state)
{
	struct bare *b = calloc(1, sizeof(*b));

	world_setup(state);
	b->w = *state;
	vmm_init(&b->v, b->w, 2);
	b->mem = memfd_create("memory", MFD_CLOEXEC);
	assert_int_equal(ftruncate(b->mem, BIG), 0);
	b->fds = open_fds();
	vmm_dial(&b->v);
	assert_int_equal(vmm_version(&b->v), 0);
	*state = b;
	return 0;
}

static int bare_teardown(void **state)
{
	struct bare *b = *state;

	if (b->v.sock >= 0)
		vmm_hang_up(&b->v);
	wait_free(b->w, 2);
	wait_fds(b->fds);
	vmm_exit(&b->v);
	close(b->mem);
	*state = b->w;
	free(b);
	return world_teardown(state);
}

/* Bytes of a BAR, as firmware finds them. */
static uint64_t bar_bytes(struct vmm *v, unsigned int i)
{
	const uint32_t at = PCI_BASE_ADDRESS_0 + 4 * i;
	const uint32_t wide = vmm_config(v, at, 4) & PCI_BASE_ADDRESS_MEM_TYPE_64;
	uint64_t mask;

	assert_int_equal(vmm_write(v, VU_CONFIG, at, 4, UINT32_MAX), 0);
	if (wide)
		assert_int_equal(vmm_write(v, VU_CONFIG, at + 4, 4, UINT32_MAX), 0);
	mask = vmm_config(v, at, 4) & ~0xfu;
	if (!mask)
		return 0;
	mask |= (wide ? (uint64_t)vmm_config(v, at + 4, 4) : UINT32_MAX) << 32;
	return ~mask + 1;
}

static void test_config(void **state)
{
	struct vmm *v = &((struct bare *)*state)->v;
	uint32_t cap = vmm_config(v, PCI_CAPABILITY_LIST, 1), express = 0, msix = 0;

	assert_int_equal(vmm_config(v, PCI_VENDOR_ID, 4), OHCA_PCI_DEVICE_ID_PF << 16 | OHCA_PCI_VENDOR_ID);
	assert_int_equal(vmm_config(v, PCI_CLASS_REVISION, 4), OHCA_PCI_CLASS << 16 | OHCA_MAJOR);
	assert_int_equal(vmm_config(v, PCI_SUBSYSTEM_VENDOR_ID, 4),
			 OHCA_PCI_DEVICE_ID_PF << 16 | OHCA_PCI_VENDOR_ID);
	assert_int_equal(vmm_config(v, PCI_STATUS, 2), PCI_STATUS_CAP_LIST);
	for (unsigned int i = 0; cap && i < 8; i++, cap = vmm_config(v, cap + 1, 1)) {
		if (vmm_config(v, cap, 1) == PCI_CAP_ID_EXP)
			express = cap;
		else if (vmm_config(v, cap, 1) == PCI_CAP_ID_MSIX)
			msix = cap;
	}
	assert_int_equal(cap, 0);
	assert_int_equal(vmm_config(v, express + PCI_EXP_FLAGS, 2) & PCI_EXP_FLAGS_VERS, 2);
	assert_true(vmm_config(v, express + PCI_EXP_DEVCAP, 4) & PCI_EXP_DEVCAP_FLR);
	assert_int_equal(vmm_config(v, msix + PCI_MSIX_FLAGS, 2), VU_VECTORS - 1);
	assert_int_equal(vmm_config(v, msix + PCI_MSIX_TABLE, 4), OHCA_BAR_MSIX);
	assert_int_equal(vmm_config(v, msix + PCI_MSIX_PBA, 4), VU_MSIX_PBA | OHCA_BAR_MSIX);
	assert_int_equal(bar_bytes(v, OHCA_BAR_CTRL), OHCA_CTRL_BAR_SIZE);
	assert_int_equal(bar_bytes(v, OHCA_BAR_UAR), 8 << 16);
	assert_int_equal(bar_bytes(v, OHCA_BAR_MSIX), VU_MSIX_BYTES);
	assert_int_equal(bar_bytes(v, OHCA_BAR_DM), 0);
	/* what cannot be written is not */
	assert_int_equal(vmm_write(v, VU_CONFIG, PCI_VENDOR_ID, 8, 0), 0);
	assert_int_equal(vmm_config(v, PCI_VENDOR_ID, 2), OHCA_PCI_VENDOR_ID);
}

static void test_info(void **state)
{
	struct vmm *v = &((struct bare *)*state)->v;
	struct vu_device_info d = { .argsz = sizeof(d) };
	struct vu_region_info r;
	struct vu_irq_info q;
	struct vmm_message m;

	assert_int_equal(vmm_call(v, &m, VU_DEVICE_INFO, &d, sizeof(d)), 0);
	memcpy(&d, m.data, sizeof(d));
	assert_int_equal(vmm_call(v, &m, VU_DEVICE_INFO, &(struct vu_device_info){ .argsz = sizeof(d) - 1 },
				  sizeof(d)), EINVAL);
	assert_int_equal(d.flags, VU_DEVICE_IS_PCI | VU_DEVICE_HAS_RESET);
	assert_int_equal(d.regions, VU_REGIONS);
	assert_int_equal(d.irqs, VU_IRQS);
	for (uint32_t i = 0; i <= VU_REGIONS; i++) {
		r = (struct vu_region_info){ .argsz = sizeof(r), .index = i };
		assert_int_equal(vmm_call(v, &m, VU_REGION_INFO, &r, sizeof(r)),
				 i < VU_REGIONS ? 0 : EINVAL);
		if (i == VU_REGIONS)
			break;
		memcpy(&r, m.data, sizeof(r));
		assert_int_equal(r.size, i == VU_CONFIG ? VU_CONFIG_BYTES :
				 i < VU_BARS && i % 2 == 0 ? bar_bytes(v, i) : 0);
		assert_int_equal(r.flags, r.size ? VU_REGION_READABLE | VU_REGION_WRITABLE : 0);
	}
	for (uint32_t i = 0; i <= VU_IRQS; i++) {
		q = (struct vu_irq_info){ .argsz = sizeof(q), .index = i };
		assert_int_equal(vmm_call(v, &m, VU_IRQ_INFO, &q, sizeof(q)), i < VU_IRQS ? 0 : EINVAL);
		memcpy(&q, m.data, sizeof(q));
		if (i < VU_IRQS)
			assert_int_equal(q.count, i == VU_MSIX ? VU_VECTORS : 0);
	}
}

/* Accesses at and beyond the ends of regions, and of no word. */
static void test_access(void **state)
{
	struct vmm *v = &((struct bare *)*state)->v;
	uint64_t val;

	assert_int_equal(vmm_read(v, OHCA_BAR_CTRL, OHCA_CTRL_BAR_SIZE - 8, 8, &val), 0);
	assert_int_equal(vmm_read(v, OHCA_BAR_CTRL, OHCA_CTRL_BAR_SIZE - 4, 8, &val), EINVAL);
	assert_int_equal(vmm_read(v, OHCA_BAR_CTRL, OHCA_CTRL_BAR_SIZE, 4, &val), EINVAL);
	assert_int_equal(vmm_read(v, OHCA_BAR_CTRL, UINT64_MAX - 3, 4, &val), EINVAL);
	assert_int_equal(vmm_read(v, OHCA_BAR_CTRL, 0, 0, &val), EINVAL);
	assert_int_equal(vmm_read(v, OHCA_BAR_CTRL, 0, 16, &val), EINVAL);
	assert_int_equal(vmm_read(v, OHCA_BAR_CTRL, 2, 4, &val), EINVAL);
	assert_int_equal(vmm_read(v, VU_REGIONS, 0, 4, &val), EINVAL);
	assert_int_equal(vmm_read(v, VU_ROM, 0, 4, &val), EINVAL);
	assert_int_equal(vmm_read(v, VU_CONFIG, 0, VU_XFER, &val), 0);
	assert_int_equal(vmm_read(v, VU_CONFIG, 1, VU_XFER, &val), EINVAL);
	assert_int_equal(vmm_read(v, VU_CONFIG, 0, UINT32_MAX, &val), EINVAL);
	assert_int_equal(vmm_write(v, OHCA_BAR_UAR, 0, 8, UINT64_MAX), 0);
	assert_int_equal(vmm_write(v, OHCA_BAR_UAR, (8 << 16) - 8, 8, UINT64_MAX), 0);
	assert_int_equal(vmm_write(v, OHCA_BAR_UAR, 8 << 16, 8, UINT64_MAX), EINVAL);
	assert_int_equal(vmm_read(v, OHCA_BAR_CTRL, OHCA_REG_MAGIC, 4, &val), 0);
	assert_int_equal(val, OHCA_MAGIC);
}

/* ---- memory --------------------------------------------------------------------- */

static void test_memory(void **state)
{
	struct bare *b = *state;
	struct vmm *v = &b->v;
	struct vu_device_info d = { .argsz = sizeof(d) };
	struct vmm_message m;

	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(vmm_map(v, IOVA, BYTES, 0, b->mem), 0);
		assert_int_equal(vmm_map(v, IOVA, BYTES, 0, b->mem), EEXIST);
		assert_int_equal(vmm_map(v, IOVA + BYTES - 4096, BYTES, 0, b->mem), EEXIST);
		assert_int_equal(vmm_map(v, IOVA - 4096, 8192, 0, b->mem), EEXIST);
		assert_int_equal(vmm_map(v, IOVA - 4096, 4096, 0, -1), 0);
		assert_int_equal(vmm_map(v, IOVA + BYTES, 4096, BIG - 4096, b->mem), 0);
		/* the same once more with DMA under way */
		vmm_master(v, true);
		assert_int_equal(vmm_unmap(v, IOVA, BYTES - 4096), EINVAL);
		assert_int_equal(vmm_unmap(v, IOVA + 4096, BYTES), EINVAL);
		assert_int_equal(vmm_unmap(v, IOVA - 4096, 4096), 0);
		assert_int_equal(vmm_unmap(v, IOVA - 4096, 4096), EINVAL);
		assert_int_equal(vmm_unmap(v, IOVA, BYTES + 4096), 0);
		assert_int_equal(vmm_unmap(v, IOVA, BYTES), EINVAL);
	}
	assert_int_equal(vmm_map(v, IOVA, 0, 0, b->mem), EINVAL);
	assert_int_equal(vmm_map(v, IOVA + 1, 4096, 0, b->mem), EINVAL);
	assert_int_equal(vmm_map(v, IOVA, 4096, 1, b->mem), EINVAL);
	assert_int_equal(vmm_map(v, -4096ull, 4096, 0, b->mem), EINVAL);
	assert_int_equal(vmm_map(v, IOVA, 4096, BIG, b->mem), EINVAL);
	assert_int_equal(vmm_map(v, IOVA, 8192, -4096ull, b->mem), EINVAL);
	assert_int_equal(vmm_map(v, IOVA, 4096, 0, v->irq[0]), EINVAL);
	assert_int_equal(vmm_call(v, &m, VU_DEVICE_INFO, &d, sizeof(d)), 0);
	/* the machine's RAM, but private; of a VMM that has not been refused too often for a line */
	vmm_hang_up(v);
	vmm_dial(v);
	assert_int_equal(vmm_version(v), 0);
	assert_int_equal(vmm_map(v, IOVA, BIG, 0, -1), EINVAL);
	vmm_expect_said("guest memory is not shared: -object memory-backend-memfd");
	assert_int_equal(vmm_call(v, &m, VU_DEVICE_INFO, &d, sizeof(d)), EINVAL);
}

static void test_many_maps(void **state)
{
	struct bare *b = *state;
	const struct vu_dma_unmap all = { sizeof(all), VU_UNMAP_ALL, 0, 0 };
	struct vmm_message m;

	vmm_master(&b->v, true);
	/* in an order that is not theirs */
	for (uint64_t i = 0; i < VU_MAPS; i++)
		assert_int_equal(vmm_map(&b->v, IOVA + (i * 389 % VU_MAPS) * 8192, 4096, 4096 * i, b->mem), 0);
	assert_int_equal(vmm_map(&b->v, 0, 4096, 0, b->mem), ENOSPC);
	assert_int_equal(vmm_call(&b->v, &m, VU_DMA_UNMAP, &all, sizeof(all)), 0);
	assert_int_equal(vmm_map(&b->v, 0, 4096, 0, b->mem), 0);
}

static void test_many_files(void **state)
{
	struct bare *b = *state;
	int fd;

	for (uint64_t i = 0; i <= OHCA_FRONT_BLOCKS; i++) {
		fd = memfd_create("one", MFD_CLOEXEC);
		assert_int_equal(ftruncate(fd, 4096), 0);
		assert_int_equal(vmm_map(&b->v, 4096 * i, 4096, 0, fd), i < OHCA_FRONT_BLOCKS ? 0 : ENOSPC);
		close(fd);
	}
	assert_int_equal(vmm_unmap(&b->v, 0, 4096), 0);
	assert_int_equal(vmm_map(&b->v, 0, 4096, 0, b->mem), 0);
}

/* ---- interrupts ----------------------------------------------------------------- */

/* How often a vector was raised since the last call. */
static uint64_t raised(struct vmm *v, unsigned int i)
{
	uint64_t n = 0;

	if (read(v->irq[i], &n, sizeof(n)) < 0)
		assert_int_equal(errno, EAGAIN);
	return n;
}

static void test_irqs(void **state)
{
	struct bare *b = *state;
	const uint32_t fds = VU_IRQ_FDS | VU_IRQ_TRIGGER, none = VU_IRQ_NONE | VU_IRQ_TRIGGER;
	struct vmm *v = &b->v;
	uint64_t pba;
	int pipefd[2];

	vmm_irqs_on(v);
	assert_int_equal(vmm_irqs(v, none, 3, 2, NULL, 0), 0);
	assert_int_equal(raised(v, 2), 0);
	assert_int_equal(raised(v, 3), 1);
	assert_int_equal(raised(v, 4), 1);
	assert_int_equal(raised(v, 5), 0);
	/* what is raised without an eventfd is told when there is one */
	assert_int_equal(vmm_irqs(v, fds, 3, 1, NULL, 0), 0);
	assert_int_equal(vmm_irqs(v, none, 3, 1, NULL, 0), 0);
	assert_int_equal(raised(v, 3), 0);
	assert_int_equal(vmm_read(v, OHCA_BAR_MSIX, VU_MSIX_PBA, 8, &pba), 0);
	assert_int_equal(pba, 1 << 3);
	assert_int_equal(vmm_irqs(v, fds, 3, 1, &v->irq[3], 1), 0);
	assert_int_equal(raised(v, 3), 1);
	assert_int_equal(vmm_read(v, OHCA_BAR_MSIX, VU_MSIX_PBA, 8, &pba), 0);
	assert_int_equal(pba, 0);
	/* all off */
	assert_int_equal(vmm_irqs(v, none, 0, 0, NULL, 0), 0);
	assert_int_equal(vmm_irqs(v, none, 0, VU_VECTORS, NULL, 0), 0);
	assert_int_equal(raised(v, 0), 0);
	/* a counter that is full holds nobody up */
	assert_int_equal(write(v->irq[7], &(uint64_t){ UINT64_MAX - 1 }, 8), 8);
	assert_int_equal(fcntl(v->irq[7], F_SETFL, 0), 0);
	assert_int_equal(vmm_irqs(v, fds, 7, 1, &v->irq[7], 1), 0);
	assert_int_equal(vmm_irqs(v, none, 7, 1, NULL, 0), 0);
	assert_int_equal(pipe(pipefd), 0);
	assert_int_equal(vmm_irqs(v, fds, 0, 1, &pipefd[1], 1), EINVAL);
	assert_int_equal(vmm_irqs(v, fds, 0, 2, &v->irq[0], 1), EINVAL);
	assert_int_equal(vmm_irqs(v, fds, VU_VECTORS, 1, NULL, 0), EINVAL);
	assert_int_equal(vmm_irqs(v, fds, 1, UINT32_MAX, NULL, 0), EINVAL);
	assert_int_equal(vmm_irqs(v, VU_IRQ_BOOL | VU_IRQ_TRIGGER, 0, 1, NULL, 0), EINVAL);
	assert_int_equal(vmm_irqs(v, VU_IRQ_TRIGGER, 0, 1, NULL, 0), EINVAL);
	close(pipefd[0]);
	close(pipefd[1]);
}

/* ---- a machine ------------------------------------------------------------------ */

struct two {
	struct world *w;
	struct vmm v;
	struct machine peer;
	struct host_qp qp[2];
	unsigned int fds;
};

static int two_setup(void **state)
{
	struct two *t = calloc(1, sizeof(*t));

	world_setup(state);
	t->w = *state;
	t->fds = open_fds();
	vmm_init(&t->v, t->w, 2);
	vmm_up(&t->v);
	machine_up(&t->peer, t->w, 3);
	qp_pair(&t->v.m, &t->peer, t->qp);
	*state = t;
	return 0;
}

static int two_teardown(void **state)
{
	struct two *t = *state;

	for (unsigned int i = 0; i < 2; i++)
		host_buf_free(&t->qp[i].buf);
	vmm_down(&t->v);
	vmm_exit(&t->v);
	machine_down(&t->peer);
	wait_free(t->w, 2);
	wait_free(t->w, 3);
	wait_fds(t->fds);
	*state = t->w;
	free(t);
	return world_teardown(state);
}

/* @from writes @len bytes to @to. */
static void talk(struct machine *from, struct machine *to, struct host_qp *qp, uint32_t len, uint8_t seed)
{
	struct ohca_hw_cqe c;

	for (uint32_t k = 0; k < len; k++)
		*(uint8_t *)host_buf_ptr(from->h, &from->mr.buf, k) = (uint8_t)(k * 7 + seed);
	post_write(qp, from, to, len, seed);
	c = wait_cqe(&from->cq);
	assert_int_equal(c.status, WC_SUCCESS);
	for (uint32_t k = 0; k < len; k++)
		assert_int_equal(*(uint8_t *)host_buf_ptr(to->h, &to->mr.buf, k), (uint8_t)(k * 7 + seed));
}

static void test_traffic(void **state)
{
	struct two *t = *state;

	for (uint8_t i = 0; i < 20; i++) {
		talk(&t->v.m, &t->peer, &t->qp[0], i ? 100000 : 8, i);
		talk(&t->peer, &t->v.m, &t->qp[1], i ? 100000 : 8, (uint8_t)(i + 100));
	}
}

/* Commands interrupt by vector 0. */
static void test_interrupt(void **state)
{
	struct two *t = *state;
	struct pollfd p = { .fd = t->v.irq[0], .events = POLLIN };
	struct ohca_hw_aqe cmd = { 0 };

	raised(&t->v, 0);
	vmm_reg_set(&t->v, OHCA_REG_AQ_INTR, 1, 4);
	assert_int_equal(host_cmd(t->v.m.h, OHCA_CMD_NOP, &cmd, NULL), 0);
	assert_int_equal(poll(&p, 1, LIMIT_MS), 1);
	assert_int_not_equal(raised(&t->v, 0), 0);
}

static void expect_fatal(struct vmm *v)
{
	vmm_reg_set(v, OHCA_REG_AQ_DB, (uint32_t)v->m.h->aq_pi + 1, 4);
	for (unsigned int i = 0; !(vmm_reg(v, OHCA_REG_STATUS, 4) & OHCA_STATUS_FATAL); i++) {
		assert_in_range(i, 0, LIMIT_MS);
		usleep(1000);
	}
	/* the asynchronous EQ, by which it would tell, is not reached, either */
	assert_int_equal(vmm_reg(v, OHCA_REG_FATAL_REASON, 4), OHCA_FATAL_EQ_DMA);
}

/* Without bus mastering the card reaches no memory. */
static void test_master(void **state)
{
	struct two *t = *state;

	vmm_master(&t->v, false);
	expect_fatal(&t->v);
}

static void test_unmapped(void **state)
{
	struct two *t = *state;

	assert_int_equal(vmm_unmap(&t->v, HOST_BASE, t->v.m.mem_len), 0);
	expect_fatal(&t->v);
}

static void expect_reset(struct vmm *v)
{
	assert_int_equal(vmm_reg(v, OHCA_REG_STATUS, 4), OHCA_STATUS_READY);
	assert_int_equal(vmm_config(v, PCI_COMMAND, 2), 0);
	assert_int_equal(vmm_config(v, PCI_BASE_ADDRESS_0, 4), PCI_BASE_ADDRESS_MEM_TYPE_64);
}

static void test_reset(void **state)
{
	struct two *t = *state;
	struct vmm_message m;

	assert_int_equal(vmm_write(&t->v, VU_CONFIG, PCI_BASE_ADDRESS_0, 4, 0xfe000000), 0);
	assert_int_equal(vmm_call(&t->v, &m, VU_DEVICE_RESET, NULL, 0), 0);
	expect_reset(&t->v);
}

static void test_flr(void **state)
{
	struct two *t = *state;
	const uint32_t devctl = 0x40 + PCI_EXP_DEVCTL;

	assert_int_equal(vmm_config(&t->v, 0x40, 1), PCI_CAP_ID_EXP);
	assert_int_equal(vmm_write(&t->v, VU_CONFIG, devctl, 2, PCI_EXP_DEVCTL_CERE), 0);
	assert_int_equal(vmm_reg(&t->v, OHCA_REG_STATUS, 4), OHCA_STATUS_READY | OHCA_STATUS_ENABLED);
	assert_int_equal(vmm_write(&t->v, VU_CONFIG, devctl, 2, PCI_EXP_DEVCTL_BCR_FLR), 0);
	expect_reset(&t->v);
	assert_int_equal(vmm_config(&t->v, devctl, 2), 0);
}

static void wait_status(struct vmm *v, uint32_t status)
{
	for (unsigned int i = 0; vmm_reg(v, OHCA_REG_STATUS, 4) != status; i++) {
		assert_in_range(i, 0, LIMIT_MS);
		usleep(1000);
	}
}

/*
 * The fabric's process ends the HCA: the guest's memory has vanished. As long as it stays away
 * the card says AWAY, and why by one line; then it is as after power-on.
 */
static void test_away(void **state)
{
	struct two *t = *state;
	const off_t len = (off_t)t->v.m.mem_len;
	const int fd = memfd_create("more", MFD_CLOEXEC);
	uint64_t val;

	/* the fabric's process handles SIGBUS when it maps a file, and cmocka before each test */
	assert_int_equal(ftruncate(fd, 4096), 0);
	assert_int_equal(vmm_map(&t->v, 0, 4096, 0, fd), 0);
	close(fd);
	assert_int_equal(ftruncate(t->v.m.mem_fd, 0), 0);
	vmm_reg_set(&t->v, OHCA_REG_AQ_DB, (uint32_t)t->v.m.h->aq_pi + 1, 4);
	wait_status(&t->v, OHCA_STATUS_AWAY);
	vmm_expect_said("or ohca-fabric --disk-memory if it is on a disk; trying again\n");
	assert_int_equal(vmm_reg(&t->v, OHCA_REG_MAGIC, 4), OHCA_MAGIC);
	assert_int_equal(vmm_read(&t->v, OHCA_BAR_UAR, OHCA_UAR_CLOCK, 8, &val), 0);
	assert_int_equal(val, UINT64_MAX);
	vmm_reg_set(&t->v, OHCA_REG_CTRL, OHCA_CTRL_RESET, 4);
	vmm_ring(&t->v, 0, OHCA_UAR_SQ, 1);
	assert_int_equal(ftruncate(t->v.m.mem_fd, len), 0);
	wait_status(&t->v, OHCA_STATUS_READY);
	/* one line for the loss, one for the reason, and this one */
	assert_int_equal(vmm_expect_said("the HCA is there again"), 3);
}

/* The server ends when it is told to, and the HCA leaves the fabric. */
static void test_stop(void **state)
{
	struct two *t = *state;
	uint64_t val;

	assert_int_equal(write(t->v.stop[1], "x", 1), 1);
	wait_free(t->w, 2);
	assert_int_equal(vmm_read(&t->v, OHCA_BAR_CTRL, 0, 4, &val), VMM_GONE);
}

/* ---- what is not valid ----------------------------------------------------------- */

#define PROBE	0xbeefu

/* A valid message of each command, and one of none, which change nothing that matters; false: no more. */
static bool nth_message(unsigned int n, struct vmm_message *m)
{
	const struct vu_dma_map map = { sizeof(map), VU_DMA_READ | VU_DMA_WRITE, 0, IOVA, 4096 };
	const struct vu_dma_unmap unmap = { sizeof(unmap), VU_UNMAP_ALL, 0, 0 };
	const struct vu_device_info dev = { .argsz = sizeof(dev) };
	const struct vu_region_info reg = { .argsz = sizeof(reg), .index = VU_CONFIG };
	const struct vu_irq_info irq = { .argsz = sizeof(irq), .index = VU_MSIX };
	const struct vu_irq_set set = { sizeof(set), VU_IRQ_NONE | VU_IRQ_TRIGGER, VU_MSIX, 0, 4 };
	const struct vu_access rd = { OHCA_REG_STATUS, OHCA_BAR_CTRL, 4 };
	const struct vu_access wr = { PCI_COMMAND, VU_CONFIG, 2 };
	const struct {
		enum vu_command command;
		const void *data;
		size_t len;
	} all[] = {
		{ VU_VERSION, "\0\0\0\0{}", 7 },
		{ VU_DMA_MAP, &map, sizeof(map) },
		{ VU_DMA_UNMAP, &unmap, sizeof(unmap) },
		{ VU_DEVICE_INFO, &dev, sizeof(dev) },
		{ VU_REGION_INFO, &reg, sizeof(reg) },
		{ VU_IRQ_INFO, &irq, sizeof(irq) },
		{ VU_SET_IRQS, &set, sizeof(set) },
		{ VU_REGION_READ, &rd, sizeof(rd) },
		{ VU_REGION_WRITE, &wr, sizeof(wr) },
		{ VU_DEVICE_RESET, NULL, 0 },
		{ 6, NULL, 0 },
	};

	if (n == sizeof(all) / sizeof(all[0]))
		return false;
	vmm_begin(m, all[n].command, all[n].data, all[n].len);
	if (all[n].command == VU_REGION_WRITE) {
		m->data[all[n].len] = PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER;
		m->hdr.size += 2;
	}
	return true;
}

/* A connection after its VERSION; the last one, if it is still there. */
static void again(struct vmm *v, bool gone)
{
	if (!gone)
		return;
	vmm_hang_up(v);
	vmm_dial(v);
	assert_int_equal(vmm_version(v), 0);
}

/* Whether the server has ended the connection: all answers up to that of a probe. */
static bool probe(struct vmm *v)
{
	const struct vu_access a = { PCI_VENDOR_ID, VU_CONFIG, 4 };
	struct vmm_message m;

	vmm_begin(&m, VU_REGION_READ, &a, sizeof(a));
	m.hdr.id = PROBE;
	if (!vmm_put(v, &m, m.hdr.size, NULL, 0))
		return true;
	do {
		if (!vmm_get(v, &m))
			return true;
	} while (m.hdr.id != PROBE);
	assert_int_equal(m.hdr.flags & VU_ERROR, 0);
	return false;
}

/* The end comes within a message; or what is left of it is a whole message of that command. */
static void test_truncated(void **state)
{
	struct bare *b = *state;
	struct vmm_message m;
	uint64_t val;

	for (unsigned int n = 0; nth_message(n, &m); n++) {
		for (uint32_t len = 1; len < m.hdr.size; len++) {
			again(&b->v, len > 1);
			assert_true(vmm_put(&b->v, &m, len, NULL, 0));
			shutdown(b->v.sock, SHUT_WR);
			assert_int_equal(vmm_read(&b->v, VU_CONFIG, 0, 4, &val), VMM_GONE);
		}
		again(&b->v, true);
		for (uint32_t len = sizeof(m.hdr); nth_message(n, &m) && len < m.hdr.size; len++) {
			m.hdr.size = len;
			/* VERSION has nothing that must follow it, but may not come twice */
			assert_int_equal(vmm_call_fds(&b->v, &m, NULL, 0), n ? EINVAL : len <
					 sizeof(m.hdr) + sizeof(struct vu_version) ? EINVAL : EPROTO);
			again(&b->v, probe(&b->v));
		}
	}
}

/* Each bit of each message, each with and without a descriptor. The size is test_truncated()'s. */
static void test_flipped(void **state)
{
	struct bare *b = *state;
	struct vmm_message m;

	for (unsigned int n = 0; nth_message(n, &m); n++) {
		for (uint32_t bit = 0; bit < 8 * m.hdr.size; bit++) {
			if (bit / 32 == offsetof(struct vu_hdr, size) / 4)
				continue;
			nth_message(n, &m);
			((uint8_t *)&m)[bit / 8] ^= (uint8_t)(1 << bit % 8);
			assert_true(vmm_put(&b->v, &m, m.hdr.size, &b->mem, bit % 2));
			again(&b->v, probe(&b->v));
		}
	}
}

static void test_sizes(void **state)
{
	static const uint32_t sizes[] = { 0, 1, sizeof(struct vu_hdr) - 1, VU_MESSAGE + 1, UINT32_MAX };
	struct bare *b = *state;
	struct vmm_message m;

	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		nth_message(1, &m);
		m.hdr.size = sizes[i];
		assert_true(vmm_put(&b->v, &m, sizeof(m.hdr), NULL, 0));
		assert_true(probe(&b->v));
		again(&b->v, true);
	}
	/* the longest one is whole */
	nth_message(9, &m);
	m.hdr.size = VU_MESSAGE;
	assert_true(vmm_put(&b->v, &m, VU_MESSAGE, NULL, 0));
	assert_false(probe(&b->v));
}

/* More descriptors than a message has; none is left, as bare_teardown() sees. */
static void test_descriptors(void **state)
{
	struct bare *b = *state;
	struct vmm_message m;
	int fd[VU_FDS + 1];

	for (unsigned int i = 0; i < VU_FDS + 1; i++)
		fd[i] = b->mem;
	for (unsigned int n = 0; nth_message(n, &m); n++) {
		assert_true(vmm_put(&b->v, &m, m.hdr.size, fd, VU_FDS));
		again(&b->v, probe(&b->v));
		nth_message(n, &m);
		assert_true(vmm_put(&b->v, &m, m.hdr.size, fd, VU_FDS + 1));
		assert_true(probe(&b->v));
		again(&b->v, true);
	}
}

/* A VMM that does not read is given up, and the HCA leaves. */
static void test_deaf(void **state)
{
	struct bare *b = *state;
	const struct vu_access a = { 0, VU_CONFIG, VU_XFER };
	struct vmm_message m;

	vmm_begin(&m, VU_REGION_READ, &a, sizeof(a));
	assert_int_equal(fcntl(b->v.sock, F_SETFL, O_NONBLOCK), 0);
	for (unsigned int i = 0; i < 4096; i++)
		if (!vmm_put(&b->v, &m, m.hdr.size, NULL, 0))
			break;
	wait_free(b->w, 2);
}

/* The first message is another one, or of another version. */
static void test_first(void **state)
{
	struct bare *b = *state;
	struct vmm_message m;

	for (unsigned int n = 1; nth_message(n, &m); n++) {
		vmm_hang_up(&b->v);
		vmm_dial(&b->v);
		assert_true(vmm_put(&b->v, &m, m.hdr.size, NULL, 0));
		assert_true(probe(&b->v));
	}
	vmm_hang_up(&b->v);
	vmm_dial(&b->v);
	assert_int_equal(vmm_call(&b->v, &m, VU_VERSION, "\1\0\0\0", 4), EPROTO);
	assert_true(probe(&b->v));
	again(&b->v, true);
	/* once is enough */
	assert_int_equal(vmm_version(&b->v), EPROTO);
	assert_true(probe(&b->v));
}

/* Nobody listens at the fabric's socket. */
static void test_no_fabric(void **state)
{
	struct bare *b = *state;
	struct vmm v;

	vmm_init(&v, b->w, 4);
	v.cfg.fabric = "/nonexistent/fabric";
	vmm_dial(&v);
	assert_int_equal(vmm_version(&v), EHOSTDOWN);
	vmm_expect_said("command 1 of the VMM is refused: there is no HCA");
	assert_int_equal(vmm_version(&v), VMM_GONE);
	vmm_hang_up(&v);
	vmm_exit(&v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_config, bare_setup, bare_teardown),
		cmocka_unit_test_setup_teardown(test_info, bare_setup, bare_teardown),
		cmocka_unit_test_setup_teardown(test_access, bare_setup, bare_teardown),
		cmocka_unit_test_setup_teardown(test_memory, bare_setup, bare_teardown),
		cmocka_unit_test_setup_teardown(test_many_maps, bare_setup, bare_teardown),
		cmocka_unit_test_setup_teardown(test_many_files, bare_setup, bare_teardown),
		cmocka_unit_test_setup_teardown(test_irqs, bare_setup, bare_teardown),
		cmocka_unit_test_setup_teardown(test_no_fabric, bare_setup, bare_teardown),
		cmocka_unit_test_setup_teardown(test_truncated, bare_setup, bare_teardown),
		cmocka_unit_test_setup_teardown(test_flipped, bare_setup, bare_teardown),
		cmocka_unit_test_setup_teardown(test_sizes, bare_setup, bare_teardown),
		cmocka_unit_test_setup_teardown(test_descriptors, bare_setup, bare_teardown),
		cmocka_unit_test_setup_teardown(test_deaf, bare_setup, bare_teardown),
		cmocka_unit_test_setup_teardown(test_first, bare_setup, bare_teardown),
		cmocka_unit_test_setup_teardown(test_traffic, two_setup, two_teardown),
		cmocka_unit_test_setup_teardown(test_interrupt, two_setup, two_teardown),
		cmocka_unit_test_setup_teardown(test_master, two_setup, two_teardown),
		cmocka_unit_test_setup_teardown(test_unmapped, two_setup, two_teardown),
		cmocka_unit_test_setup_teardown(test_reset, two_setup, two_teardown),
		cmocka_unit_test_setup_teardown(test_flr, two_setup, two_teardown),
		cmocka_unit_test_setup_teardown(test_away, two_setup, two_teardown),
		cmocka_unit_test_setup_teardown(test_stop, two_setup, two_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
