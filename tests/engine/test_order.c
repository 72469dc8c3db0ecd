/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The order in which a message appears in memory: a program that polls the last byte of a message
 * finds all of it. Linked with --wrap=memmove, which gives the test each copy to the guest's
 * memory.
 */
#include <pthread.h>

#include "rig.h"

/* ---- deterministic: the bytes that the library's copy, which keeps no order, may write ---- */

static struct {
	uint8_t *end;		/* one past the message; NULL: none is watched */
	uint32_t len;
	unsigned int copies;	/* of the message */
	uint8_t *highest;	/* one past the highest byte that they wrote */
	bool last_seen;		/* the last byte was written before another one */
	uint8_t last;
} watch;

void *__real_memmove(void *dst, const void *src, size_t n);
void *__wrap_memmove(void *dst, const void *src, size_t n);

void *__wrap_memmove(void *dst, const void *src, size_t n)
{
	uint8_t *d = dst;

	if (watch.end && n && d < watch.end && d + n > watch.end - watch.len) {
		watch.copies++;
		watch.last_seen |= watch.end[-1] == watch.last;
		if (d + n > watch.highest)
			watch.highest = d + n;
	}
	return __real_memmove(dst, src, n);
}

/* Watches @len bytes that end at @end, the last of which will be @last. */
static void watch_begin(uint8_t *end, uint32_t len, uint8_t last)
{
	memset(&watch, 0, sizeof(watch));
	watch.end = end;
	watch.len = len;
	watch.last = last;
	end[-1] = (uint8_t)~last;
}

/* The copies wrote the bytes before the last aligned word, and nothing after it. */
static void watch_end(void)
{
	uint8_t *word = watch.end - 1 - ((uintptr_t)(watch.end - 1) & 7);

	assert_false(watch.last_seen);
	assert_true(watch.highest <= word);
	assert_int_equal(watch.copies > 0, watch.end - watch.len < word);
	assert_int_equal(watch.end[-1], watch.last);
	watch.end = NULL;
}

#define SEED	7u

enum way { BY_WRITE, BY_SEND, BY_READ };

/* Sends a message of @len bytes to offset @to of the other side, or reads it to this side. */
static void transfer(struct rig *r, enum way way, uint64_t to, uint32_t len)
{
	unsigned int side = way == BY_READ ? 0 : 1, from = 1 - side;
	const uint8_t *last;

	rig_fill(r, from, 0, len, SEED);
	last = host_buf_ptr(r->h[from], &r->mr[from].buf, len - 1);
	watch_begin((uint8_t *)host_buf_ptr(r->h[side], &r->mr[side].buf, to + len - 1) + 1, len,
		    *last);
	if (way == BY_WRITE) {
		rig_write(r, 0, 1, 0, to, len);
	} else if (way == BY_READ) {
		rig_read(r, 0, 1, to, 0, len);
	} else {
		rig_recv(r, 1, 2, to, len);
		rig_send(r, 0, 1, 0, len);
	}
	rig_run(r);
	watch_end();
	wc(&r->scq[0], 1, WC_SUCCESS);
	if (way == BY_SEND)
		wc(&r->rcq[1], 2, WC_SUCCESS);
	rig_check(r, side, to, len, SEED);
}

/* Lengths and places with all remainders, one packet and several, and messages across pages. */
static void all_sizes(struct rig *r, enum way way)
{
	static const uint32_t len[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 64, 128, 300,
					1023, 1024, 1025, 3000 };

	for (size_t i = 0; i < sizeof(len) / sizeof(len[0]); i++)
		for (uint64_t to = 0; to < 9; to++)
			transfer(r, way, 0x10000 + to, len[i]);
	for (uint32_t i = 1; i < 10; i++)
		transfer(r, way, 0x11000 - 100, 100 + i);
}

static void test_memory(void **state)
{
	static const uint8_t type[] = { OHCA_QPT_RC, OHCA_QPT_UC };

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		struct rig r;

		rig_up(&r, (struct rig_opt){ .type = type[i] });
		all_sizes(&r, BY_WRITE);
		all_sizes(&r, BY_SEND);
		if (type[i] == OHCA_QPT_RC)
			all_sizes(&r, BY_READ);
		rig_down(&r);
	}
}

/* The same in device memory. */
static void test_device_memory(void **state)
{
	struct ohca_hw_aqe c = HOST_AQE(alloc_dm, .length = 4096);
	struct ohca_hw_acqe rsp;
	struct host *h;
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ 0 });
	h = r.h[1];
	assert_int_equal(host_cmd(h, OHCA_CMD_ALLOC_DM, &c, &rsp), OHCA_ADMIN_OK);
	c = HOST_AQE(reg_mr, .length = 4096, .pdn = h->pdn, .type = OHCA_MR_DM,
		     .access = OHCA_ACCESS_LOCAL_WRITE | OHCA_ACCESS_REMOTE_WRITE |
			       OHCA_ACCESS_ZERO_BASED, .dm = rsp.alloc_dm.handle);
	assert_int_equal(host_cmd(h, OHCA_CMD_REG_MR, &c, &rsp), OHCA_ADMIN_OK);
	rig_fill(&r, 0, 0, 1000, SEED);
	for (uint32_t len = 1; len < 40; len++) {
		uint8_t *src = host_buf_ptr(r.h[0], &r.mr[0].buf, 0);
		struct wqe w = wqe_new(OHCA_OP_RDMA_WRITE, OHCA_WQE_SIGNALED, len);

		watch_begin(h->dm + 3 + len, len, src[len - 1]);
		wqe_raddr(&w, 3, rsp.handle.handle);
		wqe_sge(&w, r.mr[0].iova, len, r.mr[0].key);
		wqe_post(&r.qp[0], &w);
		rig_run(&r);
		watch_end();
		wc(&r.scq[0], len, WC_SUCCESS);
		assert_memory_equal(h->dm + 3, src, len);
	}
	rig_down(&r);
}

/* ---- two processors --------------------------------------------------------------------- */

#define ROUNDS	20000u
#define WORDS	256u

struct poller {
	uint32_t *msg;
	bool stop;
	unsigned int torn;
};

/*
 * Reads the last word and, when it has changed, the others. Each message has a higher number in all
 * of its words than the one before.
 */
static void *poll_last(void *arg)
{
	struct poller *p = arg;
	uint32_t seen = 0;

	while (!__atomic_load_n(&p->stop, __ATOMIC_ACQUIRE)) {
		uint32_t last = __atomic_load_n(&p->msg[WORDS - 1], __ATOMIC_ACQUIRE);

		if (last == seen)
			continue;
		seen = last;
		for (unsigned int i = 0; i < WORDS; i++)
			if (__atomic_load_n(&p->msg[i], __ATOMIC_ACQUIRE) < last)
				p->torn++;
	}
	return NULL;
}

static void test_poller(void **state)
{
	struct poller p = { 0 };
	pthread_t thread;
	uint32_t *src;
	struct rig r;

	(void)state;
	rig_up(&r, (struct rig_opt){ 0 });
	p.msg = host_buf_ptr(r.h[1], &r.mr[1].buf, 0);
	src = host_buf_ptr(r.h[0], &r.mr[0].buf, 0);
	assert_int_equal(pthread_create(&thread, NULL, poll_last, &p), 0);
	for (uint32_t i = 1; i <= ROUNDS; i++) {
		for (unsigned int k = 0; k < WORDS; k++)
			src[k] = i;
		rig_write(&r, 0, i, 0, 0, WORDS * 4);
		rig_run(&r);
		wc(&r.scq[0], i, WC_SUCCESS);
	}
	__atomic_store_n(&p.stop, true, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	assert_int_equal(p.torn, 0);
	rig_down(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_device_memory),
		cmocka_unit_test(test_poller),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
