// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Port attributes, and the cache of P_Keys and GIDs. */
#include <linux/delay.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_smi.h>

#include "fake.h"
#include "ohca_test.h"
#include "port.h"
#include "verbs.h"

#define GUID_CAP	50	/* offset in PortInfo */

/* Answers a Get. A P_Key is its index, a GUID its index + 1. */
static void answer_smp(struct ohca_fake *f, void *mad)
{
	struct ib_smp *smp = mad;
	u32 i, block = be32_to_cpu(smp->attr_mod);

	smp->method = IB_MGMT_METHOD_GET_RESP;
	memset(smp->data, 0, sizeof(smp->data));
	switch (smp->attr_id) {
	case IB_SMP_ATTR_PORT_INFO:
		smp->data[8] = 0xfe;
		smp->data[32] = IB_PORT_ACTIVE;
		smp->data[31] = IB_WIDTH_4X;
		smp->data[35] = f->speed << 4;
		smp->data[36] = IB_MTU_4096 << 4;
		smp->data[41] = IB_MTU_4096;
		/* the first answer has a smaller GUIDCap than later ones */
		smp->data[GUID_CAP] = f->mads ? 255 : 1;
		break;
	case IB_SMP_ATTR_PKEY_TABLE:
		for (i = 0; i < 32; i++)
			((__be16 *)smp->data)[i] = cpu_to_be16(32 * block + i);
		break;
	case IB_SMP_ATTR_GUID_INFO:
		for (i = 0; i < 8; i++)
			((__be64 *)smp->data)[i] = cpu_to_be64(8 * block + i + 1);
		break;
	}
}

static struct ohca_fake *make_ports(struct kunit *test)
{
	struct ohca_fake *f = ohca_fake_make(test);

	f->dev->attr.num_ports = 2;
	f->dev->attr.log_max_gids = 8;
	f->dev->attr.max_pkeys = cpu_to_le16(128);
	f->mad = answer_smp;
	return f;
}

/* The table lengths do not depend on GUIDCap: the core uses the results of two queries. */
static void one_table_length(struct kunit *test)
{
	struct ohca_fake *f = make_ports(test);
	struct task_struct *t = ohca_fake_start(test, f);
	struct ib_port_immutable imm = {};
	struct ib_port_attr attr = {};

	KUNIT_EXPECT_EQ(test, 0, ohca_get_port_immutable(&f->dev->ibdev, 1, &imm));
	KUNIT_EXPECT_EQ(test, 0, ohca_query_port(&f->dev->ibdev, 1, &attr));
	KUNIT_EXPECT_EQ(test, 256, imm.gid_tbl_len);
	KUNIT_EXPECT_EQ(test, imm.gid_tbl_len, attr.gid_tbl_len);
	KUNIT_EXPECT_EQ(test, 128, imm.pkey_tbl_len);
	KUNIT_EXPECT_EQ(test, imm.pkey_tbl_len, attr.pkey_tbl_len);
	f->dev->attr.log_max_gids = 3;
	KUNIT_EXPECT_EQ(test, 0, ohca_query_port(&f->dev->ibdev, 1, &attr));
	KUNIT_EXPECT_EQ(test, 8, attr.gid_tbl_len);
	kthread_stop(t);
	ohca_test_end(f->dev);
}

/* A block is read once, and again after an event of the port; each port has its own cache. */
static void pkey_cache(struct kunit *test)
{
	struct ohca_fake *f = make_ports(test);
	struct task_struct *t = ohca_fake_start(test, f);
	struct ohca_port *p = f->dev->ports;
	u16 i, pkey;

	for (i = 32; i < 64; i++) {
		KUNIT_EXPECT_EQ(test, 0, ohca_query_pkey(&f->dev->ibdev, 1, i, &pkey));
		KUNIT_EXPECT_EQ(test, i, pkey);
		p->pkey_until = (jiffies + HZ) ?: 1;	/* for slow machines */
	}
	KUNIT_EXPECT_EQ(test, 1, f->mads);
	KUNIT_EXPECT_EQ(test, 0, ohca_query_pkey(&f->dev->ibdev, 2, 32, &pkey));
	KUNIT_EXPECT_EQ(test, 2, f->mads);
	ohca_port_changed(f->dev, 1);
	KUNIT_EXPECT_EQ(test, 0, ohca_query_pkey(&f->dev->ibdev, 1, 32, &pkey));
	KUNIT_EXPECT_EQ(test, 3, f->mads);
	/* another block replaces it */
	KUNIT_EXPECT_EQ(test, 0, ohca_query_pkey(&f->dev->ibdev, 1, 127, &pkey));
	KUNIT_EXPECT_EQ(test, 127, pkey);
	KUNIT_EXPECT_EQ(test, 4, f->mads);
	/* an expired block is read again */
	p->pkey_until = jiffies - 1;
	KUNIT_EXPECT_EQ(test, 0, ohca_query_pkey(&f->dev->ibdev, 1, 127, &pkey));
	KUNIT_EXPECT_EQ(test, 5, f->mads);
	KUNIT_EXPECT_EQ(test, -EINVAL, ohca_query_pkey(&f->dev->ibdev, 1, 128, &pkey));
	KUNIT_EXPECT_EQ(test, 5, f->mads);
	kthread_stop(t);
	ohca_test_end(f->dev);
}

/* A GID consists of the prefix from PortInfo and a GUID from GUIDInfo. */
static void gid_cache(struct kunit *test)
{
	struct ohca_fake *f = make_ports(test);
	struct task_struct *t = ohca_fake_start(test, f);
	struct ohca_port *p = f->dev->ports;
	union ib_gid gid;
	int i;

	for (i = 8; i < 16; i++) {
		KUNIT_EXPECT_EQ(test, 0, ohca_query_gid(&f->dev->ibdev, 1, i, &gid));
		KUNIT_EXPECT_EQ(test, i + 1, be64_to_cpu(gid.global.interface_id));
		KUNIT_EXPECT_EQ(test, 0xfe00000000000000ull,
				be64_to_cpu(gid.global.subnet_prefix));
		p->guid_until = (jiffies + HZ) ?: 1;
		p->prefix_until = p->guid_until;
	}
	KUNIT_EXPECT_EQ(test, 2, f->mads);
	KUNIT_EXPECT_EQ(test, 0, ohca_query_gid(&f->dev->ibdev, 1, 255, &gid));
	KUNIT_EXPECT_EQ(test, 256, be64_to_cpu(gid.global.interface_id));
	KUNIT_EXPECT_EQ(test, 3, f->mads);
	ohca_port_changed(f->dev, 1);
	KUNIT_EXPECT_EQ(test, 0, ohca_query_gid(&f->dev->ibdev, 1, 255, &gid));
	KUNIT_EXPECT_EQ(test, 5, f->mads);
	KUNIT_EXPECT_EQ(test, -EINVAL, ohca_query_gid(&f->dev->ibdev, 1, 256, &gid));
	KUNIT_EXPECT_EQ(test, -EINVAL, ohca_query_gid(&f->dev->ibdev, 1, -1, &gid));
	KUNIT_EXPECT_EQ(test, 5, f->mads);
	kthread_stop(t);
	ohca_test_end(f->dev);
}

/* The first rate of a port is no change; another rate is reported once. */
static void rate(struct kunit *test)
{
	struct ohca_fake *f = make_ports(test);
	struct task_struct *t = ohca_fake_start(test, f);
	static const u8 speeds[] = { 4, 4, 2, 2, 4 };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(speeds); i++) {
		f->speed = speeds[i];
		KUNIT_EXPECT_EQ(test, i && speeds[i] != speeds[i - 1],
				ohca_port_rate_changed(f->dev, 1));
	}
	KUNIT_EXPECT_FALSE(test, ohca_port_rate_changed(f->dev, 2));
	kthread_stop(t);
	ohca_test_end(f->dev);
}

static void note_share(struct ohca_fake *f, const struct ohca_hw_aqe *aqe)
{
	*(u32 *)f->priv = OHCA_AQ_CONSUMER_SLOTS - f->dev->aq.consumers.count;
}

/*
 * MADs from the fabric and queries of kernel threads use the driver's slots. Reads of counters by
 * processes use the slots that consumers share.
 */
static void shares(struct kunit *test)
{
	struct ohca_fake *f = make_ports(test);
	struct ib_mad *in = ohca_test_alloc(test, sizeof(*in));
	struct ib_mad *out = ohca_test_alloc(test, sizeof(*out));
	struct ib_port_attr attr = {};
	struct ib_wc wc = {};
	struct task_struct *t;
	size_t size = sizeof(*out);
	u32 share = 9;
	u16 pkey;

	f->cmd = note_share;
	f->priv = &share;
	t = ohca_fake_start(test, f);
	in->mad_hdr.mgmt_class = IB_MGMT_CLASS_PERF_MGMT;
	in->mad_hdr.method = IB_MGMT_METHOD_GET;
	KUNIT_EXPECT_TRUE(test, ohca_process_mad(&f->dev->ibdev, IB_MAD_IGNORE_MKEY, 1, NULL, NULL,
						 in, out, &size, &pkey) & IB_MAD_RESULT_REPLY);
	KUNIT_EXPECT_EQ(test, 1, share);
	KUNIT_EXPECT_TRUE(test, ohca_process_mad(&f->dev->ibdev, 0, 1, &wc, NULL, in, out, &size,
						 &pkey) & IB_MAD_RESULT_REPLY);
	KUNIT_EXPECT_EQ(test, 0, share);
	share = 9;
	KUNIT_EXPECT_EQ(test, 0, ohca_query_port(&f->dev->ibdev, 1, &attr));
	KUNIT_EXPECT_EQ(test, 0, share);
	KUNIT_EXPECT_EQ(test, 3, f->mads);
	kthread_stop(t);
	ohca_test_end(f->dev);
}

static struct kunit_case port_cases[] = {
	KUNIT_CASE(one_table_length),
	KUNIT_CASE(pkey_cache),
	KUNIT_CASE(gid_cache),
	KUNIT_CASE(rate),
	KUNIT_CASE(shares),
	{}
};

static struct kunit_suite port_suite = {
	.name = "ohca-port",
	.test_cases = port_cases,
};

kunit_test_suite(port_suite);
