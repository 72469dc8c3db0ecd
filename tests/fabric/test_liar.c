// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Processes that lie to a fabric, which is a process as well, as any process with access to its
 * socket can. Meanwhile two honest end ports communicate by two lanes, in one thread. None of their
 * packets may be lost, damaged or overtaken, and the state of the switch and of the two ports must
 * not change. The switch has an M_Key.
 *
 *	test_liar FABRIC [SECONDS [SEED]]
 */
#include "ep.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>

#include "liar.h"

#define VLS	2u
#define PORTS	6u
#define LIARS	3u
#define HDR	(IB_LRH_LEN + IB_BTH_LEN)
#define BODY	512u
#define PATIENCE	30.0	/* seconds without a packet; a busy host may stand still */

/* After the headers of every honest packet. */
struct stamp {
	uint64_t secret;	/* which liars do not have */
	uint32_t to, vl, seq;
};

static struct ep ep[2];
static uint64_t secret, mkey;
static uint32_t tx[2][VLS], rx[2][VLS];
static uint64_t moved;
static double last;		/* time of the last packet */

static __attribute__((noreturn, format(printf, 1, 2))) void fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("FAIL: liar: ", stdout);
	vprintf(fmt, ap);
	puts("");
	va_end(ap);
	exit(1);
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

/* ---- honest traffic ---- */

static uint8_t filling(uint32_t seq, unsigned int at)
{
	return (uint8_t)(seq * 7 + at * 13);
}

static bool send_one(unsigned int from, unsigned int vl)
{
	struct stamp s = { secret, !from, vl, tx[from][vl] };
	size_t len = HDR + sizeof(s) + BODY + IB_ICRC_LEN;
	uint8_t *p = ohca_link_tx_begin(ep[from].l, vl, len);

	if (!p)
		return false;
	p = ib_build_lrh(p, (uint8_t)vl, (uint8_t)vl, IB_LNH_IBA_LOCAL, ep[!from].lid,
			 (uint16_t)(len / 4), ep[from].lid);
	p = ib_build_bth(p, IB_OP_UC_SEND_ONLY, 0, 0, IB_DEFAULT_PKEY, 5, false, 0);
	memcpy(p, &s, sizeof(s));
	for (unsigned int i = 0; i < BODY; i++)
		p[sizeof(s) + i] = filling(s.seq, i);
	ohca_link_tx_commit(ep[from].l, vl, len, 0);
	tx[from][vl]++;
	return true;
}

static void check_one(unsigned int at, unsigned int vl, const uint8_t *p, size_t len)
{
	struct stamp s;

	if (len != HDR + sizeof(s) + BODY + IB_ICRC_LEN)
		return;
	memcpy(&s, p + HDR, sizeof(s));
	if (s.secret != secret)
		return;
	if (s.to != at || s.vl != vl || s.seq != rx[at][vl])
		fail("end port %u VL %u got packet %u for %u VL %u instead of %u", at, vl, s.seq,
		     s.to, s.vl, rx[at][vl]);
	for (unsigned int i = 0; i < BODY; i++)
		if (p[HDR + sizeof(s) + i] != filling(s.seq, i))
			fail("packet %u is damaged at byte %u", s.seq, i);
	rx[at][vl]++;
	moved++;
	last = now();
}

/* Receives, and sends as far as there is room. @smp: an SMP that arrived at end port 0, if any. */
static bool turn(struct ib_smp *smp)
{
	uint8_t pkt[OHCA_LINK_MAX_FRAME];
	struct ib_smp other;
	bool came = false;
	size_t len;

	for (unsigned int i = 0; i < 2; i++) {
		simple_step(ep[i].l);
		if (*ohca_link_error(ep[i].l))
			fail("end port %u lost its link: %s", i, ohca_link_error(ep[i].l));
		for (unsigned int vl = 0; vl < VLS; vl++) {
			for (int n = 0; n < 64 && (len = ep_recv(&ep[i], vl, pkt, sizeof(pkt)));
			     n++)
				check_one(i, vl, pkt, len);
			for (int n = 0; n < 8 && tx[i][vl] - rx[!i][vl] < 256; n++)
				if (!send_one(i, vl))
					break;
		}
		if (i == 0 && smp && !came)
			came = ep_recv_smp(&ep[0], smp);
		else
			for (int n = 0; n < 64 && ep_recv_smp(&ep[i], &other); n++)
				;
		ohca_link_kick(ep[i].l);
	}
	if (now() - last > PATIENCE)
		fail("nothing has come for %.0f s", now() - last);
	return came;
}

/* ---- the manager ---- */

/* As ep_switch(), with the M_Key, and during traffic. */
static int manage(uint8_t method, uint16_t attr, uint32_t mod, uint8_t data[64])
{
	static const uint8_t path[1] = { 1 };
	struct ib_smp smp, in;

	for (int i = 0; i < 60; i++) {
		double begin = now();

		ep_smp_init(&ep[0], &smp, method, attr, mod, data, 1, path);
		smp.mkey = ib_to_be64(mkey);
		ep_send_smp(&ep[0], &smp, 0);
		while (now() - begin < 0.5) {
			if (!turn(&in)) {
				usleep(200);
				continue;
			}
			if (ib_be64(in.hdr.tid) != ep[0].tid || in.hdr.method != IB_METHOD_GET_RESP)
				continue;
			memcpy(data, in.data, 64);
			return ib_be16(in.hdr.status) & 0x7fff;
		}
	}
	fail("the switch does not answer: method %u, attribute %#x, modifier %#x", method, attr, mod);
}

static void protect(void)
{
	struct ib_port_info pi;
	uint8_t d[64] = { 0 };
	uint64_t key;

	if (getrandom(&key, sizeof(key), 0) != sizeof(key))
		fail("getrandom");
	manage(IB_METHOD_GET, IB_SMP_ATTR_PORT_INFO, 0, d);
	ib_port_info_unpack(d, &pi);
	pi.mkey = key;
	pi.mkey_prot = 2;
	pi.state = pi.phys_state = 0;
	ib_port_info_pack(&pi, d);
	if (manage(IB_METHOD_SET, IB_SMP_ATTR_PORT_INFO, 0, d))
		fail("the switch takes no M_Key");
	mkey = key;
}

/* Makes the ports of liars Active, so that their data packets are forwarded. */
static void admit(void)
{
	for (uint32_t n = 3; n <= PORTS; n++) {
		struct ib_port_info pi;
		uint8_t d[64] = { 0 };

		manage(IB_METHOD_GET, IB_SMP_ATTR_PORT_INFO, n, d);
		ib_port_info_unpack(d, &pi);
		if (pi.state != IB_PS_INIT && pi.state != IB_PS_ARMED)
			continue;
		pi.state++;
		pi.phys_state = 0;
		ib_port_info_pack(&pi, d);
		manage(IB_METHOD_SET, IB_SMP_ATTR_PORT_INFO, n, d);
	}
}

/* The state that liars must not change. */
struct state {
	uint8_t info[64], lft[64], mft[64], port[3][64], arb[2][64], sl2vl[64], pkey[64];
};

static void look(struct state *s)
{
	memset(s, 0, sizeof(*s));
	manage(IB_METHOD_GET, IB_SMP_ATTR_SWITCH_INFO, 0, s->info);
	s->info[11] &= 0xfb;			/* PortStateChange */
	manage(IB_METHOD_GET, IB_SMP_ATTR_LFT, 0, s->lft);
	manage(IB_METHOD_GET, IB_SMP_ATTR_MFT, 0, s->mft);
	for (uint32_t i = 0; i < 3; i++) {
		manage(IB_METHOD_GET, IB_SMP_ATTR_PORT_INFO, i, s->port[i]);
		memset(s->port[i] + 44, 0, 6);	/* violations of keys */
	}
	for (uint32_t i = 0; i < 2; i++)
		manage(IB_METHOD_GET, IB_SMP_ATTR_VLARB, 1u << 16 | (i + 1), s->arb[i]);
	manage(IB_METHOD_GET, IB_SMP_ATTR_SL2VL, 1 << 8 | 2, s->sl2vl);
	manage(IB_METHOD_GET, IB_SMP_ATTR_PKEY_TABLE, 1 << 16, s->pkey);
}

/* ---- processes ---- */

static pid_t fabric_start(const char *program, const char *path, const char *log)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(open(log, O_WRONLY | O_CREAT, 0600), 1);
	dup2(1, 2);
	execl(program, program, "serve", "--listen", path, "--generate", "star:6", "--hosts-off", "--vls",
	      "2", "--credit-shift", "0", "--hoq-scale", "64", "--quiet", (char *)NULL);
	_exit(127);
}

/* Return: descriptors and shared memory of a process. */
static unsigned int holds(pid_t pid)
{
	char path[64], line[512];
	unsigned int n = 0;
	FILE *f;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	d = opendir(path);
	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		n += !!strstr(line, "memfd:");
	if (f)
		fclose(f);
	return n;
}

static void join_fabric(unsigned int i, const char *path)
{
	struct ohca_link_phy phy = ep_phy();
	struct ohca_link_cfg cfg;
	struct ohca_link_err err = { 0 };

	ohca_link_cfg_init(&cfg);
	cfg.port_guid = 0x10 + i;
	cfg.want_port = (uint8_t)(i + 1);
	cfg.vl_cap = VLS;
	ep[i].port = i + 1;
	for (int n = 0; n < 300 && !ep[i].l; n++, usleep(100000))
		ep[i].l = ohca_link_connect(path, &cfg, 30000, &err);
	if (!ep[i].l || ohca_link_train(ep[i].l, &phy) || simple_up(ep[i].l, 30000))
		fail("end port %u: %s", i, err.text);
}

/* Starts one liar in place of one that has ended; it may be killed at any time. */
static pid_t liar_start(const char *path, uint64_t seed, uint64_t *count)
{
	pid_t pid = fork();

	if (pid < 0)
		fail("fork");
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	secret = mkey = 0;
	liar_run(path, seed, count);
	_exit(0);
}

static void reap(pid_t *liar, bool kill_it)
{
	int status = 0;

	if (kill_it)
		kill(*liar, SIGKILL);
	if (waitpid(*liar, &status, kill_it ? 0 : WNOHANG) != *liar)
		return;
	*liar = 0;
	if (WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status) != SIGKILL)
		fail("a liar ended with %#x: the link believes its peer", status);
}

static void trouble(const char *path, unsigned int seconds, uint64_t seed, uint64_t *count)
{
	pid_t liar[LIARS] = { 0 };
	double end = now() + seconds, next = 0;

	while (now() < end) {
		for (unsigned int i = 0; i < LIARS; i++) {
			if (!liar[i])
				liar[i] = liar_start(path, seed++, count);
			else
				reap(&liar[i], !(rand() % 4000));
		}
		turn(NULL);
		usleep(200);
		if (now() > next) {
			admit();
			next = now() + 0.1;
		}
	}
	for (unsigned int i = 0; i < LIARS; i++)
		if (liar[i])
			reap(&liar[i], true);
}

int main(int argc, char **argv)
{
	unsigned int seconds = argc > 2 ? (unsigned int)atoi(argv[2]) : 5;
	uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 0) : 1;
	char dir[] = "/tmp/ohca-liar-XXXXXX", path[64], log[64];
	struct state before, after;
	unsigned int held, n = 0;
	uint64_t peace, *count;
	pid_t fabric;
	int status;

	count = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (argc < 2 || !mkdtemp(dir) || count == MAP_FAILED ||
	    getrandom(&secret, sizeof(secret), 0) != sizeof(secret) ||
	    getrandom(&ep[0].tid, sizeof(ep[0].tid), 0) != sizeof(ep[0].tid))
		return 1;
	snprintf(path, sizeof(path), "%s/s", dir);
	snprintf(log, sizeof(log), "%s/log", dir);
	fabric = fabric_start(argv[1], path, log);
	for (unsigned int i = 0; i < 2; i++)
		join_fabric(i, path);
	if (ep_bring_up(ep, 2))
		fail("bring-up");
	last = now();
	protect();
	look(&before);
	held = holds(fabric);
	peace = moved;
	trouble(path, seconds, seed, count);
	peace = moved - peace;
	/* the fabric detects that they have ended */
	while (holds(fabric) != held && n++ < 300) {
		turn(NULL);
		usleep(100000);
	}
	if (holds(fabric) != held)
		fail("the fabric holds %u descriptors and mappings, not %u", holds(fabric), held);
	look(&after);
	if (memcmp(&before, &after, sizeof(before)))
		fail("seed %lu: something has changed", (unsigned long)seed);
	if (!*count || peace < 100)
		fail("%lu lies, %lu packets", (unsigned long)*count, (unsigned long)peace);
	kill(fabric, SIGTERM);
	if (waitpid(fabric, &status, 0) != fabric || status)
		fail("the fabric ended with %#x, see %s", status, log);
	ohca_link_free(ep[0].l);
	ohca_link_free(ep[1].l);
	unlink(log);
	rmdir(dir);
	printf("PASS: liar: %lu lies in all, %lu honest packets meanwhile\n", (unsigned long)*count,
	       (unsigned long)peace);
	return 0;
}
