/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A fabric that runs in its own thread, and fronts that connect to its socket. Their machines have
 * memory that is a memfd, and the driver of the test host. The test is the process of all fronts.
 */
#ifndef OHCA_TEST_FRONT_WORLD_H
#define OHCA_TEST_FRONT_WORLD_H

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "fabric/graph/generate.h"
#include "fabric/mgmt/mgmt.h"
#include "fabric/serve.h"
/* the source, because the doorbells and calls of a front here are those of the client */
#include "front/client.c"
#include "front/dirty.h"
#include "link/wire.h"
#include "../process.h"
#include "fds.h"
#include "rig.h"

#define LIMIT_MS	20000
#define PLACES		6u		/* of the switch; the subnet manager is at the first */
#define LID(i)		(uint16_t)(10 + (i))
#define MEM_BLOCK	3u		/* id of a machine's memory */

/* ---- the fabric ---------------------------------------------------------------- */

struct world {
	struct fab *f;
	struct fab_data *d;
	struct fab_serve_hooks hooks;
	struct fab_serve_cfg cfg;
	char dir[32], path[48];
	int pipe[2];
	pthread_t thread;
	sem_t done;
	int (*file)(void);		/* makes the file of a machine's memory; NULL: a memfd */
	void (*call)(struct world *w, void *arg);	/* runs in the loop's thread */
	void *arg;
	int rc;
};

/* Runs in the loop's thread, between two turns. */
static inline void in_loop(struct world *w, void (*call)(struct world *w, void *arg), void *arg)
{
	w->call = call;
	w->arg = arg;
	assert_int_equal(write(w->pipe[1], "c", 1), 1);
	sem_wait(&w->done);
}

static inline bool loop_event(void *arg, int fd)
{
	struct world *w = arg;
	char c;

	if (read(fd, &c, 1) != 1 || c == 'x')
		return false;
	w->call(w, w->arg);
	sem_post(&w->done);
	return true;
}

static inline void loop_ready(void *arg, struct fab_data *d, struct fab_hcas *hcas)
{
	struct world *w = arg;

	(void)hcas;
	w->d = d;
	sem_post(&w->done);
}

static inline void *loop_thread(void *arg)
{
	struct world *w = arg;

	w->rc = fab_serve(w->f, &w->cfg);
	return NULL;
}

static inline const struct fab_node *the_switch(const struct world *w)
{
	for (uint32_t i = 0; i < w->f->nodes; i++)
		if (w->f->node[i].sw != FAB_NONE)
			return &w->f->node[i];
	return NULL;
}

/*
 * Sends a Set of attribute @attr to the switch, from the host at its first port; no answer is read.
 */
static inline void set(struct world *w, uint16_t attr, uint32_t mod, const uint8_t data[64])
{
	struct fab_mad mad = { .dlid = IB_LID_PERMISSIVE, .slid = IB_LID_PERMISSIVE };
	const uint32_t manager = w->f->port[fab_port_of(the_switch(w), 1)].peer;

	mad.smp.hdr = (struct ib_mad_hdr){
		.base_version = IB_MAD_BASE_VERSION,
		.class_version = IB_SMP_CLASS_VERSION,
		.mgmt_class = IB_CLASS_SUBN_DR,
		.method = IB_METHOD_SET,
		.attr_id = ib_to_be16(attr),
		.attr_mod = ib_to_be32(mod),
	};
	mad.smp.dr_slid = mad.smp.dr_dlid = ib_to_be16(IB_LID_PERMISSIVE);
	mad.smp.init_path[1] = 1;
	ib_smp_set_hops(&mad.smp, 0, 1);
	memcpy(mad.smp.data, data, 64);
	fab_mgmt_send(fab_data_mgmt(w->d), manager, &mad, fab_data_host_ns(w->d));
}

static inline struct ib_port_info *switch_port(struct world *w, unsigned int num)
{
	return &w->f->port[fab_port_of(the_switch(w), num)].pi;
}

/* The machine at port n has LID(n). */
static inline void route(struct world *w, void *arg)
{
	struct ib_switch_info si = w->f->sw[the_switch(w)->sw].si;
	uint8_t b[64] = { 0 };

	(void)arg;
	si.linear_top = LID(PLACES);
	ib_switch_info_pack(&si, b);
	set(w, IB_SMP_ATTR_SWITCH_INFO, 0, b);
	memset(b, IB_LFT_NO_PORT, sizeof(b));
	for (unsigned int i = 2; i <= PLACES; i++)
		b[LID(i)] = (uint8_t)i;
	set(w, IB_SMP_ATTR_LFT, 0, b);
}

/** struct port_state - state of a port of the switch; @set: the state is to be set */
struct port_state {
	unsigned int num;
	uint8_t state;
	bool set;
};

static inline void port_state(struct world *w, void *arg)
{
	struct port_state *s = arg;
	struct ib_port_info pi = *switch_port(w, s->num);
	uint8_t d[64] = { 0 };

	if (s->set) {
		pi.state = s->state;
		pi.phys_state = IB_PHYS_NO_CHANGE;
		ib_port_info_pack(&pi, d);
		set(w, IB_SMP_ATTR_PORT_INFO, s->num, d);
	}
	s->state = switch_port(w, s->num)->state;
}

/* Waits until port @num of the switch is in @state, without a Set. */
static inline void wait_port(struct world *w, unsigned int num, uint8_t state)
{
	struct port_state s = { .num = num };

	for (unsigned int i = 0; ; i++) {
		in_loop(w, port_state, &s);
		if (s.state == state)
			return;
		if (i == LIMIT_MS)
			fail_msg("port %u is in state %u, not %u", num, s.state, state);
		usleep(1000);
	}
}

/** struct who - the peer @at a port of the switch; @desc: its name, or empty */
struct who {
	unsigned int at;
	char desc[64];
};

static inline void who_is_there(struct world *w, void *arg)
{
	struct who *who = arg;
	const struct ohca_link_cfg *peer = fab_data_peer(w->d, fab_port_of(the_switch(w), who->at));

	snprintf(who->desc, sizeof(who->desc), "%s", peer ? peer->desc : "");
}

/* Waits until port @num is free. */
static inline void wait_free(struct world *w, unsigned int num)
{
	struct who who = { .at = num };

	for (unsigned int i = 0; ; i++) {
		in_loop(w, who_is_there, &who);
		if (!who.desc[0])
			return;
		if (i == LIMIT_MS)
			fail_msg("'%s' is still at port %u", who.desc, num);
		usleep(1000);
	}
}

static inline void expect_at(struct world *w, unsigned int num, const char *desc)
{
	struct who who = { .at = num };

	in_loop(w, who_is_there, &who);
	assert_string_equal(who.desc, desc);
}

/* @change: changes the configuration before the fabric starts, when w->dir exists; or NULL. */
static inline int world_start(void **state, void (*change)(struct world *w))
{
	struct world *w = calloc(1, sizeof(*w));
	char why[1024], spec[16];

	assert_non_null(w);
	w->f = fab_new();
	snprintf(spec, sizeof(spec), "star:%u", PLACES);
	if (!fab_generate(w->f, spec, why, sizeof(why)))
		fail_msg("%s", why);
	assert_true(fab_seal(w->f));
	strcpy(w->dir, "/tmp/ohca-front-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	snprintf(w->path, sizeof(w->path), "%s/s", w->dir);
	assert_int_equal(pipe(w->pipe), 0);
	assert_int_equal(sem_init(&w->done, 0, 0), 0);
	w->hooks = (struct fab_serve_hooks){ w->pipe[0], loop_ready, loop_event, w };
	w->cfg.hooks = &w->hooks;
	w->cfg.listen = w->path;
	w->cfg.quiet = !getenv("OHCA_TRACE");
	w->cfg.data.hoq_scale = 1;
	if (change)
		change(w);
	assert_int_equal(pthread_create(&w->thread, NULL, loop_thread, w), 0);
	sem_wait(&w->done);
	in_loop(w, route, NULL);
	*state = w;
	return 0;
}

static inline int world_setup(void **state)
{
	return world_start(state, NULL);
}

static inline int world_teardown(void **state)
{
	struct world *w = *state;

	assert_int_equal(write(w->pipe[1], "x", 1), 1);
	pthread_join(w->thread, NULL);
	assert_int_equal(w->rc, 0);
	close(w->pipe[0]);
	close(w->pipe[1]);
	sem_destroy(&w->done);
	assert_int_equal(rmdir(w->dir), 0);
	fab_free(w->f);
	free(w);
	return 0;
}

/* Waits until @n descriptors are open; a thread of the fabric closes some. */
static inline void wait_fds(unsigned int n)
{
	for (unsigned int i = 0; open_fds() != n; i++) {
		if (i == LIMIT_MS)
			fail_msg("%u descriptors are open, not %u", open_fds(), n);
		usleep(1000);
	}
}

/* ---- a front's socket ---------------------------------------------------------- */

/** union message - any message */
union message {
	struct ohca_front_hdr hdr;
	struct ohca_front_hello hello;
	struct ohca_front_block block;
	struct ohca_front_log log;
	struct ohca_front_mem mem;
	struct ohca_front_unmap unmap;
	struct ohca_front_reg reg;
	struct ohca_front_run run;
	struct ohca_front_lies lies;
	struct ohca_front_welcome welcome;
	struct ohca_front_done done;
	struct ohca_front_error error;
	uint8_t b[OHCA_FRONT_MAX + 1024];
};

/**
 * struct front - a front
 * @client: its side as in QEMU, for doorbells and wake-ups
 * @seq: of its last message
 * @gone: the daemon has closed the connection; @why: the reason it sent
 */
struct front {
	struct ohca_front client;
	int sock, wake, irq;
	struct ohca_page *page;
	size_t page_bytes;
	struct ohca_doorbells db;
	uint32_t seq;
	bool gone;
	char why[256];
};

static inline void message_begin(union message *m, enum ohca_front_type type, size_t len)
{
	m->hdr = (struct ohca_front_hdr){
		.magic = htole32(OHCA_FRONT_MAGIC),
		.version = htole16(OHCA_FRONT_VERSION),
		.type = htole16((uint16_t)type),
		.len = htole32((uint32_t)len),
		.seq = htole32(0x5eed),
	};
}

/* Sends @n bytes with @nfds descriptors. */
static inline bool put(struct front *f, const void *msg, size_t n, const int *fds,
		       unsigned int nfds)
{
	if (n >= sizeof(struct ohca_front_hdr))
		f->seq = ((const struct ohca_front_hdr *)msg)->seq;
	return fds_send(f->sock, msg, n, fds, nfds, 0) == (ssize_t)n;
}

/* Receives the next message and its descriptors, of which there are OHCA_FRONT_FDS or none. */
static inline bool get(struct front *f, union message *m, int fds[OHCA_FRONT_FDS])
{
	union {
		char buf[CMSG_SPACE(OHCA_FRONT_FDS * sizeof(int))];
		struct cmsghdr align;
	} c;
	struct iovec iov = { .iov_base = m, .iov_len = sizeof(*m) };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = c.buf,
			    .msg_controllen = sizeof(c.buf) };
	struct pollfd p = { .fd = f->sock, .events = POLLIN };
	struct cmsghdr *cm;
	ssize_t n;

	assert_int_equal(poll(&p, 1, LIMIT_MS), 1);
	memset(m, 0, 256);
	n = recvmsg(f->sock, &h, MSG_CMSG_CLOEXEC);
	/* a peer that closes with unread data leaves its last message readable after ECONNRESET */
	if (n < 0 && errno == ECONNRESET)
		n = recvmsg(f->sock, &h, MSG_CMSG_CLOEXEC);
	if (n <= 0) {
		f->gone = true;
		return false;
	}
	assert_true((size_t)n >= sizeof(m->hdr));
	/*
	 * a HELLO without the magic of a front is answered as a link's, whose ERROR has the same
	 * layout
	 */
	if (!f->page && le32toh(m->hdr.magic) == OHCA_WIRE_MAGIC) {
		assert_int_equal(le16toh(m->hdr.type), OHCA_WIRE_ERROR);
		m->hdr.type = htole16(OHCA_FRONT_ERROR);
		return true;
	}
	assert_int_equal(le32toh(m->hdr.magic), OHCA_FRONT_MAGIC);
	assert_int_equal(le16toh(m->hdr.version), OHCA_FRONT_VERSION);
	assert_int_equal(le32toh(m->hdr.len), n);
	cm = CMSG_FIRSTHDR(&h);
	assert_int_equal(!!cm, le16toh(m->hdr.type) == OHCA_FRONT_WELCOME);
	if (cm) {
		assert_int_equal(cm->cmsg_len, CMSG_LEN(OHCA_FRONT_FDS * sizeof(int)));
		assert_non_null(fds);
		memcpy(fds, CMSG_DATA(cm), OHCA_FRONT_FDS * sizeof(int));
	}
	return true;
}

/* Return: the status of the answer; -1 if the connection is closed. */
static inline int answer(struct front *f, uint64_t *value)
{
	union message m;

	if (!get(f, &m, NULL))
		return -1;
	if (le16toh(m.hdr.type) == OHCA_FRONT_ERROR) {
		snprintf(f->why, sizeof(f->why), "%s", (char *)m.error.text);
		assert_true(f->why[0]);
		assert_false(get(f, &m, NULL));
		return -1;
	}
	assert_int_equal(le16toh(m.hdr.type), OHCA_FRONT_DONE);
	assert_int_equal(m.hdr.seq, f->seq);
	if (value)
		*value = le64toh(m.done.value);
	return (int)le32toh(m.done.status);
}

static inline int call_fds(struct front *f, union message *m, enum ohca_front_type type, size_t len,
			   const int *fds, unsigned int nfds, uint64_t *value)
{
	message_begin(m, type, len);
	if (!put(f, m, len, fds, nfds)) {
		f->gone = true;
		return -1;
	}
	pend(&f->client, OHCA_PEND_ATTN);
	return answer(f, value);
}

static inline int call(struct front *f, union message *m, enum ohca_front_type type, size_t len,
		       uint64_t *value)
{
	return call_fds(f, m, type, len, NULL, 0, value);
}

static inline int call_block(struct front *f, uint32_t id, uint64_t size, int fd)
{
	union message m = { .block = { .id = htole32(id), .size = htole64(size) } };

	return call_fds(f, &m, OHCA_FRONT_BLOCK, sizeof(m.block), &fd, fd >= 0, NULL);
}

static inline int call_unblock(struct front *f, uint32_t id)
{
	union message m = { .block = { .id = htole32(id) } };

	return call(f, &m, OHCA_FRONT_UNBLOCK, 24, NULL);
}

static inline int call_log(struct front *f, uint32_t id, int fd)
{
	union message m = { .log = { .id = htole32(id) } };

	return call_fds(f, &m, OHCA_FRONT_LOG, sizeof(m.log), &fd, fd >= 0, NULL);
}

static inline struct ohca_front_range range(uint64_t iova, uint64_t len, uint32_t block,
					    uint64_t off, uint32_t flags)
{
	return (struct ohca_front_range){
		.iova = htole64(iova), .len = htole64(len), .off = htole64(off),
		.block = htole32(block), .flags = htole32(flags),
	};
}

static inline int call_mem(struct front *f, const struct ohca_front_range *r, uint32_t n)
{
	union message m = { .mem = { .n = htole32(n) } };

	for (uint32_t i = 0; i < n; i++)
		memcpy(m.b + sizeof(m.mem) + i * sizeof(*r), &r[i], sizeof(*r));
	return call(f, &m, OHCA_FRONT_MEM, sizeof(m.mem) + n * sizeof(*r), NULL);
}

static inline int call_reg(struct front *f, uint32_t off, unsigned int size, bool write,
			   uint64_t *value)
{
	union message m = { .reg = { .off = htole32(off), .size = (uint8_t)size,
				     .flags = write ? OHCA_FRONT_REG_WRITE : 0,
				     .value = htole64(*value) } };

	return call(f, &m, OHCA_FRONT_REG, sizeof(m.reg), value);
}

static inline int call_run(struct front *f, uint32_t running)
{
	union message m = { .run = { .running = htole32(running) } };

	return call(f, &m, OHCA_FRONT_RUN, sizeof(m.run), NULL);
}

static inline int call_plain(struct front *f, enum ohca_front_type type)
{
	union message m;

	return call(f, &m, type, sizeof(m.hdr), NULL);
}

static inline struct ohca_front_hello hello_of(const struct ohca_cfg *c)
{
	struct timespec ts;
	struct ohca_front_hello h = {
		.node_guid = htole64(c->node_guid),
		.dm_size = htole64(c->dm_size),
		.vectors = htole16(c->num_vectors),
		.uars = htole16((uint16_t)c->num_uars),
		.ports = c->num_ports,
		.vl_cap = c->vl_cap,
		.mtu_cap = c->mtu_cap,
		.width_sup = c->width_sup,
		.speed_sup = c->speed_sup,
		.speed_ext_sup = c->speed_ext_sup,
		.log_max_qp = c->log_max_qp,
		.log_max_cq = c->log_max_cq,
		.log_max_srq = c->log_max_srq,
		.log_max_mr = c->log_max_mr,
		.id = "test0",
	};

	clock_gettime(CLOCK_MONOTONIC, &ts);
	h.clock_ns = htole64((uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec);
	memcpy(h.desc, c->node_desc, sizeof(h.desc));
	return h;
}

static inline void front_dial(struct front *f, const char *path)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };

	memset(f, 0, sizeof(*f));
	f->wake = f->irq = -1;
	strcpy(sa.sun_path, path);
	f->sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_true(f->sock >= 0);
	while (connect(f->sock, (struct sockaddr *)&sa, sizeof(sa)))
		assert_int_equal(errno, EAGAIN);
}

/* Reads the fields of a WELCOME. */
static inline void front_welcome(struct front *f, const union message *m, const int *fds)
{
	struct ohca_db_sizes s = { .uars = le32toh(m->welcome.uars) };

	for (unsigned int i = 0; i < OHCA_DB_NUM; i++)
		s.max[i] = le32toh(m->welcome.max[i]);
	f->page_bytes = le64toh(m->welcome.page_bytes);
	assert_int_equal(f->page_bytes, OHCA_PAGE_BYTES(ohca_doorbells_bytes(&s)));
	assert_int_equal(fcntl(fds[OHCA_FRONT_FD_PAGE], F_GET_SEALS),
			 F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	f->page = mmap(NULL, f->page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
		       fds[OHCA_FRONT_FD_PAGE], 0);
	assert_ptr_not_equal(f->page, MAP_FAILED);
	ohca_doorbells_place(&f->db, &s, (uint8_t *)f->page + OHCA_PAGE_DOORBELLS);
	close(fds[OHCA_FRONT_FD_PAGE]);
	f->wake = fds[OHCA_FRONT_FD_WAKE];
	f->irq = fds[OHCA_FRONT_FD_IRQ];
	f->client = (struct ohca_front){
		.sock = f->sock, .wake = f->wake, .irq = f->irq, .page = f->page,
		.bytes = f->page_bytes, .db = f->db,
	};
}

/* Sends HELLO @h of @n bytes. Return: whether a WELCOME arrives; if not, f->why has the reason. */
static inline bool front_hello_raw(struct front *f, const void *h, size_t n, int dm)
{
	int fds[OHCA_FRONT_FDS];
	union message m;

	assert_true(put(f, h, n, &dm, dm >= 0));
	if (!get(f, &m, fds))
		return false;
	if (le16toh(m.hdr.type) == OHCA_FRONT_WELCOME) {
		front_welcome(f, &m, fds);
		return true;
	}
	assert_int_equal(le16toh(m.hdr.type), OHCA_FRONT_ERROR);
	snprintf(f->why, sizeof(f->why), "%s", (char *)m.error.text);
	assert_false(get(f, &m, NULL));
	return false;
}

static inline bool front_hello(struct front *f, const struct ohca_front_hello *h, int dm)
{
	union message m = { .hello = *h };

	message_begin(&m, OHCA_FRONT_HELLO, sizeof(m.hello));
	return front_hello_raw(f, &m, sizeof(m.hello), dm);
}

static inline void front_close(struct front *f)
{
	if (f->page)
		munmap(f->page, f->page_bytes);
	if (f->wake >= 0)
		close(f->wake);
	if (f->irq >= 0)
		close(f->irq);
	if (f->sock >= 0)
		close(f->sock);
	f->page = NULL;
	f->sock = f->wake = f->irq = -1;
}

/* Expects that the daemon closes @f with reason @why. */
static inline void expect_end(struct front *f, const char *why)
{
	assert_int_equal(answer(f, NULL), -1);
	if (why && !strstr(f->why, why))
		fail_msg("'%s' instead of '%s'", f->why, why);
}

/* The configuration of a card without a machine. */
static inline struct ohca_cfg card(uint64_t guid)
{
	return (struct ohca_cfg){
		.node_guid = guid, .num_ports = 1, .vl_cap = 8, .mtu_cap = 5, .width_sup = 3,
		.speed_sup = 7, .speed_ext_sup = 3, .num_vectors = 8, .num_uars = 8,
		.log_max_qp = 8, .log_max_cq = 8, .log_max_srq = 6, .log_max_mr = 10,
		.node_desc = "a card",
	};
}

/* ---- a machine ----------------------------------------------------------------- */

/** struct machine - a machine whose front is @f, at port @at of the switch */
struct machine {
	struct world *w;
	struct front f;
	struct host_seat seat;
	struct host *h;
	int mem_fd, dm_fd;
	size_t mem_len, dm_len;
	void *mem, *dm;
	unsigned int at;
	struct host_cq cq;
	struct host_mr mr;
};

static inline void *machine_memory(void *arg, size_t n, bool device)
{
	struct machine *m = arg;
	const int fd = m->w->file && !device ? m->w->file() :
		       memfd_create("machine", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *p;

	if (fd < 0 || ftruncate(fd, (off_t)n))
		return NULL;
	p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (device) {
		m->dm_fd = fd;
		m->dm_len = n;
		m->dm = p;
	} else {
		m->mem_fd = fd;
		m->mem_len = n;
		m->mem = p;
	}
	return p == MAP_FAILED ? NULL : p;
}

static inline ohca_engine *machine_make(void *arg, struct host *h)
{
	struct machine *m = arg;
	struct ohca_front_hello hello = hello_of(&h->cfg);
	const struct ohca_front_range r = range(HOST_BASE, m->mem_len, MEM_BLOCK, 0, 0);

	hello.want_port = (uint8_t)m->at;
	front_dial(&m->f, m->w->path);
	if (!front_hello(&m->f, &hello, m->dm_fd))
		fail_msg("%s", m->f.why);
	assert_int_equal(call_block(&m->f, MEM_BLOCK, m->mem_len, m->mem_fd), OHCA_FRONT_OK);
	assert_int_equal(call_mem(&m->f, &r, 1), OHCA_FRONT_OK);
	/* no code uses this pointer */
	return (ohca_engine *)h;
}

/* The daemon needs no turns of the test. */
static inline bool machine_turn(void *arg)
{
	(void)arg;
	usleep(200);
	return false;
}

static inline void machine_leave(void *arg)
{
	struct machine *m = arg;

	munmap(m->mem, m->mem_len);
	close(m->mem_fd);
	if (m->dm)
		munmap(m->dm, m->dm_len);
	if (m->dm_fd >= 0)
		close(m->dm_fd);
}

static inline void machine_write(void *arg, uint32_t off, uint64_t val, unsigned int size)
{
	struct machine *m = arg;

	if (off == OHCA_REG_AQ_DB) {
		ohca_front_admin(&m->f.client, (uint32_t)val);
		return;
	}
	assert_int_equal(call_reg(&m->f, off, size, true, &val), OHCA_FRONT_OK);
}

static inline uint64_t machine_read(void *arg, uint32_t off, unsigned int size)
{
	struct machine *m = arg;
	return ohca_front_reg(&m->f.client, off, size);
}

static inline void machine_ring(void *arg, uint32_t uar, uint32_t off, uint64_t val)
{
	struct machine *m = arg;

	ohca_front_ring(&m->f.client, uar, off, val, 8);
}

/* Waits for the link and makes it Active. */
static inline void machine_activate(struct machine *m)
{
	struct port_state s = { .num = m->at, .set = true };

	wait_port(m->w, m->at, IB_PS_INIT);
	for (uint8_t state = IB_PS_ARMED; state <= IB_PS_ACTIVE; state++) {
		s.state = state;
		in_loop(m->w, port_state, &s);
	}
	host_port_set(m->h, 0, LID(m->at), IB_PS_ACTIVE);
}

/*
 * Starts the log of writes to block @id, of @bytes. @d: receives the log, mapped until the end,
 * unless NULL. Return: its descriptor.
 */
static inline int machine_log(struct machine *m, uint32_t id, uint64_t bytes, struct ohca_dirty *d)
{
	const size_t n = OHCA_DIRTY_BYTES(bytes);
	const int fd = memfd_create("log", MFD_CLOEXEC);
	void *p;

	assert_int_equal(ftruncate(fd, (off_t)n), 0);
	assert_int_equal(call_log(&m->f, id, fd), OHCA_FRONT_OK);
	if (!d)
		return fd;
	p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	ohca_dirty_place(d, bytes, p);
	return fd;
}

/* Starts the driver and makes the link Active. */
static inline void machine_up(struct machine *m, struct world *w, unsigned int at)
{
	memset(m, 0, sizeof(*m));
	m->w = w;
	m->at = at;
	m->dm_fd = -1;
	m->seat = (struct host_seat){
		.make = machine_make,
		.turn = machine_turn,
		.leave = machine_leave,
		.memory = machine_memory,
		.read = machine_read,
		.write = machine_write,
		.ring = machine_ring,
		.arg = m,
	};
	m->h = host_new_seat(1, 0x1000 * at, &m->seat);
	host_start(m->h);
	machine_activate(m);
	host_cq_create(m->h, &m->cq, 8, 0);
	host_mr_create(m->h, &m->mr, 4 << 20, m->h->pdn, 0xf);
}

static inline void machine_down(struct machine *m)
{
	front_close(&m->f);
	host_buf_free(&m->cq.buf);
	host_buf_free(&m->mr.buf);
	host_free(m->h);
}

static inline void qp_pair(struct machine *a, struct machine *b, struct host_qp qp[2])
{
	struct machine *const m[2] = { a, b };

	for (unsigned int i = 0; i < 2; i++)
		assert_int_equal(host_qp_create(m[i]->h, &qp[i], &(struct host_qp_init){
			.type = OHCA_QPT_RC, .scq = &m[i]->cq, .rcq = &m[i]->cq }), 0);
	for (unsigned int i = 0; i < 2; i++)
		host_qp_connect(&qp[i], 0, LID(m[!i]->at), qp[!i].qpn, 5, 100 + i, 101 - i);
}

/* Posts an RDMA WRITE of @len bytes at the start of the MRs. */
static inline void post_write(struct host_qp *qp, struct machine *from, struct machine *to,
			      uint32_t len, uint64_t wr_id)
{
	struct wqe q = wqe_new(OHCA_OP_RDMA_WRITE, OHCA_WQE_SIGNALED, wr_id);

	wqe_raddr(&q, to->mr.iova, to->mr.key);
	wqe_sge(&q, from->mr.iova, len, from->mr.key);
	wqe_post(qp, &q);
}

/* Waits for the next completion, without a call to the daemon. */
static inline struct ohca_hw_cqe wait_cqe(struct host_cq *cq)
{
	struct timespec now;
	struct ohca_hw_cqe c;
	time_t end;

	clock_gettime(CLOCK_MONOTONIC, &now);
	end = now.tv_sec + LIMIT_MS / 1000;
	while (!host_cq_poll(cq, &c)) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (now.tv_sec > end)
			fail_msg("no completion");
		usleep(100);
	}
	atomic_thread_fence(memory_order_acquire);
	return c;
}

/** struct pair - two honest machines that are connected */
struct pair {
	struct machine m[2];
	struct host_qp qp[2];
	unsigned int n;
};

static inline void pair_up(struct pair *p, struct world *w)
{
	p->n = 0;
	for (unsigned int i = 0; i < 2; i++)
		machine_up(&p->m[i], w, i + 2);
	qp_pair(&p->m[0], &p->m[1], p->qp);
}

/* Each machine writes @len bytes to the other one. */
static inline void pair_talk(struct pair *p, uint32_t len)
{
	for (unsigned int i = 0; i < 2; i++) {
		struct machine *from = &p->m[i], *to = &p->m[!i];
		struct ohca_hw_cqe c;

		p->n++;
		for (uint32_t k = 0; k < len; k++)
			*(uint8_t *)host_buf_ptr(from->h, &from->mr.buf, k) = (uint8_t)(k + p->n);
		post_write(&p->qp[i], from, to, len, p->n);
		c = wait_cqe(&from->cq);
		assert_int_equal(c.status, WC_SUCCESS);
		assert_int_equal(c.wr_id, p->n);
		for (uint32_t k = 0; k < len; k++)
			assert_int_equal(*(uint8_t *)host_buf_ptr(to->h, &to->mr.buf, k),
					 (uint8_t)(k + p->n));
	}
}

static inline void pair_down(struct pair *p)
{
	for (unsigned int i = 0; i < 2; i++) {
		host_buf_free(&p->qp[i].buf);
		machine_down(&p->m[i]);
	}
}

#endif
