// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The topology and the options of ohca-fabric serve decide what a switch reports to its peers. The
 * program is expected beside this one.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "ep.h"
#include "link/link_priv.h"

#define MAX_ARGS 12

static char dir[] = "/tmp/ohca-fab-XXXXXX", sock[64], topology[64], program[4096];

/* A running fabric. */
struct child {
	pid_t pid;
	FILE *out;		/* stdout and stderr */
	char ready[256];	/* the line that reports it ready */
	bool open;		/* it reported that Landlock is missing */
};

/* From now on the kernel lacks Landlock. */
static void forget_landlock(void)
{
	scmp_filter_ctx s = seccomp_init(SCMP_ACT_ALLOW);

	if (seccomp_rule_add(s, SCMP_ACT_ERRNO(EOPNOTSUPP), SCMP_SYS(landlock_create_ruleset), 0) ||
	    seccomp_load(s))
		_exit(126);
	seccomp_release(s);
}

static bool without_landlock;

static void start(struct child *c, const char *const *options)
{
	const char *argv[MAX_ARGS + 6] = { program, "serve", "-l", sock, "--hosts-off" };
	unsigned int n = 5;
	int p[2];

	while (*options && n < MAX_ARGS + 5)
		argv[n++] = *options++;
	assert_null(*options);
	assert_int_equal(pipe(p), 0);
	c->pid = fork();
	if (!c->pid) {
		dup2(p[1], 1);
		dup2(p[1], 2);
		close(p[0]);
		close(p[1]);
		if (without_landlock)
			forget_landlock();
		execv(program, (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	close(p[1]);
	c->out = fdopen(p[0], "r");
	c->open = false;
	do {
		assert_non_null(fgets(c->ready, sizeof(c->ready), c->out));
		if (strstr(c->ready, "without Landlock"))
			c->open = true;
	} while (!strstr(c->ready, "ready"));
}

/* Ends it by signal @sig; its last line, apart from those about links, is @words. */
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

/* A switch with a host at each of @ports ports, whose links have @rate. */
static void write_topology(unsigned int ports, uint64_t sys_guid, const char *desc,
			   const char *rate)
{
	FILE *f = fopen(topology, "w");

	assert_non_null(f);
	fprintf(f, "sysimgguid=0x%lx\nswitchguid=0x1234(1234)\n"
		"Switch %u \"S-0000000000001234\" # \"%s\" enhanced port 0 lid 0 lmc 0\n",
		(unsigned long)sys_guid, ports, desc);
	for (unsigned int i = 1; i <= ports; i++)
		fprintf(f, "[%u] \"H-%016x\"[1](%x) # \"host%u\" lid 0 %s\n", i, 4096 * i,
			4096 * i + 1, i, rate);
	for (unsigned int i = 1; i <= ports; i++)
		fprintf(f, "\ncaguid=0x%x\nCa 1 \"H-%016x\" # \"host%u\"\n"
			"[1](%x) \"S-0000000000001234\"[%u] # lid 0 lmc 0 \"%s\" lid 0 %s\n",
			4096 * i, 4096 * i, i, 4096 * i + 1, i, desc, rate);
	assert_int_equal(fclose(f), 0);
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
	assert_int_equal(simple_up(e->l, 30000), 0);
}

/* Defaults of options that are not given. */
static const struct ohca_link_cfg usual = {
	.node_guid = 0x1234, .port_guid = 0x1234, .node_type = 2, .port_num = 1, .vl_cap = 8,
	.mtu_cap = 5, .shift_pref = 2, .width_sup = 3, .speed_sup = 7, .speed_ext_sup = 3,
	.desc = "a switch",
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

/* Even with --quiet, the daemon reports that its confinement is incomplete. */
static void test_no_landlock(void **state)
{
	static const char *const options[] = { "-t", topology, "--quiet", NULL };
	struct child c;

	(void)state;
	write_topology(1, 0, "a switch", "4xEDR");
	without_landlock = true;
	start(&c, options);
	without_landlock = false;
	assert_true(c.open);
	stop(&c, SIGTERM, "Landlock", 0);
}

/* Each rate of a link, and each value of each option that affects the ports. */
static void test_ports(void **state)
{
	static const char * const rates[] = { "1xSDR", "4xDDR", "8xQDR", "12xFDR", "1xEDR", "4xHDR",
					      "8xNDR" };
	static const char * const mtus[] = { "256", "512", "1024", "2048", "4096" };
	static const char * const vls[] = { "1", "2", "4", "8", "15" };
	static const uint8_t widths[] = { 1, 3, 7, 11 };
	static const uint8_t ext[] = { 0, 0, 0, 1, 3, 7, 15 };
	static const char * const shifts[] = { "0", "1", "2", "3", "4", "5", "6" };

	(void)state;
	for (unsigned int i = 0; i < 7; i++) {
		const char *options[] = {
			"-t", topology, "-m", mtus[i % 5], "-v", vls[i % 5], "--credit-shift",
			shifts[i], NULL,
		};
		struct ohca_link_cfg want = usual;
		struct child c;
		struct ep e;

		write_topology(2, 0x1234, "a switch", rates[i]);
		start(&c, options);
		attach(&e);
		want.speed_sup = i == 0 ? 1 : i == 1 ? 3 : 7;
		want.speed_ext_sup = ext[i];
		want.width_sup = widths[i % 4];
		want.mtu_cap = (uint8_t)(i % 5 + 1);
		want.vl_cap = (uint8_t)atoi(vls[i % 5]);
		want.shift_pref = (uint8_t)i;
		expect(ohca_link_peer(e.l), &want);
		assert_int_equal(e.l->shift, i);
		ohca_link_free(e.l);
		stop(&c, i % 2 ? SIGINT : SIGTERM, "MADs in", 0);
	}
}

/* Each field of NodeInfo that a topology sets. */
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

/* The identity of a switch, from a topology file or generated: the same at each start. */
static void test_node(void **state)
{
	const char *made[] = { "-g", "star:36", NULL };
	const char *node[] = { "-t", topology, NULL };
	const char *all[] = { "-t", topology, "-q", "--stats", NULL };
	struct ohca_link_cfg want = usual;
	struct child c;
	struct ep e;

	(void)state;
	want.node_guid = want.port_guid = 0x5254020000000100;
	strcpy(want.desc, "switch1");
	for (unsigned int i = 0; i < 2; i++) {
		start(&c, made);
		attach(&e);
		expect(ohca_link_peer(e.l), &want);
		expect_node(&e, want.node_guid, want.node_guid, 36);
		ohca_link_free(e.l);
		/* the daemon reports the attachment once */
		stop(&c, i ? SIGHUP : SIGTERM, "attached, port GUID 0x0000000000000032", 1);
	}

	write_topology(3, 0x1234, "a switch", "4xEDR");
	start(&c, node);
	attach(&e);
	expect(ohca_link_peer(e.l), &usual);
	expect_node(&e, 0x1234, 0x1234, 3);
	ohca_link_free(e.l);
	stop(&c, SIGINT, "MADs in", 0);

	write_topology(254, 0x5678, "a desc", "4xEDR");
	start(&c, all);
	attach(&e);
	want = usual;
	strcpy(want.desc, "a desc");
	expect(ohca_link_peer(e.l), &want);
	expect_node(&e, 0x1234, 0x5678, 254);
	stop(&c, SIGINT, "MADs in 1 out 1 ", 1);
	ohca_link_free(e.l);
	start(&c, all);
	attach(&e);
	stop(&c, SIGTERM, "'a desc' port 1 '' Init rcv 0 pkts ", 1);
	ohca_link_free(e.l);
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
	strcpy(slash, "/ohca-fabric");
	snprintf(sock, sizeof(sock), "%s/s", dir);
	snprintf(topology, sizeof(topology), "%s/t", dir);
	return access(program, X_OK);
}

static int teardown(void **state)
{
	(void)state;
	unlink(topology);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ports),
		cmocka_unit_test(test_node),
		cmocka_unit_test(test_no_landlock),
	};

	return cmocka_run_group_tests_name("options", tests, setup, teardown);
}
