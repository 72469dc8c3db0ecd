/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A virtual machine monitor at an ohca-vfio-user, which runs in a thread of the test: its messages,
 * and a machine of front_world.h whose driver accesses the card by them.
 */
#ifndef OHCA_TEST_VMM_H
#define OHCA_TEST_VMM_H

#include <linux/pci_regs.h>
#include <sys/eventfd.h>

#include "front_world.h"
#include "vfio-user/say.h"
#include "vfio-user/serve.h"

#define VMM_WORK	7u		/* id of commands that need an answer */
#define VMM_GONE	(-1)		/* instead of errno: the server has closed the connection */

/**
 * struct vmm - a VMM
 * @m: its machine, which is up after vmm_up()
 * @cfg: of the card
 * @sock: to the server; @far: the server's end, until it runs
 * @stop: a write to it ends the server
 * @irq: eventfds of vectors
 */
struct vmm {
	struct machine m;
	struct vu_cfg cfg;
	int sock, far;
	int stop[2];
	int irq[VU_VECTORS];
	pthread_t thread;
};

/* Lines for users since the last server began; the thread of the server writes them. */
static char vmm_said[8192];
static pthread_mutex_t vmm_mutex = PTHREAD_MUTEX_INITIALIZER;

void vu_say(const char *fmt, ...)
{
	size_t at;
	va_list ap;

	pthread_mutex_lock(&vmm_mutex);
	at = strlen(vmm_said);
	va_start(ap, fmt);
	vsnprintf(vmm_said + at, sizeof(vmm_said) - at, fmt, ap);
	va_end(ap);
	if (getenv("OHCA_TRACE"))
		print_message("%s\n", vmm_said + at);
	at = strlen(vmm_said);
	snprintf(vmm_said + at, sizeof(vmm_said) - at, "\n");
	pthread_mutex_unlock(&vmm_mutex);
}

/* Waits for a line with @what. Return: the number of lines. */
static inline unsigned int vmm_expect_said(const char *what)
{
	char said[sizeof(vmm_said)];
	unsigned int lines = 0;

	for (unsigned int i = 0; i < LIMIT_MS; i++) {
		pthread_mutex_lock(&vmm_mutex);
		memcpy(said, vmm_said, sizeof(said));
		pthread_mutex_unlock(&vmm_mutex);
		if (strstr(said, what))
			break;
		usleep(1000);
	}
	if (!strstr(said, what))
		fail_msg("'%s' instead of '%s'", said, what);
	for (const char *s = said; *s; s++)
		lines += *s == '\n';
	return lines;
}

/** struct vmm_message - a message, with room for its data */
struct vmm_message {
	struct vu_hdr hdr;
	uint8_t data[VU_MESSAGE];
};

static inline void *vmm_server(void *arg)
{
	struct vmm *v = arg;

	vu_serve_one(&v->cfg, v->far, v->stop[0]);
	return NULL;
}

static inline bool vmm_put(struct vmm *v, const void *msg, size_t n, const int *fd, unsigned int fds)
{
	return fds_send(v->sock, msg, n, fd, fds, 0) == (ssize_t)n;
}

/* Reads all of @n bytes. Return: false at the end of the connection. */
static inline bool vmm_take(struct vmm *v, void *buf, size_t n)
{
	struct pollfd p = { .fd = v->sock, .events = POLLIN };
	ssize_t got;

	for (size_t at = 0; at < n; at += (size_t)got) {
		assert_int_equal(poll(&p, 1, LIMIT_MS), 1);
		got = recv(v->sock, (char *)buf + at, n - at, 0);
		if (got <= 0)
			return false;
	}
	return true;
}

/* Reads the next answer. Return: false at the end of the connection. */
static inline bool vmm_get(struct vmm *v, struct vmm_message *m)
{
	if (!vmm_take(v, &m->hdr, sizeof(m->hdr)))
		return false;
	assert_int_equal(m->hdr.flags & VU_TYPE, VU_TYPE_REPLY);
	assert_in_range(m->hdr.size, sizeof(m->hdr), sizeof(*m));
	return vmm_take(v, m->data, m->hdr.size - sizeof(m->hdr));
}

static inline void vmm_begin(struct vmm_message *m, unsigned int command, const void *data, size_t len)
{
	memset(m, 0, sizeof(*m));
	m->hdr = (struct vu_hdr){
		.id = VMM_WORK, .command = (uint16_t)command,
		.size = (uint32_t)(sizeof(m->hdr) + len),
	};
	if (len)
		memcpy(m->data, data, len);
}

/* Sends a command with descriptors, and reads its answer into @m. Return: 0, errno, or VMM_GONE. */
static inline int vmm_call_fds(struct vmm *v, struct vmm_message *m, const int *fd, unsigned int fds)
{
	const unsigned int command = m->hdr.command;

	if (!vmm_put(v, m, m->hdr.size, fd, fds) || !vmm_get(v, m))
		return VMM_GONE;
	assert_int_equal(m->hdr.id, VMM_WORK);
	assert_int_equal(m->hdr.command, command);
	if (!(m->hdr.flags & VU_ERROR))
		return 0;
	assert_int_equal(m->hdr.size, sizeof(m->hdr));
	assert_int_not_equal(m->hdr.error, 0);
	return (int)m->hdr.error;
}

static inline int vmm_call(struct vmm *v, struct vmm_message *m, unsigned int command, const void *data,
			   size_t len)
{
	vmm_begin(m, command, data, len);
	return vmm_call_fds(v, m, NULL, 0);
}

static inline int vmm_version(struct vmm *v)
{
	struct vmm_message m;
	int error = vmm_call(v, &m, VU_VERSION, "\0\0\0\0{}", 7);

	if (!error)
		assert_non_null(strstr((char *)m.data + sizeof(struct vu_version), "\"max_msg_fds\":16"));
	return error;
}

static inline int vmm_map_as(struct vmm *v, uint64_t iova, uint64_t len, uint64_t off, int fd,
			     uint32_t flags)
{
	const struct vu_dma_map d = { sizeof(d), flags, off, iova, len };
	struct vmm_message m;

	vmm_begin(&m, VU_DMA_MAP, &d, sizeof(d));
	return vmm_call_fds(v, &m, &fd, fd >= 0);
}

static inline int vmm_map(struct vmm *v, uint64_t iova, uint64_t len, uint64_t off, int fd)
{
	return vmm_map_as(v, iova, len, off, fd, VU_DMA_READ | VU_DMA_WRITE);
}

static inline int vmm_unmap(struct vmm *v, uint64_t iova, uint64_t len)
{
	const struct vu_dma_unmap d = { sizeof(d), 0, iova, len };
	struct vmm_message m;

	return vmm_call(v, &m, VU_DMA_UNMAP, &d, sizeof(d));
}

static inline int vmm_read(struct vmm *v, uint32_t region, uint64_t off, uint32_t n, uint64_t *val)
{
	const struct vu_access a = { off, region, n };
	struct vmm_message m;
	int error = vmm_call(v, &m, VU_REGION_READ, &a, sizeof(a));

	*val = 0;
	if (!error) {
		assert_int_equal(m.hdr.size, sizeof(m.hdr) + sizeof(a) + n);
		memcpy(val, m.data + sizeof(a), n < 8 ? n : 8);
	}
	return error;
}

static inline int vmm_write(struct vmm *v, uint32_t region, uint64_t off, uint32_t n, uint64_t val)
{
	uint8_t buf[sizeof(struct vu_access) + 8];
	const struct vu_access a = { off, region, n };
	struct vmm_message m;

	memcpy(buf, &a, sizeof(a));
	memcpy(buf + sizeof(a), &val, 8);
	return vmm_call(v, &m, VU_REGION_WRITE, buf, sizeof(a) + n);
}

static inline uint32_t vmm_config(struct vmm *v, uint32_t off, uint32_t n)
{
	uint64_t val;

	assert_int_equal(vmm_read(v, VU_CONFIG, off, n, &val), 0);
	return (uint32_t)val;
}

static inline void vmm_master(struct vmm *v, bool on)
{
	assert_int_equal(vmm_write(v, VU_CONFIG, PCI_COMMAND, 2, PCI_COMMAND_MEMORY |
				   (on ? PCI_COMMAND_MASTER : 0)), 0);
}

static inline int vmm_irqs(struct vmm *v, uint32_t flags, uint32_t start, uint32_t count, const int *fd,
			   unsigned int fds)
{
	const struct vu_irq_set s = { sizeof(s), flags, VU_MSIX, start, count };
	struct vmm_message m;

	vmm_begin(&m, VU_SET_IRQS, &s, sizeof(s));
	return vmm_call_fds(v, &m, fd, fds);
}

/* Sets eventfds for all vectors, as many at a time as a message may have. */
static inline void vmm_irqs_on(struct vmm *v)
{
	for (unsigned int i = 0; i < VU_VECTORS; i += VU_FDS)
		assert_int_equal(vmm_irqs(v, VU_IRQ_FDS | VU_IRQ_TRIGGER, i, VU_FDS, v->irq + i, VU_FDS), 0);
}

/* Starts a server, and connects a VMM that has sent nothing yet. */
static inline void vmm_dial(struct vmm *v)
{
	int sv[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
	assert_int_equal(pipe(v->stop), 0);
	v->sock = sv[0];
	v->far = sv[1];
	pthread_mutex_lock(&vmm_mutex);
	vmm_said[0] = 0;
	pthread_mutex_unlock(&vmm_mutex);
	assert_int_equal(pthread_create(&v->thread, NULL, vmm_server, v), 0);
}

static inline void vmm_hang_up(struct vmm *v)
{
	close(v->sock);
	pthread_join(v->thread, NULL);
	close(v->stop[0]);
	close(v->stop[1]);
	v->sock = -1;
}

/* Sets up the card of a VMM without a machine, at port @at of the switch. */
static inline void vmm_init(struct vmm *v, struct world *w, unsigned int at)
{
	const struct ohca_cfg c = card(0x1000 * at);

	memset(v, 0, sizeof(*v));
	v->sock = -1;
	v->m.w = w;
	v->m.at = at;
	v->m.mem_fd = v->m.dm_fd = -1;
	v->cfg = (struct vu_cfg){ .fabric = w->path, .uars = 8, .hello = hello_of(&c) };
	v->cfg.hello.want_port = (uint8_t)at;
	v->cfg.hello.vectors = htole16(VU_VECTORS);
	for (unsigned int i = 0; i < VU_VECTORS; i++)
		v->irq[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

static inline void vmm_exit(struct vmm *v)
{
	for (unsigned int i = 0; i < VU_VECTORS; i++)
		close(v->irq[i]);
}

static inline ohca_engine *vmm_make(void *arg, struct host *h)
{
	struct vmm *v = arg;

	vmm_dial(v);
	assert_int_equal(vmm_version(v), 0);
	assert_int_equal(vmm_map(v, HOST_BASE, v->m.mem_len, 0, v->m.mem_fd), 0);
	vmm_irqs_on(v);
	vmm_master(v, true);
	/* no code uses this pointer */
	return (ohca_engine *)h;
}

static inline uint64_t vmm_reg(void *arg, uint32_t off, unsigned int size)
{
	uint64_t val;

	assert_int_equal(vmm_read(arg, OHCA_BAR_CTRL, off, size, &val), 0);
	return val;
}

static inline void vmm_reg_set(void *arg, uint32_t off, uint64_t val, unsigned int size)
{
	assert_int_equal(vmm_write(arg, OHCA_BAR_CTRL, off, size, val), 0);
}

/* Rings a doorbell, without an answer. */
static inline void vmm_ring(void *arg, uint32_t uar, uint32_t off, uint64_t val)
{
	const struct vu_access a = { (uint64_t)uar * 4096 + off, OHCA_BAR_UAR, 8 };
	struct vmm_message m;
	struct vmm *v = arg;

	vmm_begin(&m, VU_REGION_WRITE, &a, sizeof(a));
	memcpy(m.data + sizeof(a), &val, 8);
	m.hdr.size += 8;
	m.hdr.flags |= VU_NO_REPLY;
	assert_true(vmm_put(v, &m, m.hdr.size, NULL, 0));
}

/* Starts the driver and makes the link Active. */
static inline void vmm_up(struct vmm *v)
{
	v->m.seat = (struct host_seat){
		.make = vmm_make,
		.turn = machine_turn,
		.leave = machine_leave,
		.memory = machine_memory,
		.read = vmm_reg,
		.write = vmm_reg_set,
		.ring = vmm_ring,
		.arg = v,
	};
	v->m.h = host_new_seat(1, 0x1000 * v->m.at, &v->m.seat);
	host_start(v->m.h);
	machine_activate(&v->m);
	host_cq_create(v->m.h, &v->m.cq, 8, 0);
	host_mr_create(v->m.h, &v->m.mr, 4 << 20, v->m.h->pdn, 0xf);
}

static inline void vmm_down(struct vmm *v)
{
	if (v->sock >= 0)
		vmm_hang_up(v);
	host_buf_free(&v->m.cq.buf);
	host_buf_free(&v->m.mr.buf);
	host_free(v->m.h);
}

/* ---- without a machine ----------------------------------------------------------- */

/**
 * struct bare - a VMM without a machine, at a server that has answered VERSION
 * @mem: a file of BIG bytes
 * @fds: descriptors that were open before
 */
struct bare {
	struct world *w;
	struct vmm v;
	unsigned int fds;
	int mem;
};

#define BYTES	(1u << 20)
#define IOVA	0x100000ull
#define BIG	(32u << 20)		/* refused without a descriptor */

static inline int bare_setup(void **state)
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

static inline int bare_teardown(void **state)
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

#endif
