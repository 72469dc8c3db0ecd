/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fronts that send invalid messages, do not read, or exit. An error ends the front with a reason,
 * or is answered by a status; the daemon keeps no resource of such a front, and two honest machines
 * communicate all the time.
 */
#include "front_world.h"

#include "engine/base/limits.h"
#include "fabric/hca/front.h"

struct bad_world {
	struct world *w;
	struct pair pair;
	unsigned int fds;	/* open descriptors, with the pair */
	struct front f;
	int mem;		/* a memfd of BLOCK bytes */
};

#define BLOCK	(1u << 20)
#define IOVA	0x100000ull
#define BURST	100u
#define REG_RESET	13u	/* number of the message that resets by a register */

static atomic_uint covers;	/* mappings in place of others: each is a bus error of the daemon */

void *__real_mmap(void *addr, size_t n, int prot, int flags, int fd, off_t off);
void *__wrap_mmap(void *addr, size_t n, int prot, int flags, int fd, off_t off);
void *__wrap_mmap(void *addr, size_t n, int prot, int flags, int fd, off_t off)
{
	covers += !!(flags & MAP_FIXED);
	return __real_mmap(addr, n, prot, flags, fd, off);
}

static int setup(void **state)
{
	struct bad_world *b = calloc(1, sizeof(*b));

	world_setup(state);
	b->w = *state;
	pair_up(&b->pair, b->w);
	b->mem = memfd_create("block", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(b->mem, BLOCK), 0);
	b->f.sock = b->f.wake = b->f.irq = -1;
	b->fds = open_fds();
	*state = b;
	return 0;
}

/* Closes, and waits until the daemon has detected that. */
static void hang_up(struct bad_world *b)
{
	front_close(&b->f);
	wait_free(b->w, 5);
	wait_fds(b->fds);
}

static int teardown(void **state)
{
	struct bad_world *b = *state;

	hang_up(b);
	pair_talk(&b->pair, 100000);
	pair_down(&b->pair);
	close(b->mem);
	*state = b->w;
	free(b);
	return world_teardown(state);
}

static struct ohca_front_hello hello(void)
{
	const struct ohca_cfg c = card(0x7000);
	struct ohca_front_hello h = hello_of(&c);

	h.want_port = 5;
	return h;
}

/* Connects a front that is accepted. */
static void dial(struct bad_world *b)
{
	const struct ohca_front_hello h = hello();

	hang_up(b);
	front_dial(&b->f, b->w->path);
	if (!front_hello(&b->f, &h, -1))
		fail_msg("%s", b->f.why);
}

/* Writes valid message number @k. Return: its length, or 0 if there are no more. */
static size_t nth_message(unsigned int n, union message *m)
{
	const struct ohca_front_range r = range(IOVA, 4096, 0, 0, 0);
	static const enum ohca_front_type types[] = {
		OHCA_FRONT_HELLO, OHCA_FRONT_UNBLOCK, OHCA_FRONT_MEM, OHCA_FRONT_REG,
		OHCA_FRONT_RESET, OHCA_FRONT_RUN, OHCA_FRONT_LIES, OHCA_FRONT_BLOCK,
		OHCA_FRONT_UNMAP, OHCA_FRONT_BYE, OHCA_FRONT_LOG, OHCA_FRONT_LEAVE,
		OHCA_FRONT_DONE, OHCA_FRONT_REG,
	};
	size_t len = sizeof(m->hdr);

	if (n == sizeof(types) / sizeof(types[0]))
		return 0;
	memset(m, 0, sizeof(*m));
	switch (types[n]) {
	case OHCA_FRONT_HELLO:
		m->hello = hello();
		len = sizeof(m->hello);
		break;
	case OHCA_FRONT_UNBLOCK:
		len = 24;
		break;
	case OHCA_FRONT_MEM:
		m->mem.n = htole32(1);
		memcpy(m->b + sizeof(m->mem), &r, sizeof(r));
		len = sizeof(m->mem) + sizeof(r);
		break;
	case OHCA_FRONT_REG:
		m->reg.off = htole32(n == REG_RESET ? OHCA_REG_CTRL : OHCA_REG_STATUS);
		m->reg.size = 4;
		m->reg.flags = n == REG_RESET ? OHCA_FRONT_REG_WRITE : 0;
		m->reg.value = htole64(n == REG_RESET ? OHCA_CTRL_RESET : 0);
		len = sizeof(m->reg);
		break;
	case OHCA_FRONT_RUN:
		m->run.running = htole32(1);
		len = sizeof(m->run);
		break;
	case OHCA_FRONT_LIES:
		len = sizeof(m->lies);
		break;
	case OHCA_FRONT_UNMAP:
		m->unmap.iova = htole64(IOVA);
		m->unmap.last = htole64(IOVA + 4095);
		len = sizeof(m->unmap);
		break;
	case OHCA_FRONT_LOG:
		len = sizeof(m->log);
		break;
	case OHCA_FRONT_BLOCK:
		m->block.size = htole64(BLOCK);
		len = sizeof(m->block);
		break;
	default:
		break;
	}
	message_begin(m, types[n], len);
	return len;
}

static bool is_hello(const union message *m)
{
	return le16toh(m->hdr.type) == OHCA_FRONT_HELLO;
}

/* Sends @n bytes of @m as they are. Return: as answer(), but 0 for a WELCOME. */
static int say(struct bad_world *b, const union message *m, size_t n)
{
	int status;

	if (is_hello(m)) {
		hang_up(b);
		front_dial(&b->f, b->w->path);
		return front_hello_raw(&b->f, m, n, -1) ? 0 : -1;
	}
	if (!b->f.page || b->f.gone)
		dial(b);
	assert_true(put(&b->f, m, n, NULL, 0));
	status = answer(&b->f, NULL);
	/* after its BYE the connection ends */
	if (status >= 0 && le16toh(m->hdr.type) == OHCA_FRONT_BYE)
		assert_int_equal(answer(&b->f, NULL), -1);
	return status;
}

/* A message that is shorter than its type requires, with its true length in the header or not. */
static void test_truncated(void **state)
{
	struct bad_world *b = *state;
	union message m;
	size_t len;

	for (unsigned int k = 0; (len = nth_message(k, &m)); k++) {
		for (size_t n = 0; n < len; n++) {
			/* a MEM that claims to have no ranges may lack them */
			const bool no_range = le16toh(m.hdr.type) == OHCA_FRONT_MEM &&
					      n >= sizeof(m.mem);

			m.hdr.len = htole32((uint32_t)len);
			assert_int_equal(say(b, &m, n), -1);
			m.hdr.len = htole32((uint32_t)n);
			assert_int_equal(say(b, &m, n), no_range ? OHCA_FRONT_INVALID : -1);
			if (n % 16 == 0)
				pair_talk(&b->pair, 8);
		}
		/* a longer message is accepted */
		m.hdr.len = htole32((uint32_t)len + 8);
		memset(m.b + len, 0xa5, 8);
		assert_true(say(b, &m, len + 8) >= 0);
	}
}

/* Each byte is changed: the daemon answers, or ends the front with a reason. */
static void test_flipped(void **state)
{
	static const uint8_t flip[] = { 0x01, 0x10, 0x80, 0xff };
	struct bad_world *b = *state;
	unsigned int refused = 0, done = 0;
	union message m;
	size_t len;

	for (unsigned int k = 0; (len = nth_message(k, &m)); k++) {
		for (size_t n = 0; n < len; n++) {
			for (unsigned int i = 0; i < sizeof(flip); i++) {
				int status;

				/* the clock in the HELLO must be fresh */
				nth_message(k, &m);
				m.b[n] ^= flip[i];
				status = say(b, &m, len);
				assert_true(status <= OHCA_FRONT_LIMIT);
				refused += status < 0;
				done += status == OHCA_FRONT_OK;
				/* only the first 12 bytes of the header are checked */
				if (n < 12 && n != 6 && n != 7)
					assert_int_equal(status, -1);
			}
			if (n % 16 == 0)
				pair_talk(&b->pair, 8);
		}
	}
	assert_true(refused > 100 && done > 100);
}

/* A HELLO with an invalid field is refused, and the reason names the field. */
static void test_fields(void **state)
{
	static const struct {
		const char *field;
		unsigned int off, size;
		uint64_t val[2];
	} wrong[] = {
#define F(name, a, b)	{ #name, offsetof(struct ohca_front_hello, name), \
			  sizeof(((struct ohca_front_hello *)0)->name), { a, b } }
		F(node_guid, 0, UINT64_MAX - 1), F(dm_size, 1, 1 << 20), F(mem_max, 1, 1 << 19),
		F(clock_ns, 0, UINT64_MAX), F(flags, 8, 1u << 31), F(vectors, 0, 2049),
		F(uars, 1, 2048), F(uars, 0, 3), F(ports, 0, 3), F(vl_cap, 0, 3), F(mtu_cap, 0, 6),
		F(width_sup, 0, 32), F(speed_sup, 0, 8), F(speed_ext_sup, 16, 64),
		F(want_port, 255, 255), F(log_max_qp, 2, 17), F(log_max_cq, 0, 17),
		F(log_max_srq, 0, 17), F(log_max_mr, 1, 21),
#undef F
	};
	struct bad_world *b = *state;
	union message m;

	for (unsigned int i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		for (unsigned int k = 0; k < 2; k++) {
			const uint64_t v = htole64(wrong[i].val[k]);

			nth_message(0, &m);
			memcpy(m.b + wrong[i].off, &v, wrong[i].size);
			assert_int_equal(say(b, &m, sizeof(m.hello)), -1);
			if (!strstr(b->f.why, wrong[i].field))
				fail_msg("%s: %s", wrong[i].field, b->f.why);
		}
	}
	nth_message(0, &m);
	m.hdr.version = htole16(7);
	assert_int_equal(say(b, &m, sizeof(m.hello)), -1);
	assert_string_equal(b->f.why, "QEMU uses version 7 of the protocol of HCAs, ohca-fabric uses 4: "
			    "use QEMU and ohca-fabric of the same release");
}

/* Texts of a front are shown to users, so characters that are not ASCII are replaced. */
static void test_texts(void **state)
{
	struct bad_world *b = *state;
	union message m;

	nth_message(0, &m);
	memset(m.hello.desc, 0, sizeof(m.hello.desc));
	strcpy((char *)m.hello.desc, "a \x1b\x7f\x80\x9b~ card");
	assert_int_equal(say(b, &m, sizeof(m.hello)), 0);
	expect_at(b->w, 5, "a ????~ card");
}

/* Accepts a socket whose message is gone when it is to be received. */
static void take_nothing(struct world *w, void *arg)
{
	const struct fab_fronts_cfg cfg = { .d = w->d, .epfd = -1 };
	struct fab_fronts *s = fab_fronts_new(&cfg);

	assert_non_null(s);
	fab_fronts_take(s, *(const int *)arg, NULL);
	fab_fronts_free(s);
}

static void test_nothing(void **state)
{
	struct bad_world *b = *state;
	struct front f = { .wake = -1, .irq = -1 };
	int sv[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv), 0);
	f.sock = sv[0];
	in_loop(b->w, take_nothing, &sv[1]);
	expect_end(&f, "it closed the connection");
	front_close(&f);
}

/* Descriptors in messages without one, more than one, and files that are no shared memory. */
static void test_descriptors(void **state)
{
	struct bad_world *b = *state;
	struct ohca_front_hello h = hello();
	int two[2] = { b->mem, b->mem }, p[2], fd, many[8];
	union message m;
	size_t len;

	for (unsigned int i = 0; i < 8; i++)
		many[i] = b->mem;
	for (unsigned int k = 1; (len = nth_message(k, &m)); k++) {
		const bool is_block = le16toh(m.hdr.type) == OHCA_FRONT_BLOCK;
		/* there is no block for it */
		const bool is_log = le16toh(m.hdr.type) == OHCA_FRONT_LOG;

		for (unsigned int n = 1; n <= 8; n++) {
			dial(b);
			assert_true(put(&b->f, &m, len, n == 2 ? two : many, n));
			assert_int_equal(answer(&b->f, NULL), n > 1 ? -1 : is_block ? OHCA_FRONT_OK :
					 is_log ? OHCA_FRONT_INVALID : -1);
			if (n > 1 || (!is_block && !is_log))
				assert_non_null(strstr(b->f.why, "descriptor"));
		}
	}
	/* an empty message with descriptors */
	for (unsigned int n = 1; n <= 8; n++) {
		dial(b);
		assert_true(put(&b->f, &m, 0, many, n));
		expect_end(&b->f, n > 1 ? "more than one descriptor" : "not of the front protocol");
		hang_up(b);
	}
	/* device memory that is not announced, is missing, is too short */
	for (unsigned int i = 0; i < 3; i++) {
		h = hello();
		h.dm_size = htole64(i == 0 ? 0 : i == 1 ? 1 << 16 : 1 << 21);
		hang_up(b);
		front_dial(&b->f, b->w->path);
		assert_false(front_hello(&b->f, &h, i == 1 ? -1 : b->mem));
		assert_non_null(strstr(b->f.why, i == 2 ? "device memory" : "dm_size"));
	}
	dial(b);
	assert_int_equal(pipe(p), 0);
	assert_int_equal(call_block(&b->f, 1, 4096, p[0]), OHCA_FRONT_NOT_SHARED);
	close(p[0]);
	close(p[1]);
	fd = open("/dev/zero", O_RDWR | O_CLOEXEC);
	assert_int_equal(call_block(&b->f, 1, 4096, fd), OHCA_FRONT_NOT_SHARED);
	close(fd);
	fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	assert_int_equal(call_block(&b->f, 1, 4096, fd), OHCA_FRONT_NOT_SHARED);
	close(fd);
	fd = open("/tmp", O_RDONLY | O_CLOEXEC);
	assert_int_equal(call_block(&b->f, 1, 4096, fd), OHCA_FRONT_NOT_SHARED);
	close(fd);
	/* it may be read only */
	fd = memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(fd, 4096), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
	assert_int_equal(call_block(&b->f, 1, 4096, fd), OHCA_FRONT_NOT_SHARED);
	close(fd);
	assert_int_equal(call_block(&b->f, 1, BLOCK + 1, b->mem), OHCA_FRONT_NOT_SHARED);
	assert_int_equal(call_block(&b->f, 1, 0, b->mem), OHCA_FRONT_INVALID);
	assert_int_equal(call_block(&b->f, 1, UINT64_MAX, b->mem), OHCA_FRONT_LIMIT);
	assert_int_equal(call_block(&b->f, 1, BLOCK, -1), OHCA_FRONT_INVALID);
	assert_int_equal(call_block(&b->f, OHCA_FRONT_BLOCKS, BLOCK, b->mem), OHCA_FRONT_INVALID);
	/* the maximum number */
	for (uint32_t i = 0; i < OHCA_FRONT_BLOCKS; i++)
		assert_int_equal(call_block(&b->f, i, BLOCK, b->mem), OHCA_FRONT_OK);
	assert_int_equal(call_block(&b->f, 3, BLOCK, b->mem), OHCA_FRONT_INVALID);
	assert_int_equal(call_unblock(&b->f, 3), OHCA_FRONT_OK);
	assert_int_equal(call_unblock(&b->f, 3), OHCA_FRONT_INVALID);
	assert_int_equal(call_block(&b->f, 3, BLOCK, b->mem), OHCA_FRONT_OK);
}

/* A table of memory is accepted as a whole or not at all. */
static void test_memory(void **state)
{
	struct bad_world *b = *state;
	const struct ohca_front_range good = range(IOVA, 8192, 0, 4096, 0);
	const struct ohca_front_range wrong[] = {
		range(IOVA + 1, 4096, 0, 0, 0), range(IOVA, 4095, 0, 0, 0),
		range(IOVA, 4096, 0, 1, 0), range(IOVA, 0, 0, 0, 0),
		range(IOVA, 4096, 1, 0, 0), range(IOVA, 4096, OHCA_FRONT_BLOCKS, 0, 0),
		range(IOVA, 4096, 0, BLOCK, 0), range(IOVA, 8192, 0, BLOCK - 4096, 0),
		range(IOVA, 1ull << 63, 0, 0, 0), range(IOVA, 4096, 0, 1ull << 63, 0),
		range(0xfffffffffffff000ull, 8192, 0, 0, 0), range(IOVA, 4096, 0, 0, 2),
	};
	struct ohca_front_range two[2];
	union message m = { 0 };

	dial(b);
	assert_int_equal(call_block(&b->f, 0, BLOCK, b->mem), OHCA_FRONT_OK);
	assert_int_equal(call_mem(&b->f, &good, 1), OHCA_FRONT_OK);
	for (unsigned int i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(call_mem(&b->f, &wrong[i], 1), OHCA_FRONT_INVALID);
	two[0] = good;
	two[1] = range(IOVA + 4096, 4096, 0, 0, 0);
	assert_int_equal(call_mem(&b->f, two, 2), OHCA_FRONT_INVALID);
	two[1] = range(IOVA - 4096, 4096, 0, 0, 0);
	assert_int_equal(call_mem(&b->f, two, 2), OHCA_FRONT_INVALID);
	two[1] = good;
	assert_int_equal(call_mem(&b->f, two, 2), OHCA_FRONT_INVALID);
	/* the old table is still valid: its block is in use */
	assert_int_equal(call_unblock(&b->f, 0), OHCA_FRONT_INVALID);
	two[1] = range(IOVA + 8192, 4096, 0, 0, OHCA_FRONT_READ_ONLY);
	assert_int_equal(call_mem(&b->f, two, 2), OHCA_FRONT_OK);
	m.mem.n = htole32(OHCA_FRONT_RANGES + 1);
	assert_int_equal(call(&b->f, &m, OHCA_FRONT_MEM, sizeof(m.mem) + 1025 * 32, NULL),
			 OHCA_FRONT_INVALID);
	m.mem.n = htole32(2);
	assert_int_equal(call(&b->f, &m, OHCA_FRONT_MEM, sizeof(m.mem) + 63, NULL),
			 OHCA_FRONT_INVALID);
	/* the maximum number; then none */
	for (uint32_t i = 0; i < OHCA_FRONT_RANGES; i++) {
		const struct ohca_front_range r = range(IOVA + i * 8192, 4096, 0, 0, 0);

		memcpy(m.b + sizeof(m.mem) + i * sizeof(r), &r, sizeof(r));
	}
	m.mem.n = htole32(OHCA_FRONT_RANGES);
	assert_int_equal(call(&b->f, &m, OHCA_FRONT_MEM, sizeof(m.mem) + 1024 * 32, NULL),
			 OHCA_FRONT_OK);
	assert_int_equal(call_mem(&b->f, NULL, 0), OHCA_FRONT_OK);
	assert_int_equal(call_unblock(&b->f, 0), OHCA_FRONT_OK);
	/* a record that is too long */
	message_begin(&m, OHCA_FRONT_MEM, OHCA_FRONT_MAX + 1);
	assert_true(put(&b->f, &m, OHCA_FRONT_MAX + 1, NULL, 0));
	expect_end(&b->f, "too long");
}

/*
 * Logs of blocks that do not exist or have one, and files that are no shared memory of the right
 * size.
 */
static void test_logs(void **state)
{
	static const uint32_t none[] = { 1, OHCA_FRONT_LOG_DM, OHCA_FRONT_LOG_DM + 1, UINT32_MAX };
	const size_t bytes = OHCA_DIRTY_BYTES(BLOCK);
	struct bad_world *b = *state;
	int fd, p[2];

	dial(b);
	assert_int_equal(call_block(&b->f, 0, BLOCK, b->mem), OHCA_FRONT_OK);
	for (unsigned int i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		assert_int_equal(call_log(&b->f, none[i], b->mem), OHCA_FRONT_INVALID);
	assert_int_equal(call_log(&b->f, 0, -1), OHCA_FRONT_INVALID);
	assert_int_equal(pipe(p), 0);
	assert_int_equal(call_log(&b->f, 0, p[0]), OHCA_FRONT_NOT_SHARED);
	close(p[0]);
	close(p[1]);
	fd = memfd_create("log", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(fd, (off_t)bytes - 1), 0);
	assert_int_equal(call_log(&b->f, 0, fd), OHCA_FRONT_NOT_SHARED);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	assert_int_equal(call_log(&b->f, 0, fd), OHCA_FRONT_OK);
	assert_int_equal(call_log(&b->f, 0, fd), OHCA_FRONT_INVALID);
	/* it is removed with its block */
	assert_int_equal(call_unblock(&b->f, 0), OHCA_FRONT_OK);
	assert_int_equal(call_log(&b->f, 0, fd), OHCA_FRONT_INVALID);
	assert_int_equal(call_block(&b->f, 0, BLOCK, b->mem), OHCA_FRONT_OK);
	assert_int_equal(call_log(&b->f, 0, fd), OHCA_FRONT_OK);
	close(fd);
}

/* A log that is truncated has the effect of truncated memory: the front ends, and no other one. */
static void test_log_vanishes(void **state)
{
	struct bad_world *b = *state;
	struct pair *p = &b->pair;
	struct host_qp qp[2];
	struct machine m;
	int fd;

	machine_up(&m, b->w, 5);
	fd = machine_log(&m, MEM_BLOCK, m.mem_len, NULL);
	qp_pair(&p->m[0], &m, qp);
	post_write(&qp[0], &p->m[0], &m, 8, 1);
	assert_int_equal(wait_cqe(&p->m[0].cq).status, WC_SUCCESS);
	assert_int_equal(ftruncate(fd, 0), 0);
	post_write(&qp[0], &p->m[0], &m, 1 << 20, 2);
	expect_end(&m.f, "guest memory vanished");
	pair_talk(p, 100000);
	close(fd);
	machine_down(&m);
	wait_free(b->w, 5);
	host_qp_destroy(&qp[0]);
	host_buf_free(&qp[1].buf);
	/* completions of what was done or flushed before the QP was destroyed */
	while (host_cq_poll(&p->m[0].cq, &(struct ohca_hw_cqe){ 0 }))
		;
}

/*
 * Writes an entry into the ring and lets the daemon read it. Return: the status; -1 if the front
 * has ended.
 */
static int map(struct bad_world *b, const struct ohca_front_range *r)
{
	union message m = { .unmap = { .iova = htole64(4096), .last = htole64(4095) } };
	const uint32_t block = le32toh(r->block), flags = le32toh(r->flags);

	b->f.client.lost = false;
	assert_int_equal(ohca_front_map(&b->f.client, le64toh(r->iova), le64toh(r->len), block,
					le64toh(r->off), flags), 0);
	if (call(&b->f, &m, OHCA_FRONT_UNMAP, sizeof(m.unmap), NULL) == OHCA_FRONT_OK)
		return 0;
	return answer(&b->f, NULL);
}

/*
 * A mapping that is invalid ends the front, and so does a ring with more entries than it has room
 * for.
 */
static void test_maps(void **state)
{
	struct bad_world *b = *state;
	const struct ohca_front_range good = range(IOVA, 8192, 0, 4096, 0);
	const struct ohca_front_range wrong[] = {
		range(IOVA + 1, 4096, 0, 0, 0), range(IOVA, 4095, 0, 0, 0),
		range(IOVA, 4096, 0, 1, 0), range(IOVA, 0, 0, 0, 0),
		range(IOVA, 4096, 1, 0, 0), range(IOVA, 4096, OHCA_FRONT_BLOCKS, 0, 0),
		range(IOVA, 4096, UINT32_MAX, 0, 0),
		range(IOVA, 4096, 0, BLOCK, 0), range(IOVA, 8192, 0, BLOCK - 4096, 0),
		range(IOVA, 1ull << 63, 0, 0, 0), range(IOVA, 4096, 0, 1ull << 63, 0),
		range(0xfffffffffffff000ull, 8192, 0, 0, 0), range(IOVA, 4096, 0, 0, 2),
		/* these overlap the valid one */
		range(IOVA, 8192, 0, 0, 0), range(IOVA, 4096, 0, 4096, 0),
		range(IOVA + 4096, 8192, 0, 8192, 0), range(IOVA - 4096, 16384, 0, 0, 0),
		range(IOVA, 8192, 0, 4096, OHCA_FRONT_READ_ONLY),
	};
	static const uint64_t ends[][2] = { { 1, 4095 }, { 4096, 4096 }, { 0, UINT64_MAX - 1 } };
	static const uint32_t heads[] = { OHCA_PAGE_MAPS + 1, 1u << 31, UINT32_MAX };
	union message m;

	for (unsigned int i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		dial(b);
		assert_int_equal(call_block(&b->f, 0, BLOCK, b->mem), OHCA_FRONT_OK);
		assert_int_equal(map(b, &good), 0);
		assert_int_equal(map(b, &good), 0);
		assert_int_equal(map(b, &wrong[i]), -1);
		assert_string_equal(b->f.why, "a mapping is not valid");
	}
	for (unsigned int i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		dial(b);
		atomic_store(&b->f.page->map_head, heads[i]);
		assert_int_equal(call_plain(&b->f, OHCA_FRONT_RESET), OHCA_FRONT_OK);
		nth_message(8, &m);
		assert_int_equal(say(b, &m, sizeof(m.unmap)), OHCA_FRONT_INVALID);
		expect_end(&b->f, "its ring of mappings has too many entries");
	}
	/* parts of pages cannot be unmapped */
	dial(b);
	for (unsigned int i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		memset(&m, 0, sizeof(m.unmap));
		m.unmap.iova = htole64(ends[i][0]);
		m.unmap.last = htole64(ends[i][1]);
		assert_int_equal(call(&b->f, &m, OHCA_FRONT_UNMAP, sizeof(m.unmap), NULL),
				 OHCA_FRONT_INVALID);
	}
}

/* Memory that is unmapped cannot be accessed, and read-only memory cannot be written. */
static void test_reach(void **state)
{
	struct bad_world *b = *state;
	struct pair *p = &b->pair;
	struct machine m;
	struct host_qp qp[2];
	struct ohca_front_range r;

	machine_up(&m, b->w, 5);
	qp_pair(&p->m[0], &m, qp);
	post_write(&qp[0], &p->m[0], &m, 8, 1);
	assert_int_equal(wait_cqe(&p->m[0].cq).status, WC_SUCCESS);
	r = range(HOST_BASE, m.mem_len, MEM_BLOCK, 0, OHCA_FRONT_READ_ONLY);
	assert_int_equal(call_mem(&m.f, &r, 1), OHCA_FRONT_OK);
	post_write(&qp[0], &p->m[0], &m, 8, 2);
	assert_int_not_equal(wait_cqe(&p->m[0].cq).status, WC_SUCCESS);
	host_buf_free(&qp[0].buf);
	host_buf_free(&qp[1].buf);
	machine_down(&m);
	wait_free(b->w, 5);
}

/* A front exits while others write to its machine, and it writes to them. */
static void test_dies(void **state)
{
	struct bad_world *b = *state;
	struct pair *p = &b->pair;
	struct host_qp qp[2];
	struct machine m;

	for (unsigned int i = 0; i < 3; i++) {
		machine_up(&m, b->w, 5);
		qp_pair(&p->m[0], &m, qp);
		for (unsigned int k = 0; k < 4; k++) {
			post_write(&qp[0], &p->m[0], &m, 4 << 20, k);
			post_write(&qp[1], &m, &p->m[0], 4 << 20, k);
		}
		/* some of it is outstanding */
		if (i)
			assert_int_equal(wait_cqe(&p->m[0].cq).status, WC_SUCCESS);
		machine_down(&m);
		wait_free(b->w, 5);
		host_qp_destroy(&qp[0]);
		host_buf_free(&qp[1].buf);
		/* completions of what was done or flushed before the QP was destroyed */
		while (host_cq_poll(&p->m[0].cq, &(struct ohca_hw_cqe){ 0 }))
			;
		pair_talk(p, 100000);
	}
}

/* The file that is a machine's memory is truncated while the HCA works with it. */
static void test_vanishes(void **state)
{
	struct bad_world *b = *state;
	struct pair *p = &b->pair;
	struct host_qp qp[2];
	struct machine m;

	for (unsigned int i = 0; i < 2; i++) {
		machine_up(&m, b->w, 5);
		qp_pair(&p->m[0], &m, qp);
		post_write(&qp[0], &p->m[0], &m, 8, 1);
		assert_int_equal(wait_cqe(&p->m[0].cq).status, WC_SUCCESS);
		/* by packets of others; by its own doorbell, after which it reads its queue */
		assert_int_equal(ftruncate(m.mem_fd, 0), 0);
		if (i)
			machine_ring(&m, qp[1].uar, OHCA_UAR_SQ, qp[1].handle | 1ull << 32);
		else
			post_write(&qp[0], &p->m[0], &m, 1 << 20, 2);
		expect_end(&m.f, "guest memory vanished");
		pair_talk(p, 100000);
		assert_int_equal(ftruncate(m.mem_fd, (off_t)m.mem_len), 0);
		machine_down(&m);
		wait_free(b->w, 5);
		host_qp_destroy(&qp[0]);
		host_buf_free(&qp[1].buf);
		while (host_cq_poll(&p->m[0].cq, &(struct ohca_hw_cqe){ 0 }))
			;
	}
}

#define LOST_AT		(1ull << 40)
#define LOST		(8u << 20)
#define LOST_QPS	4u
#define LOST_WQES	16u	/* of each QP */
#define LOST_SGES	30u

/*
 * Work requests of a machine refer to some thousand pages that are truncated. The HCA accesses none
 * after the first error, except for those of the work request that it executes.
 */
static void test_pages_vanish(void **state)
{
	struct bad_world *b = *state;
	struct pair *p = &b->pair;
	const int fd = memfd_create("lost", MFD_CLOEXEC);
	union message m = { .run = { .running = htole32(1) } };
	struct host_qp qp[LOST_QPS][2];
	struct ohca_front_range r[2];
	struct machine evil;
	uint64_t at = LOST_AT;

	assert_int_equal(ftruncate(fd, LOST), 0);
	machine_up(&evil, b->w, 5);
	r[0] = range(HOST_BASE, evil.mem_len, MEM_BLOCK, 0, 0);
	r[1] = range(LOST_AT, LOST, 7, 0, 0);
	assert_int_equal(call_block(&evil.f, 7, LOST, fd), OHCA_FRONT_OK);
	assert_int_equal(call_mem(&evil.f, r, 2), OHCA_FRONT_OK);
	for (unsigned int i = 0; i < LOST_QPS; i++) {
		const struct host_qp_init a = { .type = OHCA_QPT_RC, .log_sq = 11, .scq = &evil.cq,
						.rcq = &evil.cq, .flags = OHCA_QP_PRIVILEGED };
		const struct host_qp_init peer = { .type = OHCA_QPT_RC, .scq = &p->m[0].cq,
						   .rcq = &p->m[0].cq };

		assert_int_equal(host_qp_create(evil.h, &qp[i][0], &a), 0);
		assert_int_equal(host_qp_create(p->m[0].h, &qp[i][1], &peer), 0);
		host_qp_connect(&qp[i][0], 0, LID(p->m[0].at), qp[i][1].qpn, 5, 100, 101);
		host_qp_connect(&qp[i][1], 0, LID(evil.at), qp[i][0].qpn, 5, 101, 100);
	}
	assert_int_equal(ftruncate(fd, 0), 0);
	/* all of it is there when the HCA begins */
	assert_int_equal(call_run(&evil.f, 0), OHCA_FRONT_OK);
	for (unsigned int i = 0; i < LOST_QPS * LOST_WQES; i++) {
		struct wqe q = wqe_new(OHCA_OP_RDMA_WRITE, 0, i);

		wqe_raddr(&q, p->m[0].mr.iova, p->m[0].mr.key);
		for (unsigned int s = 0; s < LOST_SGES; s++, at += OHCA_FRONT_ALIGN)
			wqe_sge(&q, at, 1, OHCA_LOCAL_DMA_LKEY);
		wqe_post(&qp[i % LOST_QPS][0], &q);
	}
	assert_true(at <= LOST_AT + LOST);
	covers = 0;
	message_begin(&m, OHCA_FRONT_RUN, sizeof(m.run));
	assert_true(put(&evil.f, &m, sizeof(m.run), NULL, 0));
	pend(&evil.f.client, OHCA_PEND_ATTN);
	assert_int_equal(answer(&evil.f, NULL), OHCA_FRONT_OK);
	expect_end(&evil.f, "guest memory vanished");
	assert_in_range(covers, 1, LOST_SGES);
	for (unsigned int i = 0; i < LOST_QPS; i++) {
		host_buf_free(&qp[i][0].buf);
		host_qp_destroy(&qp[i][1]);
	}
	machine_down(&evil);
	wait_free(b->w, 5);
	close(fd);
}

/*
 * struct burst - answers to a front that sends message number @n, and the most of them in one pass
 * of the loop.
 */
struct burst {
	struct bad_world *b;
	unsigned int n, answers, calls, most;
};

/*
 * Sends all in the first call, and counts the answers. The loop makes one pass between two calls.
 */
static void count_answers(struct world *w, void *arg)
{
	struct burst *s = arg;
	unsigned int answers = 0;
	union message m;
	size_t len;

	(void)w;
	len = nth_message(s->n, &m);
	for (unsigned int i = 0; i < BURST && !s->calls; i++)
		assert_true(put(&s->b->f, &m, len, NULL, 0));
	while (recv(s->b->f.sock, &m, sizeof(m), MSG_DONTWAIT) > 0)
		answers++;
	s->answers += answers;
	s->most = answers > s->most ? answers : s->most;
	s->calls++;
	/* its flag in the page and its readable socket: two reasons to read from it */
	atomic_fetch_or(s->b->f.db.pending, OHCA_PEND_ATTN);
}

/*
 * A pass of the loop reads eight messages of a front, or one of the types that take long: all HCAs
 * have turns in between.
 */
static void test_turns(void **state)
{
	struct bad_world *b = *state;
	char bytes[2 * BURST];
	union message m;
	unsigned int n;

	/* all of these are there at once, and the loop handles one in a pass */
	memset(bytes, 'c', sizeof(bytes));
	for (n = 1; nth_message(n, &m); n++) {
		const unsigned int type = le16toh(m.hdr.type);
		const bool is_short = n != REG_RESET &&
				      (type == OHCA_FRONT_REG || type == OHCA_FRONT_RUN ||
				       type == OHCA_FRONT_LIES || type == OHCA_FRONT_DONE);
		struct burst s = { .b = b, .n = n };

		if (type == OHCA_FRONT_BYE)
			continue;
		dial(b);
		b->w->call = count_answers;
		b->w->arg = &s;
		assert_int_equal(write(b->w->pipe[1], bytes, sizeof(bytes)), sizeof(bytes));
		for (unsigned int i = 0; i < sizeof(bytes); i++)
			sem_wait(&b->w->done);
		assert_int_equal(s.answers, BURST);
		assert_int_equal(s.most, is_short ? 8 : 1);
		pair_talk(&b->pair, 8);
	}
	assert_int_equal(n, REG_RESET + 1);
}

/* A front that never reads its answers is ended; one that sends nothing more does not matter. */
static void test_deaf(void **state)
{
	struct bad_world *b = *state;
	union message m;
	unsigned int n = 0;

	dial(b);
	message_begin(&m, OHCA_FRONT_RESET, sizeof(m.hdr));
	while (put(&b->f, &m, sizeof(m.hdr), NULL, 0))
		assert_true(n++ < 100000);
	wait_free(b->w, 5);
	pair_talk(&b->pair, 8);
	/* a connection without a HELLO does not matter either */
	hang_up(b);
	front_dial(&b->f, b->w->path);
	pair_talk(&b->pair, 8);
	front_close(&b->f);
	/* another message before the HELLO is refused */
	front_dial(&b->f, b->w->path);
	assert_true(put(&b->f, &m, sizeof(m.hdr), NULL, 0));
	expect_end(&b->f, "the first message is not HELLO");
}

/* Random contents of the front's page affect no other front. */
static void test_page(void **state)
{
	struct bad_world *b = *state;
	struct machine m;
	unsigned int seed = 1;

	machine_up(&m, b->w, 5);
	for (unsigned int n = 0; n < 200; n++) {
		uint8_t *p = (uint8_t *)m.f.page;

		for (size_t i = n % 2 ? 0 : OHCA_PAGE_DOORBELLS; i < m.f.page_bytes; i += 1 + seed % 61) {
			seed = seed * 1103515245 + 12345;
			((volatile uint8_t *)p)[i] = (uint8_t)(seed >> 16);
		}
		assert_int_equal(write(m.f.wake, &(uint64_t){ 1 }, 8), 8);
		pair_talk(&b->pair, 8);
	}
	/* and its eventfd is full */
	assert_int_equal(write(m.f.wake, &(uint64_t){ UINT64_MAX - 1000 }, 8), 8);
	pair_talk(&b->pair, 8);
	machine_down(&m);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(truncated), T(flipped), T(fields), T(texts), T(nothing), T(descriptors), T(memory), T(maps), T(logs), T(reach), T(dies),
		T(vanishes), T(pages_vanish), T(log_vanishes), T(turns), T(deaf), T(page),
	};

	return cmocka_run_group_tests_name("fronts that are wrong", tests, NULL, NULL);
}
