// SPDX-License-Identifier: GPL-2.0-or-later
/* Captures as pcapng; see capture.h. */
#include "capture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fabric/data/buffer.h"
#include "fabric/data/clock.h"
#include "fabric/data/gsi.h"
#include "fabric/data/to_watch.h"
#include "ib/crc.h"
#include "pcapng.h"

#define ERF_INFINIBAND	21u
#define ERF_IB_LINK	25u
#define ERF_VARYING	0x04u	/* flag: records have different lengths */
#define ERF_LEN		16u

/*
 * Bytes of a link packet's record. Wireshark 4.4 reads a LRH, GRH and BTH from a link packet before
 * it dissects the packet, and calls it malformed if there are fewer bytes. Zeros follow the LPCRC.
 */
#define LINK_PACKET	4u
#define LINK_RECORD	56u

#define MAX_BLOCK	(OHCA_LINK_MAX_FRAME + 256)

/**
 * struct fab_tap - one port of a capture
 * @c: the capture
 * @next: tap of another capture at the same port
 * @p: the port, in the graph
 * @iface: pcapng interface of received packets; sent packets have the next number
 * @blocks: [1] sent and [0] received since the capture began, by lane; for link packets
 * @flow: [1] the last link packet sent and [0] received, by lane: FCTBS << 16 | FCCL
 * @flow_lanes: lanes whose @flow is valid
 */
struct fab_tap {
	struct fab_capture *c;
	struct fab_tap *next;
	uint32_t p;
	uint32_t iface;
	uint16_t blocks[2][FAB_DATA_LANES];
	uint32_t flow[2][FAB_DATA_LANES];
	uint16_t flow_lanes[2];
};

/**
 * struct fab_capture - a capture
 * @d: data path of the fabric
 * @write: appends @len bytes to the file. Return: false: no room; nothing was written
 * @ctx: its argument
 * @epoch_ns: difference between the clock and calendar time; 0 with a clock of a test
 * @left: packets that it records before it is full
 * @links: it has link packets; @next_links: of fab_data.link_captures
 * @ntaps: number of ports
 * @packets: packets in the file, by interface
 * @lost: packets for which @write had no room, by interface
 * @tap: [@ntaps]
 */
struct fab_capture {
	struct fab_data *d;
	bool (*write)(void *ctx, const void *buf, size_t len);
	void *ctx;
	uint64_t epoch_ns;
	uint64_t left;
	bool links;
	struct fab_capture *next_links;
	unsigned int ntaps;
	uint64_t packets[2 * FAB_CAPTURE_PORTS];
	uint64_t lost[2 * FAB_CAPTURE_PORTS];
	struct fab_tap tap[FAB_CAPTURE_PORTS];
};

/* A block that grows: type and length first, the length again at the end. */
struct block {
	uint32_t len;
	uint8_t b[MAX_BLOCK];
};

static void put(struct block *k, const void *v, size_t len)
{
	memcpy(k->b + k->len, v, len);
	k->len += (uint32_t)len;
	while (k->len % 4)
		k->b[k->len++] = 0;
}

static void put32(struct block *k, uint32_t v)
{
	put(k, &v, sizeof(v));
}

static void block_begin(struct block *k, uint32_t type)
{
	k->len = 0;
	put32(k, type);
	put32(k, 0);
}

static void option(struct block *k, uint16_t code, const void *v, uint16_t len)
{
	const uint16_t head[2] = { code, len };

	put(k, head, sizeof(head));
	put(k, v, len);
}

static bool block_end(struct fab_capture *c, struct block *k)
{
	put32(k, PCAPNG_OPT_END);
	put32(k, k->len + 4);
	memcpy(k->b + 4, &k->len, sizeof(k->len));
	return c->write(c->ctx, k->b, k->len);
}

static bool section(struct fab_capture *c)
{
	static const char by[] = "ohca-fabric";
	const uint16_t version[2] = { 1, 0 };
	const uint64_t unknown = UINT64_MAX;
	const unsigned int scale = c->d->cfg.rate_scale;
	struct block k;
	char text[64];
	int len;

	block_begin(&k, PCAPNG_SECTION);
	put32(&k, PCAPNG_BYTE_ORDER);
	put(&k, version, sizeof(version));
	put(&k, &unknown, sizeof(unknown));
	option(&k, PCAPNG_SHB_USERAPPL, by, sizeof(by) - 1);
	if (scale) {
		len = snprintf(text, sizeof(text), "rates of wires are divided by %u (--rate-scale)", scale);
		option(&k, PCAPNG_OPT_COMMENT, text, (uint16_t)len);
	}
	return block_end(c, &k);
}

static bool interface(struct fab_capture *c, uint32_t p, bool sent)
{
	const uint16_t type[2] = { PCAPNG_LINKTYPE_ERF, 0 };
	const struct fab *f = c->d->f;
	const uint8_t ns = 9;
	struct block k;
	char name[96];
	int len;

	len = snprintf(name, sizeof(name), "%.64s:%u %s", f->desc[f->port[p].node].text,
		       fab_port_num(f, p), sent ? "sent" : "received");
	block_begin(&k, PCAPNG_INTERFACE);
	put(&k, type, sizeof(type));
	put32(&k, 0);		/* no limit of a packet's length */
	option(&k, PCAPNG_IF_NAME, name, (uint16_t)len);
	option(&k, PCAPNG_IF_TSRESOL, &ns, 1);
	return block_end(c, &k);
}

/* The ERF header of a packet of @len bytes: a little-endian time in 2^-32 s, big-endian lengths. */
static void erf_header(uint8_t *b, uint8_t type, uint64_t ns, uint32_t len)
{
	const uint64_t t = ns / 1000000000u << 32 | (ns % 1000000000u << 32) / 1000000000u;

	for (unsigned int i = 0; i < 8; i++)
		b[i] = (uint8_t)(t >> (8 * i));
	b[8] = type;
	b[9] = ERF_VARYING;
	ib_put_be16(b + 10, (uint16_t)(ERF_LEN + len));
	ib_put_be16(b + 12, 0);
	ib_put_be16(b + 14, (uint16_t)len);
}

/* Record the packet in @b, of @len bytes with its CRCs, which arrived at or left the port. */
static void packet(const struct fab_tap *t, uint8_t type, uint64_t clock_ns, const uint8_t *b,
		   uint32_t len, bool sent, enum fab_drop why)
{
	const uint64_t ns = clock_ns + t->c->epoch_ns;
	const uint32_t iface = t->iface + sent;
	uint8_t erf[ERF_LEN];
	struct block k;
	char text[64];

	if (fab_capture_full(t->c))
		return;
	block_begin(&k, PCAPNG_PACKET);
	put32(&k, iface);
	put32(&k, (uint32_t)(ns >> 32));
	put32(&k, (uint32_t)ns);
	put32(&k, ERF_LEN + len);
	put32(&k, ERF_LEN + len);
	erf_header(erf, type, ns, len);
	put(&k, erf, sizeof(erf));
	put(&k, b, len);
	if (why != FAB_DROP_NONE)
		option(&k, PCAPNG_OPT_COMMENT, text,
		       (uint16_t)snprintf(text, sizeof(text), "dropped: %s", fab_drop_name(why)));
	if (!block_end(t->c, &k)) {
		t->c->lost[iface]++;
		return;
	}
	t->c->packets[iface]++;
	t->c->left--;
}

void fab_capture_frame(struct fab_data *d, const struct fab_dport *dp, const struct fab_frame *f,
		       unsigned int vl, bool sent, enum fab_drop why)
{
	uint8_t b[OHCA_LINK_MAX_FRAME + IB_VCRC_LEN];
	uint32_t icrc = 0;

	fab_copy(d, b, f, vl);
	if (!fab_icrc_flag(f) && (b[1] & 3) >= IB_LNH_IBA_LOCAL && f->len > IB_ICRC_LEN &&
	    !ib_icrc(b, f->len - IB_ICRC_LEN, &icrc))
		ib_icrc_put(b + f->len - IB_ICRC_LEN, icrc);
	ib_vcrc_put(b + f->len, ib_vcrc(b, f->len));
	for (struct fab_tap *t = dp->tap; t; t = t->next) {
		packet(t, ERF_INFINIBAND, fab_data_clock(d), b, f->len + IB_VCRC_LEN, sent, why);
		/* a packet that the sender discards does not reach the wire */
		if (!sent || why == FAB_DROP_NONE || why == FAB_DROP_LOSS)
			t->blocks[sent][vl] = (uint16_t)(t->blocks[sent][vl] + fab_blocks(f->len));
	}
}

void fab_capture_mad(struct fab_data *d, const struct fab_tap *tap, const struct fab_mad *mad,
		     bool sent, enum fab_drop why)
{
	uint8_t b[IB_MAD_PKT_MAX + IB_VCRC_LEN];
	const size_t len = fab_mad_packet(b, mad, ib_mad_is_smp(&mad->mad.hdr) ? IB_MGMT_VL : 0);
	uint32_t icrc = 0;

	if (!ib_icrc(b, len - IB_ICRC_LEN, &icrc))
		ib_icrc_put(b + len - IB_ICRC_LEN, icrc);
	ib_vcrc_put(b + len, ib_vcrc(b, len));
	for (; tap; tap = tap->next)
		packet(tap, ERF_INFINIBAND, fab_data_clock(d), b, (uint32_t)len + IB_VCRC_LEN, sent,
		       why);
}

/* ---- link packets -------------------------------------------------------------- */

#define FLOW_MASK	0xfffu	/* FCTBS and FCCL are modulo 4096 */

/*
 * Compute FCTBS and FCCL of a lane of a local wire, as if each end had FAB_LANE_BLOCKS, and no
 * packet was sent before the capture began.
 */
static void local_flow(const struct fab_tap *t, const struct fab_dport *dp, unsigned int vl,
		       struct ohca_link_flow *f)
{
	const unsigned int room = FAB_LANE_BLOCKS - dp->lane[vl].used;
	const unsigned int peer_room = FAB_LANE_BLOCKS -
				       (dp->peer ? dp->peer->lane[vl].used : 0u);

	*f = (struct ohca_link_flow){
		.sent_fctbs = t->blocks[1][vl] & FLOW_MASK,
		.sent_fccl = (t->blocks[0][vl] + room) & FLOW_MASK,
		.rcvd_fctbs = t->blocks[0][vl] & FLOW_MASK,
		.rcvd_fccl = (t->blocks[1][vl] + peer_room) & FLOW_MASK,
	};
}

/*
 * Write a flow control packet of lane @vl: Op 0, FCTBS, VL, FCCL, LPCRC, which is computed as a
 * VCRC.
 */
static void flow_packet(struct fab_tap *t, unsigned int vl, bool sent, uint16_t fctbs,
			uint16_t fccl)
{
	const uint32_t flow = (uint32_t)fctbs << 16 | fccl;
	const uint16_t lane = (uint16_t)(1u << vl);
	uint8_t b[LINK_RECORD] = { 0 };

	if (t->flow_lanes[sent] & lane && t->flow[sent][vl] == flow)
		return;
	t->flow_lanes[sent] |= lane;
	t->flow[sent][vl] = flow;
	ib_put_be16(b, fctbs);
	ib_put_be16(b + 2, (uint16_t)(vl << 12 | fccl));
	ib_vcrc_put(b + LINK_PACKET, ib_vcrc(b, LINK_PACKET));
	packet(t, ERF_IB_LINK, fab_data_clock(t->c->d), b, sizeof(b), sent, FAB_DROP_NONE);
}

void fab_capture_links(struct fab_data *d)
{
	for (struct fab_capture *c = d->link_captures; c; c = c->next_links) {
		for (unsigned int i = 0; i < c->ntaps; i++) {
			struct fab_tap *t = &c->tap[i];
			const struct fab_dport *dp = d->by_port[t->p];
			struct ohca_link_flow f;

			for (unsigned int vl = 0; dp->up && vl < dp->nvls; vl++) {
				if (!dp->link)
					local_flow(t, dp, vl, &f);
				else if (!ohca_link_get_flow(dp->link, vl, &f))
					continue;
				flow_packet(t, vl, true, f.sent_fctbs, f.sent_fccl);
				flow_packet(t, vl, false, f.rcvd_fctbs, f.rcvd_fccl);
			}
		}
	}
}

bool fab_capture_full(const struct fab_capture *c)
{
	return !c->left;
}

/* ---- beginning and end --------------------------------------------------------- */

static bool tap_attach(struct fab_capture *c, uint32_t p)
{
	struct fab_tap *t = &c->tap[c->ntaps];
	struct fab_dport *dp = fab_dport(c->d, p);

	if (!dp || !interface(c, p, false) || !interface(c, p, true))
		return false;
	*t = (struct fab_tap){ .c = c, .p = p, .iface = 2 * c->ntaps, .next = dp->tap };
	dp->tap = t;
	c->d->m->taps++;
	c->ntaps++;
	return true;
}

static void tap_detach(struct fab_capture *c, struct fab_tap *t)
{
	struct fab_tap **at = &c->d->by_port[t->p]->tap;

	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	c->d->m->taps--;
}

static void unlink_capture(struct fab_capture *c)
{
	struct fab_capture **at = &c->d->link_captures;

	while (*at != c)
		at = &(*at)->next_links;
	*at = c->next_links;
}

static void statistics(struct fab_capture *c, uint32_t iface)
{
	const uint64_t now = fab_data_clock(c->d) + c->epoch_ns;
	struct block k;

	block_begin(&k, PCAPNG_STATISTICS);
	put32(&k, iface);
	put32(&k, (uint32_t)(now >> 32));
	put32(&k, (uint32_t)now);
	option(&k, PCAPNG_ISB_IFRECV, &c->packets[iface], sizeof(c->packets[iface]));
	option(&k, PCAPNG_ISB_IFDROP, &c->lost[iface], sizeof(c->lost[iface]));
	block_end(c, &k);
}

struct fab_capture *fab_capture_start(struct fab_data *d, const uint32_t *port, unsigned int n,
				      uint64_t limit, bool links,
				      bool (*write)(void *ctx, const void *buf, size_t len),
				      void *ctx)
{
	struct fab_capture *c = calloc(1, sizeof(*c));
	struct timespec ts;
	bool ok;

	if (!c)
		return NULL;
	d->n.capture_bytes += sizeof(*c);
	c->d = d;
	c->write = write;
	c->ctx = ctx;
	c->left = limit ? limit : UINT64_MAX;
	if (!d->cfg.clock) {
		clock_gettime(CLOCK_REALTIME, &ts);
		c->epoch_ns = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec -
			      fab_data_clock(d);
	}
	ok = n && n <= FAB_CAPTURE_PORTS && section(c);
	for (unsigned int i = 0; ok && i < n; i++)
		ok = tap_attach(c, port[i]);
	if (!ok) {
		fab_capture_stop(c);
		return NULL;
	}
	c->links = links;
	if (links) {
		c->next_links = d->link_captures;
		d->link_captures = c;
	}
	return c;
}

void fab_capture_stop(struct fab_capture *c)
{
	if (!c)
		return;
	if (c->links)
		unlink_capture(c);
	for (unsigned int i = 0; i < c->ntaps; i++) {
		statistics(c, 2 * i);
		statistics(c, 2 * i + 1);
		tap_detach(c, &c->tap[i]);
	}
	c->d->n.capture_bytes -= sizeof(*c);
	free(c);
}
