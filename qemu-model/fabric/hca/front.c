// SPDX-License-Identifier: GPL-2.0-or-later
/* Fronts: begin, events, end; see front.h. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "fabric/base/event.h"
#include "front_priv.h"
#include "iotlb.h"
#include "ohca_admin.h"

#define HELD_NS		10000000u	/* between checks of blocks that wait to be unmapped */

/* ---- limits of memory ------------------------------------------------------------ */

bool fab_front_charge(struct fab_front *f, uint64_t n)
{
	struct fab_fronts *s = f->s;
	const bool all = n > s->cfg.all_max - s->bytes;

	if (!all && n <= s->cfg.front_max - f->bytes) {
		s->bytes += n;
		f->bytes += n;
		return true;
	}
	s->refused++;
	if (!f->limited)
		fab_data_log(s->cfg.d, "the memory of '%s' (%s) and %" PRIu64 " bytes more would be more "
			     "than %" PRIu64 " of %s: see --front-memory", f->desc, f->id, n,
			     all ? s->cfg.all_max : s->cfg.front_max,
			     all ? "all machines" : "a machine");
	f->limited = true;
	return false;
}

void fab_front_discharge(struct fab_front *f, uint64_t n)
{
	f->s->bytes -= n;
	f->bytes -= n;
}

static void fronts_read(const void *arg, struct fab_front_stats *st)
{
	const struct fab_fronts *s = arg;

	st->memory_bytes = s->bytes;
	st->memory_refused = s->refused;
	st->objects_refused = s->objects_refused;
	for (uint32_t i = 0; i < s->room; i++) {
		const ohca_engine *e = s->front[i] && s->front[i]->hca ?
				       fab_hca_engine(s->front[i]->hca) : NULL;

		if (!e)
			continue;
		st->machines++;
		st->object_bytes += ohca_counter(e, OHCA_CNT_MEMORY);
		st->objects_refused += ohca_counter(e, OHCA_CNT_NO_MEMORY);
	}
}

/* ---- end of a front ------------------------------------------------------------ */

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void fab_front_unhost(struct fab_front *f)
{
	fab_front_part(f);
	if (f->hca)
		f->s->objects_refused += ohca_counter(fab_hca_engine(f->hca), OHCA_CNT_NO_MEMORY);
	/* nothing accesses the memory after this */
	if (f->hca)
		fab_hca_free(f->hca);
	f->hca = NULL;
	fab_hca_reach_free(&f->reach);
	fab_persist_free(f->persist);
	f->persist = NULL;
	for (unsigned int i = 0; i < OHCA_FRONT_BLOCKS; i++) {
		fab_block_free(f->block[i]);
		f->block[i] = NULL;
	}
	for (unsigned int i = 0; i <= OHCA_FRONT_LOG_DM; i++) {
		fab_block_free(f->log_block[i]);
		f->log_block[i] = NULL;
	}
	fab_block_free(f->dm);
	f->dm = NULL;
	fab_front_discharge(f, f->bytes);
	if (f->page)
		munmap(f->page, f->page_bytes);
	f->page = NULL;
}

static void front_close(struct fab_fronts *s, int fd)
{
	/* the peer detects the end now, not when the closer has closed the socket */
	shutdown(fd, SHUT_RDWR);
	fab_closer_close(s->cfg.closer, fd);
}

static void front_free(struct fab_front *f)
{
	struct epoll_event ev = { 0 };

	fab_front_unhost(f);
	/*
	 * explicitly: the front has this file open, too, so our close does not remove it from epoll
	 */
	if (f->wake >= 0)
		epoll_ctl(f->s->cfg.epfd, EPOLL_CTL_DEL, f->wake, &ev);
	close_fd(&f->wake);
	close_fd(&f->irq);
	epoll_ctl(f->s->cfg.epfd, EPOLL_CTL_DEL, f->sock, &ev);
	front_close(f->s, f->sock);
	f->s->front[f->index] = NULL;
	free(f);
}

void fab_front_end(struct fab_front *f, int code, const char *why)
{
	fab_data_log(f->s->cfg.d, "the front of '%s' (%s) is disconnected%s%s", f->desc, f->id,
		     why ? ": " : "", why ? why : "");
	if (why)
		fab_front_refuse(f->sock, code, why);
	front_free(f);
}

/* ---- begin of a front ---------------------------------------------------------- */

static bool front_watch(const struct fab_front *f, int fd, uint32_t events, enum fab_event_type type)
{
	return fab_event_watch(f->s->cfg.epfd, EPOLL_CTL_ADD, fd, events, type, f->index);
}

/* Add @f to the fronts, with an index. Return: false: out of memory. */
static bool front_list(struct fab_fronts *s, struct fab_front *f)
{
	struct fab_front **more;
	uint32_t i;

	for (i = 0; i < s->room && s->front[i]; i++)
		;
	if (i == s->room) {
		more = realloc(s->front, (s->room + 16) * sizeof(struct fab_front *));
		if (!more)
			return false;
		memset(more + s->room, 0, 16 * sizeof(struct fab_front *));
		s->front = more;
		s->room += 16;
	}
	f->s = s;
	f->index = i;
	s->front[i] = f;
	return true;
}

/* Create and map the page for @cfg. Return: its descriptor; -1: errno is set. */
static int front_page(struct fab_front *f, const struct ohca_db_sizes *sizes)
{
	const size_t n = OHCA_PAGE_BYTES(ohca_doorbells_bytes(sizes));
	const int fd = memfd_create("ohca-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *page;

	if (fd < 0)
		return -1;
	page = ftruncate(fd, (off_t)n) ||
	       fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) ? MAP_FAILED :
	       mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED) {
		close(fd);
		return -1;
	}
	f->page = page;
	f->page_bytes = n;
	return fd;
}

/*
 * Each front has an eventfd of its own, which is never read. With one for all, a front could fill
 * it, or make writes wait, and so prevent others from waking this process.
 */
static bool front_wake(struct fab_front *f)
{
	f->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return f->wake >= 0 && front_watch(f, f->wake, EPOLLIN | EPOLLET, FAB_EVENT_HCA);
}

/* Create the interrupt socket. Return: the front's end; -1: errno is set. */
static int front_irqs(struct fab_front *f)
{
	int sv[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv))
		return -1;
	f->irq = sv[0];
	/* the front sends nothing by it */
	shutdown(f->irq, SHUT_RD);
	return sv[1];
}

static void front_irq(void *arg, unsigned int vec)
{
	const struct fab_front *f = arg;

	(void)vec;
	/* if it does not fit, enough bytes wait there already */
	if (send(f->irq, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return;
}

static void front_attn(void *arg)
{
	struct fab_front *f = arg;

	f->calls = true;
	f->s->calls = true;
}

/* Find the place of each port. Return: false: @err has the reason. */
static bool front_places(const struct fab_front *f, unsigned int want, struct fab_hca_cfg *cfg,
			 struct ohca_link_err *err)
{
	const struct ohca_cfg *e = &cfg->engine;
	struct ohca_link_cfg peer;

	ohca_link_cfg_init(&peer);
	peer.node_guid = e->node_guid;
	memcpy(peer.desc, e->node_desc, sizeof(peer.desc));
	for (unsigned int i = 0; i < e->num_ports; i++) {
		peer.port_guid = e->node_guid + 1 + i;
		peer.port_num = (uint8_t)(i + 1);
		peer.want_port = (uint8_t)(want ? want + i : 0);
		cfg->place[i] = f->s->cfg.place(f->door, &peer, i ? cfg->place[0] :
						FAB_NO_PORT, err);
		if (cfg->place[i] == FAB_NO_PORT)
			return false;
	}
	return true;
}

static bool system_error(struct ohca_link_err *err, const char *what)
{
	err->code = OHCA_LINK_E_SYS;
	err->sys = errno;
	snprintf(err->text, sizeof(err->text), "%s: %s", what, strerror(errno));
	return false;
}

static bool hello_error(struct ohca_link_err *err, int code, const char *what, const char *wrong)
{
	err->code = code;
	snprintf(err->text, sizeof(err->text), "%s%s", what, wrong);
	return false;
}

/*
 * Make the HCA of @cfg, or only the page if the HCA is still @from's, and answer. Return: false:
 * @err has the reason.
 */
static bool front_host(struct fab_front *f, const struct fab_hca_cfg *cfg, struct fab_front *from,
		       struct ohca_link_err *err)
{
	struct ohca_front_welcome w = { .release = "ohca-fabric" };
	int fds[OHCA_FRONT_FDS] = { -1, -1, -1 };
	struct fab_hca_cfg with = *cfg;
	struct ohca_db_sizes sizes;
	bool ok;

	if (!ohca_doorbell_sizes(&cfg->engine, &sizes))
		return hello_error(err, OHCA_LINK_E_CONFIG, "HELLO is not valid", "");
	fds[OHCA_FRONT_FD_PAGE] = front_page(f, &sizes);
	fds[OHCA_FRONT_FD_IRQ] = fds[OHCA_FRONT_FD_PAGE] < 0 ? -1 : front_irqs(f);
	with.page = f->page;
	ok = fds[OHCA_FRONT_FD_IRQ] >= 0 && front_wake(f);
	if (ok && from) {
		fab_hca_page_copy(from->hca, f->page);
	} else if (ok) {
		errno = 0;
		f->hca = fab_hca_new(f->s->cfg.hcas, &with);
	}
	fds[OHCA_FRONT_FD_WAKE] = f->wake;
	for (unsigned int i = 0; i < OHCA_DB_NUM; i++)
		w.max[i] = htole32(sizes.max[i]);
	w.uars = htole32(sizes.uars);
	w.page_bytes = htole64(f->page_bytes);
	if (f->hca && le32toh(f->hello.flags) & OHCA_FRONT_PAUSED)
		fab_hca_run(f->hca, false);
	ok = ok && (f->hca || from) && front_watch(f, f->sock, EPOLLIN, FAB_EVENT_FRONT) &&
	     fab_front_send(f->sock, &w.hdr, OHCA_FRONT_WELCOME, sizeof(w), f->hello.hdr.seq, fds);
	if (!ok && !errno)
		hello_error(err, OHCA_LINK_E_CONFIG, "the HCA cannot be as HELLO says", "");
	else if (!ok)
		system_error(err, "the HCA cannot be hosted");
	else if (from)
		fab_front_join(f, from);
	close_fd(&fds[OHCA_FRONT_FD_PAGE]);
	close_fd(&fds[OHCA_FRONT_FD_IRQ]);
	return ok;
}

static uint64_t front_clock(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Process the HELLO @h, which arrived with @m. Return: false: @err has the reason. */
static bool front_hello(struct fab_front *f, const struct ohca_front_hello *h,
			struct front_msg *m, struct ohca_link_err *err)
{
	struct fab_hca_cfg cfg = { .irq = front_irq, .attn = front_attn,
				   .maps = fab_front_maps, .persist = fab_front_persist,
				   .dm_log = &f->log[OHCA_FRONT_LOG_DM],
				   .vanished = &f->vanished, .arg = f };
	struct fab_front *from = NULL;
	enum ohca_front_status status;
	const char *wrong;

	if (m->len < sizeof(*h) || le16toh(h->hdr.type) != OHCA_FRONT_HELLO)
		return hello_error(err, OHCA_LINK_E_PROTO, "the first message is not HELLO", "");
	fab_front_text(f->desc, h->desc, sizeof(f->desc) - 1);
	fab_front_text(f->id, h->id, sizeof(f->id) - 1);
	wrong = fab_front_card(h, front_clock(), f->s->cfg.hca_max, &cfg.engine);
	if (!wrong && !cfg.engine.dm_size != (m->fd < 0))
		wrong = "dm_size";
	if (m->starved) {
		errno = EMFILE;
		return system_error(err, "device memory");
	}
	if (wrong)
		return hello_error(err, OHCA_LINK_E_CONFIG, "HELLO has a value that is not valid: ",
				   wrong);
	f->hello = *h;
	if (le32toh(h->flags) & OHCA_FRONT_MOVE) {
		from = fab_front_leaver(f, err);
		if (!from)
			return false;
	}
	if (m->fd >= 0) {
		if (!fab_front_charge(f, cfg.engine.dm_size))
			return hello_error(err, OHCA_LINK_E_CONFIG, "the fabric's process does not allow "
					   "so much device memory", "");
		f->dm = fab_block_new(m->fd, cfg.engine.dm_size, f->s->cfg.closer, false,
				      &f->vanished, &status);
		if (!f->dm)
			return hello_error(err, OHCA_LINK_E_CONFIG, "the device memory is not "
					   "in shared memory of its size", "");
		m->fd = -1;
		cfg.engine.dm = fab_block_mem(f->dm);
	}
	return (from || front_places(f, h->want_port, &cfg, err)) && front_host(f, &cfg, from, err);
}

bool fab_is_front(int fd)
{
	uint32_t magic;

	return recv(fd, &magic, sizeof(magic), MSG_PEEK | MSG_DONTWAIT) == sizeof(magic) &&
	       le32toh(magic) == OHCA_FRONT_MAGIC;
}

static void front_turn_away(struct fab_front *f, const struct ohca_link_err *err)
{
	if (f->desc[0])
		fab_data_log(f->s->cfg.d, "refused the front of '%s' (%s): %s", f->desc, f->id,
			     err->text);
	else
		fab_data_log(f->s->cfg.d, "refused a front: %s", err->text);
	fab_front_refuse(f->sock, err->code, err->text);
	front_free(f);
}

void fab_fronts_take(struct fab_fronts *s, int fd, void *door)
{
	struct fab_front *f = calloc(1, sizeof(*f));
	struct ohca_link_err err = { .code = OHCA_LINK_E_PROTO };
	const char *why = NULL;
	struct front_msg m;

	if (!f || !front_list(s, f)) {
		fab_data_log(s->cfg.d, "refused a front: out of memory");
		fab_front_refuse(fd, OHCA_LINK_E_SYS, "out of memory");
		front_close(s, fd);
		free(f);
		return;
	}
	f->looked = s->pass;
	f->sock = fd;
	f->door = door;
	f->wake = f->irq = -1;
	/* there may be no message, if a signal has interrupted the call */
	if (fab_front_recv(s, fd, &m, &why) <= 0) {
		snprintf(err.text, sizeof(err.text), "%s", why ? why : "it closed the connection");
		front_turn_away(f, &err);
		return;
	}
	if (!front_hello(f, &s->in.hello, &m, &err))
		front_turn_away(f, &err);
	fab_front_drop_fd(s, &m);
}

/* ---- events -------------------------------------------------------------------- */

/* Process a burst of messages; if there are more the socket stays readable, for another pass. */
static void front_look(struct fab_front *f)
{
	f->looked = f->s->pass;
	f->calls = false;
	for (unsigned int i = 0; i < FAB_FRONT_BURST; i++) {
		const char *why = NULL;
		struct front_msg m;
		const int r = fab_front_recv(f->s, f->sock, &m, &why);

		if (!r)
			return;
		if (r > 0) {
			why = fab_front_message(f, &m);
			fab_front_drop_fd(f->s, &m);
			why = why ? why : f->bad;
		}
		if (r < 0 || why || !(f->hca || f->from)) {
			fab_front_end(f, OHCA_LINK_E_PEER, why);
			return;
		}
		if (m.last)
			return;
	}
}

void fab_fronts_pass(struct fab_fronts *s)
{
	s->pass++;
}

void fab_fronts_event(struct fab_fronts *s, uint32_t index)
{
	/* the event may be of a front that an earlier event of the same sleep has ended */
	if (index < s->room && s->front[index] && s->front[index]->looked != s->pass)
		front_look(s->front[index]);
}

/*
 * End a front whose memory has vanished or whose ring is not valid, and process messages of one
 * that has set OHCA_PEND_ATTN. If its messages were processed in this pass it waits for the next
 * one, which follows soon: its socket is readable.
 */
static void front_settle(struct fab_front *f)
{
	if (f->vanished)
		fab_front_end(f, OHCA_LINK_E_PEER, "guest memory vanished");
	else if (f->bad)
		fab_front_end(f, OHCA_LINK_E_PEER, f->bad);
	else if (f->calls && f->looked == f->s->pass)
		f->s->calls = true;
	else if (f->calls)
		front_look(f);
}

/* Report FLUSHes that are done to the HCA: the requester asks again. */
static void front_persisted(struct fab_front *f)
{
	uint64_t tag;
	bool is;
	int e;

	do {
		is = fab_persist_done(f->persist, &tag, &e);
		if (e && !f->broken)
			fab_data_log(f->s->cfg.d, "the memory of '%s' (%s) cannot be written to its disk: "
				     "%s", f->desc, f->id, strerror(e));
		f->broken |= e;
		if (is)
			fab_hca_persisted(f->hca, tag);
	} while (is);
}

bool fab_fronts_settle(struct fab_fronts *s)
{
	bool more;

	if (fab_persister_some_done(&s->persister))
		for (uint32_t i = 0; i < s->room; i++)
			if (s->front[i] && s->front[i]->persist)
				front_persisted(s->front[i]);
	fab_hcas_attn(s->cfg.hcas);
	if (s->calls | fab_blocks_vanished()) {
		s->calls = false;
		for (uint32_t i = 0; i < s->room; i++)
			if (s->front[i])
				front_settle(s->front[i]);
	}
	more = fab_blocks_reap();
	more |= fab_iotlbs_reap();
	return more;
}

/* The thread that holds a block during disk I/O does not wake this thread, so this one polls. */
uint64_t fab_fronts_due(void)
{
	return fab_blocks_left() ? HELD_NS : UINT64_MAX;
}

struct fab_fronts *fab_fronts_new(const struct fab_fronts_cfg *cfg)
{
	struct fab_fronts *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->cfg = *cfg;
	s->cfg.front_max = cfg->front_max ? cfg->front_max : FAB_FRONT_BYTES;
	s->cfg.all_max = cfg->all_max ? cfg->all_max : FAB_FRONTS_BYTES;
	s->pass = 1;
	fab_data_set_fronts(cfg->d, fronts_read, s);
	return s;
}

bool fab_fronts_start(struct fab_fronts *s)
{
	return !s->cfg.disk || fab_persister_start(&s->persister);
}

void fab_fronts_free(struct fab_fronts *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i < s->room; i++)
		if (s->front[i])
			front_free(s->front[i]);
	/* after this it holds no block */
	fab_persister_stop(&s->persister);
	while (fab_blocks_reap())
		;
	while (fab_iotlbs_reap())
		;
	fab_data_set_fronts(s->cfg.d, NULL, NULL);
	free(s->front);
	free(s);
}
