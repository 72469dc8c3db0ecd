/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Limits of machines' memory, of one and of all, and of the objects that drivers make. */
#include "front_world.h"

#define KIB	1024ull
#define MIB	(1024 * KIB)
#define DM	(64 * KIB)

static void with_limits(struct world *w)
{
	w->cfg.front_memory = MIB;
	w->cfg.fronts_memory = MIB + 512 * KIB;
}

static void with_few_objects(struct world *w)
{
	w->cfg.hca_memory = MIB;
}

static int setup(void **state)
{
	return world_start(state, with_limits);
}

static int setup_objects(void **state)
{
	return world_start(state, with_few_objects);
}

static void read_stats(struct world *w, void *arg)
{
	assert_true(fab_data_fronts(w->d, arg));
}

static void expect_stats(struct world *w, uint64_t machines, uint64_t bytes, uint64_t refused)
{
	struct fab_front_stats st;

	in_loop(w, read_stats, &st);
	assert_int_equal(st.machines, machines);
	assert_int_equal(st.memory_bytes, bytes);
	assert_int_equal(st.memory_refused, refused);
}

static int file_of(uint64_t size)
{
	const int fd = memfd_create("memory", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	return fd;
}

static struct ohca_front_hello a_hello(uint64_t guid, uint64_t dm)
{
	struct ohca_cfg c = card(guid);

	c.dm_size = dm;
	return hello_of(&c);
}

static void come(struct front *f, struct world *w, uint64_t guid)
{
	const struct ohca_front_hello h = a_hello(guid, 0);

	front_dial(f, w->path);
	if (!front_hello(f, &h, -1))
		fail_msg("%s", f->why);
}

/*
 * A machine has at most its own limit, whatever the memory is for; files that do not exist do not
 * count.
 */
static void test_one(void **state)
{
	const uint64_t log = OHCA_DIRTY_BYTES(512 * KIB);
	struct world *w = *state;
	const int mem = file_of(2 * MIB);
	struct ohca_front_hello h;
	struct front f;

	h = a_hello(0x7000, DM);
	front_dial(&f, w->path);
	assert_true(front_hello(&f, &h, mem));
	expect_stats(w, 1, DM, 0);
	assert_int_equal(call_block(&f, 0, MIB - DM + 1, mem), OHCA_FRONT_LIMIT);
	expect_stats(w, 1, DM, 1);
	assert_int_equal(call_block(&f, 0, UINT64_MAX, mem), OHCA_FRONT_LIMIT);
	assert_int_equal(call_block(&f, 0, MIB - DM, mem), OHCA_FRONT_OK);
	expect_stats(w, 1, MIB, 2);
	assert_int_equal(call_log(&f, 0, mem), OHCA_FRONT_LIMIT);
	assert_int_equal(call_block(&f, 1, 4096, mem), OHCA_FRONT_LIMIT);
	assert_int_equal(call_unblock(&f, 0), OHCA_FRONT_OK);
	expect_stats(w, 1, DM, 4);
	/* a file that is refused for another reason does not stay in the count */
	assert_int_equal(call_block(&f, 0, 3 * 512 * KIB / 2, w->pipe[0]), OHCA_FRONT_NOT_SHARED);
	expect_stats(w, 1, DM, 4);
	assert_int_equal(call_block(&f, 0, 512 * KIB, mem), OHCA_FRONT_OK);
	assert_int_equal(call_log(&f, 0, w->pipe[0]), OHCA_FRONT_NOT_SHARED);
	assert_int_equal(call_log(&f, 0, mem), OHCA_FRONT_OK);
	expect_stats(w, 1, DM + 512 * KIB + log, 4);
	assert_int_equal(call_unblock(&f, 0), OHCA_FRONT_OK);
	expect_stats(w, 1, DM, 4);
	front_close(&f);
	close(mem);
}

/*
 * All machines together have at most the limit of all, and memory of a machine that ends is free
 * for others.
 */
static void test_all(void **state)
{
	struct world *w = *state;
	const int mem = file_of(2 * MIB);
	struct ohca_front_hello h;
	struct front f, g, k;

	come(&f, w, 0x7000);
	come(&g, w, 0x8000);
	assert_int_equal(call_block(&f, 0, MIB, mem), OHCA_FRONT_OK);
	assert_int_equal(call_block(&g, 0, 512 * KIB + 1, mem), OHCA_FRONT_LIMIT);
	assert_int_equal(call_block(&g, 0, 512 * KIB, mem), OHCA_FRONT_OK);
	expect_stats(w, 2, MIB + 512 * KIB, 1);
	h = a_hello(0x9000, DM);
	front_dial(&k, w->path);
	assert_false(front_hello(&k, &h, mem));
	assert_non_null(strstr(k.why, "so much device memory"));
	front_close(&k);
	expect_stats(w, 2, MIB + 512 * KIB, 2);
	/* by BYE, and without it */
	assert_int_equal(call_plain(&f, OHCA_FRONT_BYE), OHCA_FRONT_OK);
	expect_stats(w, 1, 512 * KIB, 2);
	front_close(&f);
	assert_int_equal(call_block(&g, 1, 512 * KIB, mem), OHCA_FRONT_OK);
	front_close(&g);
	front_dial(&k, w->path);
	assert_true(front_hello(&k, &h, mem));
	expect_stats(w, 1, DM, 2);
	front_close(&k);
	close(mem);
}

/*
 * A driver's commands are refused when its objects use all the memory that is allowed, and they are
 * counted.
 */
static void test_objects(void **state)
{
	struct ohca_hw_aqe c = { .hdr = { 0 } };
	struct fab_front_stats before, st;
	struct world *w = *state;
	struct ohca_hw_acqe r;
	struct machine m;
	unsigned int n;
	int rc;

	machine_up(&m, w, 2);
	in_loop(w, read_stats, &before);
	assert_int_equal(before.objects_refused, 0);
	assert_true(before.object_bytes && before.object_bytes <= MIB);
	for (n = 0, rc = 0; !rc; n++) {
		assert_true(n < 100000);
		rc = host_cmd(m.h, OHCA_CMD_ALLOC_COUNTERS, &c, &r);
	}
	assert_int_equal(rc, OHCA_ADMIN_NO_RESOURCE);
	in_loop(w, read_stats, &st);
	assert_int_equal(st.objects_refused, 1);
	assert_true(st.object_bytes > before.object_bytes && st.object_bytes <= MIB);
	machine_down(&m);
	wait_free(w, 2);
	/* the count stays */
	in_loop(w, read_stats, &st);
	assert_int_equal(st.machines, 0);
	assert_int_equal(st.object_bytes, 0);
	assert_int_equal(st.objects_refused, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_one, setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_all, setup, world_teardown),
		cmocka_unit_test_setup_teardown(test_objects, setup_objects, world_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
