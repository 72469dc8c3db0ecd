// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the options of ohca-switch make of it, as its peers see it. The program is beside this one
 * and is named switch.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "ep.h"

#define MAX_ARGS 12

static char dir[] = "/tmp/ohca-sw-XXXXXX", sock[64], program[4096];

/* A switch that runs. */
struct child {
	pid_t pid;
	FILE *out;		/* its output, of both kinds */
	char ready[256];	/* the line that says so */
};

static void start(struct child *c, const char *const *options)
{
	const char *argv[MAX_ARGS + 4] = { program, "-l", sock };
	unsigned int n = 3;
	int p[2];

	while (*options && n < MAX_ARGS + 3)
		argv[n++] = *options++;
	assert_null(*options);
	assert_int_equal(pipe(p), 0);
	c->pid = fork();
	if (!c->pid) {
		dup2(p[1], 1);
		dup2(p[1], 2);
		close(p[0]);
		close(p[1]);
		execv(program, (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	close(p[1]);
	c->out = fdopen(p[0], "r");
	do {
		assert_non_null(fgets(c->ready, sizeof(c->ready), c->out));
	} while (!strstr(c->ready, "ready"));
}

/* Ends it by @sig; its last words, without what it said of links, are @words. */
static void stop(struct child *c, int sig, const char *words, unsigned int lines)
{
	char line[1024];
	unsigned int n = 0;
	int status;

	assert_int_equal(kill(c->pid, sig), 0);
	while (fgets(line, sizeof(line), c->out))
		if (strstr(line, words))
			n++;
	fclose(c->out);
	assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(n, lines);
	assert_int_equal(access(sock, F_OK), -1);
}

static void attach(struct ep *e)
{
	struct ohca_link_phy phy = ep_phy();
	struct ohca_link_err err;
	struct ohca_link_cfg cfg;

	ohca_link_cfg_init(&cfg);
	cfg.port_guid = 50;
	cfg.vl_cap = 15;
	cfg.speed_sup = 0xff;
	cfg.speed_ext_sup = 0xff;
	cfg.width_sup = 0xff;
	*e = (struct ep){ .l = ohca_link_connect(sock, &cfg, 30000, &err) };
	if (!e->l)
		fail_msg("%s", err.text);
	ohca_link_train(e->l, &phy);
	assert_int_equal(ohca_link_wait_up(e->l, 30000), 0);
}

/* What stands in the place of options that are not given. */
static const struct ohca_link_cfg usual = {
	.node_guid = 0x1234, .port_guid = 0x1234, .node_type = 2, .port_num = 1, .vl_cap = 8,
	.mtu_cap = 5, .shift_pref = 2, .width_sup = 3, .speed_sup = 7, .speed_ext_sup = 3,
	.desc = "ohca-switch",
};

static void expect(const struct ohca_link_cfg *got, const struct ohca_link_cfg *want)
{
	assert_true(got->node_guid == want->node_guid && got->port_guid == want->port_guid);
	assert_int_equal(got->node_type, want->node_type);
	assert_int_equal(got->port_num, want->port_num);
	assert_int_equal(got->vl_cap, want->vl_cap);
	assert_int_equal(got->mtu_cap, want->mtu_cap);
	assert_int_equal(got->shift_pref, want->shift_pref);
	assert_int_equal(got->width_sup, want->width_sup);
	assert_int_equal(got->speed_sup, want->speed_sup);
	assert_int_equal(got->speed_ext_sup, want->speed_ext_sup);
	assert_string_equal(got->desc, want->desc);
}

/* Each value of each option that its ports show. */
static void test_ports(void **state)
{
	static const char * const speeds[] = { "sdr", "ddr", "qdr", "fdr", "edr", "hdr", "ndr" };
	static const char * const widths[] = { "1x", "4x", "8x", "12x" };
	static const char * const mtus[] = { "256", "512", "1024", "2048", "4096" };
	static const char * const vls[] = { "1", "2", "4", "8", "15" };
	static const uint8_t ext[] = { 0, 0, 0, 1, 3, 7, 15 };
	static const char * const shifts[] = { "0", "1", "2", "3", "4", "5", "6" };

	(void)state;
	for (unsigned int i = 0; i < 7; i++) {
		const char *options[] = {
			"-g", "1234", "-s", speeds[i], "-w", widths[i % 4], "-m", mtus[i % 5],
			"-v", vls[i % 5], "--credit-shift", shifts[i], NULL,
		};
		struct ohca_link_cfg want = usual;
		struct child c;
		struct ep e;

		start(&c, options);
		attach(&e);
		want.speed_sup = i == 0 ? 1 : i == 1 ? 3 : 7;
		want.speed_ext_sup = ext[i];
		want.width_sup = (uint8_t)((1u << (i % 4 + 1)) - 1);
		want.mtu_cap = (uint8_t)(i % 5 + 1);
		want.vl_cap = (uint8_t)atoi(vls[i % 5]);
		want.shift_pref = (uint8_t)i;
		expect(ohca_link_peer(e.l), &want);
		assert_int_equal(ohca_link_shift(e.l), i);
		ohca_link_free(e.l);
		stop(&c, i % 2 ? SIGINT : SIGTERM, "MADs in", 0);
	}
}

/* Each field of NodeInfo that options give. */
static void expect_node(struct ep *e, uint64_t guid, uint64_t sys_guid, unsigned int nports)
{
	struct ib_node_info ni;
	uint8_t d[64] = { 0 };

	assert_int_equal(ep_switch(e, IB_METHOD_GET, IB_SMP_ATTR_NODE_INFO, 0, d), 0);
	ib_node_info_unpack(d, &ni);
	assert_int_equal(ni.node_guid, guid);
	assert_int_equal(ni.sys_guid, sys_guid);
	assert_int_equal(ni.num_ports, nports);
}

/* Who it is: as it is told, or by its path, the same each time. */
static void test_node(void **state)
{
	const char *none[] = { NULL };
	const char *node[] = { "-g", "1234", "-p", "3", NULL };
	const char *all[] = { "-g", "1234", "-G", "5678", "-p", "254", "-d", "a desc", "-q",
			      "--stats", NULL };
	struct ohca_link_cfg want = usual;
	struct child c;
	uint64_t guid;
	struct ep e;

	(void)state;
	start(&c, none);
	attach(&e);
	guid = ohca_link_peer(e.l)->node_guid;
	assert_int_equal(guid >> 32, 0x001234f0);
	want.node_guid = guid;
	want.port_guid = guid;
	expect(ohca_link_peer(e.l), &want);
	expect_node(&e, guid, guid, 36);
	ohca_link_free(e.l);
	stop(&c, SIGHUP, "port 1: 'HCA", 0);
	start(&c, none);
	attach(&e);
	assert_int_equal(ohca_link_peer(e.l)->node_guid, guid);
	ohca_link_free(e.l);
	/* that it is attached is told once */
	stop(&c, SIGTERM, "attached, port GUID 0x0000000000000032", 1);

	start(&c, node);
	attach(&e);
	expect(ohca_link_peer(e.l), &usual);
	expect_node(&e, 0x1234, 0x1234, 3);
	ohca_link_free(e.l);
	stop(&c, SIGINT, "MADs in", 0);

	start(&c, all);
	attach(&e);
	want = usual;
	strcpy(want.desc, "a desc");
	expect(ohca_link_peer(e.l), &want);
	expect_node(&e, 0x1234, 0x5678, 254);
	ohca_link_free(e.l);
	stop(&c, SIGINT, "MADs in 1", 1);
	start(&c, all);
	attach(&e);
	ohca_link_free(e.l);
	stop(&c, SIGTERM, "attached", 0);
}

static int setup(void **state)
{
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
	char *slash;

	(void)state;
	if (n < 0 || !mkdtemp(dir))
		return -1;
	program[n] = 0;
	slash = strrchr(program, '/');
	strcpy(slash, "/switch");
	snprintf(sock, sizeof(sock), "%s/s", dir);
	return access(program, X_OK);
}

static int teardown(void **state)
{
	(void)state;
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ports),
		cmocka_unit_test(test_node),
	};

	return cmocka_run_group_tests_name("switch options", tests, setup, teardown);
}
