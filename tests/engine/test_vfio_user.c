// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The card of ohca-vfio-user, from the view of a virtual machine monitor: configuration space,
 * memory, interrupts, reset, loss of the fabric; and a driver that uses it.
 */
#include "vmm.h"

/* ---- the card ------------------------------------------------------------------- */

/* Return: bytes of a BAR, determined as firmware does. */
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
	/* read-only fields do not change */
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

/* Accesses at and past the ends of regions, and accesses that are no aligned word. */
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
	/* registers are words */
	assert_int_equal(vmm_read(v, OHCA_BAR_CTRL, OHCA_REG_MAGIC, 2, &val), 0);
	assert_int_equal(val, 0);
}

/* The driver sets the stride of doorbell pages; a read shows which stride is in effect. */
static void test_stride(void **state)
{
	struct vmm *v = &((struct bare *)*state)->v;
	uint64_t val;

	vmm_reg_set(v, OHCA_REG_FEATURES_ACK, 1ull << OHCA_FEATURE_CLOCK, 8);
	for (unsigned int shift = 12; shift <= 16; shift++) {
		vmm_reg_set(v, OHCA_REG_PAGE_SHIFT, shift, 4);
		assert_int_equal(vmm_reg(v, OHCA_REG_PAGE_SHIFT, 4), shift);
		for (unsigned int at = 12; at <= 16; at++) {
			assert_int_equal(vmm_read(v, OHCA_BAR_UAR, (1u << at) + OHCA_UAR_CLOCK, 8, &val), 0);
			assert_int_equal(!!val, at >= shift);
		}
	}
	/* a reset restores the first one */
	vmm_reg_set(v, OHCA_REG_CTRL, OHCA_CTRL_RESET, 4);
	vmm_reg_set(v, OHCA_REG_FEATURES_ACK, 1ull << OHCA_FEATURE_CLOCK, 8);
	assert_int_equal(vmm_read(v, OHCA_BAR_UAR, (1u << 12) + OHCA_UAR_CLOCK, 8, &val), 0);
	assert_int_not_equal(val, 0);
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
		/* the same once more while the card is bus master */
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
	assert_int_equal(vmm_map_as(v, IOVA, 4096, 0, b->mem, VU_DMA_WRITE), EINVAL);
	assert_int_equal(vmm_call(v, &m, VU_DEVICE_INFO, &d, sizeof(d)), 0);
	/*
	 * the machine's RAM, but private; the VMM is a new one, because only its first refusals
	 * print a line
	 */
	vmm_hang_up(v);
	vmm_dial(v);
	assert_int_equal(vmm_version(v), 0);
	assert_int_equal(vmm_map(v, IOVA, BIG, 0, -1), EINVAL);
	vmm_expect_said("guest memory is not shared: -object memory-backend-memfd");
	assert_int_equal(vmm_call(v, &m, VU_DEVICE_INFO, &d, sizeof(d)), EINVAL);
}

/*
 * The file of private memory does not contain what a guest writes, so the card finds no command
 * there.
 */
static void test_private(void **state)
{
	struct bare *b = *state;

	assert_int_equal(vmm_map(&b->v, IOVA, BYTES, 0, b->mem), 0);
	vmm_master(&b->v, true);
	vmm_reg_set(&b->v, OHCA_REG_AQ_BASE, IOVA, 8);
	vmm_reg_set(&b->v, OHCA_REG_AQ_LOG_SIZE, 4, 4);
	/* one line, at the first command */
	for (uint32_t pi = 1; pi <= 2; pi++)
		vmm_reg_set(&b->v, OHCA_REG_AQ_DB, pi, 4);
	assert_int_equal(vmm_expect_said("command is not in shared memory"), 1);
}

/* A guest that repeats this after each reset does not fill the log. A new VMM has a line again. */
static void test_private_again(void **state)
{
	struct bare *b = *state;
	struct vmm_message m;

	for (unsigned int vmm = 0; vmm < 2; vmm++) {
		assert_int_equal(vmm_map(&b->v, IOVA, BYTES, 0, b->mem), 0);
		for (unsigned int i = 0; i < 30; i++) {
			vmm_master(&b->v, true);
			vmm_reg_set(&b->v, OHCA_REG_AQ_BASE, IOVA, 8);
			vmm_reg_set(&b->v, OHCA_REG_AQ_LOG_SIZE, 4, 4);
			vmm_reg_set(&b->v, OHCA_REG_AQ_DB, 1, 4);
			if (i % 2)
				vmm_reg_set(&b->v, OHCA_REG_CTRL, OHCA_CTRL_RESET, 4);
			else
				assert_int_equal(vmm_call(&b->v, &m, VU_DEVICE_RESET, NULL, 0), 0);
		}
		assert_int_equal(vmm_expect_said("command is not in shared memory"), 1);
		vmm_hang_up(&b->v);
		vmm_dial(&b->v);
		assert_int_equal(vmm_version(&b->v), 0);
	}
}

/* A file whose size changes after it was mapped. */
static void test_grown(void **state)
{
	struct bare *b = *state;

	assert_int_equal(vmm_map(&b->v, IOVA, BYTES, 0, b->mem), 0);
	assert_int_equal(ftruncate(b->mem, BIG + 4096), 0);
	assert_int_equal(vmm_map(&b->v, 0, 4096, BIG, b->mem), EINVAL);
	assert_int_equal(vmm_map(&b->v, 0, 4096, BIG - 4096, b->mem), 0);
}

static void test_many_maps(void **state)
{
	struct bare *b = *state;
	const struct vu_dma_unmap all = { sizeof(all), VU_UNMAP_ALL, 0, 0 };
	struct vmm_message m;

	vmm_master(&b->v, true);
	/* not in the order of their addresses */
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

/* SET_IRQS with one byte for each of 4 vectors from @start on. */
static int irq_bytes(struct vmm *v, uint32_t start, const char *bytes, size_t n)
{
	struct {
		struct vu_irq_set s;
		char bytes[4];
	} m = { { sizeof(m.s), VU_IRQ_BOOL | VU_IRQ_TRIGGER, VU_MSIX, start, 4 }, { 0 } };
	struct vmm_message msg;

	memcpy(m.bytes, bytes, n);
	return vmm_call(v, &msg, VU_SET_IRQS, &m, sizeof(m.s) + n);
}

/* Return: how often a vector was raised since the last call. */
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
	struct vmm_message m;
	uint64_t pba;
	int pipefd[2];

	vmm_irqs_on(v);
	assert_int_equal(vmm_irqs(v, none, 3, 2, NULL, 0), 0);
	assert_int_equal(raised(v, 2), 0);
	assert_int_equal(raised(v, 3), 1);
	assert_int_equal(raised(v, 4), 1);
	assert_int_equal(raised(v, 5), 0);
	assert_int_equal(irq_bytes(v, 8, "\0\1\0\1", 4), 0);
	for (unsigned int i = 8; i < 12; i++)
		assert_int_equal(raised(v, i), i % 2);
	assert_int_equal(irq_bytes(v, 8, "\1\1\1", 3), EINVAL);
	assert_int_equal(raised(v, 8), 0);
	/* a vector that is raised without an eventfd is signaled when there is one */
	assert_int_equal(vmm_irqs(v, fds, 3, 1, NULL, 0), 0);
	assert_int_equal(vmm_irqs(v, none, 3, 1, NULL, 0), 0);
	assert_int_equal(raised(v, 3), 0);
	assert_int_equal(vmm_read(v, OHCA_BAR_MSIX, VU_MSIX_PBA, 8, &pba), 0);
	assert_int_equal(pba, 1 << 3);
	assert_int_equal(vmm_irqs(v, fds, 3, 1, &v->irq[3], 1), 0);
	assert_int_equal(raised(v, 3), 1);
	assert_int_equal(vmm_read(v, OHCA_BAR_MSIX, VU_MSIX_PBA, 8, &pba), 0);
	assert_int_equal(pba, 0);
	/* a reset clears it */
	assert_int_equal(vmm_irqs(v, fds, 3, 1, NULL, 0), 0);
	assert_int_equal(vmm_irqs(v, none, 3, 1, NULL, 0), 0);
	assert_int_equal(vmm_call(v, &m, VU_DEVICE_RESET, NULL, 0), 0);
	assert_int_equal(vmm_irqs(v, fds, 3, 1, &v->irq[3], 1), 0);
	assert_int_equal(raised(v, 3), 0);
	/* all off */
	assert_int_equal(vmm_irqs(v, none, 0, 0, NULL, 0), 0);
	assert_int_equal(vmm_irqs(v, none, 0, VU_VECTORS, NULL, 0), 0);
	assert_int_equal(raised(v, 0), 0);
	/* a full counter blocks no thread */
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

/* Commands raise vector 0. */
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

/* Rings for a command that cannot be read, or whose answer cannot be written. */
static void expect_stuck(struct vmm *v, uint32_t pi)
{
	vmm_reg_set(v, OHCA_REG_AQ_DB, pi, 4);
	for (unsigned int i = 0; !(vmm_reg(v, OHCA_REG_STATUS, 4) & OHCA_STATUS_FATAL); i++) {
		assert_in_range(i, 0, LIMIT_MS);
		usleep(1000);
	}
}

static void expect_fatal(struct vmm *v)
{
	expect_stuck(v, (uint32_t)v->m.h->aq_pi + 1);
	/* the asynchronous EQ, which would get an event, cannot be written, either */
	assert_int_equal(vmm_reg(v, OHCA_REG_FATAL_REASON, 4), OHCA_FATAL_EQ_DMA);
}

/* Without bus mastering the card cannot access memory. */
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

/* The card can read a command, but cannot write its completion. */
static void test_read_only(void **state)
{
	struct two *t = *state;

	assert_int_equal(vmm_unmap(&t->v, HOST_BASE, t->v.m.mem_len), 0);
	assert_int_equal(vmm_map_as(&t->v, HOST_BASE, t->v.m.mem_len, 0, t->v.m.mem_fd, VU_DMA_READ), 0);
	expect_fatal(&t->v);
}

static void expect_reset(struct vmm *v)
{
	assert_int_equal(vmm_reg(v, OHCA_REG_STATUS, 4), OHCA_STATUS_READY);
	assert_int_equal(vmm_config(v, PCI_COMMAND, 2), 0);
	assert_int_equal(vmm_config(v, PCI_BASE_ADDRESS_0, 4), PCI_BASE_ADDRESS_MEM_TYPE_64);
	/* the card is not bus master any more */
	vmm_reg_set(v, OHCA_REG_AQ_BASE, v->m.h->aq, 8);
	vmm_reg_set(v, OHCA_REG_ACQ_BASE, v->m.h->acq, 8);
	vmm_reg_set(v, OHCA_REG_AQ_LOG_SIZE, 4, 4);
	vmm_reg_set(v, OHCA_REG_CTRL, OHCA_CTRL_ENABLE, 4);
	assert_int_equal(vmm_reg(v, OHCA_REG_STATUS, 4), OHCA_STATUS_READY | OHCA_STATUS_ENABLED);
	expect_stuck(v, 1);
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
 * The fabric's process ends the HCA, because the guest's memory was truncated. While it is missing
 * the card's status is AWAY, and one line has the reason. Afterwards the card is as after power-on.
 */
static void test_away(void **state)
{
	struct two *t = *state;
	const off_t len = (off_t)t->v.m.mem_len;
	const int fd = memfd_create("more", MFD_CLOEXEC);
	uint64_t val;

	/*
	 * the fabric's process handles SIGBUS when it maps a file, and cmocka does so before each
	 * test
	 */
	assert_int_equal(ftruncate(fd, 4096), 0);
	/* the file that is not truncated is mapped first */
	assert_int_equal(vmm_unmap(&t->v, HOST_BASE, t->v.m.mem_len), 0);
	assert_int_equal(vmm_map(&t->v, 0, 4096, 0, fd), 0);
	assert_int_equal(vmm_map(&t->v, HOST_BASE, t->v.m.mem_len, 0, t->v.m.mem_fd), 0);
	close(fd);
	assert_int_equal(ftruncate(t->v.m.mem_fd, 0), 0);
	vmm_reg_set(&t->v, OHCA_REG_AQ_DB, (uint32_t)t->v.m.h->aq_pi + 1, 4);
	wait_status(&t->v, OHCA_STATUS_AWAY);
	vmm_expect_said("or ohca-fabric --disk-memory if it is in a file system of a block device "
			"(ext4, xfs); trying again\n");
	assert_int_equal(vmm_reg(&t->v, OHCA_REG_MAGIC, 4), OHCA_MAGIC);
	assert_int_equal(vmm_reg(&t->v, OHCA_REG_MAGIC, 2), 0);
	assert_int_equal(vmm_read(&t->v, OHCA_BAR_UAR, OHCA_UAR_CLOCK, 8, &val), 0);
	assert_int_equal(val, UINT64_MAX);
	vmm_reg_set(&t->v, OHCA_REG_CTRL, OHCA_CTRL_RESET, 4);
	vmm_ring(&t->v, 0, OHCA_UAR_SQ, 1);
	assert_int_equal(ftruncate(t->v.m.mem_fd, len), 0);
	wait_status(&t->v, OHCA_STATUS_READY);
	/* one line for the loss, one for the reason, and this one */
	assert_int_equal(vmm_expect_said("the HCA is connected again"), 3);
}

/* The server ends on request, and the HCA leaves the fabric. */
static void test_stop(void **state)
{
	struct two *t = *state;
	uint64_t val;

	assert_int_equal(write(t->v.stop[1], "x", 1), 1);
	wait_free(t->w, 2);
	assert_int_equal(vmm_read(&t->v, OHCA_BAR_CTRL, 0, 4, &val), VMM_GONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_config, bare_setup, bare_teardown),
		cmocka_unit_test_setup_teardown(test_info, bare_setup, bare_teardown),
		cmocka_unit_test_setup_teardown(test_access, bare_setup, bare_teardown),
		cmocka_unit_test_setup_teardown(test_memory, bare_setup, bare_teardown),
		cmocka_unit_test_setup_teardown(test_stride, bare_setup, bare_teardown),
		cmocka_unit_test_setup_teardown(test_private, bare_setup, bare_teardown),
		cmocka_unit_test_setup_teardown(test_private_again, bare_setup, bare_teardown),
		cmocka_unit_test_setup_teardown(test_grown, bare_setup, bare_teardown),
		cmocka_unit_test_setup_teardown(test_many_maps, bare_setup, bare_teardown),
		cmocka_unit_test_setup_teardown(test_many_files, bare_setup, bare_teardown),
		cmocka_unit_test_setup_teardown(test_irqs, bare_setup, bare_teardown),
		cmocka_unit_test_setup_teardown(test_traffic, two_setup, two_teardown),
		cmocka_unit_test_setup_teardown(test_interrupt, two_setup, two_teardown),
		cmocka_unit_test_setup_teardown(test_master, two_setup, two_teardown),
		cmocka_unit_test_setup_teardown(test_unmapped, two_setup, two_teardown),
		cmocka_unit_test_setup_teardown(test_read_only, two_setup, two_teardown),
		cmocka_unit_test_setup_teardown(test_reset, two_setup, two_teardown),
		cmocka_unit_test_setup_teardown(test_flr, two_setup, two_teardown),
		cmocka_unit_test_setup_teardown(test_away, two_setup, two_teardown),
		cmocka_unit_test_setup_teardown(test_stop, two_setup, two_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
