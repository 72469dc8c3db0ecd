/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Fronts of HCAs that ohca-fabric hosts, in normal use. */
#include "fabric/fault/fault.h"
#include "front_world.h"

#include <sys/epoll.h>
#include <sys/syscall.h>

#define LEN	100000u
#define TRIES	200u		/* messages; the loop sleeps when some of them are posted */

static atomic_bool short_sleep;	/* the loop has asked for a sleep of less than a millisecond */
static atomic_bool old_kernel;	/* the kernel cannot do that */

/* Called by the loop, in place of the C library's function. */
int epoll_pwait2(int ep, struct epoll_event *ev, int n, const struct timespec *t,
		 const sigset_t *mask)
{
	if (atomic_load(&old_kernel)) {
		errno = ENOSYS;
		return -1;
	}
	if (t && t->tv_nsec % 1000000)
		atomic_store(&short_sleep, true);
	return (int)syscall(SYS_epoll_pwait2, ep, ev, n, t, mask, (size_t)8);
}

/* A client gives up a daemon that is silent for 250 ms; on a busy machine it waits longer. */
int poll(struct pollfd *p, nfds_t n, int ms)
{
	const int long_ms = ms < LIMIT_MS / 40 ? ms * 40 : LIMIT_MS;
	const struct timespec ts = { long_ms / 1000, long_ms % 1000 * 1000000 };

	return (int)syscall(SYS_ppoll, p, n, ms < 0 ? NULL : &ts, NULL, (size_t)8);
}

/* From HELLO to BYE; then the port is free again, and all resources of the daemon for it. */
static void test_life(void **state)
{
	struct world *w = *state;
	const struct ohca_cfg c = card(0x7000);
	struct ohca_front_hello h = hello_of(&c);
	unsigned int fds = open_fds();
	struct front f;
	uint64_t v;

	h.want_port = 4;
	for (unsigned int i = 0; i < 3; i++) {
		front_dial(&f, w->path);
		if (!front_hello(&f, &h, -1))
			fail_msg("%s", f.why);
		expect_at(w, 4, "a card");
		/* reads of registers need no message, and return the same as with one */
		assert_int_equal(atomic_load(&f.page->reg[OHCA_REG_STATUS / 4]), OHCA_STATUS_READY);
		v = 0;
		assert_int_equal(call_reg(&f, OHCA_REG_FEATURES, 8, false, &v), OHCA_FRONT_OK);
		assert_true(v);
		assert_int_equal(atomic_load(&f.page->reg[OHCA_REG_FEATURES / 4]), (uint32_t)v);
		assert_int_equal(call_plain(&f, OHCA_FRONT_RESET), OHCA_FRONT_OK);
		assert_int_equal(call_run(&f, 0), OHCA_FRONT_OK);
		assert_int_equal(call_run(&f, 1), OHCA_FRONT_OK);
		assert_int_equal(call_plain(&f, 77), OHCA_FRONT_UNKNOWN);
		/* the second front closes without BYE */
		if (i != 1) {
			assert_int_equal(call_plain(&f, OHCA_FRONT_BYE), OHCA_FRONT_OK);
			assert_int_equal(answer(&f, NULL), -1);
			assert_string_equal(f.why, "");
		}
		front_close(&f);
		wait_free(w, 4);
	}
	wait_fds(fds);
}

/*
 * A doorbell in the page wakes the loop, and a message is executed, whether the loop slept or not.
 */
static void test_traffic(void **state)
{
	struct world *w = *state;
	struct pair p;

	pair_up(&p, w);
	for (unsigned int n = 0; n < TRIES; n++) {
		/* the loop may be asleep by now */
		if (n % 3 == 0)
			usleep(1000);
		pair_talk(&p, n % 8 ? 8 : LEN);
	}
	pair_down(&p);
}

/* The event of a completion raises a vector, and a byte on the socket announces it. */
static void test_interrupt(void **state)
{
	struct world *w = *state;
	struct pollfd poll_irq = { .events = POLLIN };
	struct ohca_hw_eqe e;
	struct pair p;
	char byte[8];

	pair_up(&p, w);
	poll_irq.fd = p.m[0].f.irq;
	for (unsigned int i = 0; i < 3; i++) {
		struct front *f = &p.m[0].f;

		host_eq_db(p.m[0].h, &p.m[0].h->comp, true);
		host_cq_arm(&p.m[0].cq, false);
		pair_talk(&p, 8);
		assert_int_equal(poll(&poll_irq, 1, LIMIT_MS), 1);
		assert_true(recv(f->irq, byte, sizeof(byte), 0) >= 1);
		assert_int_equal(atomic_exchange(&f->page->irq_any, 0), 1);
		assert_int_equal(atomic_exchange(&f->page->irq[0], 0) & 2, 2);
		assert_true(host_eq_poll(p.m[0].h, &p.m[0].h->comp, &e));
		p.m[0].cq.sn++;
	}
	pair_down(&p);
}

/* The cable of the first machine loses a sixteenth of its packets. */
static void lose_some(struct world *w, void *arg)
{
	(void)arg;
	fab_fault_wire(fab_data_mgmt(w->d), fab_port_of(the_switch(w), 2), 1u << 28, 0, 1);
}

/*
 * A lost packet is sent again when its timeout expires: the loop sleeps until then, and not until
 * the end of its millisecond, if the kernel supports that.
 */
static void test_deadlines(void **state)
{
	struct world *w = *state;
	struct pair p;

	pair_up(&p, w);
	in_loop(w, lose_some, NULL);
	for (unsigned int i = 0; i < 2; i++) {
		atomic_store(&old_kernel, i);
		atomic_store(&short_sleep, false);
		for (unsigned int n = 0; n < TRIES / 2; n++)
			pair_talk(&p, 8);
		assert_int_equal(atomic_load(&short_sleep), !i);
	}
	pair_down(&p);
	atomic_store(&old_kernel, false);
}

/* The sides of QEMU and of the daemon use one protocol. */
static void test_client(void **state)
{
	struct world *w = *state;
	const struct ohca_cfg c = card(0x7000);
	const struct ohca_front_hello h = hello_of(&c);
	struct ohca_front_reg r = { .off = htole32(OHCA_REG_STATUS), .size = 4 };
	struct ohca_front_block b = { .size = htole64(4096) };
	const int mem = memfd_create("memory", MFD_CLOEXEC);
	struct ohca_front_err err;
	struct ohca_front *f;
	struct ohca_front_hdr hdr;
	uint64_t v = 0;

	assert_int_equal(ftruncate(mem, 4096), 0);
	f = ohca_front_connect(w->path, &h, -1, LIMIT_MS, &err);
	if (!f)
		fail_msg("%s", err.text);
	assert_int_equal(ohca_front_reg(f, OHCA_REG_STATUS, 4), OHCA_STATUS_READY);
	assert_int_equal(ohca_front_call(f, OHCA_FRONT_REG, &r, sizeof(r), -1, &v), OHCA_FRONT_OK);
	assert_int_equal(v, OHCA_STATUS_READY);
	assert_int_equal(ohca_front_call(f, OHCA_FRONT_BLOCK, &b, sizeof(b), mem, NULL),
			 OHCA_FRONT_OK);
	/* a block with that number exists */
	assert_int_equal(ohca_front_call(f, OHCA_FRONT_BLOCK, &b, sizeof(b), mem, NULL),
			 OHCA_FRONT_INVALID);
	assert_int_equal(ohca_front_call(f, OHCA_FRONT_BYE, &hdr, sizeof(hdr), -1, NULL),
			 OHCA_FRONT_OK);
	ohca_front_free(f);
	/* the client receives the reason */
	f = ohca_front_connect(w->path, &h, mem, LIMIT_MS, &err);
	assert_null(f);
	if (!strstr(err.text, "dm_size"))
		fail_msg("%s", err.text);
	close(mem);
}

/* A machine that is paused does nothing, and continues where it was. */
static void test_paused(void **state)
{
	struct world *w = *state;
	struct ohca_hw_cqe c;
	struct pair p;
	uint64_t clock;

	pair_up(&p, w);
	assert_int_equal(call_run(&p.m[0].f, 0), OHCA_FRONT_OK);
	assert_false(ohca_page_running(atomic_load(&p.m[0].f.page->clock)));
	clock = atomic_load(&p.m[0].f.page->clock);
	post_write(&p.qp[0], &p.m[0], &p.m[1], 8, 5);
	usleep(2000);
	/* the loop has had turns before it answers this */
	assert_int_equal(call_run(&p.m[1].f, 1), OHCA_FRONT_OK);
	assert_false(host_cq_poll(&p.m[0].cq, &c));
	assert_true(atomic_load(&p.m[0].f.page->clock) == clock);
	assert_int_equal(call_run(&p.m[0].f, 1), OHCA_FRONT_OK);
	assert_int_equal(wait_cqe(&p.m[0].cq).wr_id, 5);
	pair_talk(&p, LEN);
	pair_down(&p);
}

/* Peers of the switch's ports, as --stats prints them. */
static void print_ports(struct world *w, void *arg)
{
	char **text = arg;
	size_t n;
	FILE *to = open_memstream(text, &n);

	fab_data_print(w->d, to);
	fclose(to);
}

/* Runs in the loop's thread: machine 0 rings, and its front sends that the machine is paused. */
static void ring_and_pause(struct world *w, void *arg)
{
	union message m = { .run = { .running = 0 } };
	struct pair *p = arg;

	(void)w;
	post_write(&p->qp[0], &p->m[0], &p->m[1], 8, 6);
	message_begin(&m, OHCA_FRONT_RUN, sizeof(m.run));
	put(&p->m[0].f, &m, sizeof(m.run), NULL, 0);
	pend(&p->m[0].f.client, OHCA_PEND_ATTN);
}

/* Messages have precedence over turns, because a vCPU waits for the answers. */
static void test_messages_first(void **state)
{
	struct world *w = *state;
	struct ohca_hw_cqe c;
	struct pair p;

	pair_up(&p, w);
	in_loop(w, ring_and_pause, &p);
	assert_int_equal(answer(&p.m[0].f, NULL), OHCA_FRONT_OK);
	assert_false(ohca_page_running(atomic_load(&p.m[0].f.page->clock)));
	/* the loop has had turns before it answers this */
	assert_int_equal(call_run(&p.m[1].f, 1), OHCA_FRONT_OK);
	assert_false(host_cq_poll(&p.m[0].cq, &c));
	assert_int_equal(call_run(&p.m[0].f, 1), OHCA_FRONT_OK);
	assert_int_equal(wait_cqe(&p.m[0].cq).wr_id, 6);
	pair_down(&p);
}

/* Both ports of an HCA have a place of their own, where they are visible. */
static void test_two_ports(void **state)
{
	struct world *w = *state;
	struct ohca_cfg c = card(0x7000);
	struct ohca_front_hello h;
	struct front f, g;
	char *text = NULL;

	c.num_ports = 2;
	strcpy(c.node_desc, "both");
	h = hello_of(&c);
	for (unsigned int want = 0; want < 4; want += 3) {
		h.want_port = (uint8_t)want;
		front_dial(&f, w->path);
		if (!front_hello(&f, &h, -1))
			fail_msg("%s", f.why);
		expect_at(w, want ? want : 1, "both");
		expect_at(w, want ? want + 1 : 2, "both");
		in_loop(w, print_ports, &text);
		if (!strstr(text, want ? "port 3 'both' Down" : "port 1 'both' Down") ||
		    !strstr(text, want ? "port 4 'both' Down" : "port 2 'both' Down"))
			fail_msg("%s", text);
		free(text);
		/* the same GUIDs again */
		front_dial(&g, w->path);
		assert_false(front_hello(&g, &h, -1));
		if (!strstr(g.why, "is attached to switch port"))
			fail_msg("%s", g.why);
		front_close(&g);
		assert_int_equal(call_plain(&f, OHCA_FRONT_BYE), OHCA_FRONT_OK);
		front_close(&f);
	}
	/* there is no port after the last one */
	h.want_port = PLACES;
	front_dial(&f, w->path);
	assert_false(front_hello(&f, &h, -1));
	if (!strstr(f.why, "no host is at port 7"))
		fail_msg("%s", f.why);
	front_close(&f);
}

/*
 * As many fronts as there are places; the next one gets a reason, and later the first place that is
 * free.
 */
static void test_all_places(void **state)
{
	struct world *w = *state;
	struct front f[PLACES + 1];

	for (unsigned int i = 0; i < PLACES; i++) {
		const struct ohca_cfg c = card(0x7000 + 0x10 * i);
		const struct ohca_front_hello h = hello_of(&c);

		front_dial(&f[i], w->path);
		if (!front_hello(&f[i], &h, -1))
			fail_msg("%s", f[i].why);
	}
	for (unsigned int i = 0; i < 2; i++) {
		const struct ohca_cfg c = card(0x8000);
		const struct ohca_front_hello h = hello_of(&c);

		front_dial(&f[PLACES], w->path);
		assert_int_equal(front_hello(&f[PLACES], &h, -1), i);
		if (!i && !strstr(f[PLACES].why, "all 6 hosts of the fabric are taken"))
			fail_msg("%s", f[PLACES].why);
		if (!i)
			front_close(&f[PLACES]);
		if (!i)
			assert_int_equal(call_plain(&f[2], OHCA_FRONT_BYE), OHCA_FRONT_OK);
	}
	for (unsigned int i = 0; i <= PLACES; i++)
		front_close(&f[i]);
}

/* Maps or unmaps @n bytes from @iova of a machine, as its memory has them, page by page. */
static void iommu(struct machine *m, uint64_t iova, uint64_t n, bool map)
{
	const uint64_t page = OHCA_FRONT_ALIGN;

	for (uint64_t at = iova; map && at < iova + n; at += page)
		assert_int_equal(ohca_front_map(&m->f.client, at, page, MEM_BLOCK, at - HOST_BASE, 0),
				 0);
	if (!map)
		assert_int_equal(ohca_front_unmap(&m->f.client, iova, iova + n - 1), 0);
}

/*
 * Machines behind an IOMMU: a mapping takes effect before the next message, without a call, for the
 * sender and for the receiver; only a full ring needs a call. Memory that is unmapped cannot be
 * accessed, and memory that is mapped stays.
 */
static void test_iommu(void **state)
{
	struct world *w = *state;
	struct machine *m;
	struct pair p;
	uint64_t data;

	pair_up(&p, w);
	for (unsigned int i = 0; i < 2; i++) {
		m = &p.m[i];
		assert_int_equal(call_mem(&m->f, NULL, 0), OHCA_FRONT_OK);
		assert_true(m->mem_len / OHCA_FRONT_ALIGN > OHCA_PAGE_MAPS);
		iommu(m, HOST_BASE, m->mem_len, true);
		assert_int_equal(call_unblock(&m->f, MEM_BLOCK), OHCA_FRONT_INVALID);
	}
	pair_talk(&p, LEN);
	for (unsigned int n = 0; n < 20; n++) {
		for (unsigned int i = 0; i < 2; i++) {
			data = p.m[i].mr.buf.page[0];
			iommu(&p.m[i], data, HOST_PAGE, false);
			iommu(&p.m[i], data, HOST_PAGE, true);
		}
		pair_talk(&p, 8);
	}
	iommu(&p.m[1], p.m[1].mr.buf.page[0], HOST_PAGE, false);
	post_write(&p.qp[0], &p.m[0], &p.m[1], 8, 1);
	assert_int_not_equal(wait_cqe(&p.m[0].cq).status, WC_SUCCESS);
	for (unsigned int i = 0; i < 2; i++) {
		iommu(&p.m[i], 0, 0, false);
		assert_int_equal(call_unblock(&p.m[i].f, MEM_BLOCK), OHCA_FRONT_OK);
	}
	pair_down(&p);
}

/** struct logged - a machine's log; @taken: pages that were read from it, by their number */
struct logged {
	struct ohca_dirty d;
	bool *taken;
	size_t pages;
};

static void logged_run(void *arg, uint64_t off, uint64_t len)
{
	struct logged *l = arg;

	for (uint64_t i = off / OHCA_DIRTY_PAGE; i < (off + len) / OHCA_DIRTY_PAGE; i++) {
		assert_true(i < l->pages);
		l->taken[i] = true;
	}
}

/* Reads and clears a log. The flag of the page covers all logs. */
static void logged_take(struct logged *l)
{
	memset(l->taken, 0, l->pages * sizeof(*l->taken));
	ohca_dirty_take(&l->d, logged_run, l);
}

static void logged_open(struct logged *l, struct machine *m, uint32_t id, uint64_t bytes)
{
	close(machine_log(m, id, bytes, &l->d));
	l->pages = bytes / OHCA_DIRTY_PAGE;
	l->taken = calloc(l->pages, sizeof(*l->taken));
	assert_non_null(l->taken);
}

static void logged_close(struct logged *l, uint64_t bytes)
{
	munmap((void *)(uintptr_t)l->d.top, OHCA_DIRTY_BYTES(bytes));
	free(l->taken);
}

/* Whether page @i of the machine's memory is one of the first @n pages of a buffer. */
static bool has_page(const struct host_buf *buf, unsigned int n, size_t i)
{
	for (unsigned int k = 0; k < n; k++)
		if (buf->page[k] - HOST_BASE == (uint64_t)i * OHCA_DIRTY_PAGE)
			return true;
	return false;
}

/*
 * Checks that the log has the first @n pages of @buf (0: one of them), and otherwise only the first
 * page of a QP, which contains the device's doorbell record.
 */
static void expect_logged(struct logged *l, struct machine *m, const struct host_buf *buf,
			  unsigned int n, const struct host_qp *qp)
{
	unsigned int found = 0;

	assert_true(ohca_front_dirty(&m->f.client));
	assert_false(ohca_front_dirty(&m->f.client));
	logged_take(l);
	for (size_t i = 0; i < l->pages; i++) {
		if (!l->taken[i])
			continue;
		if (has_page(buf, n ? n : buf->npages, i))
			found++;
		else if (!has_page(&qp->buf, 1, i))
			fail_msg("page %zu was not written", i);
	}
	assert_int_equal(found, n ? n : 1);
	logged_take(l);
	for (size_t i = 0; i < l->pages; i++)
		assert_false(l->taken[i]);
}

/*
 * Every page that HCAs write is in the machine's log when the machine can detect the write, and no
 * other page is. With and without an IOMMU; device memory, too.
 */
static void test_log(void **state)
{
	static const uint32_t lens[] = { 8, LEN, HOST_PAGE, 4 << 20, 8 };
	struct ohca_hw_aqe dm = HOST_AQE(alloc_dm, .length = OHCA_DIRTY_PAGE);
	struct world *w = *state;
	struct ohca_hw_acqe rsp;
	struct logged log[2], dm_log;
	struct pair p;

	pair_up(&p, w);
	/* without a log nothing is recorded */
	pair_talk(&p, LEN);
	for (unsigned int i = 0; i < 2; i++) {
		assert_false(ohca_front_dirty(&p.m[i].f.client));
		logged_open(&log[i], &p.m[i], MEM_BLOCK, p.m[i].mem_len);
	}
	for (unsigned int n = 0; n < 100; n++) {
		const uint32_t len = lens[n % (sizeof(lens) / sizeof(lens[0]))];

		post_write(&p.qp[0], &p.m[0], &p.m[1], len, n);
		assert_int_equal(wait_cqe(&p.m[0].cq).status, WC_SUCCESS);
		/* after four turns an HCA writes nothing more, and needs no memory */
		for (unsigned int i = 0; i < 4; i++)
			assert_int_equal(call_run(&p.m[i % 2].f, 1), OHCA_FRONT_OK);
		expect_logged(&log[0], &p.m[0], &p.m[0].cq.buf, 0, &p.qp[0]);
		expect_logged(&log[1], &p.m[1], &p.m[1].mr.buf,
			      (len + HOST_PAGE - 1) / HOST_PAGE, &p.qp[1]);
		if (n % 20 != 9)
			continue;
		/* change to the other kind of memory */
		for (unsigned int i = 0; i < 2; i++) {
			const struct ohca_front_range r = range(HOST_BASE, p.m[i].mem_len, MEM_BLOCK,
								0, 0);

			if (n % 40 == 9)
				assert_int_equal(call_mem(&p.m[i].f, NULL, 0), OHCA_FRONT_OK);
			iommu(&p.m[i], HOST_BASE, p.m[i].mem_len, n % 40 == 9);
			if (n % 40 != 9)
				assert_int_equal(call_mem(&p.m[i].f, &r, 1), OHCA_FRONT_OK);
		}
	}
	logged_open(&dm_log, &p.m[0], OHCA_FRONT_LOG_DM, p.m[0].dm_len);
	assert_int_equal(host_cmd(p.m[0].h, OHCA_CMD_ALLOC_DM, &dm, &rsp), OHCA_ADMIN_OK);
	logged_take(&dm_log);
	assert_true(dm_log.taken[rsp.alloc_dm.offset / OHCA_DIRTY_PAGE]);
	logged_close(&dm_log, p.m[0].dm_len);
	for (unsigned int i = 0; i < 2; i++)
		logged_close(&log[i], p.m[i].mem_len);
	pair_down(&p);
}

/* A device that lies in registers needs a message for each read. */
static void test_lies(void **state)
{
	struct world *w = *state;
	const struct ohca_cfg c = card(0x7000);
	const struct ohca_front_hello h = hello_of(&c);
	union message m = { .lies = { .seed = htole64(1), .kinds = htole32(OHCA_LIE_REGISTER),
				      .one_of = htole32(2) } };
	unsigned int lies = 0;
	uint64_t v, told = 0;
	struct front f;

	front_dial(&f, w->path);
	assert_true(front_hello(&f, &h, -1));
	assert_int_equal(call(&f, &m, OHCA_FRONT_LIES, sizeof(m.lies), &told), OHCA_FRONT_OK);
	assert_int_equal(told, 0);
	assert_int_equal(atomic_load(&f.page->slow_reads), 1);
	for (unsigned int i = 0; i < 100; i++) {
		v = 0;
		assert_int_equal(call_reg(&f, OHCA_REG_STATUS, 4, false, &v), OHCA_FRONT_OK);
		lies += v != OHCA_STATUS_READY;
	}
	assert_true(lies > 10);
	m.lies.ask = htole32(1);
	assert_int_equal(call(&f, &m, OHCA_FRONT_LIES, sizeof(m.lies), &told), OHCA_FRONT_OK);
	assert_true(told >= lies);
	m.lies.ask = m.lies.one_of = 0;
	assert_int_equal(call(&f, &m, OHCA_FRONT_LIES, sizeof(m.lies), &told), OHCA_FRONT_OK);
	assert_int_equal(atomic_load(&f.page->slow_reads), 0);
	front_close(&f);
}

static void kill_node(struct world *w, void *arg)
{
	const uint32_t at = fab_port_of(the_switch(w), 2);
	const bool *on = arg;

	fab_fault_node(fab_data_mgmt(w->d), w->f->port[w->f->port[at].peer].node, *on,
		       fab_data_host_ns(w->d));
}

/*
 * A machine at a host that is switched off continues without a link, as one that is attached by a
 * link.
 */
static void test_killed(void **state)
{
	struct world *w = *state;
	struct pair p;

	pair_up(&p, w);
	in_loop(w, kill_node, &(bool){ false });
	wait_port(w, 2, IB_PS_DOWN);
	assert_int_equal(call_run(&p.m[0].f, 1), OHCA_FRONT_OK);
	in_loop(w, kill_node, &(bool){ true });
	machine_activate(&p.m[0]);
	pair_talk(&p, 8);
	pair_down(&p);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(test_##name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		T(life), T(traffic), T(interrupt), T(paused), T(messages_first), T(two_ports),
		T(all_places), T(iommu), T(log), T(lies), T(killed), T(deadlines), T(client),
	};

	return cmocka_run_group_tests_name("fronts", tests, NULL, NULL);
}
