// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Ports. The subnet manager sets their attributes in the device's SMA, and the driver reads
 * them from there.
 */
#include <linux/sched.h>
#include <kunit/visibility.h>

#include "aq.h"
#include "compat.h"
#include "dev.h"
#include "port.h"
#include "verbs.h"

#define OHCA_CACHE_TIME		msecs_to_jiffies(20)

/* Byte offsets in PortInfo (IBTA vol 1, 14.2.5.6). */
enum {
	OHCA_PI_GID_PREFIX	= 8,
	OHCA_PI_LID		= 16,
	OHCA_PI_SM_LID		= 18,
	OHCA_PI_CAP_MASK	= 20,
	OHCA_PI_WIDTH_ACTIVE	= 31,
	OHCA_PI_STATE		= 32,	/* low 4 bits */
	OHCA_PI_PHYS_STATE	= 33,	/* high 4 bits */
	OHCA_PI_LMC		= 34,	/* low 3 bits */
	OHCA_PI_SPEED_ACTIVE	= 35,	/* high 4 bits */
	OHCA_PI_MTU_SM_SL	= 36,	/* neighbour MTU | master SM SL */
	OHCA_PI_VL_CAP		= 37,	/* high 4 bits */
	OHCA_PI_INIT_MTU_CAP	= 41,	/* init type reply | MTU cap */
	OHCA_PI_PKEY_VIOLATIONS	= 46,
	OHCA_PI_QKEY_VIOLATIONS	= 48,
	OHCA_PI_SUBNET_TIMEOUT	= 51,	/* low 5 bits */
	OHCA_PI_EXT_SPEED2	= 56,	/* active in bits 6 to 5 */
	OHCA_PI_CAP_MASK2	= 60,
	OHCA_PI_EXT_SPEED	= 62,	/* active in the high 4 bits */
};

/** ohca_ports_init - initialize the driver's state of all ports */
void ohca_ports_init(struct ohca_dev *dev)
{
	u32 i;

	for (i = 0; i < OHCA_MAX_PORTS; i++)
		mutex_init(&dev->ports[i].lock);
}

/** ohca_port_changed - invalidate the cached tables of a port; @port from 1; process context */
void ohca_port_changed(struct ohca_dev *dev, u32 port)
{
	struct ohca_port *p = &dev->ports[port - 1];

	mutex_lock(&p->lock);
	p->pkey_until = 0;
	p->guid_until = 0;
	p->prefix_until = 0;
	mutex_unlock(&p->lock);
}

#define OHCA_CAP2_EXT_SPEEDS2	BIT(11)	/* CapabilityMask2.IsExtendedSpeeds2Supported */

/* @ext: LinkSpeedExtActive; @ext2: LinkSpeedExtActive2, for XDR and faster */
static u16 ohca_ext_speed(u8 ext, u8 ext2)
{
	if (ext2 & 1)
		return IB_SPEED_XDR;
	switch (ext) {
	case 1:
		return IB_SPEED_FDR;
	case 2:
		return IB_SPEED_EDR;
	case 4:
		return IB_SPEED_HDR;
	case 8:
		return IB_SPEED_NDR;
	default:
		return 0;
	}
}

/**
 * ohca_port_info_unpack - convert PortInfo to port attributes
 * @attr: result; fields that are not in PortInfo stay unchanged
 * @data: 64 bytes of PortInfo (IBTA vol 1, 14.2.5.6)
 *
 * Any context.
 */
VISIBLE_IF_KUNIT void ohca_port_info_unpack(struct ib_port_attr *attr, const u8 *data)
{
	u8 ext2 = 0;
	u16 ext;

	attr->subnet_prefix = get_unaligned_be64(data + OHCA_PI_GID_PREFIX);
	attr->lid = get_unaligned_be16(data + OHCA_PI_LID);
	attr->sm_lid = get_unaligned_be16(data + OHCA_PI_SM_LID);
	attr->port_cap_flags = get_unaligned_be32(data + OHCA_PI_CAP_MASK);
	attr->active_width = data[OHCA_PI_WIDTH_ACTIVE];
	attr->state = data[OHCA_PI_STATE] & 0xf;
	attr->phys_state = data[OHCA_PI_PHYS_STATE] >> 4;
	attr->lmc = data[OHCA_PI_LMC] & 7;
	attr->active_speed = data[OHCA_PI_SPEED_ACTIVE] >> 4;
	attr->active_mtu = data[OHCA_PI_MTU_SM_SL] >> 4;
	attr->sm_sl = data[OHCA_PI_MTU_SM_SL] & 0xf;
	attr->max_vl_num = data[OHCA_PI_VL_CAP] >> 4;
	attr->init_type_reply = data[OHCA_PI_INIT_MTU_CAP] >> 4;
	attr->max_mtu = data[OHCA_PI_INIT_MTU_CAP] & 0xf;
	attr->bad_pkey_cntr = get_unaligned_be16(data + OHCA_PI_PKEY_VIOLATIONS);
	attr->qkey_viol_cntr = get_unaligned_be16(data + OHCA_PI_QKEY_VIOLATIONS);
	attr->subnet_timeout = data[OHCA_PI_SUBNET_TIMEOUT] & 0x1f;
	if (attr->port_cap_flags & IB_PORT_CAP_MASK2_SUP)
		attr->port_cap_flags2 = get_unaligned_be16(data + OHCA_PI_CAP_MASK2);
	if (attr->port_cap_flags & IB_PORT_CAP_MASK2_SUP &&
	    attr->port_cap_flags2 & OHCA_CAP2_EXT_SPEEDS2)
		ext2 = data[OHCA_PI_EXT_SPEED2] >> 5 & 3;
	if (attr->port_cap_flags & IB_PORT_EXTENDED_SPEEDS_SUP) {
		ext = ohca_ext_speed(data[OHCA_PI_EXT_SPEED] >> 4, ext2);
		if (ext)
			attr->active_speed = ext;
	}
}

/**
 * ohca_port_info_check - check that port attributes are in range
 * @attr: attributes from ohca_port_info_unpack()
 *
 * Consumers use them as indices and as sizes of allocations. Any context.
 * Return: 0 or -EPROTO.
 */
VISIBLE_IF_KUNIT int ohca_port_info_check(const struct ib_port_attr *attr)
{
	if (attr->max_mtu < IB_MTU_256 || attr->max_mtu > IB_MTU_4096 ||
	    attr->active_mtu < IB_MTU_256 || attr->active_mtu > IB_MTU_4096 ||
	    attr->state < IB_PORT_DOWN || attr->state > IB_PORT_ACTIVE)
		return -EPROTO;
	return 0;
}

/** ohca_query_port - ib_device_ops.query_port */
int ohca_query_port(struct ib_device *ibdev, u32 port, struct ib_port_attr *attr)
{
	struct ohca_dev *dev = to_ohca_dev(ibdev);
	/* kernel threads handle events; any number of threads of processes may query a port */
	bool must = current->flags & PF_KTHREAD;
	struct ib_smp smp;
	int ret;

	ret = ohca_smp_get(dev, port, IB_SMP_ATTR_PORT_INFO, port, must, &smp);
	if (ret)
		return ret;
	ohca_port_info_unpack(attr, smp.data);
	ret = ohca_port_info_check(attr);
	if (ret) {
		dev_err_ratelimited(&dev->pdev->dev, "port %u: invalid PortInfo: MTU %u of %u, state %u\n",
				    port, attr->active_mtu, attr->max_mtu, attr->state);
		return ret;
	}
	/*
	 * The core allocates the GID table with the length of its first query and fills it with
	 * the length of a later query. So the driver returns the constant limit of the device, not
	 * GUIDCap of PortInfo, which may change.
	 */
	attr->gid_tbl_len = 1 << dev->attr.log_max_gids;
	attr->pkey_tbl_len = le16_to_cpu(dev->attr.max_pkeys);
	attr->max_msg_sz = 1u << 31;
	attr->phys_mtu = ib_mtu_enum_to_int(attr->active_mtu);
	return 0;
}

/**
 * ohca_port_rate_changed - record the rate of an ACTIVE port, and whether it has changed
 * @dev: the device
 * @port: from 1
 *
 * Called by the registration, and after ohca_dev.registered is set by the interrupt thread only,
 * so ohca_port.rate needs no lock.
 * Return: true if the rate has changed; false the first time, if the port is not ACTIVE, and if the
 * query fails.
 */
bool ohca_port_rate_changed(struct ohca_dev *dev, u32 port)
{
	struct ohca_port *p = &dev->ports[port - 1];
	struct ib_port_attr attr = {};
	u32 old = p->rate;

	if (ohca_query_port(&dev->ibdev, port, &attr) || attr.state != IB_PORT_ACTIVE)
		return false;
	p->rate = attr.active_width << 16 | attr.active_speed;
	return old && p->rate != old;
}

/** ohca_modify_port - ib_device_ops.modify_port */
int ohca_modify_port(struct ib_device *ibdev, u32 port, int mask, struct ib_port_modify *modify)
{
	u8 flags = 0;

	if (mask & ~IB_PORT_RESET_QKEY_CNTR)
		return -EOPNOTSUPP;
	if (mask & IB_PORT_RESET_QKEY_CNTR)
		flags |= OHCA_MODIFY_PORT_RESET_QKEY_CNTR;
	return ohca_cmd_modify_port(to_ohca_dev(ibdev), port, flags, modify->set_port_cap_mask,
				    modify->clr_port_cap_mask);
}

static bool ohca_cached(unsigned long until)
{
	return until && time_before(jiffies, until);
}

static unsigned long ohca_cache_until(void)
{
	return (jiffies + OHCA_CACHE_TIME) ?: 1;
}

/** ohca_query_pkey - ib_device_ops.query_pkey */
int ohca_query_pkey(struct ib_device *ibdev, u32 port, u16 index, u16 *pkey)
{
	struct ohca_dev *dev = to_ohca_dev(ibdev);
	u16 block = index / ARRAY_SIZE(dev->ports[0].pkeys);
	struct ohca_port *p = &dev->ports[port - 1];
	struct ib_smp smp;
	int ret = 0;

	if (index >= le16_to_cpu(dev->attr.max_pkeys))
		return -EINVAL;
	BUILD_BUG_ON(sizeof(p->pkeys) > sizeof(smp.data));

	mutex_lock(&p->lock);
	if (p->pkey_block != block || !ohca_cached(p->pkey_until)) {
		ret = ohca_smp_get(dev, port, IB_SMP_ATTR_PKEY_TABLE, block, true, &smp);
		if (ret)
			goto out;
		memcpy(p->pkeys, smp.data, sizeof(p->pkeys));
		p->pkey_block = block;
		p->pkey_until = ohca_cache_until();
	}
	*pkey = be16_to_cpu(p->pkeys[index % ARRAY_SIZE(p->pkeys)]);
out:
	mutex_unlock(&p->lock);
	return ret;
}

/* Reads the GID prefix of PortInfo into the cache. Under the port's lock. */
static int ohca_read_prefix(struct ohca_dev *dev, u32 port)
{
	struct ohca_port *p = &dev->ports[port - 1];
	struct ib_smp smp;
	int ret;

	if (ohca_cached(p->prefix_until))
		return 0;
	ret = ohca_smp_get(dev, port, IB_SMP_ATTR_PORT_INFO, port, true, &smp);
	if (ret)
		return ret;
	memcpy(&p->prefix, smp.data + OHCA_PI_GID_PREFIX, sizeof(p->prefix));
	p->prefix_until = ohca_cache_until();
	return 0;
}

/* Reads a block of GUIDInfo into the cache. Under the port's lock. */
static int ohca_read_guids(struct ohca_dev *dev, u32 port, u16 block)
{
	struct ohca_port *p = &dev->ports[port - 1];
	struct ib_smp smp;
	int ret;

	if (p->guid_block == block && ohca_cached(p->guid_until))
		return 0;
	ret = ohca_smp_get(dev, port, IB_SMP_ATTR_GUID_INFO, block, true, &smp);
	if (ret)
		return ret;
	BUILD_BUG_ON(sizeof(p->guids) > sizeof(smp.data));
	memcpy(p->guids, smp.data, sizeof(p->guids));
	p->guid_block = block;
	p->guid_until = ohca_cache_until();
	return 0;
}

/** ohca_query_gid - ib_device_ops.query_gid */
int ohca_query_gid(struct ib_device *ibdev, u32 port, int index, union ib_gid *gid)
{
	struct ohca_dev *dev = to_ohca_dev(ibdev);
	struct ohca_port *p = &dev->ports[port - 1];
	u16 block = index / ARRAY_SIZE(p->guids);
	int ret;

	if (index < 0 || index >= 1 << dev->attr.log_max_gids)
		return -EINVAL;
	mutex_lock(&p->lock);
	ret = ohca_read_prefix(dev, port);
	if (!ret)
		ret = ohca_read_guids(dev, port, block);
	if (ret)
		goto out;
	gid->global.subnet_prefix = p->prefix;
	gid->global.interface_id = p->guids[index % ARRAY_SIZE(p->guids)];
	/* the core expects the zero GID for an unused entry */
	if (!gid->global.interface_id)
		gid->global.subnet_prefix = 0;
out:
	mutex_unlock(&p->lock);
	return ret;
}

/** ohca_get_port_immutable - ib_device_ops.get_port_immutable */
int ohca_get_port_immutable(struct ib_device *ibdev, u32 port, struct ib_port_immutable *imm)
{
	struct ib_port_attr attr = {};
	int ret;

	ret = ohca_query_port(ibdev, port, &attr);
	if (ret)
		return ret;
	imm->pkey_tbl_len = attr.pkey_tbl_len;
	imm->gid_tbl_len = attr.gid_tbl_len;
	imm->core_cap_flags = RDMA_CORE_PORT_IBA_IB;
	imm->max_mad_size = IB_MGMT_MAD_SIZE;
	return 0;
}
