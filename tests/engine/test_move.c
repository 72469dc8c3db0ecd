/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A machine continues in another process, which has another front, and other memory with the same
 * contents. Its HCA stays, and so do the connections of its peers.
 */
#include "front_world.h"

#define LEN	100000u
#define MOVES	6u

/* ---- the loop's allocations ------------------------------------------------------ */

static pthread_t loop;
static atomic_uint fail_at;	/* number of the loop's call that fails; 0: none */
static atomic_bool failed;

static bool fails(void)
{
	if (!atomic_load(&fail_at) || !pthread_equal(pthread_self(), loop) ||
	    atomic_fetch_sub(&fail_at, 1) != 1)
		return false;
	atomic_store(&failed, true);
	errno = ENOMEM;
	return true;
}

#define WRAP(type, name, args, call, none) \
	type __real_##name args; \
	type __wrap_##name args; \
	type __wrap_##name args \
	{ \
		return fails() ? (none) : __real_##name call; \
	}

WRAP(void *, calloc, (size_t n, size_t m), (n, m), NULL)
WRAP(int, memfd_create, (const char *name, unsigned int flags), (name, flags), -1)
WRAP(int, eventfd, (unsigned int v, int flags), (v, flags), -1)
WRAP(int, socketpair, (int domain, int type, int protocol, int sv[2]),
     (domain, type, protocol, sv), -1)

/* ---- moving ---------------------------------------------------------------------- */

/** struct place - where a machine is to continue; @mem, @dm: the memory until it does */
struct place {
	struct front f;
	int mem, dm;
};

/* Pauses a machine for a move. Return: the token. */
static uint64_t leave(struct machine *m)
{
	union message msg;
	uint64_t token;

	assert_int_equal(call_run(&m->f, 0), OHCA_FRONT_OK);
	assert_int_equal(call(&m->f, &msg, OHCA_FRONT_LEAVE, sizeof(msg.hdr), &token), OHCA_FRONT_OK);
	return token;
}

static struct ohca_front_hello hello_by(const struct machine *m, uint64_t token)
{
	struct ohca_front_hello h = hello_of(&m->h->cfg);

	h.want_port = (uint8_t)m->at;
	h.flags = htole32(OHCA_FRONT_PAUSED | OHCA_FRONT_MOVE);
	h.token = htole64(token);
	return h;
}

static int copy_of(const void *mem, size_t n)
{
	const int fd = memfd_create("there", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(ftruncate(fd, (off_t)n), 0);
	assert_int_equal(pwrite(fd, mem, n, 0), n);
	return fd;
}

/* The other process connects. Return: whether it is accepted. */
static bool come(struct machine *m, struct place *p, const struct ohca_front_hello *h)
{
	p->dm = m->dm ? copy_of(m->dm, m->dm_len) : -1;
	p->mem = copy_of(m->mem, m->mem_len);
	front_dial(&p->f, m->w->path);
	return front_hello(&p->f, h, p->dm);
}

static void give_up(struct place *p)
{
	front_close(&p->f);
	close(p->mem);
	if (p->dm >= 0)
		close(p->dm);
}

static void tell_memory(const struct machine *m, struct place *p)
{
	const struct ohca_front_range r = range(HOST_BASE, m->mem_len, MEM_BLOCK, 0, 0);

	assert_int_equal(call_block(&p->f, MEM_BLOCK, m->mem_len, p->mem), OHCA_FRONT_OK);
	assert_int_equal(call_mem(&p->f, &r, 1), OHCA_FRONT_OK);
}

/* Gives the machine the memory of the place, where the test had the old one. */
static void settle(struct machine *m, struct place *p)
{
	const int prot = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_FIXED;

	front_close(&m->f);
	m->f = p->f;
	assert_ptr_equal(mmap(m->mem, m->mem_len, prot, flags, p->mem, 0), m->mem);
	close(m->mem_fd);
	m->mem_fd = p->mem;
	if (m->dm) {
		assert_ptr_equal(mmap(m->dm, m->dm_len, prot, flags, p->dm, 0), m->dm);
		close(m->dm_fd);
		m->dm_fd = p->dm;
	}
}

static void come_by(struct machine *m, struct place *p, uint64_t token)
{
	const struct ohca_front_hello h = hello_by(m, token);

	if (!come(m, p, &h))
		fail_msg("%s", p->f.why);
}

static void expect_stranger(struct machine *m, const struct ohca_front_hello *h, const char *why)
{
	struct place p;

	assert_false(come(m, &p, h));
	if (!strstr(p.f.why, why))
		fail_msg("'%s' instead of '%s'", p.f.why, why);
	give_up(&p);
}

static void expect_no_token(struct machine *m, uint64_t token)
{
	const struct ohca_front_hello h = hello_by(m, token);

	expect_stranger(m, &h, "no HCA to be taken over by this token");
}

/* ---- tests ------------------------------------------------------------------------ */

/*
 * Both post WRITEs while one is paused, and both complete when it continues. The machine's memory
 * in the old process stays as it was at the pause.
 */
static void move_under_way(struct pair *p, unsigned int k)
{
	struct machine *m = &p->m[k], *peer = &p->m[!k];
	void *old = mmap(NULL, m->mem_len, PROT_READ, MAP_SHARED, m->mem_fd, 0);
	uint8_t *was = malloc(m->mem_len);
	struct place to;
	uint64_t token;

	assert_non_null(was);
	token = leave(m);
	/* a doorbell that was rung before the pause may be served after it */
	memset(host_buf_ptr(m->h, &m->mr.buf, 0), (int)(0x40 + p->n), 8);
	post_write(&p->qp[k], m, peer, 8, 1000 + p->n);
	memcpy(was, old, m->mem_len);
	come_by(m, &to, token);
	post_write(&p->qp[!k], peer, m, LEN, 2000 + p->n);
	tell_memory(m, &to);
	assert_int_equal(call_run(&to.f, 0), OHCA_FRONT_OK);
	/* the old process still has it, and the peer's packet was sent before this is answered */
	assert_int_equal(call_run(&peer->f, 1), OHCA_FRONT_OK);
	assert_false(ohca_page_running(atomic_load(&to.f.page->clock)));
	settle(m, &to);
	assert_int_equal(call_run(&m->f, 1), OHCA_FRONT_OK);
	assert_int_equal(wait_cqe(&m->cq).wr_id, 1000 + p->n);
	assert_int_equal(wait_cqe(&peer->cq).wr_id, 2000 + p->n);
	assert_memory_equal(old, was, m->mem_len);
	munmap(old, m->mem_len);
	free(was);
}

static void test_traffic(void **state)
{
	struct world *w = *state;
	struct pair p;

	pair_up(&p, w);
	for (unsigned int i = 0; i < MOVES; i++) {
		pair_talk(&p, i % 2 ? 8 : LEN);
		move_under_way(&p, i % 3 == 2);
		pair_talk(&p, i % 2 ? LEN : 8);
		expect_at(w, 2, "test host");
	}
	pair_down(&p);
}

/*
 * Translations of an IOMMU use the new ring, and writes are recorded in the new log; the old ones
 * have no effect.
 */
static void test_iommu(void **state)
{
	struct world *w = *state;
	struct ohca_dirty d;
	struct place to;
	struct pair p;

	pair_up(&p, w);
	for (unsigned int i = 0; i < 4; i++) {
		struct machine *m = &p.m[i % 2];

		come_by(m, &to, leave(m));
		if (i < 2) {
			assert_int_equal(call_block(&to.f, MEM_BLOCK, m->mem_len, to.mem),
					 OHCA_FRONT_OK);
			assert_int_equal(ohca_front_map(&to.f.client, HOST_BASE, m->mem_len,
							MEM_BLOCK, 0, 0), 0);
		} else {
			tell_memory(m, &to);
		}
		settle(m, &to);
		close(machine_log(m, MEM_BLOCK, m->mem_len, &d));
		assert_int_equal(call_run(&m->f, 1), OHCA_FRONT_OK);
		assert_false(ohca_front_dirty(&m->f.client));
		pair_talk(&p, LEN);
		assert_true(ohca_front_dirty(&m->f.client));
		assert_true(atomic_load(&d.top[0]));
		munmap((void *)(uintptr_t)d.top, OHCA_DIRTY_BYTES(m->mem_len));
		/* the mappings are counted in the front that has them */
		assert_int_equal(call_unblock(&m->f, MEM_BLOCK), OHCA_FRONT_INVALID);
	}
	pair_down(&p);
}

/* CQs and EQs stay armed, and the old page and its sockets have no effect any more. */
static void test_page(void **state)
{
	struct pollfd poll_irq = { .events = POLLIN };
	struct world *w = *state;
	struct ohca_hw_eqe e;
	struct front old;
	struct place to;
	uint64_t token;
	struct pair p;

	pair_up(&p, w);
	/* the EQ is armed, until it has an event */
	host_cq_arm(&p.m[0].cq, false);
	pair_talk(&p, 8);
	assert_true(host_eq_poll(p.m[0].h, &p.m[0].h->comp, &e));
	p.m[0].cq.sn++;
	ohca_front_irq_clear(&p.m[0].f.client);
	token = leave(&p.m[0]);
	/* rung before the pause, and served after it */
	host_eq_db(p.m[0].h, &p.m[0].h->comp, true);
	host_cq_arm(&p.m[0].cq, false);
	/*
	 * vectors that were raised and not read; the byte that announces them is in the old socket
	 */
	atomic_fetch_or(&p.m[0].f.page->irq[1], 4);
	atomic_store(&p.m[0].f.page->irq_any, 1);
	come_by(&p.m[0], &to, token);
	tell_memory(&p.m[0], &to);
	assert_int_equal(atomic_load(&to.f.page->irq[1]), 4);
	for (unsigned int i = 0; i < OHCA_PAGE_REGS; i++)
		assert_int_equal(atomic_load(&to.f.page->reg[i]), atomic_load(&p.m[0].f.page->reg[i]));
	assert_int_equal(atomic_load(&to.f.page->clock), atomic_load(&p.m[0].f.page->clock));
	assert_int_equal(atomic_load(&to.f.page->map_head), 0);
	old = p.m[0].f;
	p.m[0].f = (struct front){ .sock = -1, .wake = -1, .irq = -1 };
	settle(&p.m[0], &to);
	assert_int_equal(call_run(&p.m[0].f, 1), OHCA_FRONT_OK);
	expect_end(&old, "the machine continues at the destination");
	poll_irq.fd = p.m[0].f.irq;
	assert_int_equal(poll(&poll_irq, 1, LIMIT_MS), 1);
	assert_int_equal(atomic_exchange(&p.m[0].f.page->irq_any, 0), 1);
	/* a process with the old page has no effect */
	atomic_fetch_or(old.db.pending, ~0u);
	atomic_store(&old.page->map_head, 77);
	pair_talk(&p, 8);
	assert_true(host_eq_poll(p.m[0].h, &p.m[0].h->comp, &e));
	assert_int_equal(atomic_load(&p.m[0].f.page->irq[0]) & 2, 2);
	assert_int_equal(atomic_load(&old.page->irq[0]) & 2, 0);
	p.m[0].cq.sn++;
	front_close(&old);
	pair_down(&p);
}

/* Device memory is the new one, too, with its log. */
static void test_dm(void **state)
{
	struct ohca_hw_aqe dm = HOST_AQE(alloc_dm, .length = OHCA_DIRTY_PAGE);
	struct world *w = *state;
	struct ohca_hw_acqe rsp;
	struct ohca_dirty d;
	struct machine *m;
	struct place to;
	struct pair p;

	pair_up(&p, w);
	m = &p.m[0];
	memset(m->dm, 0x5a, m->dm_len);
	come_by(m, &to, leave(m));
	tell_memory(m, &to);
	settle(m, &to);
	close(machine_log(m, OHCA_FRONT_LOG_DM, m->dm_len, &d));
	assert_int_equal(call_run(&m->f, 1), OHCA_FRONT_OK);
	assert_int_equal(host_cmd(m->h, OHCA_CMD_ALLOC_DM, &dm, &rsp), OHCA_ADMIN_OK);
	for (unsigned int i = 0; i < OHCA_DIRTY_PAGE; i++)
		assert_int_equal(((uint8_t *)m->dm)[rsp.alloc_dm.offset + i], 0);
	assert_int_equal(((uint8_t *)m->dm)[rsp.alloc_dm.offset + OHCA_DIRTY_PAGE], 0x5a);
	assert_true(atomic_load(&d.page[rsp.alloc_dm.offset / OHCA_DIRTY_PAGE]));
	munmap((void *)(uintptr_t)d.top, OHCA_DIRTY_BYTES(m->dm_len));
	pair_down(&p);
}

/* A token is valid for one HCA and for one front, until that front has the machine. */
static void test_token(void **state)
{
	struct world *w = *state;
	struct ohca_front_hello h;
	uint64_t token, other;
	union message msg;
	struct place to;
	struct pair p;

	pair_up(&p, w);
	/* a machine that runs cannot move; nor can one move without a token */
	assert_int_equal(call(&p.m[0].f, &msg, OHCA_FRONT_LEAVE, sizeof(msg.hdr), &other),
			 OHCA_FRONT_INVALID);
	expect_no_token(&p.m[0], 0);
	token = leave(&p.m[0]);
	assert_true(token);
	other = leave(&p.m[1]);
	assert_true(token != other);
	expect_no_token(&p.m[0], 0);
	expect_no_token(&p.m[0], token ^ 1);
	/* the token of another one */
	h = hello_by(&p.m[0], other);
	expect_stranger(&p.m[0], &h, "other properties");
	h = hello_by(&p.m[0], token);
	h.vectors = htole16(4);
	expect_stranger(&p.m[0], &h, "other properties");
	h = hello_by(&p.m[0], token);
	h.want_port = 4;
	expect_stranger(&p.m[0], &h, "other properties");
	h = hello_by(&p.m[0], token);
	h.flags = htole32(OHCA_FRONT_MOVE);
	expect_stranger(&p.m[0], &h, "flags");
	/* without it the place is not free */
	h.flags = htole32(OHCA_FRONT_PAUSED);
	expect_stranger(&p.m[0], &h, "");
	/* none of this has used the token; this does */
	come_by(&p.m[0], &to, token);
	expect_no_token(&p.m[0], token);
	/* a new one is for another place */
	other = token;
	token = leave(&p.m[0]);
	expect_end(&to.f, "another QEMU");
	give_up(&to);
	expect_no_token(&p.m[0], other);
	come_by(&p.m[0], &to, token);
	tell_memory(&p.m[0], &to);
	settle(&p.m[0], &to);
	assert_int_equal(call_run(&p.m[0].f, 1), OHCA_FRONT_OK);
	expect_no_token(&p.m[0], token);
	/* a machine that continues cannot move any more */
	other = leave(&p.m[1]);
	assert_int_equal(call_run(&p.m[1].f, 1), OHCA_FRONT_OK);
	expect_no_token(&p.m[1], other);
	pair_talk(&p, LEN);
	pair_down(&p);
}

/*
 * The old front ends: the place is free if the new one has not connected, otherwise it belongs to
 * the new one.
 */
static void test_source_dies(void **state)
{
	struct world *w = *state;
	struct place to;
	uint64_t token;
	struct pair p;

	pair_up(&p, w);
	for (unsigned int i = 0; i < 4; i++) {
		come_by(&p.m[0], &to, leave(&p.m[0]));
		if (i % 2)
			tell_memory(&p.m[0], &to);
		if (i < 2)
			assert_int_equal(call_plain(&p.m[0].f, OHCA_FRONT_BYE), OHCA_FRONT_OK);
		settle(&p.m[0], &to);
		if (i % 2 == 0)
			tell_memory(&p.m[0], &(struct place){ .f = p.m[0].f, .mem = p.m[0].mem_fd });
		assert_int_equal(call_run(&p.m[0].f, 1), OHCA_FRONT_OK);
		pair_talk(&p, LEN);
	}
	token = leave(&p.m[0]);
	front_close(&p.m[0].f);
	wait_free(w, 2);
	expect_no_token(&p.m[0], token);
	pair_down(&p);
}

/* The new front ends, or is ended: the machine continues where it was, and may move again. */
static void test_target_dies(void **state)
{
	struct world *w = *state;
	struct ohca_front_reg r = { .off = htole32(OHCA_REG_STATUS), .size = 4 };
	union message msg = { .reg = r };
	struct place to;
	struct pair p;

	pair_up(&p, w);
	for (unsigned int i = 0; i < 6; i++) {
		pair_talk(&p, LEN);
		come_by(&p.m[0], &to, leave(&p.m[0]));
		if (i % 3)
			tell_memory(&p.m[0], &to);
		if (i % 3 == 2) {
			/* the memory of the new one is not its own yet */
			assert_int_equal(call(&to.f, &msg, OHCA_FRONT_REG, sizeof(msg.reg), NULL),
					 OHCA_FRONT_INVALID);
			assert_int_equal(call(&to.f, &msg, OHCA_FRONT_LIES, sizeof(msg.lies), NULL),
					 OHCA_FRONT_INVALID);
			assert_int_equal(call_plain(&to.f, OHCA_FRONT_LEAVE), OHCA_FRONT_INVALID);
		}
		if (i < 3)
			give_up(&to);
		else if (i == 3)
			assert_int_equal(call_plain(&to.f, OHCA_FRONT_BYE), OHCA_FRONT_OK);
		assert_int_equal(call_run(&p.m[0].f, 1), OHCA_FRONT_OK);
		if (i > 3)
			expect_end(&to.f, "the machine continues at the source");
		if (i >= 3)
			give_up(&to);
	}
	pair_talk(&p, LEN);
	/* and now it continues */
	move_under_way(&p, 0);
	pair_down(&p);
}

/* The new front resets the machine that it got: now it owns it. */
static void test_reset(void **state)
{
	struct world *w = *state;
	struct place to;
	struct pair p;

	pair_up(&p, w);
	come_by(&p.m[0], &to, leave(&p.m[0]));
	tell_memory(&p.m[0], &to);
	assert_int_equal(call_plain(&to.f, OHCA_FRONT_RESET), OHCA_FRONT_OK);
	expect_end(&p.m[0].f, "the machine continues at the destination");
	settle(&p.m[0], &to);
	assert_int_equal(ohca_front_reg(&p.m[0].f.client, OHCA_REG_STATUS, 4), OHCA_STATUS_READY);
	pair_down(&p);
}

/* A HELLO that is cut, and each message of a front that has connected, ends only that front. */
static void test_truncated(void **state)
{
	struct world *w = *state;
	union message m = { .hello = { .rsvd = 0 } };
	struct front f;
	struct place to;
	uint64_t token;
	struct pair p;

	pair_up(&p, w);
	token = leave(&p.m[0]);
	for (size_t n = sizeof(m.hdr); n < sizeof(m.hello); n += 8) {
		m.hello = hello_by(&p.m[0], token);
		message_begin(&m, OHCA_FRONT_HELLO, n);
		front_dial(&f, w->path);
		assert_false(front_hello_raw(&f, &m, n, p.m[0].dm_fd));
		front_close(&f);
	}
	for (size_t n = 0; n < sizeof(m.hdr); n += 4) {
		come_by(&p.m[0], &to, token);
		message_begin(&m, OHCA_FRONT_LEAVE, n);
		assert_true(put(&to.f, &m, n, NULL, 0));
		expect_end(&to.f, NULL);
		give_up(&to);
		token = leave(&p.m[0]);
	}
	for (unsigned int type = OHCA_FRONT_BLOCK; type <= OHCA_FRONT_LEAVE; type++) {
		const bool plain = type == OHCA_FRONT_RESET || type == OHCA_FRONT_BYE ||
				   type == OHCA_FRONT_LEAVE;

		come_by(&p.m[0], &to, token);
		if (!plain)
			assert_int_equal(call_plain(&to.f, type), -1);
		give_up(&to);
		token = leave(&p.m[0]);
	}
	assert_int_equal(call_run(&p.m[0].f, 1), OHCA_FRONT_OK);
	pair_talk(&p, LEN);
	pair_down(&p);
}

/* Any allocation fails: the new front is refused, and may connect again. */
static void test_no_memory(void **state)
{
	struct world *w = *state;
	struct ohca_front_hello h;
	unsigned int n = 0, fds;
	struct place to;
	uint64_t token;
	struct pair p;
	bool ok;

	pair_up(&p, w);
	loop = w->thread;
	fds = open_fds();
	token = leave(&p.m[0]);
	do {
		h = hello_by(&p.m[0], token);
		atomic_store(&failed, false);
		atomic_store(&fail_at, ++n);
		ok = come(&p.m[0], &to, &h);
		atomic_store(&fail_at, 0);
		/* each failure has its reason */
		assert_int_equal(ok, !atomic_load(&failed));
		if (!ok) {
			if (!to.f.why[0])
				fail_msg("no reason for failure %u", n);
			give_up(&to);
			wait_fds(fds);
		}
	} while (!ok);
	/* the front, its device memory, the page, the sockets, the eventfd */
	assert_true(n > 5);
	tell_memory(&p.m[0], &to);
	settle(&p.m[0], &to);
	assert_int_equal(call_run(&p.m[0].f, 1), OHCA_FRONT_OK);
	pair_talk(&p, LEN);
	pair_down(&p);
}

#define T(name) cmocka_unit_test_setup_teardown(test_##name, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(traffic), T(iommu), T(page), T(dm), T(token), T(source_dies), T(target_dies), T(reset), T(truncated),
		T(no_memory),
	};

	return cmocka_run_group_tests_name("machines that move", tests, NULL, NULL);
}
