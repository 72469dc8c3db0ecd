/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The performance management agent; see pma_agent.h. */
#include "field.h"
#include "pma_agent.h"

/* A counter of an attribute: its position, its source, and the bit that resets it. */
struct ctr_field {
	uint16_t bit;		/* first bit in the attribute */
	uint8_t width;
	uint8_t select;		/* bit of CounterSelect | CounterSelect2 << 16 */
	uint16_t src;		/* offset in struct ohca_port_counters */
};

#define C(member) offsetof(struct ohca_port_counters, member)

static const struct ctr_field pc_ctrs[] = {
	{ 32, 16, 0, C(symbol_error) },
	{ 48, 8, 1, C(link_error_recovery) },
	{ 56, 8, 2, C(link_downed) },
	{ 64, 16, 3, C(rcv_errors) },
	{ 80, 16, 4, C(rcv_remote_phys_errors) },
	{ 96, 16, 5, C(rcv_switch_relay_errors) },
	{ 112, 16, 6, C(xmit_discards) },
	{ 128, 8, 7, C(xmit_constraint_errors) },
	{ 136, 8, 8, C(rcv_constraint_errors) },
	{ 152, 4, 9, C(local_link_integrity_errors) },
	{ 156, 4, 10, C(excessive_buffer_overruns) },
	{ 160, 16, 17, C(qp1_dropped) },
	{ 176, 16, 11, C(vl15_dropped) },
	{ 192, 32, 12, C(xmit_data) },
	{ 224, 32, 13, C(rcv_data) },
	{ 256, 32, 14, C(xmit_pkts) },
	{ 288, 32, 15, C(rcv_pkts) },
	{ 320, 32, 16, C(xmit_wait) },
};

static const struct ctr_field pce_ctrs[] = {
	{ 64, 64, 0, C(xmit_data) },
	{ 128, 64, 1, C(rcv_data) },
	{ 192, 64, 2, C(xmit_pkts) },
	{ 256, 64, 3, C(rcv_pkts) },
	{ 320, 64, 4, C(ucast_xmit_pkts) },
	{ 384, 64, 5, C(ucast_rcv_pkts) },
	{ 448, 64, 6, C(mcast_xmit_pkts) },
	{ 512, 64, 7, C(mcast_rcv_pkts) },
	{ 576, 64, 16, C(symbol_error) },
	{ 640, 64, 17, C(link_error_recovery) },
	{ 704, 64, 18, C(link_downed) },
	{ 768, 64, 19, C(rcv_errors) },
	{ 832, 64, 20, C(rcv_remote_phys_errors) },
	{ 896, 64, 21, C(rcv_switch_relay_errors) },
	{ 960, 64, 22, C(xmit_discards) },
	{ 1024, 64, 23, C(xmit_constraint_errors) },
	{ 1088, 64, 24, C(rcv_constraint_errors) },
	{ 1152, 64, 25, C(local_link_integrity_errors) },
	{ 1216, 64, 26, C(excessive_buffer_overruns) },
	{ 1280, 64, 27, C(vl15_dropped) },
	{ 1344, 64, 28, C(xmit_wait) },
	{ 1408, 64, 29, C(qp1_dropped) },
};

static const struct ctr_field rcv_detail_ctrs[] = {
	{ 32, 16, 0, C(rcv_local_phys_errors) },
	{ 48, 16, 1, C(rcv_malformed) },
	{ 64, 16, 2, C(rcv_buffer_overrun) },
	{ 80, 16, 3, C(rcv_dlid_mapping) },
	{ 96, 16, 4, C(rcv_vl_mapping) },
	{ 112, 16, 5, C(rcv_looping) },
};

static const struct ctr_field xmit_detail_ctrs[] = {
	{ 32, 16, 0, C(xmit_inactive_discards) },
	{ 48, 16, 1, C(xmit_mtu_discards) },
	{ 64, 16, 2, C(xmit_lifetime_discards) },
	{ 80, 16, 3, C(xmit_hoq_discards) },
};

/* One counter for each VL or SL. */
#define EACH(first, width, member)							\
	EACH4(first, width, member, 0), EACH4(first, width, member, 4),			\
	EACH4(first, width, member, 8), EACH4(first, width, member, 12)
#define EACH4(first, width, member, n)							\
	EACH1(first, width, member, n), EACH1(first, width, member, (n) + 1),		\
	EACH1(first, width, member, (n) + 2), EACH1(first, width, member, (n) + 3)
#define EACH1(first, width, member, n)							\
	{ (first) + (n) * (width), (width), (n), C(member) + (n) * sizeof(uint64_t) }

static const struct ctr_field vl_wait_ctrs[] = { EACH(32, 16, xmit_wait_vl) };
static const struct ctr_field vl_cong_ctrs[] = { EACH(32, 16, vl_congestion) };
static const struct ctr_field rcv_cong_ctrs[] = {
	{ 32, 32, 0, C(rcv_fecn) },
	{ 64, 32, 1, C(rcv_becn) },
};
static const struct ctr_field fecn_sl_ctrs[] = { EACH(32, 32, rcv_fecn_sl) };
static const struct ctr_field becn_sl_ctrs[] = { EACH(32, 32, rcv_becn_sl) };
static const struct ctr_field xmit_cong_ctrs[] = { { 32, 32, 0, C(xmit_time_cong) } };
/* the attribute has 15 counters, none for VL 15 */
static const struct ctr_field vl_time_cong_ctrs[] = { EACH(32, 32, xmit_time_cong_vl) };
static const struct ctr_field xmit_sl_ctrs[] = { EACH(32, 32, xmit_data_sl) };
static const struct ctr_field rcv_sl_ctrs[] = { EACH(32, 32, rcv_data_sl) };
static const struct ctr_field xmit_sl_ext_ctrs[] = { EACH(64, 64, xmit_data_sl) };
static const struct ctr_field rcv_sl_ext_ctrs[] = { EACH(64, 64, rcv_data_sl) };

/* An attribute that consists of counters. */
struct ctr_attr {
	uint16_t attr;
	uint8_t n;
	bool ext;		/* resets ext_base instead of base */
	bool select32;		/* CounterSelect2 is bits 32..63 */
	bool select8;		/* CounterSelect2 is bits 144..151 */
	bool select64;		/* CounterSelect is bits 64..127; bits 16..31 are reserved */
	const struct ctr_field *f;
};

static const struct ctr_attr ctr_attrs[] = {
	{ IB_PMA_ATTR_PORT_COUNTERS, IB_ARRAY_SIZE(pc_ctrs), false, false, true, false, pc_ctrs },
	{ IB_PMA_ATTR_PORT_COUNTERS_EXT, IB_ARRAY_SIZE(pce_ctrs), true, true, false, false,
	  pce_ctrs },
	{ IB_PMA_ATTR_RCV_ERROR_DETAILS, IB_ARRAY_SIZE(rcv_detail_ctrs), false, false, false,
	  false, rcv_detail_ctrs },
	{ IB_PMA_ATTR_XMIT_DISCARD_DETAILS, IB_ARRAY_SIZE(xmit_detail_ctrs), false, false,
	  false, false, xmit_detail_ctrs },
	{ IB_PMA_ATTR_VL_XMIT_WAIT, IB_ARRAY_SIZE(vl_wait_ctrs), false, false, false,
	  false, vl_wait_ctrs },
	{ IB_PMA_ATTR_SW_VL_CONGESTION, IB_ARRAY_SIZE(vl_cong_ctrs), false, false, false, false,
	  vl_cong_ctrs },
	{ IB_PMA_ATTR_RCV_CON_CTRL, IB_ARRAY_SIZE(rcv_cong_ctrs), false, false, false, false,
	  rcv_cong_ctrs },
	{ IB_PMA_ATTR_SL_RCV_FECN, IB_ARRAY_SIZE(fecn_sl_ctrs), false, false, false, false,
	  fecn_sl_ctrs },
	{ IB_PMA_ATTR_SL_RCV_BECN, IB_ARRAY_SIZE(becn_sl_ctrs), false, false, false, false,
	  becn_sl_ctrs },
	{ IB_PMA_ATTR_XMIT_CON_CTRL, IB_ARRAY_SIZE(xmit_cong_ctrs), false, false, false, false,
	  xmit_cong_ctrs },
	{ IB_PMA_ATTR_VL_XMIT_TIME_CONG, IB_ARRAY_SIZE(vl_time_cong_ctrs) - 1, false, false, false,
	  false, vl_time_cong_ctrs },
	{ IB_PMA_ATTR_XMIT_DATA_SL, IB_ARRAY_SIZE(xmit_sl_ctrs), false, false, false,
	  false, xmit_sl_ctrs },
	{ IB_PMA_ATTR_RCV_DATA_SL, IB_ARRAY_SIZE(rcv_sl_ctrs), false, false, false,
	  false, rcv_sl_ctrs },
	{ IB_PMA_ATTR_XMIT_DATA_SL_EXT, IB_ARRAY_SIZE(xmit_sl_ext_ctrs), true, false, false,
	  false, xmit_sl_ext_ctrs },
	{ IB_PMA_ATTR_RCV_DATA_SL_EXT, IB_ARRAY_SIZE(rcv_sl_ext_ctrs), true, false, false,
	  false, rcv_sl_ext_ctrs },
	/*
	 * Without counters: links use no flow control packets, and have no lanes, codes or FEC
	 * blocks that could have errors.
	 */
	{ IB_PMA_ATTR_FLOW_CTL, 0, false, false, false, false, NULL },
	{ IB_PMA_ATTR_VL_FLOW_CTL_ERRORS, 0, false, false, false, false, NULL },
	{ IB_PMA_ATTR_EXT_SPEEDS, 0, false, false, false, true, NULL },
};

static uint64_t ctr_get(const struct ohca_port_counters *c, unsigned int off)
{
	uint64_t v;

	memcpy(&v, (const uint8_t *)c + off, sizeof(v));
	return v;
}

static void ctr_put(struct ohca_port_counters *c, unsigned int off, uint64_t v)
{
	memcpy((uint8_t *)c + off, &v, sizeof(v));
}

static struct ib_pma_port *pma_find_port(const struct ib_pma *a, unsigned int num)
{
	if (num < a->first_port || num - a->first_port >= a->nports)
		return NULL;
	return a->port(a->ctx, num);
}

static void reset_counters(struct ib_pma_port *p, const struct ctr_attr *ca, uint32_t select)
{
	struct ohca_port_counters *base = ca->ext ? &p->ext_base : &p->base;

	for (unsigned int i = 0; i < ca->n; i++)
		if (select >> ca->f[i].select & 1)
			ctr_put(base, ca->f[i].src, ctr_get(p->ctr, ca->f[i].src));
}

/* Add @v to the attribute's value, saturating. */
static void show_counter(uint8_t *d, const struct ctr_field *f, uint64_t v)
{
	uint64_t old = ib_bits_get(d, f->bit, f->width);
	uint64_t max = f->width == 64 ? UINT64_MAX : (1ull << f->width) - 1;

	ib_bits_put(d, f->bit, f->width, v > max - old ? max : old + v);
}

static bool is_stuck(const struct ib_pma_port *p, unsigned int off)
{
	const unsigned int n = off / sizeof(uint64_t);

	return n < 32 && p->stuck >> n & 1;
}

static void show_counters(const struct ib_pma_port *p, const struct ctr_attr *ca, uint8_t *d)
{
	const struct ohca_port_counters *base = ca->ext ? &p->ext_base : &p->base;

	for (unsigned int i = 0; i < ca->n; i++)
		show_counter(d, &ca->f[i], is_stuck(p, ca->f[i].src) ? UINT64_MAX :
			     ctr_get(p->ctr, ca->f[i].src) - ctr_get(base, ca->f[i].src));
}

/* The next port of @select from *@num on; *@num becomes the number after it. NULL: no more. */
static struct ib_pma_port *next_port(const struct ib_pma *a, uint8_t select, unsigned int *num)
{
	while (*num - a->first_port < a->nports) {
		unsigned int n = (*num)++;
		struct ib_pma_port *p;

		if (select != IB_PMA_ALL_PORTS && select != n)
			continue;
		p = a->port(a->ctx, n);
		if (p)
			return p;
	}
	return NULL;
}

static uint16_t counters(struct ib_pma *a, const struct ctr_attr *ca, bool set, uint8_t *d)
{
	uint8_t port = d[1];
	uint16_t select1 = ib_get_be16(d + 2);
	uint32_t select = select1;
	uint8_t head[IB_PMA_DATA_LEN];
	unsigned int num = a->first_port;
	struct ib_pma_port *p;

	memcpy(head, d, sizeof(head));
	if (ca->select32)
		select |= ib_get_be32(d + 4) << 16;
	else if (ca->select8)
		select |= (uint32_t)d[18] << 16;
	if (port != IB_PMA_ALL_PORTS && !pma_find_port(a, port))
		return IB_MAD_BAD_FIELD;

	memset(d, 0, IB_PMA_DATA_LEN);
	d[1] = port;
	if (!ca->select64)
		ib_put_be16(d + 2, select1);
	if (ca->select64)
		memcpy(d + 8, head + 8, 8);
	else if (ca->select32)
		memcpy(d + 4, head + 4, 4);
	else if (ca->select8)
		d[18] = head[18];

	while ((p = next_port(a, port, &num))) {
		if (set)
			reset_counters(p, ca, select);
		show_counters(p, ca, d);
	}
	return IB_MAD_OK;
}

/* ---- sampling ---- */

/* Value in @c of counter @i of the session; 0: the session does not use counter @i. */
static uint64_t sampled(const struct ib_pma *a, unsigned int i, const struct ohca_port_counters *c)
{
	static const uint16_t src[] = {
		[IB_PMA_SAMPLE_XMIT_DATA] = C(xmit_data),
		[IB_PMA_SAMPLE_RCV_DATA] = C(rcv_data),
		[IB_PMA_SAMPLE_XMIT_PKTS] = C(xmit_pkts),
		[IB_PMA_SAMPLE_RCV_PKTS] = C(rcv_pkts),
		[IB_PMA_SAMPLE_XMIT_WAIT] = C(xmit_wait),
	};
	const uint16_t select = a->samples.ctl.counter_select[i];

	return select >= IB_PMA_SAMPLE_XMIT_DATA && select < IB_ARRAY_SIZE(src) ?
	       ctr_get(c, src[select]) : 0;
}

/* The current values of the session's counters, summed over its ports. */
static void sample(const struct ib_pma *a, uint64_t sum[IB_PMA_SAMPLE_COUNTERS])
{
	const struct ib_pma_port *p;
	unsigned int num = a->first_port;

	memset(sum, 0, IB_PMA_SAMPLE_COUNTERS * sizeof(*sum));
	while ((p = next_port(a, a->samples.ctl.port_select, &num)))
		for (unsigned int i = 0; i < IB_PMA_SAMPLE_COUNTERS; i++)
			sum[i] += sampled(a, i, p->ctr);
}

void ib_pma_preset(struct ib_pma *a, unsigned int num, const struct ohca_port_counters *was,
		   const struct ohca_port_counters *now)
{
	struct ib_pma_samples *s = &a->samples;

	if (s->ctl.sample_status != IB_PMA_SAMPLE_RUNNING ||
	    (s->ctl.port_select != IB_PMA_ALL_PORTS && s->ctl.port_select != num))
		return;
	for (unsigned int i = 0; i < IB_PMA_SAMPLE_COUNTERS; i++)
		s->value[i] += sampled(a, i, now) - sampled(a, i, was);
}

uint64_t ib_pma_deadline(const struct ib_pma *a)
{
	switch (a->samples.ctl.sample_status) {
	case IB_PMA_SAMPLE_STARTED:
		return a->samples.begin_ns;
	case IB_PMA_SAMPLE_RUNNING:
		return a->samples.end_ns;
	default:
		return UINT64_MAX;
	}
}

void ib_pma_timer(struct ib_pma *a, uint64_t now_ns)
{
	uint64_t value[IB_PMA_SAMPLE_COUNTERS];
	struct ib_pma_samples *s = &a->samples;

	if (s->ctl.sample_status == IB_PMA_SAMPLE_STARTED && now_ns >= s->begin_ns) {
		s->ctl.sample_status = IB_PMA_SAMPLE_RUNNING;
		/* a late start does not shorten the interval */
		s->end_ns = now_ns + (uint64_t)s->ctl.sample_interval * IB_PMA_TICK_NS;
		sample(a, s->value);
	}
	if (s->ctl.sample_status == IB_PMA_SAMPLE_RUNNING && now_ns >= s->end_ns) {
		s->ctl.sample_status = IB_PMA_SAMPLE_DONE;
		sample(a, value);
		for (unsigned int i = 0; i < IB_PMA_SAMPLE_COUNTERS; i++)
			s->value[i] = value[i] - s->value[i];
	}
}

/* A Set during a session has no effect; the response contains that session (16.1.3.2). */
static uint16_t samples_control(struct ib_pma *a, bool set, uint64_t now_ns, uint8_t *d)
{
	struct ib_pma_samples_control want, show;
	struct ib_pma_samples *s = &a->samples;

	ib_pma_psc_unpack(d, &want);
	if (want.port_select != IB_PMA_ALL_PORTS && !pma_find_port(a, want.port_select))
		return IB_MAD_BAD_FIELD;
	if (set && s->ctl.sample_status == IB_PMA_SAMPLE_DONE) {
		s->ctl = want;
		s->ctl.sample_status = IB_PMA_SAMPLE_STARTED;
		s->begin_ns = now_ns + (uint64_t)want.sample_start * IB_PMA_TICK_NS;
		memset(s->value, 0, sizeof(s->value));
		ib_pma_timer(a, now_ns);
	}
	show = s->ctl;
	/* a Get returns the port of the request */
	if (!set)
		show.port_select = want.port_select;
	show.tick = IB_PMA_TICK;
	show.counter_width = 4;
	/* octal, one digit for each counter; 1: it can sample the mandatory quantities */
	show.counter_masks = 01111111111;
	show.counter_masks_hi = 011111;
	show.sample_mechanisms = 0;
	memset(d, 0, IB_PMA_DATA_LEN);
	ib_pma_psc_pack(&show, d);
	return IB_MAD_OK;
}

/* PortSamplesResult or, if @ext, PortSamplesResultExtended with 64-bit counters. */
static uint16_t samples_result(const struct ib_pma *a, bool ext, uint8_t *d)
{
	const struct ib_pma_samples *s = &a->samples;

	memset(d, 0, IB_PMA_DATA_LEN);
	ib_put_be16(d, s->ctl.tag);
	ib_put_be16(d + 2, s->ctl.sample_status);
	if (ext)
		ib_put_be32(d + 4, 0x80000000);		/* ExtendedWidth: 64 bits */
	if (s->ctl.sample_status != IB_PMA_SAMPLE_DONE)
		return IB_MAD_OK;
	for (unsigned int i = 0; i < IB_PMA_SAMPLE_COUNTERS; i++) {
		if (ext)
			ib_put_be64(d + 8 + 8 * i, s->value[i]);
		else
			ib_put_be32(d + 4 + 4 * i, ib_sat(s->value[i], 32));
	}
	return IB_MAD_OK;
}

static uint16_t pma_class_port_info(const struct ib_pma *a, uint8_t *d)
{
	struct ib_pma_class_port_info cpi = {
		.base_version = IB_MAD_BASE_VERSION,
		.class_version = IB_PMA_CLASS_VERSION,
		.cap_mask = IB_PMA_CAP_ALL_PORT_SELECT | IB_PMA_CAP_EXT_WIDTH |
			    IB_PMA_CAP_XMIT_WAIT,
		.cap_mask2 = IB_PMA_CAP2_ADD_PORT_CTRS_EXT,
		.resp_time = a->resp_time,
	};

	ib_pma_cpi_pack(&cpi, d);
	return IB_MAD_OK;
}

static uint16_t dispatch(struct ib_pma *a, const struct ib_mad_hdr *h, uint8_t *d,
			 uint64_t now_ns)
{
	uint16_t attr = ib_be16(h->attr_id);
	bool set = h->method == IB_METHOD_SET;

	if (h->base_version != IB_MAD_BASE_VERSION || h->class_version != IB_PMA_CLASS_VERSION)
		return IB_MAD_BAD_VERSION;
	if (h->method != IB_METHOD_GET && !set)
		return IB_MAD_BAD_METHOD;
	/* a Set of ClassPortInfo could only enable traps, which this agent does not send */
	if (attr == IB_PMA_ATTR_CLASS_PORT_INFO)
		return set ? IB_MAD_BAD_METHOD_ATTR : pma_class_port_info(a, d);
	if (attr == IB_PMA_ATTR_SAMPLES_CONTROL)
		return h->attr_mod ? IB_MAD_BAD_FIELD : samples_control(a, set, now_ns, d);
	if (attr == IB_PMA_ATTR_SAMPLES_RESULT || attr == IB_PMA_ATTR_SAMPLES_RESULT_EXT) {
		if (set)
			return IB_MAD_BAD_METHOD_ATTR;
		return h->attr_mod ? IB_MAD_BAD_FIELD :
		       samples_result(a, attr == IB_PMA_ATTR_SAMPLES_RESULT_EXT, d);
	}
	/* a switch does not count received marks, a channel adapter counts nothing else of these */
	if (attr >= IB_PMA_ATTR_SW_VL_CONGESTION && attr <= IB_PMA_ATTR_VL_XMIT_TIME_CONG &&
	    !a->first_port == (attr >= IB_PMA_ATTR_RCV_CON_CTRL && attr <= IB_PMA_ATTR_SL_RCV_BECN))
		return IB_MAD_BAD_METHOD_ATTR;
	for (unsigned int i = 0; i < IB_ARRAY_SIZE(ctr_attrs); i++) {
		if (ctr_attrs[i].attr != attr)
			continue;
		if (h->attr_mod != ib_to_be32(0))
			return IB_MAD_BAD_FIELD;
		return counters(a, &ctr_attrs[i], set, d);
	}
	return IB_MAD_BAD_METHOD_ATTR;
}

enum ib_pma_verdict ib_pma_process(struct ib_pma *a, const struct ib_mad *in, struct ib_mad *out,
				   uint64_t now_ns)
{
	uint16_t status;

	if (in->hdr.mgmt_class != IB_CLASS_PERF || (in->hdr.method & IB_METHOD_RESP) ||
	    in->hdr.method == IB_METHOD_TRAP || in->hdr.method == IB_METHOD_TRAP_REPRESS)
		return IB_PMA_DROP;
	if (out != in)
		memcpy(out, in, sizeof(*out));
	/* an event may be due for which the owner has not called ib_pma_timer() yet */
	ib_pma_timer(a, now_ns);
	status = dispatch(a, &out->hdr, (uint8_t *)out + IB_PMA_DATA_OFF, now_ns);
	ib_mad_make_resp(&out->hdr, status);
	return IB_PMA_REPLY;
}
