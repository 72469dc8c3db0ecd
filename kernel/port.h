/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* OpenHCA driver: ports; port.c. */
#ifndef OHCA_PORT_H
#define OHCA_PORT_H

#include <linux/mutex.h>
#include <linux/types.h>
#include <rdma/ib_verbs.h>

struct ohca_dev;

#define OHCA_MAX_PORTS	2

/**
 * struct ohca_port - the driver's state of a port
 * @lock: protects the rest
 * @pkey_block: number of the P_Key block in @pkeys
 * @guid_block: number of the GUIDInfo block in @guids
 * @pkey_until: jiffies until which @pkeys is valid; 0: it is not valid
 * @guid_until: the same for @guids
 * @prefix_until: the same for @prefix
 * @pkeys: P_Key block
 * @guids: GUIDInfo block
 * @prefix: GID prefix
 * @rate: active width << 16 | speed when the port was ACTIVE last; not under @lock
 *
 * On each event the core reads the tables entry by entry, but a MAD returns a block.
 * So the driver caches a block for a few milliseconds; an event of the port invalidates
 * it. The interrupt thread takes @lock, so MADs under @lock are sent with
 * ohca_cmd.must: they do not wait for commands of consumers.
 */
struct ohca_port {
	struct mutex lock;	/* see above */
	u16 pkey_block;
	u16 guid_block;
	unsigned long pkey_until;
	unsigned long guid_until;
	unsigned long prefix_until;
	__be16 pkeys[32];
	__be64 guids[8];
	__be64 prefix;
	u32 rate;
};

void ohca_ports_init(struct ohca_dev *dev);
void ohca_port_changed(struct ohca_dev *dev, u32 port);
int ohca_query_port(struct ib_device *ibdev, u32 port, struct ib_port_attr *attr);
bool ohca_port_rate_changed(struct ohca_dev *dev, u32 port);
int ohca_modify_port(struct ib_device *ibdev, u32 port, int mask, struct ib_port_modify *modify);
int ohca_query_pkey(struct ib_device *ibdev, u32 port, u16 index, u16 *pkey);
int ohca_query_gid(struct ib_device *ibdev, u32 port, int index, union ib_gid *gid);
int ohca_get_port_immutable(struct ib_device *ibdev, u32 port, struct ib_port_immutable *imm);
#if IS_ENABLED(CONFIG_KUNIT)
void ohca_port_info_unpack(struct ib_port_attr *attr, const u8 *data);
int ohca_port_info_check(const struct ib_port_attr *attr);
#endif

#endif /* OHCA_PORT_H */
