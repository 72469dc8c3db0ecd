// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Two ends of RMPP, a wire that loses, repeats, delays and reorders, and MADs of a third node. A
 * message arrives as it was sent or not at all. The number of transactions of an end is bounded,
 * and all of them end in time. (A message arrives again if its segments arrive again after its
 * transaction was forgotten; a client that waits for a response uses only one.)
 */
#include "umad/rmpp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENDS	2u
#define WIRE	512u		/* MADs on the wire, at most */
#define LONGEST	20000u		/* bytes of a message */
#define MSGS	64u		/* in an input */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A MAD for the end with LID @to + 1. */
struct flight {
	unsigned int from, to;
	struct ib_mad mad;
};

/* A message; its index + 1 is the transaction ID. */
struct message {
	size_t len;
	uint8_t seed;
};

static const uint8_t *at, *end;
static struct um_rmpp rmpp[ENDS];
static unsigned int self;		/* the end that runs */
static struct flight wire[WIRE];
static unsigned int under_way;
static struct message message[MSGS];
static unsigned int messages;
static int64_t now;

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "rmpp: %s\n", what);
	abort();
}

static uint8_t get8(void)
{
	return at < end ? *at++ : 0;
}

static uint8_t byte_of(const struct message *m, size_t i)
{
	return (uint8_t)(m->seed + i * 7 + i / 256);
}

static void leave(const ib_mad_addr_t *to, const struct ib_mad *mad)
{
	const unsigned int lid = ib_be16(to->lid);

	if (!lid || lid > ENDS || under_way == WIRE)
		return;
	wire[under_way++] = (struct flight){ .from = self, .to = lid - 1, .mad = *mad };
}

static void received(uint32_t agent, const ib_mad_addr_t *from, const uint8_t *msg, size_t len)
{
	const struct ib_mad_hdr *h = (const void *)msg;
	const uint64_t tid = ib_be64(h->tid);
	const struct message *m;

	(void)from;
	must(agent == self && len <= UM_RMPP_MAX, "a message for another agent");
	/* a MAD of the third node may be anything */
	if (!tid || tid > messages)
		return;
	m = &message[tid - 1];
	must(len == m->len, "a message of another length");
	for (size_t i = 56; i < len; i++)
		must(msg[i] == byte_of(m, i), "another byte");
}

static void failed(uint32_t agent, const ib_mad_addr_t *to, const uint8_t *msg)
{
	(void)to;
	(void)msg;
	must(agent == self, "another agent is told");
}

static const struct um_rmpp_ops ops = { .send = leave, .received = received, .failed = failed };

static void send_message(unsigned int from, size_t len)
{
	const ib_mad_addr_t to = { .lid = ib_to_be16((uint16_t)(2 - from)) };
	static uint8_t buf[LONGEST];
	struct ib_mad_hdr *h = (void *)buf;
	struct message *m = &message[messages];

	if (messages == MSGS)
		return;
	len = 56 + len % (LONGEST - 56);
	*m = (struct message){ .len = len, .seed = get8() };
	for (size_t i = 0; i < len; i++)
		buf[i] = byte_of(m, i);
	memset(buf, 0, 56);
	h->base_version = IB_MAD_BASE_VERSION;
	h->mgmt_class = IB_CLASS_SUBN_ADM;
	h->method = get8();
	h->tid = ib_to_be64(++messages);
	buf[sizeof(*h) + 2] = 1;
	self = from;
	um_rmpp_send(&rmpp[from], from, &to, buf, len, 1 + get8(), get8() & 7, now);
}

static void arrive(const struct flight *fl)
{
	const ib_mad_addr_t from = { .lid = ib_to_be16((uint16_t)(fl->from + 1)) };

	self = fl->to;
	if (um_rmpp_is(&fl->mad))
		um_rmpp_receive(&rmpp[self], self, &from, &fl->mad, now);
}

/* Removes MAD @i from the wire. */
static struct flight take(unsigned int i)
{
	const struct flight fl = wire[i];

	memmove(&wire[i], &wire[i + 1], (--under_way - i) * sizeof(wire[0]));
	return fl;
}

static void pass(unsigned int most)
{
	while (under_way && most--) {
		const struct flight fl = take(0);

		arrive(&fl);
	}
}

/* A MAD that neither end has sent, with a transaction ID that neither uses. */
static void stranger(void)
{
	struct flight fl = { .from = get8() % ENDS, .to = get8() % ENDS };
	uint8_t *b = (uint8_t *)&fl.mad;

	fl.mad.hdr.mgmt_class = get8() & 1 ? IB_CLASS_SUBN_ADM : get8();
	fl.mad.hdr.method = get8();
	fl.mad.hdr.tid = ib_to_be64(1000 + get8() % 100);
	for (unsigned int i = 0; i < 12; i++)
		b[sizeof(fl.mad.hdr) + i] = i == 4 || i == 5 || i == 8 || i == 9 ? 0 : get8();
	arrive(&fl);
}

/* Moves the time of both ends. Return: whether a timer is still set. */
static bool tick(int64_t ns)
{
	bool due = false;

	now += ns;
	for (self = 0; self < ENDS; self++)
		due |= um_rmpp_timer(&rmpp[self], now) != INT64_MAX;
	return due;
}

static void step(uint8_t op)
{
	unsigned int i;

	switch (op % 8) {
	case 0:
		send_message(op >> 7, (size_t)get8() << 8 | get8());
		break;
	case 1:
	case 2:
		pass(op >> 3);
		break;
	case 3:
		if (under_way)
			take(get8() % under_way);
		break;
	case 4:
		/* delivered again, or out of order */
		i = get8();
		if (under_way) {
			const struct flight fl = op & 8 ? wire[i % under_way] : take(i % under_way);

			arrive(&fl);
		}
		break;
	case 5:
		tick((int64_t)get8() * get8() * 1000000);
		break;
	case 6:
		for (i = 0; i <= op >> 3; i++)
			stranger();
		break;
	default:
		self = op >> 7;
		if (op & 8)
			um_rmpp_forget(&rmpp[self], self);
	}
	for (i = 0; i < ENDS; i++)
		must(rmpp[i].nsends <= UM_RMPP_SENDS && rmpp[i].nrecvs <= UM_RMPP_RECVS,
		     "too many transactions");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	at = data;
	end = data + size;
	memset(rmpp, 0, sizeof(rmpp));
	for (unsigned int i = 0; i < ENDS; i++)
		rmpp[i].ops = &ops;
	under_way = messages = 0;
	now = 1000;
	for (unsigned int ops_left = 200; ops_left && at < end; ops_left--)
		step(get8());
	/* all of them end without a wire */
	for (unsigned int i = 0; i < 4096 && tick(5000000000); i++)
		under_way = 0;
	for (unsigned int i = 0; i < ENDS; i++)
		must(!rmpp[i].sends && !rmpp[i].recvs && !rmpp[i].nsends && !rmpp[i].nrecvs,
		     "a transaction does not end");
	return 0;
}
