// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Captures: blocks of pcapng, CRCs, comments, the same bytes for the same traffic, and clients of
 * the control socket that read them, read late or close. With an argument a capture is also written
 * there, for a dissector.
 */
#include "hosts.h"

#include <sys/socket.h>
#include <sys/un.h>

#include "fabric/base/event.h"
#include "fabric/data/clock.h"
#include "fabric/fault/fault.h"
#include "fabric/control/control.h"
#include "fabric/watch/pcapng.h"
#include "ib/crc.h"

static uint8_t file[8 << 20];
static size_t used, room = sizeof(file);
static const char *copy;

static bool keep(void *ctx, const void *buf, size_t len)
{
	(void)ctx;
	if (len > room - used)
		return false;
	memcpy(file + used, buf, len);
	used += len;
	return true;
}

static int setup_hosts(void **st)
{
	(void)st;
	begin_hosts(from_spec("fat-tree:4"));
	place(0, 1);
	place(1, 7);
	used = 0;
	room = sizeof(file);
	return 0;
}

static uint32_t word(size_t at)
{
	uint32_t v;

	memcpy(&v, file + at, sizeof(v));
	return v;
}

struct seen {
	unsigned int packets[8];	/* by interface */
	unsigned int comments;
	unsigned int mads;
	bool trap;			/* the last packet is a trap */
	unsigned int links[8][16];	/* link packets by interface and lane, and the last of each */
	uint16_t fctbs[8][16], fccl[8][16];
	char comment[64];		/* the last comment */
	unsigned int statistics;	/* statistics blocks, and their sums */
	uint64_t taken, lost;
};

/*
 * Return: whether the record is a flow control packet of interface @at; its LPCRC must be right and
 * its Op 0.
 */
static bool check_link(struct seen *s, const uint8_t *erf, size_t len, uint32_t at)
{
	const unsigned int vl = erf[18] >> 4;

	if (erf[8] != 25)
		return false;
	/* zeros follow, which a dissector reads */
	assert_int_equal(len, 16 + 56);
	assert_int_equal(ib_get_be16(erf + 10), len);
	assert_int_equal(ib_get_be16(erf + 14), 56);
	for (unsigned int i = 22; i < len; i++)
		assert_int_equal(erf[i], 0);
	assert_int_equal(ib_vcrc(erf + 16, 4), ib_vcrc_get(erf + 20));
	assert_int_equal(erf[16] >> 4, 0);
	assert_true(vl < 15);
	s->links[at][vl]++;
	s->fctbs[at][vl] = ib_get_be16(erf + 16) & 0xfff;
	s->fccl[at][vl] = ib_get_be16(erf + 18) & 0xfff;
	return true;
}

/* Checks an ERF record of @len bytes with a packet, and its CRCs. Return: whether it has a MAD. */
static bool check_packet(const uint8_t *erf, size_t len)
{
	const uint8_t *pkt = erf + 16;
	uint32_t icrc = 0;
	uint8_t want[4];

	assert_int_equal(erf[8], 21);
	assert_int_equal(ib_get_be16(erf + 10), len);
	assert_int_equal(ib_get_be16(erf + 14), len - 16);
	len -= 16;
	assert_int_equal(ib_vcrc(pkt, len - 2), ib_vcrc_get(pkt + len - 2));
	assert_true((pkt[1] & 3) >= IB_LNH_IBA_LOCAL);
	assert_int_equal(ib_icrc(pkt, len - 6, &icrc), 0);
	ib_icrc_put(want, icrc);
	assert_memory_equal(want, pkt + len - 6, 4);
	return pkt[IB_LRH_LEN] == IB_OP_UD_SEND_ONLY;
}

/* Return: whether it is a trap, without a GRH. */
static bool is_trap(const uint8_t *pkt)
{
	const struct ib_mad_hdr *h = (const void *)(pkt + IB_LRH_LEN + IB_BTH_LEN + IB_DETH_LEN);

	return pkt[IB_LRH_LEN] == IB_OP_UD_SEND_ONLY && h->method == IB_METHOD_TRAP;
}

/* Reads the statistics of an interface at @at: two counts. */
static void add_statistics(struct seen *s, size_t at)
{
	uint64_t v[2];

	assert_int_equal(word(at + 20), 8u << 16 | PCAPNG_ISB_IFRECV);
	memcpy(&v[0], file + at + 24, 8);
	assert_int_equal(word(at + 32), 8u << 16 | PCAPNG_ISB_IFDROP);
	memcpy(&v[1], file + at + 36, 8);
	s->statistics++;
	s->taken += v[0];
	s->lost += v[1];
}

/* Checks all blocks and packets. */
static struct seen check_file(void)
{
	struct seen s = { 0 };
	unsigned int ifaces = 0;
	size_t len;

	for (size_t at = 0; at < used; at += len) {
		const uint32_t type = word(at);
		size_t body;

		len = word(at + 4);
		assert_int_equal(len % 4, 0);
		assert_true(at + len <= used);
		assert_int_equal(word(at + len - 4), len);
		if (!at) {
			assert_int_equal(type, PCAPNG_SECTION);
			assert_int_equal(word(8), PCAPNG_BYTE_ORDER);
		}
		ifaces += type == PCAPNG_INTERFACE;
		if (type == PCAPNG_STATISTICS)
			add_statistics(&s, at);
		if (type != PCAPNG_PACKET)
			continue;
		assert_true(word(at + 8) < ifaces);
		body = word(at + 20);
		assert_int_equal(word(at + 24), body);
		if (check_link(&s, file + at + 28, body, word(at + 8))) {
			/* it has no comment, and so no option except the last one */
			assert_int_equal(len, 28 + body + 8);
			assert_int_equal(word(at + 28 + body), 0);
			continue;
		}
		s.packets[word(at + 8)]++;
		s.mads += check_packet(file + at + 28, body);
		s.trap = is_trap(file + at + 28 + 16);
		body = 28 + (body + 3) / 4 * 4;
		if (body + 8 < len && word(at + body)) {
			uint16_t n;

			memcpy(&n, file + at + body + 2, sizeof(n));
			snprintf(s.comment, sizeof(s.comment), "%.*s", n,
				 (const char *)file + at + body + 4);
			s.comments++;
		}
	}
	return s;
}

/* Traffic of all kinds past both ends of a wire between switches. */
static struct seen traffic(void)
{
	uint32_t out[8], port[2];
	struct fab_capture *c;

	path(1, LID(7), out, 8);
	port[0] = out[0];
	port[1] = f->port[out[0]].peer;
	c = fab_capture_start(d, port, 2, 0, false, keep, NULL);
	assert_non_null(c);
	for (unsigned int i = 0; i < 10; i++) {
		assert_true(send_data(0, 0, LID(7), 64 + 4 * i, (uint8_t)i));
		now += 1000;
		pump(NULL);
	}
	get_lid(IB_CLASS_PERF, IB_PMA_ATTR_CLASS_PORT_INFO, 0, LID(f->port[port[1]].node));
	f->sw[f->node[f->port[port[1]].node].sw].lft[LID(7)] = IB_LFT_NO_PORT;
	m.epoch++;
	assert_true(send_data(0, 0, LID(7), 64, 1));
	pump(NULL);
	fab_capture_stop(c);
	assert_int_equal(m.taps, 0);
	assert_null(d->by_port[port[0]]->tap);
	/* no longer captured */
	assert_true(send_data(0, 0, LID(6), 64, 1));
	pump(NULL);
	return check_file();
}

/* Writes a copy for a dissector. */
static void save(const char *suffix)
{
	char name[512];
	FILE *to;

	snprintf(name, sizeof(name), "%s%s", copy, suffix);
	to = fopen(name, "wb");
	assert_non_null(to);
	assert_int_equal(fwrite(file, 1, used, to), used);
	fclose(to);
}

static void test_file(void **st)
{
	struct seen s = traffic();

	(void)st;
	/* 0: received by the output's port, 1: sent, 2: received at the other end, 3: sent there */
	assert_int_equal(s.packets[1], 11 + s.mads / 4);
	assert_int_equal(s.packets[2], s.packets[1]);
	assert_int_equal(s.packets[0], s.packets[3]);
	assert_int_equal(s.comments, 1);
	assert_string_equal(s.comment, "dropped: no route");
	if (copy)
		save("");
}

static void test_same(void **st)
{
	static uint8_t first[sizeof(file)];
	size_t len;

	traffic();
	len = used;
	memcpy(first, file, len);
	teardown_hosts(st);
	setup_hosts(st);
	traffic();
	assert_int_equal(used, len);
	assert_memory_equal(file, first, len);
}

/* Without room packets are lost and counted; the blocks that are there are complete. */
static void test_room(void **st)
{
	const uint32_t port = port_of_host(7);
	struct fab_capture *c;
	struct seen s;

	(void)st;
	room = 0;
	assert_null(fab_capture_start(d, &port, 1, 0, false, keep, NULL));
	room = 2000;
	c = fab_capture_start(d, &port, 1, 0, false, keep, NULL);
	assert_non_null(c);
	for (unsigned int i = 0; i < 20; i++)
		assert_true(send_data(0, 0, LID(7), 512, (uint8_t)i));
	pump(NULL);
	room = sizeof(file);
	fab_capture_stop(c);
	s = check_file();
	assert_in_range(s.lost, 1, 19);
	assert_int_equal(s.packets[1] + s.lost, 20);
	assert_int_equal(count_data(1, 0), 20);
}

/* Copies of multicast that end at their output ports have the reason there. */
static void test_copies(void **st)
{
	const uint32_t in = port_of_host(node_of[0]), sw = f->port[in].node;
	uint32_t out[2];
	struct fab_capture *c;
	unsigned int n = 0;
	struct seen s;

	(void)st;
	for (unsigned int num = 1; n < 2 && num <= f->node[sw].nports; num++)
		if (fab_port_of(&f->node[sw], num) != in) {
			out[n++] = fab_port_of(&f->node[sw], num);
			add_member(sw, 5, num);
		}
	assert_int_equal(n, 2);
	c = fab_capture_start(d, out, 2, 0, false, keep, NULL);
	assert_non_null(c);
	f->port[out[0]].pi.state = IB_PS_INIT;
	m.epoch++;
	assert_true(send_data(0, 0, IB_LID_MCAST_MIN + 5, 512, 0));
	pump(NULL);
	s = check_file();
	assert_int_equal(s.packets[1], 1);
	assert_int_equal(s.packets[3], 1);
	assert_int_equal(s.comments, 1);
	assert_string_equal(s.comment, "dropped: the output is not Active");
	f->port[out[0]].pi.state = IB_PS_ACTIVE;
	m.epoch++;
	fab_capture_stop(c);
}

/*
 * Copies of multicast wait at a machine without credit, whose port has HOQLife @hoq unless it is 0.
 * Return: a capture of the port; @out: the port.
 */
static struct fab_capture *waiting_copies(uint32_t *out, uint8_t hoq)
{
	const uint32_t sw = f->port[port_of_host(node_of[1])].node;
	struct fab_capture *c;
	uint32_t node = 1;

	while (node == node_of[1] || f->node[node].sw != FAB_NONE ||
	       f->port[port_of_host(node)].node != sw)
		node++;
	place(2, node);
	*out = port_of_host(node);
	if (hoq) {
		f->port[*out].pi.hoq_life = hoq;
		f->port[*out].pi.vl_stall_count = 1;
		m.epoch++;
	}
	add_member(sw, 5, fab_port_num(f, *out));
	for (unsigned int i = 0; i < 500 && send_data(1, 0, IB_LID_MCAST_MIN + 5, 4000, 1); i++)
		pump(NULL);
	assert_int_equal(d->blocked, 1);
	c = fab_capture_start(d, out, 1, 0, false, keep, NULL);
	assert_non_null(c);
	return c;
}

/* A copy that waits, and ends because the port is not Active any more, has the reason, too. */
static void test_copy_that_waits(void **st)
{
	struct fab_capture *c;
	struct seen s;
	uint32_t out;

	(void)st;
	c = waiting_copies(&out, 0);
	f->port[out].pi.state = IB_PS_INIT;
	m.epoch++;
	pump(NULL);
	s = check_file();
	assert_true(s.packets[1] > 1);
	/* one was decided earlier; each has the reason */
	assert_int_equal(s.comments, s.packets[1]);
	assert_string_equal(s.comment, "dropped: the output is not Active");
	fab_capture_stop(c);
}

/*
 * A copy that waits longer than HOQLife has the reason, too; those after it find the lane stalled.
 */
static void test_copy_that_is_old(void **st)
{
	struct fab_capture *c;
	struct seen s;
	uint32_t out;

	(void)st;
	c = waiting_copies(&out, 8);
	for (unsigned int i = 0; i < 4; i++) {
		now += 1000000;
		pump(NULL);
	}
	fab_capture_stop(c);
	s = check_file();
	assert_true(d->n.drop[FAB_DROP_HOQ] > 1);
	assert_int_equal(s.packets[1], d->n.drop[FAB_DROP_HOQ]);
	assert_int_equal(s.comments, s.packets[1]);
	assert_string_equal(s.comment, "dropped: HOQLife");
}

/* At a machine's port: packets that arrive by its link, and packets that leave by it. */
static void test_machine(void **st)
{
	const uint32_t port[2] = { port_of_host(1), port_of_host(7) };
	struct fab_capture *c = fab_capture_start(d, port, 2, 0, false, keep, NULL);
	struct seen s;

	(void)st;
	assert_non_null(c);
	for (unsigned int i = 0; i < 5; i++)
		assert_true(send_data(0, 0, LID(7), 512, (uint8_t)i));
	assert_true(send_data(0, 0, LID(3), 512, 0));
	pump(NULL);
	fab_capture_stop(c);
	s = check_file();
	assert_int_equal(s.packets[0], 6);
	assert_int_equal(s.packets[3], 5);
}

/*
 * A packet that ends on a wire, or at a host without a machine, has the reason at the last port
 * that it passed.
 */
static void test_ends(void **st)
{
	const uint32_t wire = fab_port_of(&f->node[0], 1);
	const uint32_t port[2] = { f->port[wire].peer, wire };
	struct fab_capture *c = fab_capture_start(d, port, 2, 0, false, keep, NULL);
	struct seen s;

	(void)st;
	assert_non_null(c);
	assert_true(send_data(0, 0, LID(0), 512, 0));
	pump(NULL);
	s = check_file();
	assert_int_equal(s.packets[1], 1);
	assert_int_equal(s.packets[2], 1);
	assert_int_equal(s.comments, 1);
	assert_string_equal(s.comment, "dropped: a host without a machine");
	assert_true(fab_fault_wire(&m, port[0], UINT32_MAX, 0, 1));
	assert_true(send_data(0, 0, LID(0), 512, 0));
	pump(NULL);
	s = check_file();
	assert_int_equal(s.packets[1], 2);
	assert_int_equal(s.packets[2], 1);
	assert_int_equal(s.comments, 2);
	assert_string_equal(s.comment, "dropped: lost by a fault of the wire");
	get_lid(IB_CLASS_PERF, IB_PMA_ATTR_CLASS_PORT_INFO, 0, LID(8));
	s = check_file();
	assert_int_equal(s.packets[3], 1);
	assert_int_equal(s.comments, 3);
	fab_capture_stop(c);
}

/* The packet whose loss causes a trap comes before the trap: a data packet, then a MAD. */
static void test_before_trap(void **st)
{
	struct fab_capture *c;
	uint32_t port[8];
	struct seen s;

	(void)st;
	for (unsigned int mads = 0; mads < 2; mads++) {
		path(1, LID(7), port, 8);
		port[1] = f->port[port[0]].peer;
		used = 0;
		c = fab_capture_start(d, port, 2, 0, false, keep, NULL);
		assert_non_null(c);
		/* LocalPhyErrors is 8: the ninth */
		assert_true(fab_fault_wire(&m, port[0], UINT32_MAX, 0, 1));
		for (unsigned int i = 0; i < 9; i++) {
			s = check_file();
			assert_false(s.trap);
			if (mads)
				get_lid(IB_CLASS_PERF, IB_PMA_ATTR_CLASS_PORT_INFO, 0,
					LID(f->port[port[1]].node));
			else
				assert_true(send_data(0, 0, LID(7), 512, 0));
			pump_once();
		}
		s = check_file();
		assert_int_equal(s.packets[1], 9);
		assert_true(s.trap);
		fab_capture_stop(c);
		teardown_hosts(NULL);
		setup_hosts(NULL);
	}
}

/* ---- link packets -------------------------------------------------------------- */

/*
 * Return: credit by the last flow control packets of lane 0: blocks that the sender at @by may
 * still send to @to.
 */
static unsigned int credit(const struct seen *s, unsigned int by, unsigned int to)
{
	return (s->fccl[to][0] - s->fctbs[by][0]) & 0xfff;
}

static void test_link_packets(void **st)
{
	uint32_t out[8], port[2];
	struct fab_capture *c;
	unsigned int blocks = 0, taken = 0, sent = 10;
	struct seen s;

	(void)st;
	path(1, LID(7), out, 8);
	port[0] = out[0];
	port[1] = f->port[out[0]].peer;
	c = fab_capture_start(d, port, 2, 0, true, keep, NULL);
	assert_non_null(c);
	for (unsigned int i = 0; i < 10; i++) {
		/* the size is that number of blocks with the VCRC, or one block more */
		const size_t len = 64 * (i + 2) - 4 + i % 2 * 4;

		assert_true(send_data(0, 0, LID(7), len, (uint8_t)i));
		blocks += i + 2 + i % 2;
		pump(NULL);
	}
	s = check_file();
	/*
	 * 1: sent by the first port, 2: received by the second, 3: sent by the second, 0: received
	 * by the first
	 */
	assert_int_equal(s.fctbs[1][0], blocks);
	assert_int_equal(s.fctbs[2][0], blocks);
	assert_int_equal(s.fccl[3][0], blocks + FAB_LANE_BLOCKS);
	assert_int_equal(s.fccl[0][0], blocks + FAB_LANE_BLOCKS);
	assert_int_equal(s.fctbs[0][0], 0);
	assert_int_equal(s.fccl[1][0], FAB_LANE_BLOCKS);
	/* one for each packet; the first one has the state at the start */
	assert_int_equal(s.links[1][0], 10);
	/* a lane without packets */
	assert_int_equal(s.links[1][1], 1);
	assert_int_equal(s.fccl[1][1], FAB_LANE_BLOCKS);
	assert_int_equal(s.packets[1], 10);
	assert_int_equal(s.comments, 0);
	if (copy)
		save(".links");

	/* the host reads nothing: the credit of the wire runs out, and returns later */
	for (unsigned int i = 0; i < 4000 && send_data(0, 0, LID(7), 1024, 0); i++) {
		pump(NULL);
		sent++;
	}
	s = check_file();
	assert_true(credit(&s, 1, 3) < fab_blocks(1024));
	assert_int_equal(credit(&s, 1, 0), credit(&s, 1, 3));
	for (unsigned int i = 0; i < 4000 && taken < sent; i++) {
		taken += count_data(1, 0);
		pump(NULL);
	}
	assert_int_equal(taken, sent);
	s = check_file();
	assert_int_equal(credit(&s, 1, 3), FAB_LANE_BLOCKS);
	fab_capture_stop(c);
	assert_null(d->link_captures);
}

/* At a machine's port they are those that the link's two ends have written. */
static void test_link_packets_of_machine(void **st)
{
	const uint32_t port = port_of_host(1);
	struct fab_capture *c = fab_capture_start(d, &port, 1, 0, true, keep, NULL);
	struct ohca_link_flow flow, at_host;
	struct seen s;

	(void)st;
	assert_non_null(c);
	for (unsigned int i = 0; i < 5; i++)
		assert_true(send_data(0, 0, LID(7), 512, (uint8_t)i));
	pump(NULL);
	fab_capture_stop(c);
	s = check_file();
	assert_true(ohca_link_get_flow(d->by_port[port]->link, 0, &flow));
	assert_int_equal(s.fctbs[0][0], flow.rcvd_fctbs);
	assert_int_equal(s.fccl[0][0], flow.rcvd_fccl);
	assert_int_equal(s.fctbs[1][0], flow.sent_fctbs);
	assert_int_equal(s.fccl[1][0], flow.sent_fccl);
	assert_true(flow.rcvd_fctbs >= 5);
	/* the host's end has the same values */
	assert_true(ohca_link_get_flow(host[0].l, 0, &at_host));
	assert_int_equal(at_host.sent_fctbs, flow.rcvd_fctbs);
	assert_int_equal(at_host.sent_fccl, flow.rcvd_fccl);
	assert_int_equal(at_host.rcvd_fctbs, flow.sent_fctbs);
	assert_int_equal(at_host.rcvd_fccl, flow.sent_fccl);
	assert_false(ohca_link_get_flow(host[0].l, OHCA_LINK_VL15, &at_host));
}

/* ---- clients ------------------------------------------------------------------- */

static struct fab_control *control;
static char control_path[48];
static int control_epfd = -1;

static int setup_clients(void **st)
{
	setup_hosts(st);
	snprintf(control_path, sizeof(control_path), "%s/control", dir);
	control_epfd = epoll_create1(EPOLL_CLOEXEC);
	control = fab_control_new(&m, d, control_path, control_epfd, NULL);
	assert_non_null(control);
	return 0;
}

static int teardown_clients(void **st)
{
	fab_control_free(control);
	close(control_epfd);
	assert_int_equal(m.taps, 0);
	return teardown_hosts(st);
}

/* One turn of the fabric's loop for its clients. */
static void turn(void)
{
	struct epoll_event ev[8];
	int n;

	for (int i = 0; (n = epoll_wait(control_epfd, ev, 8, 0)) > 0; i++) {
		assert_true(i < 10000);
		for (int k = 0; k < n; k++)
			fab_control_event(control, fab_event_of(&ev[k]).index,
					  fab_data_clock(d));
	}
	fab_control_flush(control);
}

/* A client asks for a capture of @ports, JSON; @more: other members. */
static int ask_capture(const char *ports, const char *more)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0), n;
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	char text[512];

	strcpy(un.sun_path, control_path);
	assert_int_equal(connect(fd, (struct sockaddr *)&un, sizeof(un)), 0);
	n = snprintf(text, sizeof(text), "{\"command\": \"capture\", \"ports\": [%s]%s}\n", ports,
		     more);
	assert_int_equal(send(fd, text, (size_t)n, 0), n);
	turn();
	return fd;
}

/* Reads the reply, a line; the bytes after it are the capture. */
static const char *reply(int fd)
{
	static char text[512];
	size_t n = 0;

	used = 0;
	while (recv(fd, text + n, 1, 0) == 1 && text[n] != '\n')
		assert_true(++n < sizeof(text));
	text[n] = 0;
	return text;
}

/* Reads all that is there. Return: whether the capture has ended. */
static bool read_some(int fd)
{
	ssize_t n;

	turn();
	while ((n = recv(fd, file + used, sizeof(file) - used, 0)) > 0) {
		used += (size_t)n;
		turn();
	}
	return !n;
}

/* Reads the client's capture to its end. */
static struct seen end_capture(int fd)
{
	assert_false(read_some(fd));
	shutdown(fd, SHUT_WR);
	assert_true(read_some(fd));
	close(fd);
	return check_file();
}

/* A capture during traffic, with both ends of a wire. */
static void test_live(void **st)
{
	int fd = ask_capture("\"leaf1:1\", \"0x5254010000000100:1\"", "");
	size_t before;
	struct seen s;

	(void)st;
	assert_string_equal(reply(fd), "{\"capture\": \"pcapng\"}");
	assert_false(read_some(fd));
	before = used;
	assert_true(before > 200);
	get_lid(IB_CLASS_PERF, IB_PMA_ATTR_CLASS_PORT_INFO, 0, LID(8));
	assert_int_equal(got.mad.hdr.method, IB_METHOD_GET_RESP);
	assert_false(read_some(fd));
	assert_true(used > before + 4 * 290);
	before = used;
	get_lid(IB_CLASS_PERF, IB_PMA_ATTR_CLASS_PORT_INFO, 0, LID(8));
	s = end_capture(fd);
	for (unsigned int i = 0; i < 4; i++)
		assert_int_equal(s.packets[i], 2);
	assert_int_equal(s.statistics, 4);
	assert_int_equal(s.taken, 8);
	assert_int_equal(s.lost, 0);
	assert_int_equal(m.taps, 0);
}

/* Three packets, which two captures contain. */
static void test_count(void **st)
{
	int some = ask_capture("\"leaf1:1\"", ", \"count\": 3"), all = ask_capture("\"leaf1:1\"", "");

	(void)st;
	reply(some);
	for (unsigned int i = 0; i < 5; i++)
		get_lid(IB_CLASS_PERF, IB_PMA_ATTR_CLASS_PORT_INFO, 0, LID(8));
	assert_true(read_some(some));
	close(some);
	assert_int_equal(check_file().taken, 3);
	reply(all);
	assert_int_equal(end_capture(all).taken, 10);
}

/* A client that does not read loses packets, and no other client does. */
static void test_late(void **st)
{
	int late = ask_capture("\"leaf4:2\"", ""), other;
	unsigned int sent = 0, delivered = 0;
	struct seen s;

	(void)st;
	for (unsigned int i = 0; i < 200; i++) {
		for (unsigned int k = 0; k < 8; k++)
			sent += send_data(0, 0, LID(7), 4112, (uint8_t)k);
		pump(NULL);
		turn();
		delivered += count_data(1, 0);
	}
	assert_int_equal(sent, 1600);
	assert_int_equal(delivered, sent);
	other = ask_capture("\"leaf4:2\"", "");
	reply(other);
	assert_true(send_data(0, 0, LID(7), 64, 1));
	pump(NULL);
	assert_int_equal(end_capture(other).taken, 1);
	reply(late);
	s = end_capture(late);
	assert_true(s.lost > 100);
	assert_int_equal(s.taken + s.lost, sent + 1);
	assert_int_equal(s.packets[1], s.taken);
	assert_true(used > FAB_SPOOL_BYTES - FAB_SPOOL_LAST - 8192);
}

/* A client that closes, or that never reads the end. */
static void test_dead(void **st)
{
	int fd[FAB_CONTROL_CAPTURES], more;

	(void)st;
	for (unsigned int i = 0; i < FAB_CONTROL_CAPTURES; i++)
		fd[i] = ask_capture("\"leaf4:2\"", "");
	assert_int_equal(m.taps, FAB_CONTROL_CAPTURES);
	more = ask_capture("\"leaf4:2\"", "");
	assert_non_null(strstr(reply(more), "end one"));
	close(more);
	turn();
	close(fd[3]);
	assert_true(send_data(0, 0, LID(7), 4112, 1));
	pump(NULL);
	turn();
	assert_int_equal(m.taps, FAB_CONTROL_CAPTURES - 1);
	for (unsigned int i = 0; i < FAB_CONTROL_CAPTURES; i++)
		if (i != 3)
			shutdown(fd[i], SHUT_WR);
	turn();
	assert_int_equal(m.taps, 0);
	for (unsigned int i = 0; i < FAB_CONTROL_CAPTURES; i++)
		if (i != 3)
			close(fd[i]);
	fd[0] = ask_capture("\"leaf4:2\"", "");
	assert_int_equal(m.taps, 1);
	close(fd[0]);
	turn();
}

/* The fabric ends: each capture that runs is complete. */
static void test_fabric_ends(void **st)
{
	int fd[3];

	(void)st;
	for (unsigned int i = 0; i < 3; i++)
		fd[i] = ask_capture("\"leaf4:2\"", "");
	assert_true(send_data(0, 0, LID(7), 64, 1));
	pump(NULL);
	fab_control_free(control);
	control = NULL;
	assert_int_equal(m.taps, 0);
	for (unsigned int i = 0; i < 3; i++) {
		ssize_t n;

		reply(fd[i]);
		while ((n = recv(fd[i], file + used, sizeof(file) - used, 0)) > 0)
			used += (size_t)n;
		assert_int_equal(n, 0);
		assert_int_equal(check_file().taken, 1);
		close(fd[i]);
	}
}

/* The error for ports that cannot be captured says what to do. */
static void test_wrong(void **st)
{
	static const char * const wrong[][3] = {
		{ "\"leaf1:5\"", "", "there is no port 'leaf1:5': write NODE:PORT" },
		{ "\"leaf1:0\"", "", "from 1" },
		{ "\"leaf9:1\"", "", "as topology shows them" },
		{ "\"leaf1\"", "", "write NODE:PORT" },
		{ "7", "", "write NODE:PORT" },
		{ "", "", "a list of 1 to 32" },
		{ "\"leaf1:1\"", ", \"count\": 0", "a number from 1" },
		{ "\"leaf1:1\"", ", \"count\": \"all\"", "a number from 1" },
		{ "\"leaf1:1\"", ", \"file\": \"/tmp/x\"", "leave out all else" },
		{ "\"leaf1:1\", \"host8:1\"", "", "the other end of its link, 'leaf4:2'" },
	};

	(void)st;
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(wrong); i++) {
		int fd = ask_capture(wrong[i][0], wrong[i][1]);
		const char *text = reply(fd);

		if (!strstr(text, "\"error\"") || !strstr(text, wrong[i][2]))
			fail_msg("%s: %s", wrong[i][0], text);
		assert_int_equal(m.taps, 0);
		close(fd);
		turn();
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
#define T(name)	cmocka_unit_test_setup_teardown(name, setup_hosts, teardown_hosts)
		T(test_file), T(test_same), T(test_room), T(test_copies),
		T(test_copy_that_waits), T(test_copy_that_is_old), T(test_machine), T(test_ends),
		T(test_before_trap),
		T(test_link_packets), T(test_link_packets_of_machine),
#undef T
#define T(name)	cmocka_unit_test_setup_teardown(name, setup_clients, teardown_clients)
		T(test_live), T(test_count), T(test_late), T(test_dead),
		T(test_fabric_ends), T(test_wrong),
#undef T
	};

	copy = argc > 1 ? argv[1] : NULL;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
