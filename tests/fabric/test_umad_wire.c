// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Packets that libohca-umad.so receives by its link. The node gets those with correct CRCs. However
 * many arrive, other threads get the lock in between.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "ib/crc.h"
#include "ib/mad_packet.h"
#include "link/link_priv.h"
#include "../link/simple.h"
#include "umad/agent.h"
#include "umad/issm.h"
#include "umad/node.h"
#include "umad/wire.h"

#define PACKETS		6u
#define FLOOD		600u	/* packets */
#define TRAININGS	50u

struct um_node um_node;
static atomic_uint received, damaged;
static struct ohca_link *far_end;
static uint8_t order[PACKETS];		/* TIDs of the received MADs */

/*
 * @held: the library's thread, which holds the lock, stops in its next packet, @at_packet, or at
 * the end of the link, until the thread @tid waits for the lock; @done: the number of steps from
 * then on
 */
static struct {
	atomic_bool held, at_packet, stands, asking;
	_Atomic pid_t tid;
	atomic_uint done;
} hold;

/* Whether thread @tid sleeps. */
static bool is_asleep(pid_t tid)
{
	char path[64], text[256];
	const char *state;
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	f = fopen(path, "r");
	assert_non_null(f);
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = 0;
	state = strrchr(text, ')');
	assert_non_null(state);
	return state[2] == 'S';
}

/* Called by the library's thread at each step, with the lock. */
static void stand_still(bool packet)
{
	atomic_fetch_add(&hold.done, 1);
	if (packet != atomic_load(&hold.at_packet) || !atomic_exchange(&hold.held, false))
		return;
	atomic_store(&hold.stands, true);
	while (!atomic_load(&hold.asking) || !is_asleep(atomic_load(&hold.tid)))
		sched_yield();
	atomic_store(&hold.done, 0);
}

/* ---- the node and its agents --------------------------------------------------- */

void um_node_init(uint64_t guid, const char *desc)
{
	(void)guid;
	(void)desc;
}

void um_node_link_cfg(struct ohca_link_cfg *cfg)
{
	ohca_link_cfg_init(cfg);
	cfg->port_guid = 1;
}

void um_node_link_up(const struct ohca_link_state *st, const struct ohca_link_cfg *peer)
{
	(void)st;
	(void)peer;
	um_node.pi.state = IB_PS_ACTIVE;
	atomic_fetch_add(&hold.done, 1);
}

void um_node_link_down(void)
{
	stand_still(false);
}

void um_file_forget(void)
{
}

bool um_node_phy(struct ohca_link_phy *phy)
{
	*phy = (struct ohca_link_phy){ true, 0xff, 0xff, 0xff };
	return false;
}

void um_node_receive(const uint8_t *pkt, size_t len)
{
	const unsigned int n = atomic_load(&received);

	assert_int_equal(len, IB_MAD_PKT_LEN);
	if (n < PACKETS)
		order[n] = pkt[IB_MAD_PKT_HDR + 15];
	stand_still(true);
	atomic_store(&received, n + 1);
}

void um_node_damaged(bool remote)
{
	assert_false(remote);
	atomic_fetch_add(&damaged, 1);
}

int64_t um_node_timer(int64_t now_ns)
{
	(void)now_ns;
	return INT64_MAX;
}

int64_t um_agent_timer(int64_t now_ns)
{
	(void)now_ns;
	return INT64_MAX;
}

int64_t um_issm_update(int64_t now_ns)
{
	(void)now_ns;
	return INT64_MAX;
}

int um_issm_fd(void)
{
	return -1;
}

/* ---- the fabric's end of the link ---------------------------------------------- */

/*
 * Sends a MAD with TID @tid by lane @vl. @icrc: with an ICRC; @wrong: with one bit changed before
 * it.
 */
static void send_mad(struct ohca_link *l, unsigned int vl, uint8_t tid, bool icrc, bool wrong)
{
	const struct ib_mad_path path = {
		.slid = 1, .dlid = 2, .pkey = IB_DEFAULT_PKEY, .vl = (uint8_t)vl,
		.dqpn = vl == IB_MGMT_VL ? 0 : IB_QP1, .sqpn = IB_QP1, .qkey = IB_QKEY_GSI,
	};
	struct ib_mad mad = { .hdr.tid = ib_to_be64(tid) };
	uint8_t *b = ohca_link_tx_begin(l, vl, IB_MAD_PKT_LEN);
	uint32_t crc = 0;

	assert_non_null(b);
	ib_build_mad(b, &path, &mad);
	if (icrc) {
		assert_int_equal(ib_icrc(b, IB_MAD_PKT_LEN - IB_ICRC_LEN, &crc), 0);
		ib_icrc_put(b + IB_MAD_PKT_LEN - IB_ICRC_LEN, crc);
	}
	if (wrong)
		b[IB_MAD_PKT_LEN - IB_ICRC_LEN - 1] ^= 1;
	ohca_link_tx_commit(l, vl, IB_MAD_PKT_LEN, icrc ? OHCA_FRAME_ICRC : 0);
	ohca_link_kick(l);
}

static void *switch_end(void *arg)
{
	const struct ohca_link_phy phy = { true, 0xff, 0xff, 0xff };
	struct ohca_link_cfg cfg;
	struct ohca_link_err err;

	ohca_link_cfg_init(&cfg);
	far_end = simple_accept(*(int *)arg, &cfg, 10000, &err);
	assert_non_null(far_end);
	ohca_link_train(far_end, &phy);
	assert_int_equal(simple_up(far_end, 10000), 0);
	return NULL;
}

static void test_icrc(void **st)
{
	char dir[] = "/tmp/ohca-umad-XXXXXX", path[64];
	const struct timespec pause = { .tv_nsec = 1000000 };
	struct ohca_link_err err;
	struct ohca_link *l;
	pthread_t t;
	int fd;

	(void)st;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/sock", dir);
	setenv("OHCA_UMAD", path, 1);
	setenv("OHCA_UMAD_WAIT", "0", 1);
	fd = ohca_link_listen(path, &err);
	assert_true(fd >= 0);
	assert_int_equal(pthread_create(&t, NULL, switch_end, &fd), 0);
	assert_int_equal(um_wire_open(), 0);
	assert_int_equal(pthread_join(t, NULL), 0);
	l = far_end;
	send_mad(l, IB_MGMT_VL, 1, false, false);
	send_mad(l, IB_MGMT_VL, 2, true, true);
	send_mad(l, IB_MGMT_VL, 3, true, false);
	send_mad(l, 0, 4, true, true);
	send_mad(l, 0, 5, true, false);
	/* without the flag the ICRC is not checked */
	send_mad(l, 0, 6, false, true);
	for (int i = 0; i < 10000 && atomic_load(&received) + atomic_load(&damaged) < PACKETS; i++)
		nanosleep(&pause, NULL);
	assert_int_equal(atomic_load(&damaged), 2);
	assert_int_equal(atomic_load(&received), 4);
	for (unsigned int i = 0; i < 4; i++)
		assert_true(order[i] != 2 && order[i] != 4);
	unlink(path);
	rmdir(dir);
}

/* Stops the thread at its next step of that kind. */
static void hold_thread(bool packet)
{
	atomic_store(&hold.tid, gettid());
	atomic_store(&hold.at_packet, packet);
	atomic_store(&hold.asking, false);
	atomic_store(&hold.stands, false);
	atomic_store(&hold.held, true);
}

/* Waits for the lock. Return: the number of steps of the thread in that time. */
static unsigned int ask(void)
{
	unsigned int n;

	atomic_store(&hold.asking, true);
	um_lock();
	n = atomic_load(&hold.done);
	um_unlock();
	return n;
}

/* Many packets on two lanes. */
static void test_packets(void **st)
{
	const unsigned int before = atomic_load(&received);

	(void)st;
	hold_thread(true);
	send_mad(far_end, 0, 0, false, false);
	while (!atomic_load(&hold.stands))
		sched_yield();
	for (unsigned int i = 0; i < FLOOD; i++)
		send_mad(far_end, i % 2, 0, false, false);
	assert_in_range(ask(), 0, 64);
	/* the socket has not accepted all of them yet */
	while (atomic_load(&received) - before < FLOOD + 1)
		simple_step(far_end);
}

/* A switch trains the link all the time, as if each training were acknowledged. */
static void test_events(void **st)
{
	const struct ohca_link_phy phy = { true, 0xff, 0xff, 0xff };

	(void)st;
	hold_thread(false);
	assert_int_equal(ohca_link_train(far_end, &phy), 0);
	while (!atomic_load(&hold.stands))
		sched_yield();
	for (unsigned int i = 0; i < TRAININGS; i++) {
		far_end->peer_state.ack = far_end->sent_seq;
		assert_int_equal(ohca_link_train(far_end, &phy), 0);
	}
	assert_in_range(ask(), 0, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_icrc),
		cmocka_unit_test(test_packets),
		cmocka_unit_test(test_events),
	};

	return cmocka_run_group_tests_name("packets of libohca-umad", tests, NULL, NULL);
}
