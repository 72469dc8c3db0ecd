// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A hostile front: garbage in its messages, in its page and in the memory that it shares, which it
 * also truncates. Only its HCA may end: two honest HCAs of the same fabric communicate after each
 * input, no descriptor stays open, and no memory stays mapped. The system calls of both sides are
 * those of calls.h.
 */
#include <endian.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "fabric/attach.h"
#include "fabric/graph/generate.h"
#include "fabric/hca/block.h"
#include "front/dirty.h"
#include "front/page.h"
#include "front/proto.h"
#include "calls.h"
#include "guest.h"

#define BLOCK		(1u << 20)
#define LID(i)		(uint16_t)(10 + (i))
#define MOST_OPS	64u
#define MOST_SENT	8u	/* descriptors of a message */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- the fabric, and two honest machines --------------------------------------- */

static uint64_t now = 1000000000;
static struct fab *f;
static struct fab_mgmt m;
static struct fab_data *d;
static struct fab_hcas *hcas;
static struct fab_fronts *fronts;

static struct honest {
	struct host *h;
	struct host_seat seat;
	struct host_cq cq;
	struct host_mr mr;
	struct host_qp qp;
} honest[2];

static uint64_t fuzz_clock(void *arg)
{
	(void)arg;
	return now;
}

static bool nobody(void *ctx, uint32_t port, const struct fab_mad *mad)
{
	(void)ctx;
	(void)port;
	(void)mad;
	return false;
}

static void look(void)
{
	fab_fronts_pass(fronts);
	for (uint32_t i = 0; i < 4; i++)
		fab_fronts_event(fronts, i);
}

/* Runs the daemon's loop for a while. */
static void pump(unsigned int rounds)
{
	bool more = true;

	fab_mgmt_timer(&m, now);
	fab_data_timer(d);
	fab_fronts_pass(fronts);
	while (rounds-- && more) {
		more = fab_hcas_turn(hcas);
		more |= fab_data_round(d);
		more |= fab_fronts_settle(fronts);
	}
	/* the daemon does this before it sleeps */
	if (fab_hcas_sleep(hcas))
		fab_hcas_awake(hcas);
}

static const struct fab_node *the_switch(void)
{
	uint32_t i = 0;

	while (f->node[i].sw == FAB_NONE)
		i++;
	return &f->node[i];
}

static void set(uint16_t attr, uint32_t mod, const uint8_t data[64])
{
	struct fab_mad mad = { .dlid = IB_LID_PERMISSIVE, .slid = IB_LID_PERMISSIVE };

	mad.smp.hdr = (struct ib_mad_hdr){
		.base_version = IB_MAD_BASE_VERSION,
		.class_version = IB_SMP_CLASS_VERSION,
		.mgmt_class = IB_CLASS_SUBN_DR,
		.method = IB_METHOD_SET,
		.attr_id = ib_to_be16(attr),
		.attr_mod = ib_to_be32(mod),
	};
	mad.smp.dr_slid = mad.smp.dr_dlid = ib_to_be16(IB_LID_PERMISSIVE);
	mad.smp.init_path[1] = 1;
	ib_smp_set_hops(&mad.smp, 0, 1);
	memcpy(mad.smp.data, data, 64);
	fab_mgmt_send(&m, f->port[fab_port_of(the_switch(), 1)].peer, &mad, now);
}

static ohca_engine *seat_make(void *arg, struct host *h)
{
	const struct honest *x = arg;
	const struct fab_hca_range memory = { HOST_BASE, h->mem_size, h->mem, false, NULL };
	const struct fab_hca_cfg cfg = {
		.engine = h->cfg,
		.place = { fab_port_of(the_switch(), (unsigned int)(x - honest) + 2) },
	};
	struct fab_hca *hca = fab_hca_new(hcas, &cfg);

	if (!hca || !fab_hca_memory(hca, &memory, 1))
		abort();
	return fab_hca_engine(hca);
}

static bool seat_turn(void *arg)
{
	(void)arg;
	pump(1);
	return false;
}

static void honest_up(unsigned int i)
{
	struct honest *x = &honest[i];
	uint8_t b[64] = { 0 };

	x->seat = (struct host_seat){ .make = seat_make, .turn = seat_turn, .arg = x };
	x->h = host_new_seat(1, 0x1000 * (i + 1), &x->seat);
	host_start(x->h);
	pump(1000);
	for (uint8_t state = IB_PS_ARMED; state <= IB_PS_ACTIVE; state++) {
		struct ib_port_info pi = f->port[fab_port_of(the_switch(), i + 2)].pi;

		pi.state = state;
		pi.phys_state = IB_PHYS_NO_CHANGE;
		ib_port_info_pack(&pi, b);
		set(IB_SMP_ATTR_PORT_INFO, i + 2, b);
	}
	host_port_set(x->h, 0, LID(i + 2), IB_PS_ACTIVE);
	host_cq_create(x->h, &x->cq, 8, 0);
	host_mr_create(x->h, &x->mr, HOST_PAGE, x->h->pdn, 0xf);
	if (host_qp_create(x->h, &x->qp, &(struct host_qp_init){ .type = OHCA_QPT_RC, .scq = &x->cq,
								  .rcq = &x->cq }))
		abort();
}

static uint32_t place(void *data, const struct ohca_link_cfg *peer, uint32_t taken,
		      struct ohca_link_err *err)
{
	return fab_attach_place(data, NULL, FAB_NONE, peer, taken, err);
}

static void begin(void)
{
	const struct fab_data_cfg cfg = { .hoq_scale = 1, .clock = fuzz_clock };
	struct fab_fronts_cfg fronts_cfg = { .place = place, .epfd = CALL_EPOLL };
	struct ib_switch_info si;
	uint8_t b[64] = { 0 };
	char why[256];

	f = fab_new();
	if (!f || !fab_generate(f, "star:4", why, sizeof(why)) || !fab_seal(f))
		abort();
	fab_mgmt_init(&m, f, nobody, NULL);
	d = fab_data_new(&m, &cfg);
	hcas = d ? fab_hcas_new(d) : NULL;
	fronts_cfg.hcas = hcas;
	fronts_cfg.d = d;
	fronts = hcas ? fab_fronts_new(&fronts_cfg) : NULL;
	if (!fronts)
		abort();
	si = f->sw[the_switch()->sw].si;
	si.linear_top = LID(4);
	ib_switch_info_pack(&si, b);
	set(IB_SMP_ATTR_SWITCH_INFO, 0, b);
	memset(b, IB_LFT_NO_PORT, sizeof(b));
	for (unsigned int i = 2; i <= 4; i++)
		b[LID(i)] = (uint8_t)i;
	set(IB_SMP_ATTR_LFT, 0, b);
	for (unsigned int i = 0; i < 2; i++)
		honest_up(i);
	for (unsigned int i = 0; i < 2; i++)
		host_qp_connect(&honest[i].qp, 0, LID(3 - i), honest[!i].qp.qpn, 5, 100 + i, 101 - i);
}

/* Data that one machine writes arrives in the memory of the other. They take turns. */
static void honest_talk(void)
{
	static uint64_t n;
	struct honest *x = &honest[++n % 2], *y = &honest[(n + 1) % 2];
	uint8_t b[64] = { 0 };
	struct ohca_hw_wqe_ctrl ctrl = { .opcode = OHCA_OP_RDMA_WRITE, .nseg = 3,
					 .flags = OHCA_WQE_SIGNALED, .wr_id = n };
	struct ohca_hw_wqe_raddr to = { .raddr = y->mr.iova, .rkey = y->mr.key };
	struct ohca_hw_sge sge = host_sge(x->mr.iova, 8, x->mr.key);
	struct ohca_hw_cqe c;

	memcpy(b, &ctrl, sizeof(ctrl));
	memcpy(b + 16, &to, sizeof(to));
	memcpy(b + 32, &sge, sizeof(sge));
	*(uint64_t *)host_buf_ptr(x->h, &x->mr.buf, 0) = n;
	host_post_wqe(&x->qp, b, 3);
	for (unsigned int k = 0; !host_cq_poll(&x->cq, &c); k++) {
		if (k == 1000)
			abort();
		pump(100);
		now += 10000;
	}
	if (c.status || c.wr_id != n || *(uint64_t *)host_buf_ptr(y->h, &y->mr.buf, 0) != n)
		abort();
}

/* ---- the front ------------------------------------------------------------------ */

/**
 * struct front - a front of the fuzzer
 * @page: NULL if the daemon did not accept it; @commands: since the device was enabled
 * @log: memfd for the daemon's log of pages, which is outside the machine's memory
 *
 * @was is the front that the machine moves from, or that gets it back.
 */
static struct front {
	int sock, wake, irq, mem, log;
	uint8_t *page;
	size_t page_bytes;
	struct ohca_doorbells db;
	uint32_t commands;
} front, was;

/* What inputs have reached; the Makefile fails if one is 0. */
static uint64_t enabled, vanished;

static union {
	struct ohca_front_hdr hdr;
	struct ohca_front_hello hello;
	struct ohca_front_error error;
	struct ohca_front_block block;
	struct ohca_front_log log;
	struct ohca_front_mem mem;
	struct ohca_front_unmap unmap;
	struct ohca_front_reg reg;
	struct ohca_front_run run;
	struct ohca_front_lies lies;
	struct ohca_front_welcome welcome;
	struct ohca_front_done done;
	uint8_t b[OHCA_FRONT_MAX];
} msg;

static void welcome(const int *fds)
{
	struct ohca_db_sizes s = { .uars = le32toh(msg.welcome.uars) };

	for (unsigned int i = 0; i < OHCA_DB_NUM; i++)
		s.max[i] = le32toh(msg.welcome.max[i]);
	front.page_bytes = le64toh(msg.welcome.page_bytes);
	if (front.page_bytes != OHCA_PAGE_BYTES(ohca_doorbells_bytes(&s)))
		abort();
	front.page = call_mmap(NULL, front.page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			       fds[OHCA_FRONT_FD_PAGE], 0);
	if (front.page == MAP_FAILED)
		abort();
	call_close(fds[OHCA_FRONT_FD_PAGE]);
	front.wake = fds[OHCA_FRONT_FD_WAKE];
	front.irq = fds[OHCA_FRONT_FD_IRQ];
	ohca_doorbells_place(&front.db, &s, front.page + OHCA_PAGE_DOORBELLS);
}

/* Reads all answers. Each must be complete, whatever it is. */
static void answers(void)
{
	union {
		char buf[CMSG_SPACE(OHCA_FRONT_FDS * sizeof(int))];
		struct cmsghdr align;
	} c;
	struct iovec iov = { .iov_base = &msg, .iov_len = sizeof(msg) };
	ssize_t n;

	for (;;) {
		struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = c.buf,
				    .msg_controllen = sizeof(c.buf) };
		int fds[OHCA_FRONT_FDS];

		n = call_recvmsg(front.sock, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		if (n <= 0)
			return;
		if ((size_t)n < sizeof(msg.hdr) || le32toh(msg.hdr.len) != (size_t)n)
			abort();
		vanished += le16toh(msg.hdr.type) == OHCA_FRONT_ERROR &&
			    !strcmp((const char *)msg.error.text, "guest memory vanished");
		if (!CMSG_FIRSTHDR(&h))
			continue;
		memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&h)), sizeof(fds));
		if (le16toh(msg.hdr.type) != OHCA_FRONT_WELCOME || front.page)
			abort();
		welcome(fds);
	}
}

/*
 * Sends @n bytes, some of which the input changes, with @fd or -1. The input may choose another
 * length, several descriptors, and an empty message.
 */
static void say(struct input *in, enum ohca_front_type type, size_t n, int fd)
{
	union {
		char buf[CMSG_SPACE(MOST_SENT * sizeof(int))];
		struct cmsghdr hdr;
	} c = { 0 };
	struct iovec iov = { .iov_base = &msg, .iov_len = n };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1 };
	unsigned int fds = fd >= 0;
	msg.hdr = (struct ohca_front_hdr){
		.magic = htole32(OHCA_FRONT_MAGIC),
		.version = htole16(OHCA_FRONT_VERSION),
		.type = htole16((uint16_t)type),
		.len = htole32((uint32_t)n),
	};
	for (uint8_t k = get(in) % 4; k; k--) {
		const size_t at = get(in) % n;

		msg.b[at] = get(in);
		/* the first byte of the length: the message is as long, or as short */
		if (at == 8)
			iov.iov_len = msg.b[at];
		/* the last one; it is 0 in a good message */
		if (at == 11) {
			fds = msg.b[at] % (MOST_SENT + 1);
			iov.iov_len = msg.b[at] & 128 ? 0 : iov.iov_len;
		}
	}
	if (fds) {
		h.msg_control = &c;
		h.msg_controllen = CMSG_SPACE(fds * sizeof(int));
		c.hdr.cmsg_level = SOL_SOCKET;
		c.hdr.cmsg_type = SCM_RIGHTS;
		c.hdr.cmsg_len = CMSG_LEN(fds * sizeof(int));
		for (unsigned int i = 0; i < fds; i++)
			memcpy(CMSG_DATA(&c.hdr) + i * sizeof(int), &front.mem, sizeof(int));
	}
	/* the daemon may have closed the connection */
	if (call_sendmsg(front.sock, &h, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return;
	look();
	answers();
}

static void drop(struct front *x)
{
	if (x->page)
		call_munmap(x->page, x->page_bytes);
	if (x->wake >= 0)
		call_close(x->wake);
	if (x->irq >= 0)
		call_close(x->irq);
	if (x->sock >= 0)
		call_close(x->sock);
	x->page = NULL;
	x->wake = x->irq = x->sock = -1;
	look();
}

static void hang_up(void)
{
	drop(&front);
	drop(&was);
}

/* @token: of a move, or 0 */
static void dial(struct input *in, uint64_t token)
{
	struct timespec ts;
	int sv[2];

	drop(&front);
	if (call_socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv))
		abort();
	front.sock = sv[0];
	clock_gettime(CLOCK_MONOTONIC, &ts);
	msg.hello = (struct ohca_front_hello){
		.node_guid = htole64(0x7000), .dm_size = htole64(1 << 16),
		.clock_ns = htole64((uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec),
		.vectors = htole16(8), .uars = htole16(8), .ports = 1, .vl_cap = 2, .mtu_cap = 5,
		.width_sup = 3, .speed_sup = 7, .speed_ext_sup = 3, .log_max_qp = 6,
		.log_max_cq = 6, .log_max_srq = 6, .log_max_mr = 6, .desc = "hostile", .id = "f",
		.flags = htole32(token ? OHCA_FRONT_PAUSED | OHCA_FRONT_MOVE : 0),
		.token = htole64(token),
	};
	say(in, OHCA_FRONT_HELLO, sizeof(msg.hello), front.mem);
	if (fab_is_front(sv[1]))
		fab_fronts_take(fronts, sv[1], d);
	else
		call_close(sv[1]);
	answers();
}

/*
 * Moves the machine to another front, which the daemon may refuse; or changes to the other front of
 * a move.
 */
static void move(struct input *in)
{
	const struct front that = front;
	struct input none = { 0 };
	uint64_t token;

	if (was.sock >= 0 && get(in) & 1) {
		front = was;
		was = that;
		return;
	}
	drop(&was);
	memset(&msg, 0, 256);
	say(&none, OHCA_FRONT_RUN, sizeof(msg.run), -1);
	memset(&msg, 0, 256);
	say(&none, OHCA_FRONT_LEAVE, sizeof(msg.hdr), -1);
	token = le16toh(msg.hdr.type) == OHCA_FRONT_DONE ? le64toh(msg.done.value) : 0;
	was = that;
	front.page = NULL;
	front.wake = front.irq = front.sock = -1;
	dial(in, token);
}

static void one_message(struct input *in)
{
	const uint8_t type = get(in);

	memset(&msg, 0, 256);
	switch (type % 10) {
	case 0:
		msg.block.id = htole32(type / 16 % 4);
		msg.block.size = htole64(BLOCK);
		say(in, OHCA_FRONT_BLOCK, sizeof(msg.block), front.mem);
		break;
	case 1:
		msg.block.id = htole32(type / 16 % 4);
		say(in, OHCA_FRONT_UNBLOCK, 24, -1);
		break;
	case 2:
		/* the memory is large enough for the log, unless it was truncated */
		msg.log.id = htole32(type / 16 < 4 ? type / 16 : OHCA_FRONT_LOG_DM);
		say(in, OHCA_FRONT_LOG, sizeof(msg.log), type == 0xf2 ? -1 : front.mem);
		break;
	case 3:
		msg.mem.n = htole32(1 + type / 128);
		for (uint32_t i = 0; i < 2; i++)
			msg.mem.range[i] = (struct ohca_front_range){
				.iova = htole64(HOST_BASE + i * BLOCK), .len = htole64(BLOCK),
				.flags = htole32(i) };
		say(in, OHCA_FRONT_MEM, sizeof(msg.mem) + 64, -1);
		break;
	case 4:
	case 5:
		msg.reg.off = htole32(get(in) * 4u);
		msg.reg.size = type & 16 ? 8 : 4;
		msg.reg.flags = 1;
		msg.reg.value = htole64(type & 32 ? HOST_BASE + (get(in) << 12) : get(in));
		say(in, OHCA_FRONT_REG, sizeof(msg.reg), -1);
		break;
	case 6:
		msg.run.running = htole32(type / 16 & 1);
		say(in, OHCA_FRONT_RUN, sizeof(msg.run), -1);
		break;
	case 7:
		msg.lies.seed = htole64(get(in));
		msg.lies.kinds = htole32(get(in));
		msg.lies.one_of = htole32(get(in));
		say(in, OHCA_FRONT_LIES, sizeof(msg.lies), -1);
		break;
	case 8:
		msg.unmap.iova = htole64(HOST_BASE + (uint64_t)get(in) * 4096);
		msg.unmap.last = htole64(HOST_BASE + (uint64_t)get(in) * 4096 - 1);
		say(in, OHCA_FRONT_UNMAP, sizeof(msg.unmap), -1);
		break;
	default:
		say(in, type & 16 ? OHCA_FRONT_RESET : OHCA_FRONT_BYE, sizeof(msg.hdr),
		    type == 0xf9 ? front.mem : -1);
		break;
	}
}

/* The daemon may have closed the connection, but the page stays mapped. */
static bool is_enabled(void)
{
	const struct ohca_page *page = (const void *)front.page;

	return page && page->reg[OHCA_REG_STATUS / 4] & OHCA_STATUS_ENABLED;
}

/* A driver until its device is enabled: queues of commands in the memory. */
static void driver(void)
{
	const struct ohca_page *page = (const void *)front.page;
	const uint64_t features = page ? page->reg[OHCA_REG_FEATURES / 4] |
			(uint64_t)page->reg[OHCA_REG_FEATURES / 4 + 1] << 32 : 0;
	const struct {
		uint32_t off;
		uint64_t val;
		uint8_t size;
	} reg[] = {
		{ OHCA_REG_CTRL, OHCA_CTRL_RESET, 4 }, { OHCA_REG_PAGE_SHIFT, 12, 4 },
		{ OHCA_REG_FEATURES_ACK, features & ~(1ull << OHCA_FEATURE_BIG_ENDIAN), 8 },
		{ OHCA_REG_AQ_BASE, HOST_BASE, 8 }, { OHCA_REG_ACQ_BASE, HOST_BASE + 4096, 8 },
		{ OHCA_REG_AQ_LOG_SIZE, 4, 4 }, { OHCA_REG_CTRL, OHCA_CTRL_ENABLE, 4 },
	};
	struct input none = { 0 };

	front.commands = 0;
	memset(&msg, 0, 256);
	msg.block.size = htole64(BLOCK);
	say(&none, OHCA_FRONT_BLOCK, sizeof(msg.block), front.mem);
	memset(&msg, 0, 256);
	say(&none, OHCA_FRONT_LOG, sizeof(msg.log), front.log);
	memset(&msg, 0, 256);
	msg.mem.n = htole32(1);
	msg.mem.range[0] = (struct ohca_front_range){ .iova = htole64(HOST_BASE),
						      .len = htole64(BLOCK) };
	say(&none, OHCA_FRONT_MEM, sizeof(msg.mem) + 32, -1);
	for (unsigned int i = 0; i < sizeof(reg) / sizeof(reg[0]); i++) {
		memset(&msg, 0, 256);
		msg.reg.off = htole32(reg[i].off);
		msg.reg.size = reg[i].size;
		msg.reg.flags = 1;
		msg.reg.value = htole64(reg[i].val);
		say(&none, OHCA_FRONT_REG, sizeof(msg.reg), -1);
	}
	enabled += is_enabled();
}

/* Writes a command with some bytes of the input into the next entry of the queue. */
static void command(struct input *in)
{
	struct ohca_hw_aqe c = { 0 };
	const uint8_t n = get(in) % 16;

	c.hdr.opcode = get(in);
	for (uint8_t i = 0; i < n; i++) {
		const uint8_t at = get(in);

		c.body[at % sizeof(c.body)] = get(in);
	}
	if (call_pwrite(front.mem, &c, sizeof(c), (off_t)(front.commands % 16 * sizeof(c))) < 0)
		abort();
	if (front.page)
		ohca_doorbells_admin(&front.db, ++front.commands);
}

/* Writes an entry of the ring of mappings, which the input may spoil. */
static void map(struct input *in)
{
	struct ohca_page *page = (void *)front.page;
	const uint32_t head = page ? atomic_load(&page->map_head) : 0;
	struct ohca_page_map *at;
	uint8_t what = get(in);

	if (!page)
		return;
	at = (struct ohca_page_map *)(front.page + OHCA_PAGE_RING) + head % OHCA_PAGE_MAPS;
	at->iova = HOST_BASE + (uint64_t)get(in) * 4096 + (what == 255);
	at->len = (uint64_t)(1 + what % 4) * 4096;
	at->off = (uint64_t)get(in) * 4096;
	at->block = what / 16 % 4 | (uint64_t)(what / 4 % 4 == 3) << 32;
	page->map_head = head + 1;
}

static void write_memory(struct input *in)
{
	uint8_t b[64];
	const off_t at = (off_t)(get_n(in, 2) * 16u);
	const uint8_t n = get(in) % sizeof(b);

	for (uint8_t i = 0; i < n; i++)
		b[i] = get(in);
	if (at + n <= BLOCK && call_pwrite(front.mem, b, n, at) < 0)
		abort();
}

static void write_page(struct input *in)
{
	uint8_t n = get(in) % 32;

	for (size_t at = get_n(in, 3); front.page && n; n--, at++)
		((volatile uint8_t *)front.page)[at % front.page_bytes] = get(in);
}

/* Rings a number that the HCA may not have, without a check: only a hostile front does this. */
static void ring_any(enum ohca_ring_kind kind, uint32_t n)
{
	const struct ohca_db_ring *r = &front.db.ring[kind];
	_Atomic uint64_t *word = &r->bits[n / 64];

	if ((size_t)((uint8_t *)(word + 1) - front.page) > front.page_bytes)
		return;
	*word |= 1ull << n % 64;
	r->sum[n / 4096] |= 1ull << n / 64 % 64;
	*front.db.pending |= OHCA_PEND_RING(kind);
}

static void ring(struct input *in)
{
	const uint8_t what = get(in);

	if (!front.page)
		return;
	if ((what & 17) == 17)
		ring_any(what / 32 % OHCA_RING_NUM, (uint32_t)get(in) * 16 % 4096);
	else if (what & 1)
		ohca_doorbells_admin(&front.db, get(in));
	else
		ohca_doorbells_ring(&front.db, what / 32, get(in) * 8u, get_n(in, 5), 8);
}

/* Reports at the end of the process. */
__attribute__((destructor)) static void report(void)
{
	fprintf(stderr, "reach: enabled: %llu\nreach: memory vanished: %llu\n",
		(unsigned long long)enabled, (unsigned long long)vanished);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };

	if (!f) {
		begin();
		front.sock = front.wake = front.irq = -1;
		was = front;
		front.log = call_memfd_create("log", MFD_CLOEXEC);
		if (front.log < 0 || call_ftruncate(front.log, OHCA_DIRTY_BYTES(BLOCK)))
			abort();
	}
	front.mem = call_memfd_create("memory", MFD_CLOEXEC);
	if (front.mem < 0 || call_ftruncate(front.mem, BLOCK))
		abort();
	dial(&in, 0);
	for (unsigned int i = 0; i < MOST_OPS && in.p < in.end; i++) {
		const uint8_t op = get(&in);

		switch (op % 10) {
		case 0:
			one_message(&in);
			break;
		case 1:
		case 9:
			command(&in);
			break;
		case 2:
			/* to enable it again takes longer than all else, so few inputs do it */
			if (op > 200 || !is_enabled())
				driver();
			else
				command(&in);
			break;
		case 3:
			write_memory(&in);
			break;
		case 4:
			write_page(&in);
			break;
		case 5:
			ring(&in);
			break;
		case 6:
			/* the memory is truncated, or is there again with zeros */
			if (call_ftruncate(front.mem, op & 64 ? (off_t)get(&in) << 12 : BLOCK))
				abort();
			break;
		case 7:
			now += get_n(&in, 4);
			break;
		default:
			if (op > 240) {
				drop(&was);
				dial(&in, 0);
			} else if (op > 210) {
				move(&in);
			} else {
				map(&in);
			}
			break;
		}
		pump(20);
		answers();
	}
	hang_up();
	call_close(front.mem);
	honest_talk();
	while (fab_blocks_left())
		pump(1);
	/* all but the log is closed, and nothing is mapped */
	calls_end(1);
	return 0;
}
