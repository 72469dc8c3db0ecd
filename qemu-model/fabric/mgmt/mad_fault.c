// SPDX-License-Identifier: GPL-2.0-or-later
/* Faults of nodes for requests of one class and attribute: these are lost, late, or refused. */
#include "mgmt.h"

static bool is_about(const struct fab_attribute *a, const struct ib_mad_hdr *h)
{
	const uint8_t mgmt_class = ib_mad_is_smp(h) ? IB_CLASS_SUBN_LID : h->mgmt_class;

	return a->mgmt_class == mgmt_class &&
	       (a->id == FAB_ANY_ATTRIBUTE || a->id == ib_be16(h->attr_id));
}

/*
 * Whether @mad is a request, or a segment of one. ACK, STOP and ABORT also have the method of the
 * requester, and are not.
 */
static bool is_request(const struct ib_mad *mad)
{
	const struct ib_mad_hdr *h = &mad->hdr;

	if (h->method & IB_METHOD_RESP)
		return false;
	return (h->mgmt_class != IB_CLASS_SUBN_ADM && h->mgmt_class != IB_CLASS_DEV_MGT) ||
	       !(mad->data[IB_RMPP_FLAGS] & IB_RMPP_ACTIVE) ||
	       mad->data[IB_RMPP_TYPE] == IB_RMPP_DATA;
}

/* Whether requests with @method have an answer (13.4.5, 15.2.2). */
static bool has_answer(uint8_t method)
{
	switch (method) {
	case IB_METHOD_GET:
	case IB_METHOD_SET:
	case IB_METHOD_REPORT:
	case IB_METHOD_GET_TABLE:
	case IB_METHOD_GET_TRACE_TABLE:
	case IB_METHOD_GET_MULTI:
	case IB_METHOD_DELETE:
		return true;
	default:
		return false;
	}
}

bool fab_mad_is_wanted(const struct fab_mgmt *m, uint32_t node, const struct ib_mad *mad)
{
	const struct ib_mad_hdr *h = &mad->hdr;

	if (!is_request(mad))
		return false;
	for (unsigned int i = 0; i < m->mad_faults; i++)
		if (m->mad_fault[i].node == node && is_about(&m->mad_fault[i].attr, h))
			return true;
	return false;
}

bool fab_mad_faulty(const struct fab_mgmt *m, uint32_t node)
{
	for (unsigned int i = 0; i < m->mad_faults; i++)
		if (m->mad_fault[i].node == node &&
		    m->mad_fault[i].attr.mgmt_class != IB_CLASS_SUBN_LID)
			return true;
	return false;
}

/* Whether the path of @s, which has arrived by port @at, ends here. */
static bool ends_here(const struct fab *f, uint32_t at, const struct ib_smp *s)
{
	const struct fab_node *n = &f->node[f->port[at].node];
	struct ib_smp copy = *s;
	uint8_t by;

	return !ib_smp_is_dr(s) || ib_dr_recv(&copy, n->sw != FAB_NONE,
					      (uint8_t)fab_port_num(f, at), n->nports,
					      &by) == IB_DR_LOCAL;
}

/* Count a request. Return: whether @x loses it. */
static bool loses(struct fab_mad_fault *x)
{
	x->seen++;
	if (!x->nth || x->seen % x->nth)
		return false;
	x->dropped++;
	return true;
}

enum fab_fate fab_mad_fault(struct fab_mgmt *m, enum fab_mad_place place, uint32_t p,
			    const struct fab_mad *mad)
{
	const bool machine = place == FAB_MAD_ENTERS || place == FAB_MAD_LEAVES;
	const uint32_t at = machine ? m->f->port[p].peer : p, node = m->f->port[at].node;
	const bool comes = place != FAB_MAD_SENT && place != FAB_MAD_ENTERS;
	const struct ib_mad_hdr *h = &mad->mad.hdr;
	struct fab_mad_fault *late = NULL;
	enum fab_fate fate;
	bool lost = false;

	if (!fab_mad_is_wanted(m, node, &mad->mad))
		return FAB_GOES_ON;
	if (ib_mad_is_smp(h) && (!comes || (place != FAB_MAD_AT_HOME &&
					    !ends_here(m->f, at, &mad->smp))))
		return FAB_GOES_ON;
	/* a fault for its attribute and one for the whole class may both apply */
	for (unsigned int i = 0; i < m->mad_faults; i++) {
		struct fab_mad_fault *x = &m->mad_fault[i];

		if (x->node != node || !is_about(&x->attr, h))
			continue;
		lost |= loses(x);
		if (!late || x->delay_ns > late->delay_ns)
			late = x;
	}
	if (lost || !late->delay_ns)
		return lost ? FAB_LOST : FAB_GOES_ON;
	fate = fab_mad_hold(m, place, p, late->delay_ns, mad);
	late->delayed += fate == FAB_UNDER_WAY;
	late->dropped += fate == FAB_LOST;
	return fate;
}

bool fab_mad_refused(struct fab_mgmt *m, uint32_t node, struct ib_mad *mad)
{
	struct ib_mad_hdr *h = &mad->hdr;

	if (!is_request(mad) || !has_answer(h->method))
		return false;
	for (unsigned int i = 0; i < m->mad_faults; i++) {
		struct fab_mad_fault *x = &m->mad_fault[i];

		if (x->node != node || !x->status || !is_about(&x->attr, h))
			continue;
		x->refused++;
		h->method = h->method == IB_METHOD_SET ? IB_METHOD_GET_RESP : h->method | IB_METHOD_RESP;
		h->status = ib_to_be16(x->status);
		return true;
	}
	return false;
}
