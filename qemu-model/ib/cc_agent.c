// SPDX-License-Identifier: GPL-2.0-or-later
/* The congestion control agent; see cc_agent.h. */
#include "cc_agent.h"

#include "field.h"

#define NS_PER_S	1000000000u
#define LOG_SWITCH	1u
#define LOG_CA		2u
#define LOG_LEASE_RUNS	1u	/* CongestionFlags */

static const struct ib_field key_fields[] = {
	IB_FIELD(ib_cc, key, 0, 64),
	IB_FIELD(ib_cc, protect, 64, 1),
	IB_FIELD(ib_cc, lease, 80, 16),
	IB_FIELD(ib_cc, violations, 96, 16),
};

static const struct ib_field switch_fields[] = {
	IB_FIELD(ib_cc_switch, control_map, 0, 32),
	IB_FIELD(ib_cc_switch, victim_mask, 32, 256),
	IB_FIELD(ib_cc_switch, credit_mask, 288, 256),
	IB_FIELD(ib_cc_switch, threshold, 544, 4),
	IB_FIELD(ib_cc_switch, packet_size, 552, 8),
	IB_FIELD(ib_cc_switch, cs_threshold, 560, 4),
	IB_FIELD(ib_cc_switch, cs_return_delay, 576, 16),
	IB_FIELD(ib_cc_switch, marking_rate, 592, 16),
};

static const struct ib_field port_fields[] = {
	IB_FIELD(ib_cc_port, valid, 0, 1),
	IB_FIELD(ib_cc_port, control_type, 1, 1),
	IB_FIELD(ib_cc_port, threshold, 4, 4),
	IB_FIELD(ib_cc_port, packet_size, 8, 8),
	IB_FIELD(ib_cc_port, marking_rate, 16, 16),
};

static const struct ib_field sl_fields[] = {
	IB_FIELD(ib_cc_sl, ccti_timer, 0, 16),
	IB_FIELD(ib_cc_sl, ccti_increase, 16, 8),
	IB_FIELD(ib_cc_sl, trigger_threshold, 24, 8),
	IB_FIELD(ib_cc_sl, ccti_min, 32, 8),
};

#define PORT_LEN	4u
#define SL_LEN		8u

/* ---- attributes, written to @d; each returns the status ------------------------ */

static uint16_t cc_class_port_info(const struct ib_cc_node *n, uint8_t *d)
{
	memset(d, 0, IB_CC_DATA_LEN);
	d[0] = IB_MAD_BASE_VERSION;
	d[1] = IB_CC_CLASS_VERSION;
	ib_bits_put(d, 59, 5, n->resp_time);
	return IB_MAD_OK;
}

static uint16_t congestion_info(const struct ib_cc_node *n, uint8_t *d)
{
	memset(d, 0, IB_CC_DATA_LEN);
	if (!n->is_switch)
		d[2] = IB_CCT_BLOCKS;
	return IB_MAD_OK;
}

/* @known: the request has the right key */
static uint16_t key_info(struct ib_cc *cc, bool set, bool known, uint8_t *d)
{
	if (set) {
		cc->key = ib_get_be64(d);
		cc->protect = d[8] >> 7;
		cc->lease = ib_get_be16(d + 10);
		if (!ib_get_be16(d + 12))
			cc->violations = 0;
		cc->lease_ns = 0;
	}
	ib_fields_pack(key_fields, IB_ARRAY_SIZE(key_fields), cc, d, IB_CC_DATA_LEN);
	if (cc->protect && !known)
		memset(d, 0, sizeof(cc->key));
	return IB_MAD_OK;
}

static void log_head(const struct ib_cc *cc, uint8_t type, uint8_t *d)
{
	memset(d, 0, IB_MAD_LEN - IB_CC_LOG_OFF);
	d[0] = type;
	d[1] = cc->lease_ns ? LOG_LEASE_RUNS : 0;
}

static uint16_t switch_log(struct ib_cc *cc, uint64_t now_ns, uint8_t *d)
{
	struct ib_cc_log *log = &cc->log;

	log_head(cc, LOG_SWITCH, d);
	ib_put_be16(d + 2, log->events);
	ib_put_be32(d + 4, ib_cc_stamp(now_ns));
	memcpy(d + 8, log->port_map, sizeof(log->port_map));
	/* the newest first */
	for (unsigned int i = 0; i < log->kept; i++) {
		const unsigned int at = (log->first + log->kept - 1u - i) % IB_CC_SWITCH_EVENTS;
		uint8_t *e = d + 40 + 12 * i;

		ib_put_be16(e, log->event[at].slid);
		ib_put_be16(e + 2, log->event[at].dlid);
		e[4] = (uint8_t)(log->event[at].sl << 4);
		ib_put_be32(e + 8, log->event[at].stamp);
	}
	log->events = 0;
	memset(log->port_map, 0, sizeof(log->port_map));
	return IB_MAD_OK;
}

/* The log of a channel adapter has no events, since its agent does not detect any. */
static uint16_t ca_log(const struct ib_cc *cc, uint64_t now_ns, uint8_t *d)
{
	log_head(cc, LOG_CA, d);
	ib_put_be32(d + 8, ib_cc_stamp(now_ns));
	return IB_MAD_OK;
}

static uint16_t switch_setting(struct ib_cc *cc, bool set, uint8_t *d)
{
	struct ib_cc_switch want, *s = &cc->sw;

	if (set) {
		ib_fields_unpack(switch_fields, IB_ARRAY_SIZE(switch_fields), d, &want);
		s->control_map = want.control_map;
		if (want.control_map & IB_CC_SW_VICTIM_MASK)
			memcpy(s->victim_mask, want.victim_mask, sizeof(s->victim_mask));
		if (want.control_map & IB_CC_SW_CREDIT_MASK)
			memcpy(s->credit_mask, want.credit_mask, sizeof(s->credit_mask));
		if (want.control_map & IB_CC_SW_THRESHOLD) {
			s->threshold = want.threshold;
			s->packet_size = want.packet_size;
		}
		if (want.control_map & IB_CC_SW_STARVATION) {
			s->cs_threshold = want.cs_threshold;
			s->cs_return_delay = want.cs_return_delay;
		}
		if (want.control_map & IB_CC_SW_MARKING_RATE)
			s->marking_rate = want.marking_rate;
	}
	ib_fields_pack(switch_fields, IB_ARRAY_SIZE(switch_fields), s, d, IB_CC_DATA_LEN);
	return IB_MAD_OK;
}

static uint16_t port_setting(const struct ib_cc_node *n, struct ib_cc *cc, bool set,
			     uint32_t block, uint8_t *d)
{
	const unsigned int ports = n->nports + 1u;
	unsigned int first;

	if (block > n->nports / IB_CC_PORTS_PER_BLOCK)
		return IB_MAD_BAD_FIELD;
	first = block * IB_CC_PORTS_PER_BLOCK;
	for (unsigned int i = 0; i < IB_CC_PORTS_PER_BLOCK; i++) {
		uint8_t *e = d + PORT_LEN * i;

		if (first + i >= ports) {
			memset(e, 0, PORT_LEN);
			continue;
		}
		if (set)
			ib_fields_unpack(port_fields, IB_ARRAY_SIZE(port_fields), e,
					 &cc->port[first + i]);
		ib_fields_pack(port_fields, IB_ARRAY_SIZE(port_fields), &cc->port[first + i], e,
			       PORT_LEN);
	}
	return IB_MAD_OK;
}

static uint16_t ca_setting(struct ib_cc *cc, bool set, uint8_t *d)
{
	struct ib_cc_ca *ca = &cc->ca;

	if (set) {
		ca->port_control = ib_get_be16(d);
		ca->control_map = ib_get_be16(d + 2);
	}
	for (unsigned int i = 0; i < IB_CC_SLS; i++) {
		uint8_t *e = d + 4 + SL_LEN * i;

		if (set && ca->control_map >> i & 1)
			ib_fields_unpack(sl_fields, IB_ARRAY_SIZE(sl_fields), e, &ca->sl[i]);
		ib_fields_pack(sl_fields, IB_ARRAY_SIZE(sl_fields), &ca->sl[i], e, SL_LEN);
	}
	ib_put_be16(d, ca->port_control);
	ib_put_be16(d + 2, ca->control_map);
	memset(d + 4 + SL_LEN * IB_CC_SLS, 0, IB_CC_DATA_LEN - 4 - SL_LEN * IB_CC_SLS);
	return IB_MAD_OK;
}

static uint16_t table(struct ib_cc *cc, bool set, uint32_t block, uint8_t *d)
{
	struct ib_cc_ca *ca = &cc->ca;
	uint16_t *entry;

	if (block >= IB_CCT_BLOCKS || (set && ib_get_be16(d) >= IB_CCT_ENTRIES))
		return IB_MAD_BAD_FIELD;
	entry = &ca->cct[block * IB_CCT_PER_BLOCK];
	if (set)
		ca->ccti_limit = ib_get_be16(d);
	for (unsigned int i = 0; set && i < IB_CCT_PER_BLOCK; i++)
		entry[i] = ib_get_be16(d + 4 + 2 * i);
	memset(d, 0, IB_CC_DATA_LEN);
	ib_put_be16(d, ca->ccti_limit);
	for (unsigned int i = 0; i < IB_CCT_PER_BLOCK; i++)
		ib_put_be16(d + 4 + 2 * i, entry[i]);
	return IB_MAD_OK;
}

static uint16_t time_stamp(uint64_t now_ns, uint8_t *d)
{
	memset(d, 0, IB_CC_DATA_LEN);
	ib_put_be32(d, ib_cc_stamp(now_ns));
	return IB_MAD_OK;
}

/* ---- requests ------------------------------------------------------------------ */

/* Methods of @attr: 0: it does not exist, 1: Get, 2: Get and Set. */
static unsigned int methods_of(const struct ib_cc_node *n, uint16_t attr)
{
	switch (attr) {
	case IB_CC_ATTR_CLASS_PORT_INFO:
	case IB_CC_ATTR_INFO:
	case IB_CC_ATTR_LOG:
	case IB_CC_ATTR_TIME_STAMP:
		return 1;
	case IB_CC_ATTR_KEY_INFO:
		return 2;
	case IB_CC_ATTR_SWITCH_SETTING:
	case IB_CC_ATTR_SWITCH_PORT_SETTING:
		return n->is_switch ? 2 : 0;
	case IB_CC_ATTR_CA_SETTING:
	case IB_CC_ATTR_TABLE:
		return n->is_switch ? 0 : 2;
	default:
		return 0;
	}
}

static uint16_t cc_dispatch(const struct ib_cc_node *n, struct ib_cc *cc, struct ib_mad *mad,
			    bool known, uint64_t now_ns)
{
	const struct ib_mad_hdr *h = &mad->hdr;
	const uint16_t attr = ib_be16(h->attr_id);
	const uint32_t mod = ib_be32(h->attr_mod);
	const bool set = h->method == IB_METHOD_SET;
	uint8_t *d = (uint8_t *)mad + IB_CC_DATA_OFF, *log = (uint8_t *)mad + IB_CC_LOG_OFF;

	if (h->base_version != IB_MAD_BASE_VERSION || h->class_version != IB_CC_CLASS_VERSION)
		return IB_MAD_BAD_VERSION;
	if (h->method != IB_METHOD_GET && !set)
		return IB_MAD_BAD_METHOD;
	if (methods_of(n, attr) < (set ? 2u : 1u))
		return IB_MAD_BAD_METHOD_ATTR;
	if (attr == IB_CC_ATTR_SWITCH_PORT_SETTING)
		return port_setting(n, cc, set, mod, d);
	if (attr == IB_CC_ATTR_TABLE)
		return table(cc, set, mod, d);
	if (mod)
		return IB_MAD_BAD_FIELD;
	switch (attr) {
	case IB_CC_ATTR_CLASS_PORT_INFO:
		return cc_class_port_info(n, d);
	case IB_CC_ATTR_INFO:
		return congestion_info(n, d);
	case IB_CC_ATTR_KEY_INFO:
		return key_info(cc, set, known, d);
	case IB_CC_ATTR_LOG:
		return n->is_switch ? switch_log(cc, now_ns, log) : ca_log(cc, now_ns, log);
	case IB_CC_ATTR_SWITCH_SETTING:
		return switch_setting(cc, set, d);
	case IB_CC_ATTR_CA_SETTING:
		return ca_setting(cc, set, d);
	default:
		return time_stamp(now_ns, d);
	}
}

/* A MAD with another key: count it, and start the lease. */
static void cc_violation(struct ib_cc *cc, uint64_t now_ns)
{
	cc->violations += cc->violations < UINT16_MAX;
	if (cc->lease && !cc->lease_ns)
		cc->lease_ns = now_ns + (uint64_t)cc->lease * NS_PER_S;
}

enum ib_cc_verdict ib_cc_process(const struct ib_cc_node *n, struct ib_cc *cc, struct ib_mad *mad,
				 uint64_t now_ns)
{
	struct ib_mad_hdr *h = &mad->hdr;
	const uint16_t attr = ib_be16(h->attr_id);
	bool known, set = h->method == IB_METHOD_SET;
	uint16_t status;

	if (h->mgmt_class != IB_CLASS_CC || h->method & IB_METHOD_RESP || h->method == IB_METHOD_TRAP ||
	    h->method == IB_METHOD_TRAP_REPRESS)
		return IB_CC_DROP;
	if (cc->lease_ns && now_ns >= cc->lease_ns) {
		cc->protect = false;
		cc->lease_ns = 0;
	}
	known = !cc->key || ib_get_be64((uint8_t *)mad + IB_CC_KEY_OFF) == cc->key;
	if (!known && (set || (attr != IB_CC_ATTR_CLASS_PORT_INFO && attr != IB_CC_ATTR_KEY_INFO))) {
		cc_violation(cc, now_ns);
		return IB_CC_DROP;
	}
	/* the manager with the key is active: stop the lease */
	if (known)
		cc->lease_ns = 0;
	status = cc_dispatch(n, cc, mad, known, now_ns);
	ib_mad_make_resp(h, status);
	return set && status == IB_MAD_OK ? IB_CC_CHANGED : IB_CC_REPLY;
}
