/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A device that lies: the same seed gives the same lies, and a driver can survive all of them. */
#include "engine/base/le.h"
#include "engine/base/state.h"
#include "engine/object/eq.h"
#include "engine/object/pd.h"
#include "ib/smp.h"
#include "rig.h"

#define MESSAGES	64u	/* in one run; receives and sends are posted in eights */
#define AQ_LOG		4u	/* of host_enable() */
#define AQ_MASK		((1u << AQ_LOG) - 1)

/** struct said - the completions of sends and receives in one run */
struct said {
	struct ohca_hw_cqe send[2 * MESSAGES], recv[2 * MESSAGES];
	unsigned int sends, recvs;
	uint64_t told;
};

/* Runs messages of 8 bytes with lies of @kinds. @s: the results. */
static void run(struct said *s, uint64_t seed, unsigned int kinds, uint32_t one_of)
{
	struct rig r;

	memset(s, 0, sizeof(*s));
	rig_up(&r, (struct rig_opt){ .loop = true });
	ohca_set_lies(r.h[0]->e, seed, kinds, one_of);
	for (unsigned int k = 0; k < MESSAGES; k += 8) {
		for (unsigned int i = 0; i < 8; i++)
			rig_recv(&r, 1, k + i, 8 * i, 8);
		for (unsigned int i = 0; i < 8; i++)
			rig_send(&r, 0, k + i, 8 * i, 8);
		rig_run(&r);
		while (host_cq_poll(&r.scq[0], &s->send[s->sends]))
			s->sends++;
		while (host_cq_poll(&r.rcq[1], &s->recv[s->recvs]))
			s->recvs++;
	}
	s->told = ohca_lies_told(r.h[0]->e);
	ohca_set_lies(r.h[0]->e, 0, 0, 0);
	rig_down(&r);
}

/* The same seed gives the same lies, another seed gives others. */
static void test_seed(void **state)
{
	const unsigned int kinds = OHCA_LIE_CQE_RESULT | OHCA_LIE_CQE_NAME;
	static struct said a, b;

	(void)state;
	run(&a, 1, kinds, 3);
	run(&b, 1, kinds, 3);
	assert_true(a.told > MESSAGES / 4);
	assert_memory_equal(&a, &b, sizeof(a));
	run(&b, 2, kinds, 3);
	assert_memory_not_equal(&a, &b, sizeof(a));
}

/* No lies with probability 0, or without kinds. */
static void test_none(void **state)
{
	static struct said s;

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		run(&s, 1, i ? 0 : OHCA_LIE_ALL, i);
		assert_int_equal(s.told, 0);
		assert_int_equal(s.sends, MESSAGES);
		assert_int_equal(s.recvs, MESSAGES);
		for (unsigned int k = 0; k < MESSAGES; k++) {
			assert_int_equal(s.send[k].wr_id, k);
			assert_int_equal(s.send[k].status, WC_SUCCESS);
			assert_int_equal(s.recv[k].wr_id, k);
			assert_int_equal(s.recv[k].byte_len, 8);
		}
	}
}

/* Only entries that are wrong are counted. */
static void test_told(void **state)
{
	static struct said truth, s;

	(void)state;
	run(&truth, 0, 0, 0);
	for (uint64_t seed = 0; seed < 20; seed++) {
		unsigned int wrong = 0;

		run(&s, seed, OHCA_LIE_CQE_RESULT, 2);
		for (unsigned int k = 0; k < MESSAGES; k++) {
			wrong += !!memcmp(&s.send[k], &truth.send[k], sizeof(truth.send[k]));
			wrong += !!memcmp(&s.recv[k], &truth.recv[k], sizeof(truth.recv[k]));
		}
		assert_true(wrong > MESSAGES / 2);
		assert_int_equal(s.told, wrong);
	}
}

/*
 * A driver that accepts a CQE only for an outstanding WQE accepts none early: the n-th CQE never
 * names a WQE after its own.
 */
static void test_outstanding(void **state)
{
	static struct said s;

	(void)state;
	for (uint64_t seed = 0; seed < 20; seed++) {
		uint32_t done = 0, late = 0;

		run(&s, seed, OHCA_LIE_CQE_NAME, 2);
		for (unsigned int k = 0; k < s.sends; k++) {
			uint32_t ahead = s.send[k].wqe_idx - done;

			/* WQEs that are not outstanding are behind, or out of range */
			if (ahead < 1u << 20) {
				assert_int_equal(s.send[k].flags, OHCA_CQE_SEND);
				done = s.send[k].wqe_idx + 1;
			}
			late += done <= k;
		}
		assert_true(late);
		done = 0;
		for (unsigned int k = 0; k < s.recvs; k++) {
			if (s.recv[k].wqe_idx - done < 1u << 20) {
				assert_int_equal(s.recv[k].flags, 0);
				assert_true(s.recv[k].wqe_idx <= k);
				done = s.recv[k].wqe_idx + 1;
			}
		}
	}
}

/*
 * A lie refuses a command, executed or not, or confirms one that was not executed, but never that
 * an object is destroyed.
 */
static void test_status(void **state)
{
	unsigned int made_up = 0, kept = 0;

	(void)state;
	for (uint64_t seed = 0; seed < 200; seed++) {
		struct ohca_hw_aqe c = HOST_AQE(alloc_pd, .uar = 0);
		struct host *h = host_new(1, 1);

		host_start(h);
		ohca_set_lies(h->e, seed, OHCA_LIE_STATUS, 1);
		made_up += host_cmd(h, OHCA_CMD_ALLOC_PD, &c, NULL) == OHCA_ADMIN_OK;
		assert_int_not_equal(host_cmd_handle(h, OHCA_CMD_DEALLOC_PD, h->pdn, 0),
				     OHCA_ADMIN_OK);
		kept += !!ohca_pd_get(h->e, h->pdn);
		assert_int_equal(ohca_lies_told(h->e), 2);
		host_free(h);
	}
	assert_true(made_up > 0 && made_up < 100);
	assert_true(kept > 50 && kept < 150);
}

/*
 * Unless the probability is 1, DESTROY commands are rarely refused, because a driver gives up the
 * device then.
 */
static void test_destroy(void **state)
{
	struct host *h = host_new(1, 1);
	unsigned int refused = 0;

	(void)state;
	host_start(h);
	for (uint64_t seed = 0; seed < 400; seed++) {
		struct ohca_hw_aqe c = HOST_AQE(alloc_pd, .uar = 0);

		struct ohca_hw_acqe rsp;

		ohca_set_lies(h->e, 0, 0, 0);
		assert_int_equal(host_cmd(h, OHCA_CMD_ALLOC_PD, &c, &rsp), OHCA_ADMIN_OK);
		ohca_set_lies(h->e, seed, OHCA_LIE_STATUS, 2);
		refused += host_cmd_handle(h, OHCA_CMD_DEALLOC_PD, ohca_le32(rsp.handle.handle),
					   0) != OHCA_ADMIN_OK;
	}
	assert_true(refused > 2 && refused < 40);
	host_free(h);
}

/* Issues command number @i and executes it. */
static void issue(struct host *h, uint32_t i, struct ohca_hw_aqe c)
{
	c.hdr.cookie = i;
	memcpy((uint8_t *)host_ptr(h, h->aq) + (i & AQ_MASK) * sizeof(c), &c, sizeof(c));
	ohca_mmio_write(h->e, OHCA_REG_AQ_DB, i + 1, 4);
	for (unsigned int turn = 0; turn < 8; turn++)
		ohca_poll(h->e, 64);
}

/* Return: the number of right answers in this pass of the ring, up to command @i. */
static unsigned int right_answers(struct host *h, uint32_t i)
{
	const struct ohca_hw_acqe *acqe = host_ptr(h, h->acq);
	unsigned int right = 0;

	for (uint32_t k = i & ~AQ_MASK; k <= i; k++)
		right += (acqe[k & AQ_MASK].phase & 1) != (k >> AQ_LOG & 1) &&
			 acqe[k & AQ_MASK].cookie == k;
	return right;
}

/*
 * An answer is right, in the wrong place, repeated, late or missing, and none of them damages the
 * rings.
 */
static void test_answer(void **state)
{
	struct host *h = host_new(1, 1);
	unsigned int right = 0, missed = 0, late = 0;

	(void)state;
	host_start(h);
	ohca_set_lies(h->e, 7, OHCA_LIE_ANSWER, 2);
	for (uint32_t i = h->aq_pi; i < h->aq_pi + 400; i++) {
		unsigned int was = i & AQ_MASK ? right : 0;

		issue(h, i, (struct ohca_hw_aqe){ .hdr.opcode = OHCA_CMD_NOP });
		right = right_answers(h, i);
		missed += right == was;
		late += right == was + 2;
	}
	assert_true(missed > 20 && missed < 200);
	assert_true(late);
	assert_int_equal(ohca_mmio_read(h->e, OHCA_REG_FATAL_REASON, 4), 0);
	host_free(h);
}

/* Only reads of registers by the guest contain lies. */
static void test_register(void **state)
{
	struct host *h = host_new(1, 1);
	unsigned int wrong = 0;

	(void)state;
	host_start(h);
	ohca_set_lies(h->e, 3, OHCA_LIE_REGISTER, 2);
	for (unsigned int i = 0; i < 100; i++) {
		assert_int_equal(ohca_mmio_read(h->e, OHCA_REG_MAGIC, 4), OHCA_MAGIC);
		wrong += (uint32_t)ohca_lie_in_register(h->e, OHCA_MAGIC, 4) != OHCA_MAGIC;
	}
	assert_true(wrong > 20 && wrong < 80);
	assert_int_equal(ohca_lies_told(h->e), wrong);
	host_free(h);
}

/* Entries of an EQ are there, and some are wrong. */
static void test_eqe(void **state)
{
	struct host *h = host_new(1, 1);
	unsigned int seen[2] = { 0 }, wrong[2] = { 0 };

	(void)state;
	host_start(h);
	for (unsigned int i = 0; i < 200; i++) {
		struct ohca_hw_eqe eqe, want = { .type = OHCA_EVENT_CQ_ERR };
		struct ohca_async cq;

		ohca_set_lies(h->e, i, OHCA_LIE_EQE, i & 1);
		want.handle = i;
		ohca_async_init(&cq, i, 0);
		ohca_async_event(h->e, OHCA_EVENT_CQ_ERR, &cq);
		while (host_eq_poll(h, &h->async, &eqe)) {
			seen[i & 1]++;
			wrong[i & 1] += !!memcmp(&eqe, &want, offsetof(struct ohca_hw_eqe, phase));
		}
		host_eq_db(h, &h->async, true);
	}
	assert_int_equal(seen[0], 100);
	assert_int_equal(seen[1], 100);
	assert_int_equal(wrong[0], 0);
	assert_true(wrong[1] > 50);
	host_free(h);
}

/* The result of a command is sometimes wrong. */
static void test_output(void **state)
{
	struct host *h = host_new(1, 1);
	unsigned int wrong = 0;

	(void)state;
	host_start(h);
	ohca_set_lies(h->e, 5, OHCA_LIE_OUTPUT, 4);
	for (unsigned int i = 0; i < 100; i++) {
		struct ohca_hw_aqe c = HOST_AQE(mbox, .addr = h->mbox[0]);
		uint32_t n = h->aq_pi++;

		memset(host_ptr(h, h->mbox[0]), 0, sizeof(struct ohca_hw_device_attr));
		c.hdr.opcode = OHCA_CMD_QUERY_DEVICE;
		issue(h, n, c);
		wrong += memcmp(host_ptr(h, h->mbox[0]), host_ptr(h, h->mbox[1]),
				sizeof(struct ohca_hw_device_attr)) != 0;
		memcpy(host_ptr(h, h->mbox[1]), host_ptr(h, h->mbox[0]),
		       sizeof(struct ohca_hw_device_attr));
	}
	assert_true(wrong > 10 && wrong < 90);
	host_free(h);
}

/* Return: the size of the GID table in PortInfo, in entries. */
static unsigned int guid_cap(struct host *h)
{
	struct ohca_hw_aqe c = HOST_AQE(mad_ifc, .in_addr = h->mbox[0], .out_addr = h->mbox[1],
					.port = 1);
	struct ib_smp *smp = host_ptr(h, h->mbox[0]);
	struct ib_port_info pi;

	memset(smp, 0, sizeof(*smp));
	smp->hdr.base_version = IB_MAD_BASE_VERSION;
	smp->hdr.mgmt_class = IB_CLASS_SUBN_LID;
	smp->hdr.class_version = IB_SMP_CLASS_VERSION;
	smp->hdr.method = IB_METHOD_GET;
	smp->hdr.attr_id = ib_to_be16(IB_SMP_ATTR_PORT_INFO);
	smp->hdr.attr_mod = ib_to_be32(1);
	assert_int_equal(host_cmd(h, OHCA_CMD_MAD_IFC, &c, NULL), OHCA_ADMIN_OK);
	smp = host_ptr(h, h->mbox[1]);
	ib_port_info_unpack(smp->data, &pi);
	return pi.guid_cap;
}

/* After a reset the first answers have smaller sizes, and all later ones have the true ones. */
static void test_less(void **state)
{
	struct host *h = host_new(1, 1);
	unsigned int often[6] = { 0 };
	unsigned int cap;

	(void)state;
	host_start(h);
	cap = guid_cap(h);
	for (uint64_t seed = 0; seed < 100; seed++) {
		unsigned int less = 0, last = 0;
		uint64_t told;

		/* only a new driver gets them */
		assert_int_equal(guid_cap(h), cap);
		ohca_mmio_write(h->e, OHCA_REG_CTRL, OHCA_CTRL_RESET, 4);
		host_start(h);
		ohca_set_lies(h->e, seed, OHCA_LIE_LESS, 1);
		told = ohca_lies_told(h->e);
		for (unsigned int i = 1; i <= 20; i++) {
			unsigned int got = guid_cap(h);

			assert_true(got <= cap);
			less += got < cap;
			last = got < cap ? i : last;
		}
		assert_true(less && less < 5);
		assert_int_equal(last, less);
		assert_int_equal(ohca_lies_told(h->e) - told, less);
		often[less]++;
		ohca_set_lies(h->e, 0, 0, 0);
	}
	for (unsigned int i = 1; i < 5; i++)
		assert_true(often[i] > 5);
	host_free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_seed),
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_told),
		cmocka_unit_test(test_outstanding),
		cmocka_unit_test(test_status),
		cmocka_unit_test(test_destroy),
		cmocka_unit_test(test_answer),
		cmocka_unit_test(test_register),
		cmocka_unit_test(test_eqe),
		cmocka_unit_test(test_output),
		cmocka_unit_test(test_less),
	};

	return cmocka_run_group_tests_name("lies", tests, NULL, NULL);
}
