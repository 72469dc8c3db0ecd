// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * libibumad's functions that send and receive MADs, over a link to ohca-fabric: a program with this
 * library preloaded is a machine of the fabric. libibumad's manual pages describe their arguments
 * and results; functions that are not here or in device.c are the real library's, and need no
 * device.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include <infiniband/umad.h>

#include "agent.h"
#include "wire.h"

int umad_init(void)
{
	return um_wire_init();
}

int umad_done(void)
{
	return 0;
}

/* The layout with the P_Key's index; the real library asks the kernel for the layout. */
size_t umad_size(void)
{
	return sizeof(struct ib_user_mad);
}

void *umad_get_mad(void *umad)
{
	return ((struct ib_user_mad *)umad)->data;
}

int umad_set_pkey(void *umad, int pkey_index)
{
	((struct ib_user_mad *)umad)->addr.pkey_index = (uint16_t)pkey_index;
	return 0;
}

int umad_get_pkey(void *umad)
{
	return ((struct ib_user_mad *)umad)->addr.pkey_index;
}

/* Return: 0, or -EIO, also in errno: the port belongs to the parent of this process. */
static int check_alive(void)
{
	if (!um_wire_is_dead())
		return 0;
	errno = EIO;
	return -EIO;
}

int umad_open_port(const char *ca_name, int portnum)
{
	umad_port_t port;
	int fd;

	if (check_alive())
		return -EIO;
	if (umad_get_port(ca_name, portnum, &port))
		return -ENODEV;
	umad_release_port(&port);
	um_lock();
	fd = um_file_open();
	um_unlock();
	return fd;
}

int umad_open_smi_port(const char *ca_name, int portnum)
{
	return umad_open_port(ca_name, portnum);
}

int umad_close_port(int portid)
{
	int r;

	um_lock();
	r = um_file_close(portid);
	um_unlock();
	return r;
}

int umad_get_fd(int portid)
{
	return portid;
}

/* ---- agents -------------------------------------------------------------------- */

static int add_agent(int portid, const struct umad_reg_attr *attr)
{
	int r;

	if (check_alive())
		return -EIO;
	um_lock();
	r = um_agent_add(portid, attr);
	um_unlock();
	return r;
}

static int add_class(int portid, int class, int version, uint8_t rmpp, uint32_t oui,
		     const long mask[16 / sizeof(long)])
{
	struct umad_reg_attr attr = {
		.mgmt_class = (uint8_t)class,
		.mgmt_class_version = (uint8_t)version,
		.oui = oui,
		.rmpp_version = rmpp,
	};
	int r;

	if (mask)
		memcpy(attr.method_mask, mask, sizeof(attr.method_mask));
	r = add_agent(portid, &attr);
	return r == -EBADF ? -EINVAL : r;
}

int umad_register(int portid, int mgmt_class, int mgmt_version, uint8_t rmpp_version,
		  long method_mask[16 / sizeof(long)])
{
	return add_class(portid, mgmt_class, mgmt_version, rmpp_version, 0, method_mask);
}

int umad_register_oui(int portid, int mgmt_class, uint8_t rmpp_version, uint8_t oui[3],
		      long method_mask[16 / sizeof(long)])
{
	if (mgmt_class < 0x30 || mgmt_class > 0x4f)
		return -EINVAL;
	return add_class(portid, mgmt_class, 1, rmpp_version,
			 (uint32_t)(oui[0] << 16 | oui[1] << 8 | oui[2]), method_mask);
}

int umad_register2(int port_fd, struct umad_reg_attr *attr, uint32_t *agent_id)
{
	int r;

	if (!attr || !agent_id || attr->flags & ~(uint32_t)UMAD_USER_RMPP)
		return EINVAL;
	r = add_agent(port_fd, attr);
	if (r < 0)
		return -r;
	*agent_id = (uint32_t)r;
	return 0;
}

int umad_unregister(int portid, int agentid)
{
	int r;

	um_lock();
	r = um_agent_remove(portid, agentid);
	um_unlock();
	return r;
}

/* ---- MADs ---------------------------------------------------------------------- */

int umad_send(int portid, int agentid, void *umad, int length, int timeout_ms, int retries)
{
	int r = -EINVAL;

	if (check_alive())
		return -EIO;
	if (length > 0) {
		um_lock();
		r = um_agent_send(portid, agentid, umad, (size_t)length,
				  timeout_ms > 0 ? (unsigned int)timeout_ms : 0,
				  retries > 0 ? (unsigned int)retries : 0, um_now_ns());
		um_unlock();
	}
	if (!r)
		return 0;
	errno = -r;
	return -EIO;
}

int umad_poll(int portid, int timeout_ms)
{
	struct pollfd p = { .fd = portid, .events = POLLIN };
	int r = poll(&p, 1, timeout_ms);

	if (r == 1)
		return 0;
	if (r < 0)
		return -EIO;
	errno = ETIMEDOUT;
	return -ETIMEDOUT;
}

int umad_recv(int portid, void *umad, int *length, int timeout_ms)
{
	const int64_t end = um_now_ns() + timeout_ms * 1000000ll;
	size_t len;
	int r, left;

	if (check_alive())
		return -EIO;
	if (*length < 0) {
		errno = EINVAL;
		return -EINVAL;
	}
	for (;;) {
		len = (size_t)*length;
		um_lock();
		r = um_file_receive(portid, umad, &len);
		um_unlock();
		if (r != -EAGAIN)
			break;
		if (!timeout_ms) {
			errno = EWOULDBLOCK;
			return -EWOULDBLOCK;
		}
		/* another thread may have received the MAD */
		left = timeout_ms < 0 ? -1 : (int)((end - um_now_ns() + 999999) / 1000000);
		r = umad_poll(portid, timeout_ms < 0 || left > 0 ? left : 0);
		if (r)
			return r;
	}
	if (r == -EBADF)
		len = 0;
	*length = (int)len;
	if (r < 0)
		errno = -r;
	return r;
}
