// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A program copies a running fabric with its tables by the control socket: the copy is the same,
 * and a process that sends invalid data gets the program no copy and does no harm.
 */
#include "cases.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fabric/control/control.h"
#include "fabric/graph/wire.h"
#include "fabric/mgmt/mgmt.h"
#include "fabric/traffic/routes.h"

#define LIES	150u	/* runs with a wrong byte */

static char path[64];
static struct fab *f;
static uint64_t rng;

static uint32_t any(uint32_t n)
{
	return fab_random(&rng) % n;
}

/* Answers one client; with @lie one byte of some answer is changed. */
static void answer(int fd, bool lie)
{
	FILE *in = fdopen(fd, "r");
	struct fab_mgmt m;
	char *line = NULL;
	size_t size = 0;
	ssize_t n;

	fab_mgmt_init(&m, f, NULL, NULL);
	while ((n = getline(&line, &size, in)) > 0) {
		char *reply = fab_control_answer(&m, NULL, line, (size_t)n - 1, NULL);
		const size_t len = strlen(reply);

		if (lie && !any(4))
			reply[any((uint32_t)len - 1)] = (char)(32 + any(95));
		if (send(fd, reply, len, MSG_NOSIGNAL) < 0)
			break;
		free(reply);
	}
}

/* Starts a process that answers one client at @path. Return: its ID. */
static pid_t serve(bool lie)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	const int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	pid_t pid;

	snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
	unlink(path);
	assert_int_equal(bind(s, (struct sockaddr *)&un, sizeof(un)), 0);
	assert_int_equal(listen(s, 1), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		alarm(60);
		answer(accept(s, NULL, NULL), lie);
		_exit(0);
	}
	close(s);
	return pid;
}

/* Return: the copy that a program gets, or NULL. */
static struct fab *copy(bool lie)
{
	const pid_t pid = serve(lie);
	struct fab *c = fab_client_fabric(path);
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	return c;
}

static void put(struct fab_pool *pool, uint32_t *index, const void *v)
{
	fab_pool_put(pool, *index);
	*index = fab_pool_get(pool, v);
	assert_true(*index != FAB_NONE);
}

static void some_vlarb(struct fab_port *p)
{
	struct ib_vlarb_entry e[IB_VLARB_BLOCK] = { 0 };
	struct ib_vlarb arb;

	ib_vlarb_init(&arb, FAB_VLARB_CAP, 0);
	for (unsigned int block = 1; block <= 4; block += 2) {
		const unsigned int n = 1 + any(15);

		for (unsigned int i = 0; i < IB_VLARB_BLOCK; i++)
			e[i] = (struct ib_vlarb_entry){ i < n ? (uint8_t)any(15) : 0,
							i < n ? (uint8_t)(1 + any(255)) : 0 };
		ib_vlarb_set_block(&arb, block, e);
	}
	put(&f->vlarb, &p->vlarb, &arb);
}

static void some_maps(const struct fab_node *n, unsigned int out)
{
	uint32_t *own = n->sw != FAB_NONE ? f->sw[n->sw].sl2vl : NULL;
	struct ib_sl2vl map;

	for (unsigned int in = 0; in <= n->nports; in++) {
		for (unsigned int sl = 0; sl < IB_NUM_SLS; sl++)
			map.vl[sl] = (uint8_t)any(16);
		put(&f->sl2vl, own ? &own[in * (n->nports + 1u) + out] :
				     &f->port[fab_port_of(n, out)].sl2vl, &map);
	}
}

/* A manager has set up the fabric. */
static void make(const char *spec, uint8_t vls, uint8_t mtu)
{
	char why[1024];

	f = fab_new();
	f->vls = vls;
	f->mtu = mtu;
	assert_true(fab_generate(f, spec, why, sizeof(why)) && fab_seal(f));
	assert_true(fab_routes_make(f, FAB_ROUTING_UPDN));
	fab_routes_active(f);
	for (uint32_t i = 0; i < f->nodes; i++) {
		const struct fab_node *n = &f->node[i];

		if (n->sw != FAB_NONE)
			f->sw[n->sw].si.life_time = (uint8_t)any(20);
		if (n->sw != FAB_NONE && any(2))
			assert_true(fab_own_sl2vl(f, n));
		for (unsigned int num = 1; num <= n->nports; num++) {
			struct fab_port *p = &f->port[fab_port_of(n, num)];

			p->pi.op_vls = (uint8_t)(1 + any(fab_vl_code(vls)));
			p->pi.hoq_life = (uint8_t)any(20);
			p->pi.vl_stall_count = (uint8_t)any(8);
			p->pi.vl_high_limit = (uint8_t)any(256);
			some_vlarb(p);
			some_maps(n, num);
		}
	}
}

static void same_port(const struct fab *c, const struct fab_node *n, unsigned int num)
{
	const struct fab_port *a = &f->port[fab_port_of(n, num)], *b = &c->port[fab_port_of(n, num)];
	const unsigned int dim = n->sw != FAB_NONE ? n->nports + 1u : 1;

	assert_int_equal(a->pi.state, b->pi.state);
	assert_int_equal(a->pi.lid, b->pi.lid);
	if (a->peer == FAB_NO_PORT)
		return;
	assert_int_equal(a->peer, b->peer);
	assert_int_equal(a->pi.op_vls, b->pi.op_vls);
	assert_int_equal(a->pi.hoq_life, b->pi.hoq_life);
	assert_int_equal(a->pi.vl_stall_count, b->pi.vl_stall_count);
	assert_int_equal(a->pi.vl_high_limit, b->pi.vl_high_limit);
	assert_memory_equal(fab_pool_at(&f->vlarb, a->vlarb), fab_pool_at(&c->vlarb, b->vlarb),
			    sizeof(struct ib_vlarb));
	for (unsigned int in = 0; in < dim; in++)
		assert_memory_equal(fab_sl2vl(f, n, in, num), fab_sl2vl(c, &c->node[n - f->node], in, num),
				    sizeof(struct ib_sl2vl));
}

static void same(const struct fab *c)
{
	assert_int_equal(c->nodes, f->nodes);
	assert_int_equal(c->vls, f->vls);
	assert_int_equal(c->mtu, f->mtu);
	for (uint32_t i = 0; i < f->nodes; i++) {
		const struct fab_node *n = &f->node[i];

		assert_int_equal(c->node[i].guid, n->guid);
		for (unsigned int num = 1; num <= n->nports; num++)
			same_port(c, n, num);
		if (n->sw == FAB_NONE)
			continue;
		assert_int_equal(c->sw[n->sw].si.life_time, f->sw[n->sw].si.life_time);
		assert_int_equal(c->sw[n->sw].si.linear_top, f->sw[n->sw].si.linear_top);
		assert_memory_equal(c->sw[n->sw].lft, f->sw[n->sw].lft, f->sw[n->sw].si.linear_top + 1u);
	}
}

static void test_same(void **st)
{
	struct fab *c;

	(void)st;
	make("fat-tree:4", 8, 5);
	c = copy(false);
	assert_non_null(c);
	same(c);
	fab_free(c);
	fab_free(f);
	make("torus:4x4,2", 15, 3);
	c = copy(false);
	assert_non_null(c);
	same(c);
	fab_free(c);
	fab_free(f);
}

/* A link that is not Active at one end is down at both ends in the copy. */
static void test_states(void **st)
{
	const struct fab_node *n;
	uint32_t p;
	struct fab *c;

	(void)st;
	make("ring:4", 8, 5);
	for (n = f->node; n->sw == FAB_NONE; n++)
		;
	p = fab_port_of(n, 1);
	f->port[p].pi.state = IB_PS_ARMED;
	c = copy(false);
	assert_non_null(c);
	assert_int_equal(c->port[p].pi.state, IB_PS_DOWN);
	assert_int_equal(c->port[c->port[p].peer].pi.state, IB_PS_DOWN);
	fab_free(c);
	fab_free(f);
}

static void test_lies(void **st)
{
	unsigned int refused = 0;
	FILE *said = stderr;

	(void)st;
	make("ring:3", 4, 5);
	stderr = fopen("/dev/null", "w");
	for (unsigned int i = 0; i < LIES; i++) {
		struct fab *c;

		rng = fab_random_state(i);
		c = copy(true);
		refused += !c;
		fab_free(c);
	}
	fclose(stderr);
	stderr = said;
	assert_true(refused > LIES / 2);
	fab_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same), cmocka_unit_test(test_states), cmocka_unit_test(test_lies),
	};
	char dir[] = "/tmp/copy.XXXXXX";
	int rc;

	rng = fab_random_state(1);
	if (!mkdtemp(dir))
		return 1;
	snprintf(path, sizeof(path), "%s/control", dir);
	rc = cmocka_run_group_tests_name("copies of fabrics", tests, NULL, NULL);
	unlink(path);
	rmdir(dir);
	return rc;
}
