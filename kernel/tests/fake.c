// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* A thread that acts as the device. */
#include <linux/delay.h>
#include <linux/io.h>
#include <rdma/ib_mad.h>

#include "aq.h"
#include "fake.h"
#include "fatal.h"
#include "ohca_test.h"
#include "port.h"

#define MASK	(OHCA_AQ_SLOTS - 1)

/** ohca_fake_make - a device without a thread; the driver may reset it */
struct ohca_fake *ohca_fake_make(struct kunit *test)
{
	struct ohca_fake *f = ohca_test_alloc(test, sizeof(*f));
	struct ohca_aq *aq;
	u32 i;

	f->dev = ohca_test_dev(test);
	f->dev->pdev = ohca_test_alloc(test, sizeof(*f->dev->pdev));
	/* there is no configuration space; pci_clear_master() must not access it */
	f->dev->pdev->error_state = pci_channel_io_perm_failure;
	f->dev->cmd_ms = 30000;	/* for busy hosts; below SILENCE of tests/system/kunit */
	ohca_ports_init(f->dev);
	aq = &f->dev->aq;
	ohca_aq_reset(aq);
	aq->db = f->dev->regs + OHCA_REG_AQ_DB;
	aq->sq = ohca_test_alloc(test, OHCA_AQ_SLOTS * sizeof(*aq->sq));
	aq->cq = ohca_test_alloc(test, OHCA_AQ_SLOTS * sizeof(*aq->cq));
	for (i = 0; i < OHCA_AQ_SLOTS; i++) {
		struct ohca_slot *slot = &aq->slots[i];

		slot->in = ohca_test_alloc(test, OHCA_MAILBOX_SIZE);
		slot->out = ohca_test_alloc(test, OHCA_MAILBOX_SIZE);
		slot->in_dma = (uintptr_t)slot->in;
		slot->out_dma = (uintptr_t)slot->out;
	}
	return f;
}

/**
 * ohca_fake_put - write an entry of the ACQ
 * @f: the device
 * @cookie: cookie of the command
 * @status: enum ohca_admin_status
 * @opcode: opcode of the command
 * @handle: result
 */
void ohca_fake_put(struct ohca_fake *f, __le32 cookie, u8 status, u8 opcode, u32 handle)
{
	struct ohca_hw_acqe *e = &f->dev->aq.cq[f->pi & MASK];

	memset(e, 0, offsetof(struct ohca_hw_acqe, phase));
	e->cookie = cookie;
	e->status = status;
	e->opcode = opcode;
	e->handle.handle = cpu_to_le32(handle);
	smp_wmb();	/* the phase is written last */
	WRITE_ONCE(e->phase, !((f->pi >> OHCA_AQ_LOG_SIZE) & 1));
	f->pi++;
}

/* Answers one command. The handle echoes a field of the command. */
static void fake_answer(struct ohca_fake *f, const struct ohca_hw_aqe *aqe)
{
	u32 handle = 0;
	const void *in;
	void *out;

	if (f->cmd)
		f->cmd(f, aqe);
	if (f->deaf && aqe->hdr.opcode == f->deaf)
		return;
	if (f->pause_us)
		usleep_range(f->pause_us, f->pause_us + 100);
	switch (aqe->hdr.opcode) {
	case OHCA_CMD_ALLOC_PD:
		handle = le32_to_cpu(aqe->alloc_pd.uar) + 1;
		break;
	case OHCA_CMD_MAD_IFC:
		in = (void *)(uintptr_t)le64_to_cpu(aqe->mad_ifc.in_addr);
		out = (void *)(uintptr_t)le64_to_cpu(aqe->mad_ifc.out_addr);
		memcpy(out, in, IB_MGMT_MAD_SIZE);
		if (f->mad)
			f->mad(f, out);
		f->mads++;
		handle = OHCA_MAD_REPLY;
		break;
	default:
		break;
	}
	ohca_fake_put(f, aqe->hdr.cookie, f->refuse, aqe->hdr.opcode, handle);
}

/* Reads a batch of commands and answers them in reverse order. */
static int fake_thread(void *data)
{
	struct ohca_hw_aqe batch[4];
	struct ohca_fake *f = data;

	while (!kthread_should_stop()) {
		u32 n = 0, pi = readl(f->dev->aq.db);

		smp_rmb();	/* read the entries after the index */
		while (f->ci != pi && n < ARRAY_SIZE(batch))
			batch[n++] = f->dev->aq.sq[f->ci++ & MASK];
		if (!n)
			usleep_range(10, 50);
		while (n)
			fake_answer(f, &batch[--n]);
	}
	return 0;
}

/** ohca_fake_start - start the thread; kthread_stop() ends it */
struct task_struct *ohca_fake_start(struct kunit *test, struct ohca_fake *f)
{
	struct task_struct *t = kthread_run(fake_thread, f, "ohca-fake");

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, t);
	return t;
}
