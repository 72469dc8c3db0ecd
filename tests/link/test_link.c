// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The link: handshake, training, credits, lanes, sleeping, a hostile peer.
 */
#include "pair.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cmocka.h>

#include "link/link_priv.h"

static char dir[] = "/tmp/ohca-link-XXXXXX";

static const char *in_dir(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

/* Mappings of links' memory, with this access (NULL: any). */
static unsigned int mappings(const char *access)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	unsigned int n = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, "memfd:ohca-link") && (!access || strstr(line, access));
	fclose(f);
	return n;
}

static unsigned int open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned int n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static unsigned int fds_before;

static int make_dir(void **state)
{
	(void)state;
	fds_before = open_fds();
	return mkdtemp(dir) ? 0 : -1;
}

/* All that links had is given back, also by those that failed. */
static int remove_dir(void **state)
{
	(void)state;
	if (open_fds() != fds_before || mappings(NULL)) {
		print_error("%u descriptors instead of %u, %u mappings\n", open_fds(), fds_before,
			    mappings(NULL));
		return -1;
	}
	return rmdir(dir);
}

/* Send one frame of @len bytes filled with @fill. */
static bool send_one(struct ohca_link *l, unsigned int vl, size_t len, uint8_t fill)
{
	uint8_t *p = ohca_link_tx_begin(l, vl, len);

	if (!p)
		return false;
	memset(p, fill, len);
	ohca_link_tx_commit(l, vl, len, 0);
	return true;
}

static void expect_one(struct ohca_link *l, unsigned int vl, size_t len, uint8_t fill)
{
	struct ohca_link_frame f;

	assert_int_equal(ohca_link_rx_peek(l, vl, &f), 1);
	assert_int_equal(f.len, len);
	assert_int_equal(f.vl, vl);
	for (size_t i = 0; i < len; i++)
		assert_int_equal(f.data[i], fill);
	ohca_link_rx_release(l, vl);
}

/* ---- handshake ----------------------------------------------------------------- */

static void expect_cfg(const struct ohca_link_cfg *c, const struct ohca_link_cfg *want)
{
	assert_true(c->node_guid == want->node_guid && c->port_guid == want->port_guid);
	assert_int_equal(c->node_type, want->node_type);
	assert_true(c->port_num == want->port_num && c->want_port == want->want_port);
	assert_true(c->vl_cap == want->vl_cap && c->mtu_cap == want->mtu_cap);
	assert_true(c->shift_min == want->shift_min && c->shift_max == want->shift_max);
	assert_int_equal(c->shift_pref, want->shift_pref);
	assert_int_equal(c->width_sup, want->width_sup);
	assert_int_equal(c->speed_sup, want->speed_sup);
	assert_int_equal(c->speed_ext_sup, want->speed_ext_sup);
}

static void test_hello(void **state)
{
	struct ohca_link_err ea, eb;
	struct ohca_link_cfg ca, cb;
	struct pair p;

	(void)state;
	ohca_link_cfg_init(&ca);
	ohca_link_cfg_init(&cb);
	ca.node_type = 2;
	ca.node_guid = 0x0102030405060708;
	ca.port_num = 7;
	ca.vl_cap = 4;
	strcpy(ca.desc, "the switch");
	cb.port_guid = 0x1112131415161718;
	cb.want_port = 7;
	cb.mtu_cap = 4;
	cb.shift_min = 1;
	cb.shift_max = 2;
	cb.shift_pref = 1;
	cb.width_sup = 1;
	cb.speed_sup = 5;
	cb.speed_ext_sup = 6;
	strcpy(cb.desc, "the \033[2Jhost");
	assert_int_equal(pair_meet(&p, &ca, &cb, &ea, &eb), 0);
	assert_int_equal(ohca_link_vls(p.a), 4);
	assert_int_equal(ohca_link_vls(p.b), 4);
	assert_int_equal(ohca_link_shift(p.a), 2);
	assert_int_equal(ohca_link_shift(p.b), 2);
	expect_cfg(ohca_link_peer(p.b), &ca);
	assert_string_equal(ohca_link_peer(p.b)->desc, "the switch");
	expect_cfg(ohca_link_peer(p.a), &cb);
	assert_string_equal(ohca_link_peer(p.a)->desc, "the ?[2Jhost");
	assert_false(ohca_link_is_up(p.a));
	assert_null(ohca_link_tx_begin(p.a, 0, 64));
	pair_free(&p);
}

/* What an end is that says nothing else: an HCA's first port, EDR 4x. */
static void test_defaults(void **state)
{
	const struct ohca_link_cfg want = {
		.node_type = 1, .port_num = 1, .vl_cap = 8, .mtu_cap = 5, .shift_min = 0,
		.shift_max = 6, .shift_pref = 2, .width_sup = 3, .speed_sup = 7,
		.speed_ext_sup = 3,
	};
	struct ohca_link_cfg c;

	(void)state;
	memset(&c, 0xff, sizeof(c));
	ohca_link_cfg_init(&c);
	expect_cfg(&c, &want);
	assert_string_equal(c.desc, "");
}

/* Frames as long as there can be, lanes as many as there are, and what is counted of them. */
static void test_bounds(void **state)
{
	struct ohca_link_stats a, b;
	struct ohca_link_frame f;
	struct pair p;

	(void)state;
	assert_int_equal(pair_up(&p, 15, 0), 0);
	/* two ends, of two directions each: written is one */
	assert_int_equal(mappings("-w-s"), 0);
	assert_true(mappings("r--s") > 0);
	for (unsigned int vl = 0; vl < 16; vl++) {
		assert_null(ohca_link_tx_begin(p.a, vl, OHCA_LINK_MIN_FRAME - 1));
		assert_true(send_one(p.a, vl, OHCA_LINK_MIN_FRAME, (uint8_t)vl));
		assert_null(ohca_link_tx_begin(p.a, vl, OHCA_LINK_MAX_FRAME + 1));
		assert_true(send_one(p.a, vl, OHCA_LINK_MAX_FRAME, (uint8_t)vl));
	}
	assert_null(ohca_link_tx_begin(p.a, 16, 64));
	assert_int_equal(ohca_link_rx_pending(p.b), 0xffff);
	assert_int_equal(ohca_link_rx_peek(p.b, 16, &f), 0);
	ohca_link_rx_release(p.b, 16);
	ohca_link_rx_release(p.b, 3);		/* nothing was looked at */
	ohca_link_get_stats(p.b, &b);
	assert_int_equal(b.rx_frames, 0);
	for (unsigned int vl = 0; vl < 16; vl++) {
		expect_one(p.b, vl, OHCA_LINK_MIN_FRAME, (uint8_t)vl);
		ohca_link_rx_release(p.b, vl);	/* once is enough */
		expect_one(p.b, vl, OHCA_LINK_MAX_FRAME, (uint8_t)vl);
	}
	ohca_link_get_stats(p.a, &a);
	ohca_link_get_stats(p.b, &b);
	assert_int_equal(a.tx_frames, 32);
	assert_int_equal(a.tx_bytes, 16 * (OHCA_LINK_MIN_FRAME + OHCA_LINK_MAX_FRAME));
	assert_int_equal(a.rx_frames, 0);
	assert_int_equal(a.rx_bytes, 0);
	assert_int_equal(b.rx_frames, 32);
	assert_int_equal(b.rx_bytes, a.tx_bytes);
	assert_int_equal(b.tx_frames, 0);
	assert_int_equal(a.retrains, 1);
	assert_int_equal(a.tx_nocredit, 0);
	assert_int_equal(a.tx_vl15_dropped, 0);

	/* none of that without a link that is up */
	assert_int_not_equal(ohca_link_tx_credits(p.a, 0), 0);
	assert_int_equal(ohca_link_tx_credits(p.a, 16), 0);
	ohca_link_train(p.a, &(struct ohca_link_phy){ .enabled = false });
	assert_int_equal(ohca_link_tx_credits(p.a, 0), 0);
	assert_int_equal(ohca_link_rx_pending(p.a), 0);
	assert_null(ohca_link_tx_begin(p.a, 0, 64));
	pair_free(&p);
	assert_int_equal(mappings(NULL), 0);

	/* the size is a matter of the protocol */
	assert_int_equal(shm_size(1, 0), 458752);
	assert_int_equal(shm_size(15, 6), 252313600);
}

static void test_bad_vls(void **state)
{
	struct ohca_link_err ea, eb;
	struct ohca_link_cfg ca, cb;
	struct pair p;

	(void)state;
	ohca_link_cfg_init(&ca);
	for (unsigned int vls = 0; vls < 18; vls++) {
		bool ok = vls == 1 || vls == 2 || vls == 4 || vls == 8 || vls == 15;

		cb = ca;
		cb.vl_cap = (uint8_t)vls;
		memset(&eb, 0xff, sizeof(eb));
		assert_int_equal(pair_meet(&p, &ca, &cb, &ea, &eb), ok ? 0 : -1);
		if (!ok) {
			assert_int_equal(eb.code, OHCA_LINK_E_CONFIG);
			assert_int_equal(eb.sys, 0);
			assert_int_equal(eb.text[sizeof(eb.text) - 1], 0);
		}
		pair_free(&p);
	}
}

static void test_hello_no_common_shift(void **state)
{
	struct ohca_link_err ea, eb;
	struct ohca_link_cfg ca, cb;
	struct pair p;

	(void)state;
	ohca_link_cfg_init(&ca);
	ohca_link_cfg_init(&cb);
	ca.shift_max = 1;
	cb.shift_min = 2;
	assert_int_equal(pair_meet(&p, &ca, &cb, &ea, &eb), -1);
	assert_int_equal(ea.code, OHCA_LINK_E_CONFIG);
	assert_int_equal(eb.code, OHCA_LINK_E_CONFIG);
	assert_non_null(strstr(eb.text, "no common credit shift"));
	cb.vl_cap = 3;
	assert_int_equal(pair_meet(&p, &ca, &cb, &ea, &eb), -1);
	assert_non_null(strstr(eb.text, "3 data VLs"));
}

/* A raw client: what it sends, and the listener's answer into @err. */
static void raw_client(const void *msg, size_t len, struct ohca_link_err *theirs,
		       struct ohca_link_err *ours)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	struct ohca_link_cfg cfg, peer;
	uint8_t buf[OHCA_WIRE_MSG_MAX];
	int ls, cs, fd;
	ssize_t n;

	ohca_link_cfg_init(&cfg);
	ls = ohca_link_listen(in_dir("s"), ours);
	assert_true(ls >= 0);
	strcpy(sa.sun_path, in_dir("s"));
	cs = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	assert_int_equal(connect(cs, (struct sockaddr *)&sa, sizeof(sa)), 0);
	fd = accept4(ls, NULL, NULL, SOCK_NONBLOCK);
	assert_true(fd >= 0);
	assert_int_equal(ohca_link_hello_recv(fd, &peer, ours), 0);
	assert_int_equal(send(cs, msg, len, 0), len);
	assert_int_equal(ohca_link_hello_recv(fd, &peer, ours), -1);
	n = recv(cs, buf, sizeof(buf), MSG_DONTWAIT);
	assert_true(n > 0);
	assert_int_equal(link_check_hdr(buf, (size_t)n, theirs), -1);
	close(fd);
	close(cs);
	close(ls);
	unlink(in_dir("s"));
}

static void test_hello_bad(void **state)
{
	struct ohca_wire_hello h = { .features = OHCA_WIRE_FEAT_SHM };
	struct ohca_link_err theirs, ours;
	uint8_t big[OHCA_WIRE_MSG_MAX + 100] = { 0 };

	(void)state;
	link_hdr_init(&h.hdr, OHCA_WIRE_HELLO, sizeof(h));
	h.hdr.version = OHCA_LINK_VERSION + 1;
	raw_client(&h, sizeof(h), &theirs, &ours);
	assert_int_equal(ours.code, OHCA_LINK_E_VERSION);
	assert_int_equal(theirs.code, OHCA_LINK_E_VERSION);
	assert_non_null(strstr(theirs.text, "version 3"));
	assert_non_null(strstr(theirs.text, "speak 2"));

	raw_client("GET / HTTP/1.0\r\n\r\n", 18, &theirs, &ours);
	assert_int_equal(ours.code, OHCA_LINK_E_PROTO);
	assert_int_equal(theirs.code, OHCA_LINK_E_PROTO);

	link_hdr_init(&h.hdr, OHCA_WIRE_HELLO, sizeof(h) - 1);
	raw_client(&h, sizeof(h), &theirs, &ours);
	assert_int_equal(ours.code, OHCA_LINK_E_PROTO);

	link_hdr_init(&h.hdr, OHCA_WIRE_HELLO, 40);
	raw_client(&h, 40, &theirs, &ours);
	assert_int_equal(ours.code, OHCA_LINK_E_PROTO);

	link_hdr_init(&h.hdr, OHCA_WIRE_HELLO, sizeof(h));
	h.features = 0;
	raw_client(&h, sizeof(h), &theirs, &ours);
	assert_int_equal(ours.code, OHCA_LINK_E_CONFIG);

	raw_client(big, sizeof(big), &theirs, &ours);
	assert_int_equal(ours.code, OHCA_LINK_E_PROTO);
}

static void test_timeout(void **state)
{
	struct ohca_link_cfg cfg;
	struct ohca_link_err err;
	int ls;

	(void)state;
	ohca_link_cfg_init(&cfg);
	ls = ohca_link_listen(in_dir("s"), &err);
	assert_true(ls >= 0);
	assert_null(ohca_link_accept(ls, &cfg, 20, &err));
	assert_int_equal(err.code, OHCA_LINK_E_TIMEOUT);
	/* Nobody accepts. */
	assert_null(ohca_link_connect(in_dir("s"), &cfg, 20, &err));
	assert_int_equal(err.code, OHCA_LINK_E_TIMEOUT);
	close(ls);
	unlink(in_dir("s"));
}

static void test_paths(void **state)
{
	struct ohca_link_cfg cfg;
	struct ohca_link_err err;
	char longer[200];
	int fd, fd2;

	(void)state;
	ohca_link_cfg_init(&cfg);
	memset(longer, 'x', sizeof(longer));
	longer[0] = '/';
	longer[sizeof(longer) - 1] = 0;
	assert_int_equal(ohca_link_listen(longer, &err), -1);
	assert_int_equal(err.code, OHCA_LINK_E_PATH);
	assert_non_null(strstr(err.text, "199 characters"));
	assert_null(ohca_link_connect(longer, &cfg, 10, &err));
	assert_int_equal(err.code, OHCA_LINK_E_PATH);
	assert_int_equal(ohca_link_listen("", &err), -1);
	assert_int_equal(ohca_link_listen(in_dir("no/such"), &err), -1);
	assert_int_equal(err.sys, ENOENT);
	assert_null(ohca_link_connect(in_dir("none"), &cfg, 10, &err));
	assert_non_null(strstr(err.text, "is ohca-switch running?"));

	/* A plain file is not replaced, a live socket neither, a stale one is. */
	fd = open(in_dir("file"), O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(ohca_link_listen(in_dir("file"), &err), -1);
	assert_non_null(strstr(err.text, "not a socket"));
	assert_int_equal(unlink(in_dir("file")), 0);
	fd = ohca_link_listen(in_dir("s"), &err);
	assert_true(fd >= 0);
	assert_int_equal(ohca_link_listen(in_dir("s"), &err), -1);
	assert_non_null(strstr(err.text, "another process listens"));
	close(fd);
	assert_null(ohca_link_connect(in_dir("s"), &cfg, 10, &err));
	assert_non_null(strstr(err.text, "nobody listens"));
	fd2 = ohca_link_listen(in_dir("s"), &err);
	assert_true(fd2 >= 0);
	close(fd2);
	unlink(in_dir("s"));
}

struct race {
	pthread_barrier_t *start;
	const char *path;
	struct ohca_link_err err;
	int fd;
};

static void *race_listen(void *arg)
{
	struct race *r = arg;

	pthread_barrier_wait(r->start);
	r->fd = ohca_link_listen(r->path, &r->err);
	return NULL;
}

/* Several find the same stale socket at the same time: one gets the path, and keeps it. */
static void test_listen_race(void **state)
{
	struct ohca_link_cfg cfg;
	struct ohca_link_err err;
	const char *path = in_dir("s");
	pthread_barrier_t start;
	int fd, sock;

	(void)state;
	ohca_link_cfg_init(&cfg);
	assert_int_equal(pthread_barrier_init(&start, NULL, 4), 0);
	fd = ohca_link_listen(in_dir("s"), &err);
	assert_true(fd >= 0);
	for (int i = 0; i < 300; i++) {
		struct race r[4];
		pthread_t t[4];
		int won = 0;

		close(fd);		/* stale from here on */
		for (int k = 0; k < 4; k++) {
			r[k] = (struct race){ .start = &start, .path = path };
			assert_int_equal(pthread_create(&t[k], NULL, race_listen, &r[k]), 0);
		}
		for (int k = 0; k < 4; k++) {
			pthread_join(t[k], NULL);
			if (r[k].fd < 0)
				continue;
			fd = r[k].fd;
			won++;
		}
		assert_int_equal(won, 1);
		sock = ohca_link_connect_start(in_dir("s"), &cfg, 0, &err);
		assert_true(sock >= 0);
		close(sock);
	}
	close(fd);
	unlink(in_dir("s"));
	pthread_barrier_destroy(&start);
}

/* ---- training ------------------------------------------------------------------ */

static void drain(struct ohca_link *l, int *up, int *down)
{
	for (;;) {
		switch (ohca_link_ctrl(l)) {
		case OHCA_LINK_EV_UP:
			++*up;
			break;
		case OHCA_LINK_EV_DOWN:
			++*down;
			break;
		case OHCA_LINK_EV_NONE:
			return;
		default:
			fail_msg("link ended: %s", ohca_link_error(l));
		}
	}
}

static void test_train(void **state)
{
	struct ohca_link_phy phy = pair_phy();
	int ua = 0, da = 0, ub = 0, db = 0;
	struct ohca_link_state st;
	struct pair p;

	(void)state;
	assert_int_equal(pair_up(&p, 2, 3), 0);
	ohca_link_get_state(p.b, &st);
	assert_true(st.up);
	assert_int_equal(st.phys, 5);
	assert_int_equal(st.width, 2);
	assert_int_equal(st.speed, 4);
	assert_int_equal(st.speed_ext, 2);

	/* Frames of the old training must not come out after it, neither way. */
	assert_true(send_one(p.a, 0, 100, 1));
	assert_true(send_one(p.b, 1, 200, 2));
	assert_true(send_one(p.b, 15, 300, 3));
	phy.width_en = 1;
	phy.speed_ext_en = 1;
	assert_int_equal(ohca_link_train(p.a, &phy), 0);
	assert_false(ohca_link_is_up(p.a));
	ohca_link_get_state(p.a, &st);
	assert_false(st.up);
	assert_true(st.width == 0 && st.speed == 0 && st.speed_ext == 0 && st.phys == 2);
	assert_null(ohca_link_tx_begin(p.a, 0, 100));
	assert_true(send_one(p.b, 1, 200, 2));		/* B does not know yet */
	drain(p.a, &ua, &da);
	assert_int_equal(ua, 0);
	assert_int_equal(da, 1);
	drain(p.b, &ub, &db);
	assert_int_equal(db, 1);
	assert_int_equal(ub, 1);
	assert_true(send_one(p.b, 1, 222, 4));		/* new training */
	drain(p.a, &ua, &da);
	assert_int_equal(ua, 1);
	assert_int_equal(ohca_link_rx_pending(p.a), 1 << 1);
	expect_one(p.a, 1, 222, 4);
	assert_int_equal(ohca_link_rx_pending(p.a), 0);
	assert_int_equal(ohca_link_rx_pending(p.b), 0);
	ohca_link_get_state(p.b, &st);
	assert_int_equal(st.width, 1);
	assert_int_equal(st.speed_ext, 1);
	ohca_link_kick(p.a);
	assert_int_equal(ohca_link_tx_credits(p.b, 1), 2048);

	/* Disabled at one end: down at both, and stays so. */
	phy.enabled = false;
	ohca_link_train(p.b, &phy);
	drain(p.b, &ub, &db);
	drain(p.a, &ua, &da);
	drain(p.b, &ub, &db);
	assert_int_equal(da, 2);
	assert_int_equal(db, 2);
	assert_int_equal(ua, 1);
	ohca_link_get_state(p.a, &st);
	assert_int_equal(st.phys, 2);
	ohca_link_get_state(p.b, &st);
	assert_int_equal(st.phys, 3);

	/* Both at once. */
	phy.enabled = true;
	ohca_link_train(p.a, &phy);
	ohca_link_train(p.b, &phy);
	for (int i = 0; i < 4; i++) {
		drain(p.a, &ua, &da);
		drain(p.b, &ub, &db);
	}
	assert_true(ohca_link_is_up(p.a));
	assert_true(ohca_link_is_up(p.b));
	assert_int_equal(ua, 2);
	assert_int_equal(ub, 2);

	/* Nothing in common: down. */
	phy.width_en = 2;
	ohca_link_train(p.b, &phy);
	for (int i = 0; i < 4; i++) {
		drain(p.a, &ua, &da);
		drain(p.b, &ub, &db);
	}
	assert_false(ohca_link_is_up(p.a));
	assert_false(ohca_link_is_up(p.b));
	pair_free(&p);
}

/* A frame that was begun before a retraining does not come out after it. */
static void test_train_in_frame(void **state)
{
	struct ohca_link_phy phy = pair_phy();
	int ua = 0, da = 0, ub = 0, db = 0;
	struct pair p;
	uint8_t *b;

	(void)state;
	assert_int_equal(pair_up(&p, 1, 0), 0);
	for (int i = 0; i < 2; i++) {	/* either end begins */
		b = ohca_link_tx_begin(p.a, 0, 100);
		assert_non_null(b);
		memset(b, 7, 100);
		assert_int_equal(ohca_link_train(i ? p.a : p.b, &phy), 0);
		for (int k = 0; k < 4; k++) {
			drain(p.a, &ua, &da);
			drain(p.b, &ub, &db);
		}
		assert_int_equal(ua, i + 1);
		assert_int_equal(ub, i + 1);
		ohca_link_tx_commit(p.a, 0, 100, 0);
		assert_int_equal(ohca_link_rx_pending(p.b), 0);
		assert_true(send_one(p.a, 0, 60, 1));
		expect_one(p.b, 0, 60, 1);
	}
	pair_free(&p);
}

/* What ends a training is the last of as many messages as are looked at in one go. */
static void test_ctrl_budget(void **state)
{
	struct ohca_wire_hdr h;
	struct ohca_link_phy phy = pair_phy();
	struct ohca_link_err ea, eb;
	struct ohca_link_cfg c;
	struct pair p;

	(void)state;
	ohca_link_cfg_init(&c);
	for (unsigned int n = 0; n < 40; n++) {
		assert_int_equal(pair_meet(&p, &c, &c, &ea, &eb), 0);
		assert_int_equal(ohca_link_train(p.b, &phy), 0);
		assert_int_equal(ohca_link_train(p.a, &phy), 0);
		assert_int_equal(ohca_link_ctrl(p.a), OHCA_LINK_EV_NONE);
		link_hdr_init(&h, 77, sizeof(h));
		for (unsigned int i = 0; i < n; i++)
			assert_int_equal(link_send(p.b->sock, &h, sizeof(h)), 0);
		assert_int_equal(ohca_link_ctrl(p.b), OHCA_LINK_EV_UP);
		/* As from poll(): while there is something to read. */
		for (;;) {
			struct pollfd pf = { .fd = ohca_link_ctrl_fd(p.a), .events = POLLIN };

			if (poll(&pf, 1, 0) <= 0)
				break;
			while (ohca_link_ctrl(p.a) != OHCA_LINK_EV_NONE)
				;
		}
		assert_true(ohca_link_is_up(p.a));
		pair_free(&p);
	}
}

static void test_close(void **state)
{
	struct pair p;

	(void)state;
	assert_int_equal(pair_up(&p, 1, 0), 0);
	assert_true(send_one(p.a, 0, 64, 1));
	ohca_link_free(p.b);
	assert_int_equal(ohca_link_ctrl(p.a), OHCA_LINK_EV_CLOSED);
	assert_int_equal(ohca_link_ctrl(p.a), OHCA_LINK_EV_NONE);
	assert_null(ohca_link_tx_begin(p.a, 0, 64));
	assert_int_equal(ohca_link_ctrl_fd(p.a), -1);
	assert_true(ohca_link_prepare_sleep(p.a));
	assert_int_equal(ohca_link_train(p.a, &(struct ohca_link_phy){ 0 }), -1);
	ohca_link_free(p.a);
}

/* Training says nothing of a peer that is gone, which ohca_link_ctrl() does; but of a deaf one. */
static void test_train_unheard(void **state)
{
	struct ohca_link_phy phy = pair_phy();
	struct ohca_wire_hdr h;
	struct pair p;

	(void)state;
	assert_int_equal(pair_up(&p, 1, 0), 0);
	ohca_link_free(p.b);
	assert_int_equal(ohca_link_train(p.a, &phy), 0);
	assert_int_equal(ohca_link_ctrl(p.a), OHCA_LINK_EV_DOWN);
	assert_int_equal(ohca_link_ctrl(p.a), OHCA_LINK_EV_CLOSED);
	ohca_link_free(p.a);

	assert_int_equal(pair_up(&p, 1, 0), 0);
	link_hdr_init(&h, 77, sizeof(h));
	while (!link_send(p.a->sock, &h, sizeof(h)))
		;
	assert_int_equal(ohca_link_train(p.a, &phy), -1);
	assert_non_null(strstr(ohca_link_error(p.a), "does not answer"));
	pair_free(&p);
}

/* ---- credits ------------------------------------------------------------------- */

static void test_credits(void **state)
{
	const size_t len = 4096 + 26;	/* 65 blocks with the VCRC */
	struct ohca_link_stats st;
	struct pair p;

	(void)state;
	assert_int_equal(pair_up(&p, 2, 0), 0);
	assert_null(ohca_link_tx_begin(p.a, 2, 64));	/* no such lane */
	assert_null(ohca_link_tx_begin(p.a, 99, 64));
	assert_null(ohca_link_tx_begin(p.a, 0, OHCA_LINK_MAX_FRAME + 1));
	assert_null(ohca_link_tx_begin(p.a, 0, OHCA_LINK_MIN_FRAME - 1));
	assert_int_equal(ohca_link_tx_credits(p.a, 0), 2048);

	/* 31 packets are 2015 blocks; 33 are left, not enough for another. */
	for (int round = 0; round < 200; round++) {
		for (int i = 0; i < 31; i++)
			assert_true(send_one(p.a, 0, len, (uint8_t)(round + i)));
		assert_int_equal(ohca_link_tx_credits(p.a, 0), 33);
		assert_false(send_one(p.a, 0, len, 0));
		/* The other lanes do not suffer. */
		assert_true(send_one(p.a, 1, 64, 9));
		assert_true(send_one(p.a, 15, 64, 8));
		expect_one(p.b, 1, 64, 9);
		expect_one(p.b, 15, 64, 8);
		for (int i = 0; i < 31; i++)
			expect_one(p.b, 0, len, (uint8_t)(round + i));
		assert_int_equal(ohca_link_rx_pending(p.b), 0);
		ohca_link_kick(p.b);
		assert_int_equal(ohca_link_tx_credits(p.a, 0), 2048);
	}
	/* 62 bytes and the VCRC are one block: all 2048 can be used, not one more. */
	for (int i = 0; i < 2048; i++)
		assert_true(send_one(p.a, 0, 62, (uint8_t)i));
	assert_false(send_one(p.a, 0, 62, 0));
	for (int i = 0; i < 2048; i++)
		expect_one(p.b, 0, 62, (uint8_t)i);
	ohca_link_get_stats(p.a, &st);
	assert_int_equal(st.tx_frames, 200 * 33 + 2048);
	assert_int_equal(st.tx_nocredit, 201);
	ohca_link_get_stats(p.b, &st);
	assert_int_equal(st.rx_frames, 200 * 33 + 2048);
	pair_free(&p);
}

static void test_shorter_commit(void **state)
{
	struct ohca_link_frame f;
	struct pair p;
	uint8_t *b;

	(void)state;
	assert_int_equal(pair_up(&p, 1, 1), 0);
	b = ohca_link_tx_begin(p.a, 0, 4000);
	assert_non_null(b);
	memset(b, 5, 100);
	ohca_link_tx_commit_vcrc(p.a, 0, 100, OHCA_FRAME_ICRC | OHCA_FRAME_VCRC, 0xbeef);
	assert_int_equal(ohca_link_tx_credits(p.a, 0), 2047);
	assert_int_equal(ohca_link_rx_peek(p.b, 0, &f), 1);
	assert_int_equal(f.len, 100);
	assert_int_equal(f.flags, OHCA_FRAME_ICRC | OHCA_FRAME_VCRC);
	assert_int_equal(f.vcrc, 0xbeef);
	assert_int_equal(ohca_link_rx_peek(p.b, 0, &f), 1);	/* still there */
	ohca_link_rx_release(p.b, 0);
	ohca_link_rx_release(p.b, 0);				/* nothing to release */
	assert_int_equal(ohca_link_rx_peek(p.b, 0, &f), 0);
	pair_free(&p);
}

static void test_vl15_drops(void **state)
{
	struct ohca_link_stats st;
	struct pair p;
	int n = 0;

	(void)state;
	assert_int_equal(pair_up(&p, 1, 0), 0);
	while (send_one(p.a, 15, 300, (uint8_t)n))
		n++;
	assert_int_equal(n, OHCA_SHM_VL15_BLOCKS / 5);
	assert_false(send_one(p.a, 15, 300, 0));
	ohca_link_get_stats(p.a, &st);
	assert_int_equal(st.tx_vl15_dropped, 2);
	assert_int_equal(ohca_link_vl15_dropped_by_peer(p.b), 2);
	for (int i = 0; i < n; i++)
		expect_one(p.b, 15, 300, (uint8_t)i);
	ohca_link_kick(p.b);
	assert_true(send_one(p.a, 15, 300, 0));
	pair_free(&p);
}

/* ---- sleeping ------------------------------------------------------------------ */

static bool signalled(struct ohca_link *l)
{
	struct pollfd pf = { .fd = ohca_link_event_fd(l), .events = POLLIN };

	return poll(&pf, 1, 0) == 1;
}

static void test_sleep(void **state)
{
	struct ohca_link_stats st;
	struct pair p;

	(void)state;
	assert_int_equal(pair_up(&p, 1, 0), 0);
	assert_true(send_one(p.a, 0, 64, 1));
	ohca_link_kick(p.a);
	assert_false(signalled(p.b));			/* B was awake */
	assert_false(ohca_link_prepare_sleep(p.b));	/* and has work */
	expect_one(p.b, 0, 64, 1);
	assert_true(ohca_link_prepare_sleep(p.b));
	ohca_link_kick(p.a);				/* nothing new */
	assert_false(signalled(p.b));
	assert_true(send_one(p.a, 0, 64, 2));
	assert_true(send_one(p.a, 0, 64, 3));
	assert_false(signalled(p.b));
	ohca_link_kick(p.a);
	assert_true(signalled(p.b));
	assert_true(send_one(p.a, 0, 64, 4));
	ohca_link_kick(p.a);
	ohca_link_get_stats(p.a, &st);
	assert_int_equal(st.wakeups_sent, 1);		/* once per sleep */
	ohca_link_awake(p.b, true);
	assert_false(signalled(p.b));
	for (uint8_t i = 2; i <= 4; i++)
		expect_one(p.b, 0, 64, i);

	/* A sender without credits is woken by them, not by anything else. */
	ohca_link_kick(p.b);
	while (send_one(p.a, 0, 4000, 1))
		;
	assert_true(ohca_link_prepare_sleep(p.a));
	ohca_link_kick(p.b);
	assert_false(signalled(p.a));
	expect_one(p.b, 0, 4000, 1);
	ohca_link_kick(p.b);
	assert_true(signalled(p.a));
	ohca_link_awake(p.a, true);
	assert_false(ohca_link_prepare_sleep(p.a));	/* credits are there: use them */
	assert_true(ohca_link_prepare_sleep(p.a));	/* or not: it may sleep */
	ohca_link_awake(p.a, true);
	assert_true(send_one(p.a, 0, 4000, 1));

	/* Blocked while the rx thread sleeps already. */
	assert_true(ohca_link_prepare_sleep(p.a));
	assert_false(send_one(p.a, 0, 4000, 1));
	expect_one(p.b, 0, 4000, 1);
	ohca_link_kick(p.b);
	assert_true(signalled(p.a));
	pair_free(&p);
}

/* ---- hostile peer -------------------------------------------------------------- */

/* All that a peer can do to a pipe by its own descriptor: to block, full or empty. */
static void spoil(int fd, bool full)
{
	uint8_t buf[4096] = { 0 };
	int fl = fcntl(fd, F_GETFL);

	assert_int_equal(fcntl(fd, F_SETFL, fl | O_NONBLOCK), 0);
	if (full) {
		while (write(fd, buf, sizeof(buf)) > 0)
			;
		while (write(fd, buf, 1) > 0)
			;
	} else {
		while (read(fd, buf, sizeof(buf)) > 0)
			;
	}
	assert_int_equal(fcntl(fd, F_SETFL, fl & ~O_NONBLOCK), 0);
}

/* Whatever an end does to the wake-ups, it does not hold its peer up. */
static void test_hostile_wake(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct ohca_link *evil, *good;
		struct ohca_link_stats st;
		struct pair p;

		assert_int_equal(pair_up(&p, 1, 0), 0);
		evil = i ? p.a : p.b;
		good = i ? p.b : p.a;
		alarm(20);			/* ends a test that waits */
		/* It sleeps, and its pipe is full. */
		assert_true(ohca_link_prepare_sleep(evil));
		spoil(evil->my_wake, true);
		assert_true(send_one(good, 0, 64, 1));
		ohca_link_kick(good);
		ohca_link_get_stats(good, &st);
		assert_int_equal(st.wakeups_sent, 0);
		expect_one(evil, 0, 64, 1);
		/* It signals, and takes the signal away. */
		assert_true(ohca_link_prepare_sleep(good));
		assert_true(send_one(evil, 0, 64, 2));
		ohca_link_kick(evil);
		assert_true(signalled(good));
		spoil(evil->peer_wake, false);
		ohca_link_awake(good, true);
		expect_one(good, 0, 64, 2);
		/* It signals without end: all of it is read in the end. */
		spoil(evil->peer_wake, true);
		for (int k = 0; signalled(good); k++) {
			assert_in_range(k, 0, 10000);
			ohca_link_awake(good, true);
		}
		alarm(0);
		pair_free(&p);
	}
}

/* A descriptor that is no pipe is refused, whatever its name; so is one too few. */
static void test_hostile_fds(void **state)
{
	struct ohca_link_cfg cfg, peer;
	struct ohca_link_err err;
	struct ohca_link *l = NULL;
	struct ohca_wire_hello h = { .features = OHCA_WIRE_FEAT_SHM, .node_type = 2,
				     .port_num = 1, .vl_cap = 1, .mtu_cap = 5, .vls = 1 };
	int ls, fd, sock;

	(void)state;
	ohca_link_cfg_init(&cfg);
	ls = ohca_link_listen(in_dir("s"), &err);
	assert_true(ls >= 0);
	h.mem_size = shm_size(1, 0);
	link_hdr_init(&h.hdr, OHCA_WIRE_HELLO, sizeof(h));
	for (unsigned int n = 2; n <= 3; n++) {
		union {
			char buf[CMSG_SPACE(3 * sizeof(int))];
			struct cmsghdr align;
		} c = { 0 };
		struct iovec iov = { .iov_base = &h, .iov_len = sizeof(h) };
		struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = c.buf,
				    .msg_controllen = CMSG_SPACE(n * sizeof(int)) };
		struct cmsghdr *cm = CMSG_FIRSTHDR(&m);
		int fds[3] = { shm_create(1, 0), -1, -1 };

		fds[1] = fds[2] = memfd_create("pipe:[1]", 0);
		sock = ohca_link_connect_start(in_dir("s"), &cfg, 0, &err);
		assert_true(sock >= 0);
		fd = accept4(ls, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		assert_true(fd >= 0);
		assert_int_equal(ohca_link_hello_recv(fd, &peer, &err), 1);
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(cm), fds, n * sizeof(int));
		assert_int_equal(sendmsg(fd, &m, 0), sizeof(h));
		assert_int_equal(ohca_link_connect_finish(sock, &cfg, &l, &err), -1);
		assert_non_null(strstr(err.text, n == 3 ? "no pipe" : "did not pass"));
		close(fds[0]);
		close(fds[1]);
		close(fd);
	}
	close(ls);
	unlink(in_dir("s"));
}

static void expect_error(struct ohca_link *l, const char *what)
{
	enum ohca_link_event ev = ohca_link_ctrl(l);

	if (ev == OHCA_LINK_EV_DOWN)
		ev = ohca_link_ctrl(l);
	assert_int_equal(ev, OHCA_LINK_EV_ERROR);
	if (!strstr(ohca_link_error(l), what))
		fail_msg("'%s' does not contain '%s'", ohca_link_error(l), what);
	assert_false(ohca_link_is_up(l));
}

static void test_bad_desc(void **state)
{
	static const struct {
		struct ohca_shm_desc d;
		uint32_t blocks;
		const char *what;
	} t[] = {
		{ { .len = 0 }, 1, "frame length 0" },
		{ { .len = 11 }, 1, "frame length 11" },
		{ { .len = OHCA_LINK_MAX_FRAME + 1 }, 100, "frame length 4225" },
		{ { .len = 65535 }, 2048, "frame length 65535" },
		{ { .len = 64, .flags = 0x8000 }, 2, "frame flags" },
		{ { .len = 4000 }, 2, "longer than what was sent" },
		{ { .len = 64 }, 2049, "credits exceeded" },
		{ { .len = 64 }, 4095, "credits exceeded" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct ohca_link_frame f;
		struct pair p;

		assert_int_equal(pair_up(&p, 1, 0), 0);
		p.a->tx[0].lane.desc[0] = t[i].d;
		shm_store_release(&p.a->tx_dir->fctbs[0], t[i].blocks);
		assert_true(ohca_link_rx_pending(p.b));
		assert_int_equal(ohca_link_rx_peek(p.b, 0, &f), -1);
		assert_false(ohca_link_prepare_sleep(p.b));
		expect_error(p.b, t[i].what);
		assert_int_equal(ohca_link_rx_peek(p.b, 0, &f), 0);
		/* The offender is told. */
		expect_error(p.a, t[i].what);
		pair_free(&p);
	}
}

static void test_bad_credit(void **state)
{
	struct pair p;

	(void)state;
	assert_int_equal(pair_up(&p, 1, 0), 0);
	while (send_one(p.a, 0, 4000, 1))
		;
	/* Nothing was released, yet the limit grows beyond the buffer. */
	shm_store(&p.a->tx_dir->fccl[0], 2048 + 1984 + 65);
	assert_false(send_one(p.a, 0, 4000, 1));
	assert_int_equal(ohca_link_rx_pending(p.a), 1 << 15);
	expect_error(p.a, "impossible credit limit");
	pair_free(&p);
}

static void test_bad_ctrl(void **state)
{
	struct ohca_wire_state m = { .seq = 9, .enabled = 1, .width_en = 2, .speed_en = 4 };
	char big[OHCA_WIRE_MSG_MAX + 1] = { 0 };
	struct pair p;

	(void)state;
	assert_int_equal(pair_up(&p, 1, 0), 0);
	assert_int_equal(send(p.b->sock, "hello", 5, 0), 5);
	expect_error(p.a, "does not speak");
	pair_free(&p);

	assert_int_equal(pair_up(&p, 1, 0), 0);
	assert_int_equal(send(p.b->sock, big, sizeof(big), 0), sizeof(big));
	expect_error(p.a, "513 bytes");
	pair_free(&p);

	/* An FCTBS in training that does not fit what the ring says. */
	assert_int_equal(pair_up(&p, 1, 0), 0);
	link_hdr_init(&m.hdr, OHCA_WIRE_STATE, sizeof(m));
	m.ack = p.a->seq;
	m.fctbs[0] = 100;
	assert_int_equal(link_send(p.b->sock, &m, sizeof(m)), 0);
	expect_error(p.a, "impossible FCTBS");
	pair_free(&p);

	/* Unknown types are ignored, truncated ones are not. */
	assert_int_equal(pair_up(&p, 1, 0), 0);
	link_hdr_init(&m.hdr, 77, sizeof(m));
	assert_int_equal(link_send(p.b->sock, &m, sizeof(m)), 0);
	assert_int_equal(ohca_link_ctrl(p.a), OHCA_LINK_EV_NONE);
	assert_true(ohca_link_is_up(p.a));
	link_hdr_init(&m.hdr, OHCA_WIRE_STATE, 32);
	assert_int_equal(link_send(p.b->sock, &m, 32), 0);
	expect_error(p.a, "training failed");
	pair_free(&p);
}

/* A peer that floods the socket gets its answers or loses the link; we never block. */
static void test_ctrl_flood(void **state)
{
	struct ohca_wire_state m = { .enabled = 1, .width_en = 2, .speed_en = 4 };
	int ended = 0;
	struct pair p;

	(void)state;
	assert_int_equal(pair_up(&p, 1, 0), 0);
	link_hdr_init(&m.hdr, OHCA_WIRE_STATE, sizeof(m));
	for (uint32_t i = 0; i < 100000 && !ended; i++) {
		enum ohca_link_event ev;

		m.seq = i + 100;
		link_send(p.b->sock, &m, sizeof(m));
		ev = ohca_link_ctrl(p.a);
		ended = ev == OHCA_LINK_EV_ERROR || ev == OHCA_LINK_EV_CLOSED;
	}
	assert_true(ended);
	pair_free(&p);
}

/* An end that is retrained again and again while the other stands still, as in a reset loop. */
static void test_train_unread(void **state)
{
	struct ohca_link_phy phy = pair_phy();
	unsigned int messages = 0;
	struct pair p;
	char c;

	(void)state;
	assert_int_equal(pair_up(&p, 1, 0), 0);
	for (int i = 0; i < 100000; i++) {
		phy.enabled = i & 1;
		assert_int_equal(ohca_link_train(p.a, &phy), 0);
		while (ohca_link_ctrl(p.a) == OHCA_LINK_EV_DOWN)
			;
		assert_string_equal(ohca_link_error(p.a), "");
	}
	/* What waits is one message, not one for each time. */
	while (recv(p.b->sock, &c, 1, MSG_DONTWAIT | MSG_PEEK | MSG_TRUNC) > 0 && messages < 9) {
		messages++;
		assert_int_not_equal(ohca_link_ctrl(p.b), OHCA_LINK_EV_ERROR);
	}
	assert_int_equal(messages, 1);
	/* It is followed by the last training, which both come up with. */
	for (int i = 0; i < 20; i++) {
		while (ohca_link_ctrl(p.a) != OHCA_LINK_EV_NONE)
			;
		while (ohca_link_ctrl(p.b) != OHCA_LINK_EV_NONE)
			;
	}
	assert_true(ohca_link_is_up(p.a));
	assert_true(ohca_link_is_up(p.b));
	assert_true(send_one(p.a, 0, 100, 1));
	expect_one(p.b, 0, 100, 1);
	pair_free(&p);
}

/* The halves of connecting never block; what fails closes the socket. */
static void test_connect_halves(void **state)
{
	struct ohca_link_cfg cfg, peer;
	struct ohca_link_err err;
	struct ohca_link *l = NULL, *m;
	int ls, fd, sock, n, waiting[200];

	(void)state;
	ohca_link_cfg_init(&cfg);
	assert_int_equal(ohca_link_connect_start(in_dir("s"), &cfg, 0, &err), -1);
	assert_int_equal(err.code, OHCA_LINK_E_PATH);
	ls = ohca_link_listen(in_dir("s"), &err);
	assert_true(ls >= 0);

	/* No answer yet, an answer. */
	sock = ohca_link_connect_start(in_dir("s"), &cfg, 0, &err);
	assert_true(sock >= 0);
	assert_int_equal(ohca_link_connect_finish(sock, &cfg, &l, &err), 0);
	fd = accept4(ls, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	assert_true(fd >= 0);
	assert_int_equal(ohca_link_hello_recv(fd, &peer, &err), 1);
	assert_int_equal(ohca_link_connect_finish(sock, &cfg, &l, &err), 0);
	assert_null(l);
	m = ohca_link_hello_reply(fd, &peer, &cfg, &err);
	assert_non_null(m);
	assert_int_equal(ohca_link_connect_finish(sock, &cfg, &l, &err), 1);
	assert_non_null(l);
	ohca_link_free(l);
	ohca_link_free(m);

	/* A refusal, and a listener that goes away. */
	for (int i = 0; i < 2; i++) {
		sock = ohca_link_connect_start(in_dir("s"), &cfg, 0, &err);
		assert_true(sock >= 0);
		fd = accept4(ls, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		assert_true(fd >= 0);
		if (i == 0) {
			assert_int_equal(ohca_link_hello_recv(fd, &peer, &err), 1);
			ohca_link_hello_reject(fd, OHCA_LINK_E_NOPORT, "all ports are taken");
		}
		close(fd);
		assert_int_equal(ohca_link_connect_finish(sock, &cfg, &l, &err), -1);
		assert_int_equal(fcntl(sock, F_GETFD), -1);
		if (i == 0)
			assert_non_null(strstr(err.text, "all ports are taken"));
	}

	/* A full backlog is an error at once, not a wait. */
	for (n = 0; n < 200; n++) {
		waiting[n] = ohca_link_connect_start(in_dir("s"), &cfg, 0, &err);
		if (waiting[n] < 0)
			break;
	}
	assert_in_range(n, 1, 199);
	assert_int_equal(err.code, OHCA_LINK_E_TIMEOUT);
	while (n)
		close(waiting[--n]);
	close(ls);
	unlink(in_dir("s"));
}

static unsigned int open_files(void)
{
	unsigned int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* No more than @n descriptors beside the open ones, or as many as before if @n is negative. */
static void allow_files(int n)
{
	static struct rlimit before;
	struct rlimit now;
	int next = dup(0);

	assert_true(next >= 0);
	close(next);
	if (n >= 0) {
		assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
		now = before;
		now.rlim_cur = (rlim_t)(next + n);
	} else {
		now = before;
	}
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
}

/* Whichever descriptor cannot be had at either end, both ends learn that, and none stays open. */
static void test_no_descriptors(void **state)
{
	struct ohca_link_cfg cfg, peer;
	struct ohca_link *l, *m;
	struct ohca_link_err err;
	unsigned int before;
	int ls, fd, sock, n;

	(void)state;
	ohca_link_cfg_init(&cfg);
	ls = ohca_link_listen(in_dir("s"), &err);
	assert_true(ls >= 0);
	before = open_files();
	for (int side = 0; side < 2; side++) {
		for (n = 0;; n++) {
			l = NULL;
			sock = ohca_link_connect_start(in_dir("s"), &cfg, 0, &err);
			fd = accept4(ls, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
			assert_true(sock >= 0 && fd >= 0);
			assert_int_equal(ohca_link_hello_recv(fd, &peer, &err), 1);
			if (side == 0)
				allow_files(n);
			memset(&err, 0, sizeof(err));
			m = ohca_link_hello_reply(fd, &peer, &cfg, &err);
			if (side == 0) {
				allow_files(-1);
				if (m)
					break;
				assert_int_equal(err.code, OHCA_LINK_E_SYS);
				assert_int_equal(err.sys, EMFILE);
				assert_int_equal(ohca_link_connect_finish(sock, &cfg, &l, &err), -1);
				assert_int_equal(err.code, OHCA_LINK_E_SYS);
				assert_non_null(strstr(err.text, "the peer refused"));
			} else {
				assert_non_null(m);
				allow_files(n);
				memset(&err, 0, sizeof(err));
				(void)ohca_link_connect_finish(sock, &cfg, &l, &err);
				allow_files(-1);
				if (l)
					break;
				assert_int_not_equal(err.code, 0);
				ohca_link_free(m);
			}
			assert_int_equal(open_files(), before);
		}
		assert_true(n > 2);
		if (side == 0)
			assert_int_equal(ohca_link_connect_finish(sock, &cfg, &l, &err), 1);
		ohca_link_free(l);
		ohca_link_free(m);
		assert_int_equal(open_files(), before);
	}
	close(ls);
	unlink(in_dir("s"));
}

static void scribble(struct ohca_link *l, unsigned int *r)
{
	unsigned int where = (unsigned int)rand_r(r), vl = where % 2;
	struct shm_lane *lane = &l->tx[vl].lane;
	uint8_t *at;

	switch (where / 2 % 3) {
	case 0:
		at = (uint8_t *)l->map.ctl + (unsigned int)rand_r(r) % 640;
		break;
	case 1:
		at = (uint8_t *)l->map.ctl + (unsigned int)rand_r(r) % l->map.ctl_size;
		break;
	default:	/* what the other side reads next */
		at = (uint8_t *)&lane->desc[l->tx[vl].fctbs & (lane->blocks - 1)];
		at += (unsigned int)rand_r(r) % 4 - (rand_r(r) % 2 ? sizeof(*lane->desc) : 0);
		if (at < (uint8_t *)lane->desc)
			at = (uint8_t *)lane->desc;
	}
	*at ^= (uint8_t)(1u << (rand_r(r) % 8));
}

/* Random garbage in all of the shared memory, at any time. */
static void test_hostile_memory(void **state)
{
	unsigned int errors = 0;

	(void)state;
	for (unsigned int seed = 1; seed <= 150; seed++) {
		unsigned int r = seed;
		struct pair p;
		bool dead = false;

		assert_int_equal(pair_up(&p, 2, (unsigned int)(seed % 3)), 0);
		for (int i = 0; i < 400 && !dead; i++) {
			struct ohca_link_frame f;
			uint32_t mask;

			switch (rand_r(&r) % 4) {
			case 0:	/* B scribbles over control words and descriptors */
				scribble(p.b, &r);
				break;
			case 1:
				send_one(p.b, (unsigned int)rand_r(&r) % 2,
					 12 + (unsigned int)rand_r(&r) % 4000, 1);
				break;
			case 2:
				send_one(p.a, (unsigned int)rand_r(&r) % 2,
					 12 + (unsigned int)rand_r(&r) % 4000, 1);
				break;
			default:
				mask = ohca_link_rx_pending(p.a);
				for (unsigned int vl = 0; vl < 16; vl++) {
					volatile uint8_t sum = 0;
					int got = mask & (1u << vl) ?
						  ohca_link_rx_peek(p.a, vl, &f) : 0;

					if (got < 0)
						break;
					for (uint32_t k = 0; got && k < f.len; k++)
						sum = (uint8_t)(sum + f.data[k]);
					if (got)
						ohca_link_rx_release(p.a, vl);
				}
				ohca_link_kick(p.a);
				if (ohca_link_prepare_sleep(p.a))
					ohca_link_awake(p.a, true);
			}
			dead = ohca_link_ctrl(p.a) == OHCA_LINK_EV_ERROR;
		}
		if (!dead && ohca_link_ctrl(p.a) == OHCA_LINK_EV_ERROR)
			dead = true;
		errors += dead;
		pair_free(&p);
	}
	print_message("%u of 150 hostile peers were caught\n", errors);
	assert_true(errors > 20);
}

/* ---- two threads --------------------------------------------------------------- */

struct stress {
	struct ohca_link *l;
	unsigned int seed, frames;
	uint64_t tx_ok, rx_ok;
	int bad;
};

/* Every frame: 4 bytes sequence number per lane, then bytes derived from it. */
static void fill(uint8_t *p, uint32_t seq, size_t len)
{
	uint32_t x = seq * 2654435761u + 1;

	memcpy(p, &seq, 4);
	for (size_t i = 4; i < len; i++) {
		x = x * 1103515245u + 12345;
		p[i] = (uint8_t)(x >> 24);
	}
}

static bool check(const uint8_t *p, uint32_t seq, size_t len)
{
	static _Thread_local uint8_t want[OHCA_LINK_MAX_FRAME];

	fill(want, seq, len);
	return !memcmp(want, p, len);
}

static size_t frame_len(unsigned int seed, uint32_t seq)
{
	uint32_t h = (seq + seed) * 2246822519u;

	return 12 + (h >> 8) % (h & 64 ? 4200 : 100);
}

/* One thread per side: sends on 2 lanes, receives on 2, sleeps when it can do neither. */
static void *stress_side(void *arg)
{
	struct stress *s = arg;
	uint32_t tx[2] = { 0 }, rx[2] = { 0 };

	while ((tx[0] < s->frames || tx[1] < s->frames || rx[0] < s->frames ||
		rx[1] < s->frames) && !s->bad) {
		bool idle = true;

		for (unsigned int vl = 0; vl < 2; vl++) {
			struct ohca_link_frame f;
			uint8_t *b;
			size_t len;

			for (int n = 0; n < 20 && tx[vl] < s->frames; n++) {
				len = frame_len(s->seed, tx[vl]);
				b = ohca_link_tx_begin(s->l, vl, len);
				if (!b)
					break;
				fill(b, tx[vl]++, len);
				ohca_link_tx_commit(s->l, vl, len, 0);
				s->tx_ok++;
				idle = false;
			}
			for (int n = 0; n < 20; n++) {
				int got = ohca_link_rx_peek(s->l, vl, &f);

				if (got <= 0) {
					s->bad |= got < 0;
					break;
				}
				if (f.len != frame_len(!s->seed, rx[vl]) ||
				    !check(f.data, rx[vl], f.len))
					s->bad = 1;
				rx[vl]++;
				ohca_link_rx_release(s->l, vl);
				s->rx_ok++;
				idle = false;
			}
		}
		ohca_link_kick(s->l);
		if (idle && ohca_link_prepare_sleep(s->l)) {
			struct pollfd pf = { .fd = ohca_link_event_fd(s->l),
					     .events = POLLIN };

			if (poll(&pf, 1, 30000) != 1)
				s->bad = 2;	/* a lost wake-up */
			ohca_link_awake(s->l, true);
		}
	}
	ohca_link_kick(s->l);
	return NULL;
}

static void test_stress(void **state)
{
	(void)state;
	for (unsigned int shift = 0; shift <= 6; shift += 3) {
		struct stress a = { .seed = 0, .frames = 60000 };
		struct stress b = { .seed = 1, .frames = 60000 };
		pthread_t ta, tb;
		struct pair p;

		assert_int_equal(pair_up(&p, 2, shift), 0);
		a.l = p.a;
		b.l = p.b;
		assert_int_equal(pthread_create(&ta, NULL, stress_side, &a), 0);
		assert_int_equal(pthread_create(&tb, NULL, stress_side, &b), 0);
		pthread_join(ta, NULL);
		pthread_join(tb, NULL);
		assert_int_equal(a.bad, 0);
		assert_int_equal(b.bad, 0);
		assert_int_equal(a.rx_ok, 120000);
		assert_int_equal(b.rx_ok, 120000);
		pair_free(&p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hello),
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_bad_vls),
		cmocka_unit_test(test_hello_no_common_shift),
		cmocka_unit_test(test_hello_bad),
		cmocka_unit_test(test_timeout),
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_listen_race),
		cmocka_unit_test(test_train),
		cmocka_unit_test(test_train_in_frame),
		cmocka_unit_test(test_ctrl_budget),
		cmocka_unit_test(test_close),
		cmocka_unit_test(test_credits),
		cmocka_unit_test(test_shorter_commit),
		cmocka_unit_test(test_vl15_drops),
		cmocka_unit_test(test_train_unheard),
		cmocka_unit_test(test_no_descriptors),
		cmocka_unit_test(test_sleep),
		cmocka_unit_test(test_hostile_wake),
		cmocka_unit_test(test_hostile_fds),
		cmocka_unit_test(test_bad_desc),
		cmocka_unit_test(test_bad_credit),
		cmocka_unit_test(test_bad_ctrl),
		cmocka_unit_test(test_ctrl_flood),
		cmocka_unit_test(test_train_unread),
		cmocka_unit_test(test_connect_halves),
		cmocka_unit_test(test_hostile_memory),
		cmocka_unit_test(test_stress),
	};

	return cmocka_run_group_tests_name("link", tests, make_dir, remove_dir);
}
