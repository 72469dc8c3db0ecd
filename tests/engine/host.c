/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A machine for engines under test: memory, clock, wires. See host.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "host.h"
#include "engine/base/work.h"
#include "front/doorbell.h"
#include "host_priv.h"

#define MAX_STEPS	1000000u	/* settling steps after which the engine counts as stuck */

void host_die(const char *what)
{
	fprintf(stderr, "test host: %s\n", what);
	abort();
}

/* ---- what the engine calls ---- */

static void op_dm_dirty(void *p, uint64_t off, size_t n)
{
	struct host *h = p;

	if (off > h->cfg.dm_size || n > h->cfg.dm_size - off)
		host_die("dm_dirty outside of the device memory");
	h->dm_dirty += n;
}

/* Return: how many of @n bytes of memory there are from @addr on. */
static size_t mem_run(const struct host *h, uint64_t addr, size_t n)
{
	uint64_t off = addr - HOST_BASE;

	if (off >= h->mem_size || (addr - h->hole < h->hole_len))
		return 0;
	if (h->hole_len && h->hole > addr && n > h->hole - addr)
		n = (size_t)(h->hole - addr);
	return n < h->mem_size - off ? n : (size_t)(h->mem_size - off);
}

static void *op_dma_map(void *p, uint64_t addr, size_t *len, int prot)
{
	struct host *h = p;
	size_t size = h->pieces ? 8 : HOST_PAGE, page = size - (size_t)(addr & (size - 1));
	size_t n = mem_run(h, addr, *len);

	if (!h->e->dma_depth)
		host_die("dma_map outside of a burst");
	if (n == 0 || (prot & OHCA_DMA_WRITE && addr - h->fixed < h->fixed_len))
		return NULL;
	/* memory that is contiguous on the bus need not be so in the host */
	n = n < page ? n : page;
	h->dma_bytes += n;
	if (prot & OHCA_DMA_WRITE) {
		uint8_t *state = &h->page_state[(addr - HOST_BASE) / HOST_PAGE];

		if (h->guard && !(*state & HOST_PAGE_GIVEN))
			host_die("a write to memory that the device was not given");
		*state |= HOST_PAGE_DIRTY;
	}
	if (h->on_map)
		h->on_map(h->on_map_arg, h, addr, n, prot);
	/* a host may report more than the engine asks for */
	*len = mem_run(h, addr, page);
	return h->mem + (addr - HOST_BASE);
}

static void op_dma_dirty(void *p, uint64_t addr, size_t n)
{
	struct host *h = p;

	if (!h->e->dma_depth || mem_run(h, addr, n) < n)
		host_die("dma_dirty of what was not written");
}

static bool op_dma_persist(void *p, const struct ohca_run *run, unsigned int n, uint64_t tag)
{
	struct host *h = p;

	if (!h->e->dma_depth || !n || n > OHCA_PERSIST_RUNS || !tag)
		host_die("dma_persist");
	for (unsigned int i = 0; i < n; i++) {
		if (mem_run(h, run[i].iova, run[i].len) < run[i].len)
			host_die("dma_persist of what is no memory");
		h->persisted += run[i].len;
	}
	h->persist_calls++;
	h->persist_runs += n;
	if (!h->persist_later)
		return true;
	if (h->persist_num == sizeof(h->persist_tag) / sizeof(h->persist_tag[0]))
		host_die("more dma_persist at a time than there may be");
	h->persist_tag[h->persist_num++] = tag;
	return false;
}

void host_irq(void *p, unsigned int vec)
{
	struct host *h = p;

	if (vec >= h->cfg.num_vectors)
		host_die("interrupt vector out of range");
	h->irqs[vec]++;
}

static uint64_t op_now(void *p)
{
	return *((struct host *)p)->now;
}

static void op_kick(void *p)
{
	struct host *h = p;

	h->kicks++;
	h->kicked = true;
}

static uint8_t *op_tx_begin(void *p, unsigned int port, unsigned int vl, uint32_t len)
{
	struct host *h = p;
	struct host_port *hp = &h->port[port];

	if (port >= h->cfg.num_ports || vl > 15 || len > sizeof(h->tx_buf) || (len & 3))
		host_die("bad tx_begin");
	if (hp->wire)
		return hp->wire->tx_begin(hp->wire_arg, vl, len);
	if (!hp->up || hp->queued[vl] >= hp->credits) {
		/* VL15 has no flow control */
		if (vl < 15)
			hp->blocked |= (uint16_t)(1u << vl);
		hp->refused++;
		return NULL;
	}
	return h->tx_buf;
}

static void frame_append(struct host_port *hp, struct host_frame *f)
{
	f->next = NULL;
	*hp->tail = f;
	hp->tail = &f->next;
	hp->queued[f->vl]++;
}

static struct host_frame *frame_new(const uint8_t *data, uint32_t len, unsigned int vl)
{
	struct host_frame *f = malloc(sizeof(*f) + len);

	if (!f)
		host_die("out of memory");
	f->next = NULL;
	f->len = len;
	f->vl = (uint8_t)vl;
	memcpy(f->data, data, len);
	return f;
}

static uint64_t op_vl15_dropped(void *p, unsigned int port)
{
	struct host *h = p;

	return h->port[port].vl15_dropped;
}

static void op_tx_commit(void *p, unsigned int port, unsigned int vl, uint32_t len)
{
	struct host *h = p;
	struct host_port *hp = &h->port[port];
	enum host_fate fate = HOST_DELIVER;
	struct host_frame *held = hp->held;

	hp->frames++;
	if (hp->wire) {
		hp->wire->tx_commit(hp->wire_arg, vl, len);
		return;
	}
	if (hp->hook)
		fate = hp->hook(hp->hook_arg, h, port, h->tx_buf, len);
	if (fate == HOST_DROP)
		return;
	if (fate == HOST_SWAP && !held) {
		hp->held = frame_new(h->tx_buf, len, vl);
		return;
	}
	frame_append(hp, frame_new(h->tx_buf, len, vl));
	if (fate == HOST_DUP)
		frame_append(hp, frame_new(h->tx_buf, len, vl));
	if (held) {
		hp->held = NULL;
		frame_append(hp, held);
	}
}

static void op_link_ctl(void *p, unsigned int port, bool enable)
{
	struct host *h = p;
	struct host_port *hp = &h->port[port];

	hp->enabled = enable;
	if (hp->wire) {
		hp->wire->link_ctl(hp->wire_arg, enable);
		return;
	}
	hp->changed = true;
	hp->bounce |= !enable;
	if (hp->peer) {
		hp->peer->port[hp->peer_port].changed = true;
		hp->peer->port[hp->peer_port].bounce |= !enable;
	}
}

static void op_link_rate(void *p, unsigned int port, const struct ohca_link_rate *rate)
{
	struct host *h = p;

	h->port[port].rate = *rate;
}

static void op_trace(void *p, unsigned int ev, const uint64_t a[4])
{
	static const char *const name[OHCA_TR_NUM] = {
		"cmd", "fatal", "qp-state", "pkt", "rx-drop", "wqe-err", "timeout",
		"port-state", "mad",
	};
	struct host *h = p;

	if (ev >= OHCA_TR_NUM)
		host_die("unknown trace event");
	h->traces[ev]++;
	if (h->verbose)
		fprintf(stderr, "%8llu us %016llx %s %#llx %#llx %#llx %#llx\n",
			(unsigned long long)*h->now / 1000,
			(unsigned long long)h->cfg.node_guid, name[ev],
			(unsigned long long)a[0], (unsigned long long)a[1],
			(unsigned long long)a[2], (unsigned long long)a[3]);
}

/* ---- machines ---- */

/* Makes memory for doorbells for every second machine; the other ones leave it to the engine. */
static void *doorbells(const struct ohca_cfg *cfg)
{
	static bool last;
	struct ohca_db_sizes sizes;
	size_t bytes;
	void *mem;

	last = !last;
	if (last || !ohca_doorbell_sizes(cfg, &sizes))
		return NULL;
	bytes = ohca_doorbells_bytes(&sizes);
	mem = aligned_alloc(HOST_PAGE, bytes);
	if (!mem)
		host_die("out of memory");
	memset(mem, 0, bytes);
	return mem;
}

static struct host *host_make(const struct ohca_cfg *cfg, uint64_t mem,
			      const struct host_seat *seat)
{
	static const struct ohca_host_ops ops = {
		.dma_map = op_dma_map,
		.dma_dirty = op_dma_dirty,
		.dma_persist = op_dma_persist,
		.dm_dirty = op_dm_dirty,
		.irq = host_irq,
		.now_ns = op_now,
		.kick = op_kick,
		.tx_begin = op_tx_begin,
		.tx_commit = op_tx_commit,
		.link_ctl = op_link_ctl,
		.link_rate = op_link_rate,
		.vl15_dropped = op_vl15_dropped,
		.trace = op_trace,
	};
	struct host *h = calloc(1, sizeof(*h));

	if (!h)
		host_die("out of memory");
	h->cfg = *cfg;
	h->mem_size = mem;
	h->mem = seat && seat->memory ? seat->memory(seat->arg, mem, false) :
					aligned_alloc(HOST_PAGE, h->mem_size);
	h->page_state = calloc(h->mem_size / HOST_PAGE, 1);
	if (!h->mem || !h->page_state)
		host_die("out of memory");
	h->verbose = getenv("OHCA_TRACE") != NULL;
	h->own_clock = HOST_MS;
	h->now = &h->own_clock;
	for (int i = 0; i < 2; i++) {
		h->port[i].tail = &h->port[i].head;
		h->port[i].credits = 64;
	}
	if (cfg->dm_size) {
		h->dm = seat && seat->memory ? seat->memory(seat->arg, cfg->dm_size, true) :
					       aligned_alloc(HOST_PAGE, cfg->dm_size);
		if (!h->dm)
			host_die("out of memory");
		/* as if a former owner had used it */
		memset(h->dm, 0xa5, cfg->dm_size);
		h->cfg.dm = h->dm;
	}
	h->doorbells = seat ? NULL : doorbells(&h->cfg);
	h->cfg.doorbells = h->doorbells;
	h->seat = seat;
	h->e = seat ? seat->make(seat->arg, h) : ohca_new(&h->cfg, &ops, h);
	if (!h->e)
		host_die("ohca_new failed");
	return h;
}

struct host *host_new_cfg(const struct ohca_cfg *cfg, uint64_t mem)
{
	return host_make(cfg, mem, NULL);
}

static struct ohca_cfg usual_cfg(unsigned int ports, uint64_t guid)
{
	return (struct ohca_cfg){
		.node_guid = guid,
		.num_ports = (uint8_t)ports,
		.vl_cap = 8,
		.mtu_cap = 5,
		.width_sup = 3,
		.speed_sup = 7,
		.speed_ext_sup = 3,
		.num_vectors = HOST_VECTORS,
		.num_uars = HOST_UARS,
		.log_max_qp = 8,
		.log_max_cq = 8,
		.log_max_srq = 6,
		.log_max_mr = 10,
		.dm_size = HOST_DM,
		.node_desc = "test host",
	};
}

struct host *host_new(unsigned int ports, uint64_t guid)
{
	const struct ohca_cfg cfg = usual_cfg(ports, guid);

	return host_new_cfg(&cfg, HOST_MEM);
}

struct host *host_new_seat(unsigned int ports, uint64_t guid, const struct host_seat *seat)
{
	const struct ohca_cfg cfg = usual_cfg(ports, guid);

	return host_make(&cfg, HOST_MEM, seat);
}

static void port_flush(struct host_port *hp)
{
	while (hp->head) {
		struct host_frame *f = hp->head;

		hp->head = f->next;
		hp->queued[f->vl]--;
		free(f);
	}
	hp->tail = &hp->head;
	free(hp->held);
	hp->held = NULL;
}

void host_free(struct host *h)
{
	for (unsigned int i = 0; i < 2; i++) {
		struct host_port *hp = &h->port[i];

		if (hp->peer) {
			struct host_port *pp = &hp->peer->port[hp->peer_port];

			pp->peer = NULL;
			pp->changed = true;
			/* the peer may use the clock of this machine */
			if (hp->peer != h && hp->peer->now == &h->own_clock) {
				hp->peer->own_clock = h->own_clock;
				hp->peer->now = &hp->peer->own_clock;
			}
		}
		port_flush(hp);
	}
	if (h->seat)
		h->seat->leave(h->seat->arg);
	else
		ohca_free(h->e);
	host_buf_free(&h->spare);
	free(h->doorbells);
	if (!h->seat || !h->seat->memory) {
		free(h->dm);
		free(h->mem);
	}
	free(h->page_state);
	free(h);
}

void host_renew(struct host *h, const struct host *as_new)
{
	for (unsigned int i = 0; i < 2; i++)
		port_flush(&h->port[i]);
	host_buf_free(&h->spare);
	for (uint64_t i = 0; i < h->mem_size / HOST_PAGE; i++)
		if (h->page_state[i]) {
			memset(h->mem + i * HOST_PAGE, 0, HOST_PAGE);
			h->page_state[i] = 0;
		}
	if (h->dm)
		memset(h->dm, 0xa5, h->cfg.dm_size);
	*h = *as_new;
}

void host_connect(struct host *a, unsigned int pa, struct host *b, unsigned int pb)
{
	a->port[pa].peer = b;
	a->port[pa].peer_port = pb;
	b->port[pb].peer = a;
	b->port[pb].peer_port = pa;
	b->now = a->now;
	host_cable(a, pa, true);
}

void host_cable(struct host *h, unsigned int port, bool in)
{
	struct host_port *hp = &h->port[port];

	hp->cable = in;
	hp->changed = true;
	if (hp->peer) {
		hp->peer->port[hp->peer_port].cable = in;
		hp->peer->port[hp->peer_port].changed = true;
	}
}

void host_hook_set(struct host *h, unsigned int port, host_hook hook, void *arg)
{
	h->port[port].hook = hook;
	h->port[port].hook_arg = arg;
}

enum host_fate host_drop(void *arg, struct host *from, unsigned int port, uint8_t *frame,
			 uint32_t len)
{
	(void)arg;
	(void)from;
	(void)port;
	(void)frame;
	(void)len;
	return HOST_DROP;
}

/* The maximum work for a frame. */
#define FRAME_WORK	(OHCA_WORK_PKT + OHCA_WORK_ONE)

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

void host_rx(struct host *h, unsigned int port, unsigned int vl, const uint8_t *frame,
	     uint32_t len, unsigned int flags)
{
	const struct ohca_frame f = {
		.data = frame,
		.len = len,
		.vl = (uint8_t)vl,
		.flags = (uint8_t)flags,
	};

	uint64_t work = h->e->work, dma = h->dma_bytes;

	ohca_rx(h->e, port, &f);
	h->most_rx = larger(h->e->work - work, h->most_rx);
	if (h->e->work - work > FRAME_WORK || h->dma_bytes - dma > FRAME_WORK)
		host_die("a frame that costs more than its bound");
}

/* ---- running ---- */

static void outside(const struct host *h)
{
	if (!h->seat && h->e->dma_depth)
		host_die("a burst of DMA stayed open");
}

static bool link_step(struct host *h, unsigned int port)
{
	static const struct ohca_link_rate rate = { .width = 2, .speed = 4, .speed_ext = 2 };
	struct host_port *hp = &h->port[port];
	bool up = hp->cable && hp->enabled &&
		  (!hp->peer || hp->peer->port[hp->peer_port].enabled);

	if (!hp->changed)
		return false;
	hp->changed = false;
	if (hp->up && (!up || hp->bounce)) {
		hp->up = false;
		port_flush(hp);
		ohca_link_change(h->e, port, NULL);
	}
	hp->bounce = false;
	if (hp->up == up)
		return true;
	hp->up = true;
	ohca_link_change(h->e, port, &rate);
	outside(h);
	return true;
}

/* Delivers the frames that this port has sent; what they cause is for the next step. */
static bool wire_step(struct host *h, unsigned int port)
{
	struct host_port *hp = &h->port[port];
	struct host_frame *f = hp->head;
	bool any = f != NULL;

	if (hp->wire) {
		any = hp->wire->step(hp->wire_arg, h, port);
		outside(h);
		return any;
	}
	hp->head = NULL;
	hp->tail = &hp->head;
	while (f) {
		struct host_frame *next = f->next;

		hp->queued[f->vl]--;
		for (unsigned int i = 0; hp->peer && !ohca_rx_room(hp->peer->e, 1, 0); i++) {
			if (i == MAX_STEPS)
				host_die("takes no more frames");
			host_poll(hp->peer, 64);
		}
		if (hp->peer && hp->up)
			host_rx(hp->peer, hp->peer_port, f->vl, f->data, f->len, 0);
		outside(hp->peer ? hp->peer : h);
		free(f);
		f = next;
	}
	if (hp->blocked && hp->up && hp->credits) {
		uint16_t lanes = hp->blocked;

		hp->blocked = 0;
		ohca_tx_ready(h->e, port, lanes);
		outside(h);
		any = true;
	}
	return any;
}

static uint64_t wall_ns(void)
{
	struct timespec t;

	timespec_get(&t, TIME_UTC);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

bool host_poll(struct host *h, unsigned int budget)
{
	uint64_t work = h->e->work, dma = h->dma_bytes, ns = wall_ns();
	bool more;

	if (h->seat)
		return h->seat->turn(h->seat->arg);
	more = ohca_poll(h->e, budget);

	ns = wall_ns() - ns;
	work = h->e->work - work;
	dma = h->dma_bytes - dma;
	h->most.work = larger(work, h->most.work);
	h->most.dma = larger(dma, h->most.dma);
	h->most.ns = larger(ns, h->most.ns);
	if (work > OHCA_POLL_WORK(budget) || dma > OHCA_POLL_WORK(budget))
		host_die("a poll that costs more than its bound");
	return more;
}

void host_attack(struct host *h, const char *name, uint64_t bound)
{
	if (!h->most.work)
		host_die("an attack that was none");
	printf("%s: longest poll %llu of bound %llu units (%llu bytes, %llu us)", name,
	       (unsigned long long)h->most.work, (unsigned long long)bound,
	       (unsigned long long)h->most.dma, (unsigned long long)h->most.ns / 1000);
	if (h->most_rx)
		printf(", longest frame %llu of %u", (unsigned long long)h->most_rx, FRAME_WORK);
	printf("\n");
	if (h->most.work > bound)
		host_die("a poll of an attack that costs more than its bound");
	memset(&h->most, 0, sizeof(h->most));
	h->most_rx = 0;
}

bool host_step(struct host *const *h, unsigned int n)
{
	bool any = false;

	for (unsigned int i = 0; i < n; i++) {
		for (unsigned int p = 0; p < h[i]->cfg.num_ports; p++)
			any |= link_step(h[i], p);
		any |= h[i]->kicked;
		h[i]->kicked = false;
		any |= host_poll(h[i], 64);
		outside(h[i]);
	}
	for (unsigned int i = 0; i < n; i++)
		for (unsigned int p = 0; p < h[i]->cfg.num_ports; p++)
			any |= wire_step(h[i], p);
	return any;
}

void host_settle(struct host *const *h, unsigned int n)
{
	for (unsigned int i = 0; host_step(h, n); i++)
		if (i == MAX_STEPS)
			host_die("does not come to rest");
}

void host_run(struct host *const *h, unsigned int n, uint64_t ns)
{
	uint64_t end = *h[0]->now + ns;

	for (;;) {
		uint64_t next = OHCA_NO_DEADLINE;

		host_settle(h, n);
		for (unsigned int i = 0; i < n; i++) {
			uint64_t d = ohca_next_deadline(h[i]->e);

			next = d < next ? d : next;
		}
		if (next > end)
			break;
		/* the poll must have served deadlines that have passed */
		*h[0]->now = next > *h[0]->now ? next : *h[0]->now + 1;
	}
	*h[0]->now = end;
	host_settle(h, n);
}

/* ---- memory ---- */

void *host_ptr(struct host *h, uint64_t addr)
{
	if (addr - HOST_BASE >= h->mem_size)
		host_die("not an address of memory");
	h->page_state[(addr - HOST_BASE) / HOST_PAGE] |= HOST_PAGE_DIRTY;
	return h->mem + (addr - HOST_BASE);
}

uint64_t host_pages(struct host *h, unsigned int n)
{
	uint64_t addr = HOST_BASE + h->next_page * HOST_PAGE;

	if ((h->next_page + n) * HOST_PAGE > h->mem_size)
		host_die("guest memory is used up");
	memset(h->page_state + h->next_page, HOST_PAGE_DIRTY | HOST_PAGE_GIVEN, n);
	/* with a guard page, a write past the end does not reach the next allocation */
	h->next_page += n + h->guard;
	memset(host_ptr(h, addr), 0, (size_t)n * HOST_PAGE);
	return addr;
}

/* Makes tables over @n addresses and stores their level in @level. Return: the root. */
static uint64_t make_tables(struct host *h, const uint64_t *page, uint32_t n, uint8_t *level)
{
	uint64_t table[OHCA_PL_TABLE_ENTRIES];
	uint32_t tables = (n + OHCA_PL_TABLE_ENTRIES - 1) / OHCA_PL_TABLE_ENTRIES;

	if (tables > OHCA_PL_TABLE_ENTRIES)
		host_die("buffer too large");
	for (uint32_t t = 0; t < tables; t++) {
		__le64 *p;

		table[t] = host_pages(h, 1);
		p = host_ptr(h, table[t]);
		for (uint32_t i = 0; i < OHCA_PL_TABLE_ENTRIES &&
		     t * OHCA_PL_TABLE_ENTRIES + i < n; i++)
			p[i] = page[t * OHCA_PL_TABLE_ENTRIES + i];
	}
	++*level;
	return tables == 1 ? table[0] : make_tables(h, table, tables, level);
}

void host_buf_alloc(struct host *h, struct host_buf *b, uint64_t bytes)
{
	uint32_t n = (uint32_t)((bytes + HOST_PAGE - 1) / HOST_PAGE);
	uint64_t first;

	if (n == 0)
		n = 1;
	first = host_pages(h, n);
	memset(b, 0, sizeof(*b));
	b->npages = n;
	b->page = calloc(n, sizeof(*b->page));
	if (!b->page)
		host_die("out of memory");
	/* scattered: the last page first */
	for (uint32_t i = 0; i < n; i++)
		b->page[i] = first + (uint64_t)(h->scatter ? n - 1 - i : i) * HOST_PAGE;
	b->pl.npages = n;
	b->pl.page_shift = 12;
	b->pl.root = h->scatter ? make_tables(h, b->page, n, &b->pl.levels) : first;
}

void host_buf_free(struct host_buf *b)
{
	free(b->page);
	memset(b, 0, sizeof(*b));
}

void *host_buf_ptr(struct host *h, const struct host_buf *b, uint64_t off)
{
	if (off / HOST_PAGE >= b->npages)
		host_die("outside of a buffer");
	return (uint8_t *)host_ptr(h, b->page[off / HOST_PAGE]) + off % HOST_PAGE;
}

void host_buf_write(struct host *h, const struct host_buf *b, uint64_t off, const void *src,
		    size_t n)
{
	const uint8_t *s = src;

	for (; n; n--, off++)
		*(uint8_t *)host_buf_ptr(h, b, off) = *s++;
}

void host_buf_read(struct host *h, const struct host_buf *b, uint64_t off, void *dst, size_t n)
{
	uint8_t *d = dst;

	for (; n; n--, off++)
		*d++ = *(uint8_t *)host_buf_ptr(h, b, off);
}
