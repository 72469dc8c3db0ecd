/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * FLUSH for persistence with HCAs of the fabric's process: machines' memory is a file on a disk,
 * and the test delays its msync() calls and lets them fail. The working directory has to be on a
 * disk.
 */
#include "fabric/hca/persist.h"
#include "front_world.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#define STEP	FAB_PERSIST_STEP
#define SEEN	32u
#define REAPS	10000u	/* more than a block needs */

/** struct seen - calls of msync() and munmap() */
struct seen {
	unsigned int calls;
	struct {
		const uint8_t *at;
		size_t n;
	} call[SEEN];
	const uint8_t *unmapped;	/* by the last munmap() */
	bool gone;			/* munmap() got the memory of the first call */
};

/* Calls of msync(). @shut: they wait; @inside: one waits; @error: the next ones fail with it. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t moved;
	bool shut, inside;
	int error;
	struct seen seen;
} disk = { .lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER };

int __real_msync(void *p, size_t n, int flags);
int __wrap_msync(void *p, size_t n, int flags);
int __wrap_msync(void *p, size_t n, int flags)
{
	int error;

	assert_int_equal(flags, MS_SYNC);
	pthread_mutex_lock(&disk.lock);
	if (disk.seen.calls < SEEN) {
		disk.seen.call[disk.seen.calls].at = p;
		disk.seen.call[disk.seen.calls].n = n;
	}
	disk.seen.calls++;
	disk.inside = true;
	pthread_cond_broadcast(&disk.moved);
	while (disk.shut)
		pthread_cond_wait(&disk.moved, &disk.lock);
	disk.inside = false;
	error = disk.error;
	pthread_mutex_unlock(&disk.lock);
	if (!error)
		return __real_msync(p, n, flags);
	errno = error;
	return -1;
}

int __real_munmap(void *p, size_t n);
int __wrap_munmap(void *p, size_t n);
int __wrap_munmap(void *p, size_t n)
{
	pthread_mutex_lock(&disk.lock);
	disk.seen.unmapped = p;
	disk.seen.gone |= disk.seen.calls && (uintptr_t)disk.seen.call[0].at - (uintptr_t)p < n;
	pthread_cond_broadcast(&disk.moved);
	pthread_mutex_unlock(&disk.lock);
	return __real_munmap(p, n);
}

static void disk_set(bool shut, int error)
{
	pthread_mutex_lock(&disk.lock);
	disk.shut = shut;
	disk.error = error;
	if (shut) {
		disk.seen.calls = 0;
		disk.seen.gone = false;
	}
	pthread_cond_broadcast(&disk.moved);
	pthread_mutex_unlock(&disk.lock);
}

/* Waits until an msync() waits, call number @n since the disk was shut. */
static void disk_wait(unsigned int n)
{
	struct timespec end;
	int e = 0;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += LIMIT_MS / 1000;
	pthread_mutex_lock(&disk.lock);
	while (!e && (!disk.inside || disk.seen.calls < n))
		e = pthread_cond_timedwait(&disk.moved, &disk.lock, &end);
	pthread_mutex_unlock(&disk.lock);
	assert_int_equal(e, 0);
}

/* What the thread has called by now. */
static struct seen seen(void)
{
	struct seen s;

	pthread_mutex_lock(&disk.lock);
	s = disk.seen;
	pthread_mutex_unlock(&disk.lock);
	return s;
}

/* Makes a new file in the working directory. */
static int disk_file(void)
{
	return open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

static bool has_disk(void)
{
	const int fd = disk_file();
	struct stat st;
	bool is;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	is = major(st.st_dev) && fcntl(fd, F_GET_SEALS) < 0;
	close(fd);
	return is;
}

/* ---- journals -------------------------------------------------------------------- */

/** struct journals - two fronts, each with a block on a disk */
struct journals {
	struct fab_persister t;
	struct fab_closer c;
	struct fab_persist *p[2];
	struct fab_block *b[2];
	bool vanished;
};

static void journals_up(struct journals *j)
{
	enum ohca_front_status status;

	memset(j, 0, sizeof(*j));
	assert_true(fab_persister_start(&j->t));
	for (unsigned int i = 0; i < 2; i++) {
		const int fd = disk_file();

		assert_int_equal(ftruncate(fd, 4 * STEP), 0);
		j->b[i] = fab_block_new(fd, 4 * STEP, &j->c, true, &j->vanished, &status);
		assert_non_null(j->b[i]);
		assert_true(fab_block_on_disk(j->b[i]));
		j->p[i] = fab_persist_new(&j->t);
		assert_non_null(j->p[i]);
	}
}

static void journals_down(struct journals *j)
{
	for (unsigned int i = 0; i < 2; i++)
		fab_persist_free(j->p[i]);
	for (unsigned int i = 0; i < 2; i++)
		fab_block_free(j->b[i]);
	fab_persister_stop(&j->t);
	while (fab_blocks_reap())
		;
}

static void flush(struct journals *j, unsigned int i, uint64_t off, uint64_t len, uint64_t tag)
{
	fab_persist_add(j->p[i], j->b[i], off, len);
	assert_true(fab_persist_begin(j->p[i], tag));
}

/*
 * Waits for FLUSH @tag, which must be the next one of journal @i. Return: errno of msync(), or 0.
 */
static int done(struct journals *j, unsigned int i, uint64_t tag)
{
	uint64_t is = 0;
	int error = 0, e;

	for (unsigned int n = 0; !fab_persist_done(j->p[i], &is, &e); n++) {
		error = e ? e : error;
		assert_true(n < LIMIT_MS);
		while (!fab_persister_some_done(&j->t) && n++ < LIMIT_MS)
			usleep(1000);
	}
	assert_int_equal(is, tag);
	return e ? e : error;
}

static bool is_done(struct journals *j, unsigned int i)
{
	uint64_t tag;
	int e;

	return fab_persist_done(j->p[i], &tag, &e);
}

static void expect_call(const struct journals *j, unsigned int n, unsigned int i, uint64_t off,
			uint64_t len)
{
	assert_ptr_equal(seen().call[n].at, (uint8_t *)fab_block_mem(j->b[i]) + off);
	assert_int_equal(seen().call[n].n, len);
}

/* A long FLUSH and others take turns, step by step. */
static void test_turns(void **state)
{
	struct journals j;

	(void)state;
	if (!has_disk())
		skip();
	journals_up(&j);
	disk_set(true, 0);
	flush(&j, 0, 5000, 2 * STEP, 1);
	disk_wait(1);
	flush(&j, 0, 0, 1, 2);
	flush(&j, 1, STEP, 100, 3);
	assert_false(is_done(&j, 0));
	disk_set(false, 0);
	assert_int_equal(done(&j, 1, 3), 0);
	assert_int_equal(done(&j, 0, 1), 0);
	assert_int_equal(done(&j, 0, 2), 0);
	assert_int_equal(seen().calls, 5);
	expect_call(&j, 0, 0, 4096, STEP);
	expect_call(&j, 1, 1, STEP, 100);
	expect_call(&j, 2, 0, 4096 + STEP, STEP);
	expect_call(&j, 3, 0, 4096 + 2 * STEP, 5000 - 4096);
	expect_call(&j, 4, 0, 0, 1);
	assert_false(is_done(&j, 0) || is_done(&j, 1));
	journals_down(&j);
}

/*
 * Stretches of a block become one. As many FLUSHes are outstanding as an engine has, any number of
 * times.
 */
static void test_many(void **state)
{
	struct journals j;
	uint64_t tag = 1;

	(void)state;
	if (!has_disk())
		skip();
	journals_up(&j);
	for (unsigned int n = 0; n < 5; n++) {
		disk_set(true, 0);
		for (unsigned int i = 0; i < OHCA_PERSISTS; i++) {
			fab_persist_add(j.p[0], j.b[0], 3 * 4096, 4096);
			fab_persist_add(j.p[0], j.b[0], 8 * 4096, 10);
			flush(&j, 0, i * 4096, 4096, tag + i);
		}
		disk_wait(1);
		assert_false(is_done(&j, 0));
		disk_set(false, 0);
		for (unsigned int i = 0; i < OHCA_PERSISTS; i++) {
			const unsigned int from = i < 3 ? i : 3;

			assert_int_equal(done(&j, 0, tag++), 0);
			expect_call(&j, i, 0, from * 4096, (8 - from) * 4096 + 10);
		}
		assert_int_equal(seen().calls, OHCA_PERSISTS);
	}
	/* no FLUSH is outstanding */
	assert_false(fab_persist_begin(j.p[0], tag));
	journals_down(&j);
}

/* A disk that fails delays nothing, and its error is reported once. */
static void test_broken(void **state)
{
	struct journals j;

	(void)state;
	if (!has_disk())
		skip();
	journals_up(&j);
	disk_set(false, EIO);
	flush(&j, 0, 0, 4096, 1);
	assert_int_equal(done(&j, 0, 1), EIO);
	disk_set(false, 0);
	flush(&j, 0, 0, 4096, 2);
	assert_int_equal(done(&j, 0, 2), 0);
	journals_down(&j);
}

/*
 * A block is removed during a step of its FLUSH, and while a FLUSH waits: no more of it is written,
 * the FLUSH ends with the step, and the block stays mapped until then.
 */
static void test_forgotten(void **state)
{
	struct journals j;
	const uint8_t *at;

	(void)state;
	if (!has_disk())
		skip();
	journals_up(&j);
	disk_set(true, 0);
	flush(&j, 0, 0, 3 * STEP, 1);
	flush(&j, 0, 0, 4096, 2);
	disk_wait(1);
	flush(&j, 1, 0, STEP, 3);
	at = fab_block_mem(j.b[0]);
	for (unsigned int i = 0; i < 2; i++) {
		fab_persist_forget(j.p[i], j.b[i]);
		fab_block_free(j.b[i]);
	}
	/* this one only waited */
	assert_int_equal(done(&j, 1, 3), 0);
	assert_false(is_done(&j, 0));
	pthread_mutex_lock(&disk.lock);
	disk.seen.unmapped = NULL;
	pthread_mutex_unlock(&disk.lock);
	/* the other block is unmapped in as many steps as the host's speed needs */
	for (unsigned int i = 0; fab_blocks_reap(); i++)
		assert_true(i < REAPS);
	assert_ptr_not_equal(seen().unmapped, at);
	assert_int_equal(madvise((void *)(uintptr_t)at, 4096, MADV_NORMAL), 0);
	disk_set(false, 0);
	assert_int_equal(done(&j, 0, 1), 0);
	assert_int_equal(done(&j, 0, 2), 0);
	assert_int_equal(seen().calls, 1);
	while (fab_blocks_reap())
		;
	assert_ptr_equal(seen().unmapped, at);
	j.b[0] = j.b[1] = NULL;
	journals_down(&j);
}

/* Another block of the same FLUSH is removed: the FLUSH does not end before the step that runs. */
static void test_partly(void **state)
{
	struct journals j;

	(void)state;
	if (!has_disk())
		skip();
	journals_up(&j);
	disk_set(true, 0);
	/* the last part has the first step */
	fab_persist_add(j.p[0], j.b[1], 0, 4096);
	flush(&j, 0, 0, 4096, 1);
	disk_wait(1);
	expect_call(&j, 0, 0, 0, 4096);
	fab_persist_forget(j.p[0], j.b[1]);
	assert_false(is_done(&j, 0));
	disk_set(false, 0);
	assert_int_equal(done(&j, 0, 1), 0);
	assert_int_equal(seen().calls, 1);
	journals_down(&j);
}

/* A journal ends during a step of the thread, and while it waits; others continue. */
static void test_ended(void **state)
{
	struct journals j;

	(void)state;
	if (!has_disk())
		skip();
	for (unsigned int n = 0; n < 2; n++) {
		journals_up(&j);
		disk_set(true, 0);
		flush(&j, 0, 0, 2 * STEP, 1);
		disk_wait(1);
		flush(&j, 1, 0, 4096, 2);
		fab_persist_free(j.p[n]);
		j.p[n] = NULL;
		disk_set(false, 0);
		assert_int_equal(done(&j, !n, n ? 1 : 2), 0);
		assert_int_equal(seen().calls, 2);
		journals_down(&j);
	}
}

/* ---- of HCAs --------------------------------------------------------------------- */

/** struct flushed - two machines; the memory of the second one is on a disk, @mr is its region */
struct flushed {
	struct pair p;
	struct host_mr mr;
};

static void flushed_up(struct flushed *f, struct world *w)
{
	w->file = disk_file;
	pair_up(&f->p, w);
	host_mr_create(f->p.m[1].h, &f->mr, 64 * 4096, f->p.m[1].h->pdn,
		       0xf | OHCA_ACCESS_FLUSH_GLOBAL | OHCA_ACCESS_FLUSH_PERSISTENT);
}

static void flushed_down(struct flushed *f)
{
	host_buf_free(&f->mr.buf);
	pair_down(&f->p);
}

static void post_flush(struct flushed *f, uint32_t len, uint64_t wr_id)
{
	struct wqe q = wqe_new(OHCA_OP_FLUSH, OHCA_WQE_SIGNALED, wr_id);

	wqe_raddr(&q, f->mr.iova, f->mr.key);
	wqe_flush(&q, len, OHCA_FLUSH_PERSISTENT, OHCA_FLUSH_RANGE);
	wqe_post(&f->p.qp[0], &q);
}

static void expect_flushed(struct flushed *f, uint64_t wr_id)
{
	const struct ohca_hw_cqe c = wait_cqe(&f->p.m[0].cq);

	assert_int_equal(c.status, WC_SUCCESS);
	assert_int_equal(c.wr_id, wr_id);
}

/* A FLUSH completes when the data is on the disk; meanwhile only later requests wait. */
static void test_waits(void **state)
{
	struct world *w = *state;
	struct ohca_hw_cqe c;
	struct flushed f;
	struct pair *p = &f.p;

	if (!has_disk())
		skip();
	flushed_up(&f, w);
	pair_talk(p, 8);
	disk_set(true, 0);
	post_flush(&f, 64 * 4096, 50);
	disk_wait(1);
	/* the other direction, and calls */
	for (unsigned int i = 0; i < 20; i++) {
		post_write(&p->qp[1], &p->m[1], &p->m[0], 8, 60 + i);
		c = wait_cqe(&p->m[1].cq);
		assert_int_equal(c.status, WC_SUCCESS);
		assert_int_equal(call_run(&p->m[1].f, 1), OHCA_FRONT_OK);
	}
	assert_false(host_cq_poll(&p->m[0].cq, &c));
	disk_set(false, 0);
	expect_flushed(&f, 50);
	assert_int_equal(seen().calls, 1);
	assert_int_equal(seen().call[0].n, 64 * 4096);
	/* a responder has no response for a disk that fails */
	disk_set(false, EIO);
	post_flush(&f, 1, 51);
	expect_flushed(&f, 51);
	disk_set(false, 0);
	pair_talk(p, 8);
	flushed_down(&f);
}

/*
 * Behind an IOMMU that maps single pages: a page that is not mapped any more hides no page after
 * it, and if there are more pages than the HCA checks, everything is written.
 */
static void test_iommu(void **state)
{
	const unsigned int pages = 2 * FAB_HCA_FLUSH;
	struct world *w = *state;
	struct machine *m;
	struct flushed f;
	struct host_mr large;
	uint64_t hole;

	if (!has_disk())
		skip();
	flushed_up(&f, w);
	m = &f.p.m[1];
	host_mr_create(m->h, &large, pages * 4096ull, m->h->pdn,
		       0xf | OHCA_ACCESS_FLUSH_GLOBAL | OHCA_ACCESS_FLUSH_PERSISTENT);
	assert_int_equal(call_mem(&m->f, NULL, 0), OHCA_FRONT_OK);
	for (uint64_t at = 0; at < m->mem_len; at += 4096)
		assert_int_equal(ohca_front_map(&m->f.client, HOST_BASE + at, 4096, MEM_BLOCK, at, 0), 0);
	disk_set(true, 0);
	disk_set(false, 0);
	post_flush(&f, 64 * 4096, 50);
	expect_flushed(&f, 50);
	assert_int_equal(seen().calls, 1);
	assert_int_equal(seen().call[0].n, 64 * 4096);
	hole = f.mr.buf.page[1];
	assert_int_equal(ohca_front_unmap(&m->f.client, hole, hole + 4095), 0);
	post_flush(&f, 64 * 4096, 52);
	expect_flushed(&f, 52);
	assert_int_equal(seen().calls, 2);
	assert_int_equal(seen().call[1].n, 64 * 4096);
	f.mr.iova = large.iova;
	f.mr.key = large.key;
	post_flush(&f, pages * 4096, 51);
	expect_flushed(&f, 51);
	assert_int_equal(seen().call[2].n, m->mem_len);
	host_buf_free(&large.buf);
	flushed_down(&f);
}

/* The machine's HCA is reset, its memory is removed, and its front ends, during an msync(). */
static void test_goes(void **state)
{
	struct world *w = *state;
	struct flushed f;
	struct front *m;

	if (!has_disk())
		skip();
	for (unsigned int n = 0; n < 3; n++) {
		flushed_up(&f, w);
		m = &f.p.m[1].f;
		disk_set(true, 0);
		post_flush(&f, 4096, 50);
		disk_wait(1);
		if (n)
			assert_int_equal(call_plain(m, OHCA_FRONT_RESET), OHCA_FRONT_OK);
		if (n == 2) {
			assert_int_equal(call_mem(m, NULL, 0), OHCA_FRONT_OK);
			assert_int_equal(call_unblock(m, MEM_BLOCK), OHCA_FRONT_OK);
		}
		front_close(m);
		wait_free(w, 3);
		disk_set(false, 0);
		flushed_down(&f);
		wait_free(w, 2);
	}
}

/* Memory of a memfd cannot become more persistent: nothing is written. */
static void test_memory(void **state)
{
	struct world *w = *state;
	struct flushed f;

	flushed_up(&f, w);
	machine_down(&f.p.m[1]);
	w->file = NULL;
	machine_up(&f.p.m[1], w, 3);
	host_buf_free(&f.p.qp[0].buf);
	host_buf_free(&f.p.qp[1].buf);
	qp_pair(&f.p.m[0], &f.p.m[1], f.p.qp);
	host_buf_free(&f.mr.buf);
	host_mr_create(f.p.m[1].h, &f.mr, 4096, f.p.m[1].h->pdn,
		       0xf | OHCA_ACCESS_FLUSH_GLOBAL | OHCA_ACCESS_FLUSH_PERSISTENT);
	disk_set(true, 0);
	post_flush(&f, 4096, 50);
	expect_flushed(&f, 50);
	assert_int_equal(seen().calls, 0);
	disk_set(false, 0);
	flushed_down(&f);
}

static void take_disk(struct world *w)
{
	w->cfg.disk = true;
}

/* The front ends during an msync(). The memory is unmapped afterwards without any other event. */
static void test_goes_alone(void **state)
{
	struct world *w = *state;
	struct flushed f;
	struct timespec end;
	int e = 0;

	if (!has_disk())
		skip();
	flushed_up(&f, w);
	disk_set(true, 0);
	post_flush(&f, 4096, 50);
	disk_wait(1);
	for (unsigned int i = 0; i < 2; i++) {
		front_close(&f.p.m[i].f);
		wait_free(w, f.p.m[i].at);
	}
	/* the loop has no work for them, and sleeps */
	usleep(20000);
	assert_false(seen().gone);
	disk_set(false, 0);
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += LIMIT_MS / 1000;
	pthread_mutex_lock(&disk.lock);
	while (!e && !disk.seen.gone)
		e = pthread_cond_timedwait(&disk.moved, &disk.lock, &end);
	pthread_mutex_unlock(&disk.lock);
	assert_int_equal(e, 0);
	flushed_down(&f);
}

static int with_disk(void **state)
{
	return world_start(state, take_disk);
}

#define WITH_DISK(test)	cmocka_unit_test_setup_teardown(test, with_disk, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_turns),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_broken),
		cmocka_unit_test(test_forgotten),
		cmocka_unit_test(test_partly),
		cmocka_unit_test(test_ended),
		WITH_DISK(test_waits),
		WITH_DISK(test_iommu),
		WITH_DISK(test_goes),
		WITH_DISK(test_goes_alone),
		WITH_DISK(test_memory),
	};

	return cmocka_run_group_tests_name("FLUSH for persistence", tests, NULL, NULL);
}
