// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * MADs with a wrong bit: each request is dropped, refused with a status, or has another meaning for
 * the node that receives it. No other node changes, except the links to that one.
 */
#include "subnet.h"

#include "bad_state.h"
#include "ib/pma.h"

#define FAR_HOST	2u
#define FAR_SWITCH	4u

static const char graph[] =
	"Ca 1 \"a\"\n"		"[1] \"near\"[1]\n"
	"Ca 1 \"b\"\n"		"[1] \"near\"[2]\n"
	"Ca 1 \"c\"\n"		"[1] \"far\"[1]\n"
	"Switch 3 \"near\"\n"	"[1] \"a\"[1]\n" "[2] \"b\"[1]\n" "[3] \"far\"[3]\n"
	"Switch 3 \"far\"\n"	"[1] \"c\"[1]\n" "[3] \"near\"[3]\n";

static const uint16_t smp_attrs[] = {
	IB_SMP_ATTR_NOTICE, IB_SMP_ATTR_NODE_DESC, IB_SMP_ATTR_NODE_INFO, IB_SMP_ATTR_SWITCH_INFO,
	IB_SMP_ATTR_GUID_INFO, IB_SMP_ATTR_PORT_INFO, IB_SMP_ATTR_PKEY_TABLE, IB_SMP_ATTR_SL2VL,
	IB_SMP_ATTR_VLARB, IB_SMP_ATTR_LFT, IB_SMP_ATTR_MFT,
};

static const uint16_t pma_attrs[] = {
	IB_PMA_ATTR_CLASS_PORT_INFO, IB_PMA_ATTR_SAMPLES_CONTROL, IB_PMA_ATTR_SAMPLES_RESULT,
	IB_PMA_ATTR_PORT_COUNTERS, IB_PMA_ATTR_RCV_ERROR_DETAILS,
	IB_PMA_ATTR_XMIT_DISCARD_DETAILS, IB_PMA_ATTR_VL_XMIT_WAIT, IB_PMA_ATTR_PORT_COUNTERS_EXT,
	IB_PMA_ATTR_SAMPLES_RESULT_EXT, IB_PMA_ATTR_XMIT_DATA_SL, IB_PMA_ATTR_RCV_DATA_SL,
	IB_PMA_ATTR_XMIT_DATA_SL_EXT, IB_PMA_ATTR_RCV_DATA_SL_EXT,
};

static struct port_state *was;
static unsigned int answered, refused, lost;

/* A valid MAD whose bits are flipped, and the node that it is for. */
struct trial {
	struct fab_mad good;
	uint32_t node;
};

static void renew(void)
{
	struct errors e;

	fab_free(f);
	free(was);
	begin(from_text(graph, sizeof(graph) - 1, &e));
	subnet_up();
	was = state_of(f);
}

/* Return: whether nothing was set at the performance agents of nodes other than @node. */
static bool pma_is_fresh(uint32_t node)
{
	static const struct ib_pma_port fresh;

	for (uint32_t i = 0; i < f->nodes; i++)
		if (i != node && f->node[i].pma)
			return false;
	for (uint32_t p = 1; p < f->ports; p++) {
		const struct fab_extra *x = fab_extra_of(f, p);

		if (x && f->port[p].node != node &&
		    (memcmp(&x->pma.base, &fresh.base, sizeof(fresh.base)) ||
		     memcmp(&x->pma.ext_base, &fresh.ext_base, sizeof(fresh.ext_base))))
			return false;
	}
	return true;
}

/* Checks that the manager has the answer to @h, with a status that shows any error. */
static void is_answer(const struct ib_mad_hdr *h)
{
	const struct ib_mad_hdr *a = &got.mad.hdr;

	assert_int_equal(a->method, IB_METHOD_GET_RESP);
	assert_int_equal(a->mgmt_class, h->mgmt_class);
	assert_true(ib_be64(a->tid) == ib_be64(h->tid));
	assert_int_equal(a->attr_id, h->attr_id);
	assert_int_equal(status() & ~0x1c, 0);
	if (status())
		refused++;
	else
		answered++;
}

static bool is_get_or_set(const struct ib_mad_hdr *h)
{
	return h->method == IB_METHOD_GET || h->method == IB_METHOD_SET;
}

static void try(struct bad *b)
{
	const struct trial *t = b->ctx;
	struct fab_mad mad = t->good, again = t->good;
	struct ib_mad_hdr h;
	uint32_t node;

	memcpy(&mad.mad, b->p, b->len);
	h = mad.mad.hdr;
	/* a directed route without hops is for the manager's own node */
	node = h.mgmt_class == IB_CLASS_SUBN_DR ? HOST : t->node;
	if (ask_lid(&mad, LID(t->node)) != FAB_DELIVERED)
		lost++;
	else if (is_get_or_set(&h))
		is_answer(&h);
	assert_true(only_near(f, was, node));
	assert_true(pma_is_fresh(node));
	if (first_change(f, was) == FAB_NO_PORT)
		return;
	assert_int_equal(h.method, IB_METHOD_SET);
	ask_lid(&again, LID(t->node));
	if (first_change(f, was) != FAB_NO_PORT)
		renew();
}

/* A Set of the values that are there already. */
static void make_set(struct trial *t)
{
	struct ib_port_info pi;

	memcpy(t->good.smp.data, got.smp.data, sizeof(t->good.smp.data));
	t->good.smp.hdr.method = IB_METHOD_SET;
	if (ib_be16(t->good.smp.hdr.attr_id) == IB_SMP_ATTR_PORT_INFO) {
		ib_port_info_unpack(got.smp.data, &pi);
		pi.state = IB_PS_NO_CHANGE;
		pi.phys_state = IB_PHYS_NO_CHANGE;
		ib_port_info_pack(&pi, t->good.smp.data);
	}
}

static void flip(struct trial *t, size_t from, size_t to)
{
	each_flip(&t->good.mad, sizeof(t->good.mad), from, to, try, t);
}

/* The whole header and data; of reserved fields or directed routes the first bytes. */
static void smps_of(uint32_t node)
{
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(smp_attrs); i++) {
		struct trial t = {
			.good = new_mad(IB_CLASS_SUBN_LID, IB_METHOD_GET, smp_attrs[i], 0),
			.node = node,
		};
		struct fab_mad mad = t.good;

		assert_int_equal(ask_lid(&mad, LID(node)), FAB_DELIVERED);
		flip(&t, 0, 40);
		mad = t.good;
		assert_int_equal(ask_lid(&mad, LID(node)), FAB_DELIVERED);
		make_set(&t);
		flip(&t, 0, 40);
		flip(&t, IB_SMP_DATA_OFF, IB_SMP_DATA_OFF + IB_SMP_DATA_LEN + 8);
	}
}

static void smps(void **st)
{
	(void)st;
	answered = refused = lost = 0;
	smps_of(FAR_HOST);
	smps_of(FAR_SWITCH);
	assert_true(answered > 10000 && refused > 5000 && lost > 50);
}

static void pma_of(uint32_t node)
{
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(pma_attrs); i++) {
		struct trial t = {
			.good = new_mad(IB_CLASS_PERF, IB_METHOD_GET, pma_attrs[i], 0),
			.node = node,
		};
		uint8_t *d = (uint8_t *)&t.good.mad + IB_PMA_DATA_OFF;

		/* PortSelect, also that of PortSamplesControl; CounterSelect */
		d[0] = d[1] = 1;
		d[2] = d[3] = 0xff;
		flip(&t, 0, 24);
		flip(&t, IB_PMA_DATA_OFF, IB_PMA_DATA_OFF + 16);
		t.good.mad.hdr.method = IB_METHOD_SET;
		flip(&t, 0, 24);
		flip(&t, IB_PMA_DATA_OFF, IB_PMA_DATA_OFF + 64);
		renew();
	}
}

static void pma(void **st)
{
	(void)st;
	answered = refused = lost = 0;
	pma_of(FAR_HOST);
	pma_of(FAR_SWITCH);
	assert_true(answered > 10000 && refused > 5000 && lost > 50);
}

static int setup_all(void **st)
{
	(void)st;
	renew();
	return 0;
}

static int teardown_all(void **st)
{
	free(was);
	return teardown(st);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(smps),
		cmocka_unit_test(pma),
	};

	return cmocka_run_group_tests_name("bad MADs", tests, setup_all, teardown_all);
}
