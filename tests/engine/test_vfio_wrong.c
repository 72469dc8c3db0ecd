// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Invalid messages of a virtual machine monitor to ohca-vfio-user, and VMMs that connect, close and
 * do not read: they end their own connection, and leave nothing behind.
 */
#include "vmm.h"

#define PROBE	0xbeefu

/*
 * Writes valid message number @n: one of each command, and one of an unknown command. None changes
 * what a test depends on. Return: false if there are no more.
 */
static bool nth_message(unsigned int n, struct vmm_message *m)
{
	const struct vu_dma_map map = { sizeof(map), VU_DMA_READ | VU_DMA_WRITE, 0, IOVA, 4096 };
	const struct vu_dma_unmap unmap = { sizeof(unmap), VU_UNMAP_ALL, 0, 0 };
	const struct vu_device_info dev = { .argsz = sizeof(dev) };
	const struct vu_region_info reg = { .argsz = sizeof(reg), .index = VU_CONFIG };
	const struct vu_irq_info irq = { .argsz = sizeof(irq), .index = VU_MSIX };
	const struct vu_irq_set set = { sizeof(set), VU_IRQ_NONE | VU_IRQ_TRIGGER, VU_MSIX, 0, 4 };
	const struct vu_access rd = { OHCA_REG_STATUS, OHCA_BAR_CTRL, 4 };
	const struct vu_access wr = { PCI_COMMAND, VU_CONFIG, 2 };
	const struct {
		enum vu_command command;
		const void *data;
		size_t len;
	} all[] = {
		{ VU_VERSION, "\0\0\0\0{}", 7 },
		{ VU_DMA_MAP, &map, sizeof(map) },
		{ VU_DMA_UNMAP, &unmap, sizeof(unmap) },
		{ VU_DEVICE_INFO, &dev, sizeof(dev) },
		{ VU_REGION_INFO, &reg, sizeof(reg) },
		{ VU_IRQ_INFO, &irq, sizeof(irq) },
		{ VU_SET_IRQS, &set, sizeof(set) },
		{ VU_REGION_READ, &rd, sizeof(rd) },
		{ VU_REGION_WRITE, &wr, sizeof(wr) },
		{ VU_DEVICE_RESET, NULL, 0 },
		{ 6, NULL, 0 },
	};

	if (n == sizeof(all) / sizeof(all[0]))
		return false;
	vmm_begin(m, all[n].command, all[n].data, all[n].len);
	if (all[n].command == VU_REGION_WRITE) {
		m->data[all[n].len] = PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER;
		m->hdr.size += 2;
	}
	return true;
}

/* Connects again, with a VERSION, if the last connection is gone. */
static void again(struct vmm *v, bool gone)
{
	if (!gone)
		return;
	vmm_hang_up(v);
	vmm_dial(v);
	assert_int_equal(vmm_version(v), 0);
}

/* Return: whether the server has closed the connection; reads all answers up to that of a probe. */
static bool probe(struct vmm *v)
{
	const struct vu_access a = { PCI_VENDOR_ID, VU_CONFIG, 4 };
	struct vmm_message m;

	vmm_begin(&m, VU_REGION_READ, &a, sizeof(a));
	m.hdr.id = PROBE;
	if (!vmm_put(v, &m, m.hdr.size, NULL, 0))
		return true;
	do {
		if (!vmm_get(v, &m))
			return true;
	} while (m.hdr.id != PROBE);
	assert_int_equal(m.hdr.flags & VU_ERROR, 0);
	return false;
}

/* The connection ends within a message, or the shorter message is complete. */
static void test_truncated(void **state)
{
	struct bare *b = *state;
	struct vmm_message m;
	uint64_t val;

	for (unsigned int n = 0; nth_message(n, &m); n++) {
		for (uint32_t len = 1; len < m.hdr.size; len++) {
			again(&b->v, len > 1);
			assert_true(vmm_put(&b->v, &m, len, NULL, 0));
			shutdown(b->v.sock, SHUT_WR);
			assert_int_equal(vmm_read(&b->v, VU_CONFIG, 0, 4, &val), VMM_GONE);
		}
		again(&b->v, true);
		for (uint32_t len = sizeof(m.hdr); nth_message(n, &m) && len < m.hdr.size; len++) {
			m.hdr.size = len;
			/* VERSION needs no data, but may not be sent twice */
			assert_int_equal(vmm_call_fds(&b->v, &m, NULL, 0), n ? EINVAL : len <
					 sizeof(m.hdr) + sizeof(struct vu_version) ? EINVAL : EPROTO);
			again(&b->v, probe(&b->v));
		}
	}
}

/* Messages that arrive byte by byte have the same effect. */
static void test_pieces(void **state)
{
	struct bare *b = *state;
	struct vmm_message m, a;

	for (unsigned int n = 1; nth_message(n, &m); n++) {
		for (uint32_t at = 0; at < m.hdr.size; at++)
			assert_true(vmm_put(&b->v, (uint8_t *)&m + at, 1, &b->mem,
					    !at && m.hdr.command == VU_DMA_MAP));
		assert_true(vmm_get(&b->v, &a));
		assert_int_equal(a.hdr.command, m.hdr.command);
		assert_int_equal(!!(a.hdr.flags & VU_ERROR), m.hdr.command == 6);
	}
}

/*
 * Each bit of each message is inverted, with and without a descriptor. test_truncated() covers the
 * size.
 */
static void test_flipped(void **state)
{
	struct bare *b = *state;
	struct vmm_message m;

	for (unsigned int n = 0; nth_message(n, &m); n++) {
		for (uint32_t bit = 0; bit < 8 * m.hdr.size; bit++) {
			if (bit / 32 == offsetof(struct vu_hdr, size) / 4)
				continue;
			nth_message(n, &m);
			((uint8_t *)&m)[bit / 8] ^= (uint8_t)(1 << bit % 8);
			assert_true(vmm_put(&b->v, &m, m.hdr.size, &b->mem, bit % 2));
			again(&b->v, probe(&b->v));
		}
	}
}

static void test_sizes(void **state)
{
	static const uint32_t sizes[] = { 0, 1, sizeof(struct vu_hdr) - 1, VU_MESSAGE + 1, UINT32_MAX };
	struct bare *b = *state;
	struct vmm_message m;

	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		nth_message(1, &m);
		m.hdr.size = sizes[i];
		assert_true(vmm_put(&b->v, &m, sizeof(m.hdr), NULL, 0));
		assert_true(probe(&b->v));
		again(&b->v, true);
	}
	/* a message of maximum length is accepted */
	nth_message(9, &m);
	m.hdr.size = VU_MESSAGE;
	assert_true(vmm_put(&b->v, &m, VU_MESSAGE, NULL, 0));
	assert_false(probe(&b->v));
}

/* More descriptors than a message may have; none stays open, as bare_teardown() checks. */
static void test_descriptors(void **state)
{
	struct bare *b = *state;
	struct vmm_message m;
	int fd[VU_FDS + 1];

	for (unsigned int i = 0; i < VU_FDS + 1; i++)
		fd[i] = b->mem;
	for (unsigned int n = 0; nth_message(n, &m); n++) {
		assert_true(vmm_put(&b->v, &m, m.hdr.size, fd, VU_FDS));
		again(&b->v, probe(&b->v));
		if (n && m.hdr.command != 6) {
			nth_message(n, &m);
			assert_int_equal(vmm_call_fds(&b->v, &m, fd, 2), EINVAL);
		}
		nth_message(n, &m);
		assert_true(vmm_put(&b->v, &m, m.hdr.size, fd, VU_FDS + 1));
		assert_true(probe(&b->v));
		again(&b->v, true);
	}
}

/* A VMM that does not read is disconnected, and the HCA leaves the fabric. */
static void test_deaf(void **state)
{
	struct bare *b = *state;
	const struct vu_access a = { 0, VU_CONFIG, VU_XFER };
	struct vmm_message m;

	vmm_begin(&m, VU_REGION_READ, &a, sizeof(a));
	assert_int_equal(fcntl(b->v.sock, F_SETFL, O_NONBLOCK), 0);
	for (unsigned int i = 0; i < 4096; i++)
		if (!vmm_put(&b->v, &m, m.hdr.size, NULL, 0))
			break;
	wait_free(b->w, 2);
}

/* ---- one VMM after the other ------------------------------------------------------ */

struct server {
	const struct vu_cfg *cfg;
	int listener, stop;
	bool ok;
};

static void *server(void *arg)
{
	struct server *s = arg;

	s->ok = vu_serve(s->cfg, s->listener, s->stop);
	return NULL;
}

static int dial(const struct sockaddr_un *sa)
{
	int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(sock, (const struct sockaddr *)sa, sizeof(*sa)), 0);
	return sock;
}

/* The second VMM waits until the first one closes; a third one does not wait that long. */
static void test_queue(void **state)
{
	struct bare *b = *state;
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	struct server s = { .cfg = &b->v.cfg };
	struct vmm first = { .m.w = b->w }, second = first;
	struct pollfd p = { .events = POLLIN };
	struct vmm_message m;
	pthread_t thread;
	int stop[2];

	/* the card is for these */
	vmm_hang_up(&b->v);
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/card", b->w->dir);
	s.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(s.listener, (const struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(s.listener, 4), 0);
	assert_int_equal(pipe(stop), 0);
	s.stop = stop[0];
	assert_int_equal(pthread_create(&thread, NULL, server, &s), 0);
	first.sock = dial(&sa);
	assert_int_equal(vmm_version(&first), 0);
	close(dial(&sa));
	second.sock = p.fd = dial(&sa);
	vmm_begin(&m, VU_VERSION, "\0\0\0\0{}", 7);
	assert_true(vmm_put(&second, &m, m.hdr.size, NULL, 0));
	vmm_master(&first, true);
	assert_int_equal(poll(&p, 1, 0), 0);
	close(first.sock);
	assert_true(vmm_get(&second, &m));
	assert_int_equal(m.hdr.flags, VU_TYPE_REPLY);
	/* nothing is left of the first one */
	assert_int_equal(vmm_config(&second, PCI_COMMAND, 2), 0);
	assert_int_equal(write(stop[1], "x", 1), 1);
	pthread_join(thread, NULL);
	assert_true(s.ok);
	assert_false(vmm_get(&second, &m));
	close(second.sock);
	close(s.listener);
	close(stop[0]);
	close(stop[1]);
	unlink(sa.sun_path);
}

/* The first message has another command, or another version. */
static void test_first(void **state)
{
	struct bare *b = *state;
	struct vmm_message m;

	for (unsigned int n = 1; nth_message(n, &m); n++) {
		vmm_hang_up(&b->v);
		vmm_dial(&b->v);
		assert_true(vmm_put(&b->v, &m, m.hdr.size, NULL, 0));
		assert_true(probe(&b->v));
	}
	vmm_hang_up(&b->v);
	vmm_dial(&b->v);
	assert_int_equal(vmm_call(&b->v, &m, VU_VERSION, "\1\0\0\0", 4), EPROTO);
	assert_true(probe(&b->v));
	again(&b->v, true);
	/* once is enough */
	assert_int_equal(vmm_version(&b->v), EPROTO);
	assert_true(probe(&b->v));
}

/* No process listens at the fabric's socket. */
static void test_no_fabric(void **state)
{
	struct bare *b = *state;
	struct vmm v;

	vmm_init(&v, b->w, 4);
	v.cfg.fabric = "/nonexistent/fabric";
	vmm_dial(&v);
	assert_int_equal(vmm_version(&v), EHOSTDOWN);
	vmm_expect_said("command 1 of the VMM is refused: there is no HCA");
	assert_int_equal(vmm_version(&v), VMM_GONE);
	vmm_hang_up(&v);
	vmm_exit(&v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_no_fabric, bare_setup, bare_teardown),
		cmocka_unit_test_setup_teardown(test_truncated, bare_setup, bare_teardown),
		cmocka_unit_test_setup_teardown(test_pieces, bare_setup, bare_teardown),
		cmocka_unit_test_setup_teardown(test_flipped, bare_setup, bare_teardown),
		cmocka_unit_test_setup_teardown(test_sizes, bare_setup, bare_teardown),
		cmocka_unit_test_setup_teardown(test_descriptors, bare_setup, bare_teardown),
		cmocka_unit_test_setup_teardown(test_deaf, bare_setup, bare_teardown),
		cmocka_unit_test_setup_teardown(test_first, bare_setup, bare_teardown),
		cmocka_unit_test_setup_teardown(test_queue, bare_setup, bare_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
