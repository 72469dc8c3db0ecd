/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Files that a front has passed: mapped, accessed while they are truncated, unmapped, and closed.
 */
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cmocka.h>

#include "fabric/hca/block.h"

#define PAGE	4096u
#define SIZE	(64u << 20)	/* more than one call unmaps */

/** struct seen - what happened to the file of a test, by its inode */
static struct {
	_Atomic ino_t ino;
	atomic_uint here, elsewhere;	/* closes by the test's thread, and by others */
	const uint8_t *at;
	int fd;				/* of the block */
	size_t unmapped;
	bool late;			/* a part was unmapped after a close */
} seen;

static pthread_t test_thread;

int __real_fstat(int fd, struct stat *st);
int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
	struct stat st;

	if (seen.ino && !__real_fstat(fd, &st) && st.st_ino == seen.ino)
		atomic_fetch_add(pthread_equal(pthread_self(), test_thread) ? &seen.here :
				 &seen.elsewhere, 1);
	return __real_close(fd);
}

int __real_munmap(void *p, size_t n);
int __wrap_munmap(void *p, size_t n);
int __wrap_munmap(void *p, size_t n)
{
	if (seen.at && (uintptr_t)p - (uintptr_t)seen.at < SIZE) {
		seen.unmapped += n;
		seen.late |= seen.here || seen.elsewhere;
	}
	return __real_munmap(p, n);
}

static unsigned int asked;	/* queries for the kind of file system */
static bool fuse, plain;	/* the kernel says FUSE; a file system has no attributes of its own */

int __wrap_fstat(int fd, struct stat *st);
int __wrap_fstat(int fd, struct stat *st)
{
	asked++;
	return __real_fstat(fd, st);
}

int __real_fstatfs(int fd, struct statfs *st);
int __wrap_fstatfs(int fd, struct statfs *st);
int __wrap_fstatfs(int fd, struct statfs *st)
{
	int r;

	asked++;
	r = __real_fstatfs(fd, st);
	if (fuse && !r)
		st->f_type = FUSE_SUPER_MAGIC;
	return r;
}

int __real_statx(int dir, const char *path, int flags, unsigned int mask, struct statx *sx);
int __wrap_statx(int dir, const char *path, int flags, unsigned int mask, struct statx *sx);
int __wrap_statx(int dir, const char *path, int flags, unsigned int mask, struct statx *sx)
{
	const int r = __real_statx(dir, path, flags, mask, sx);

	/* no server is asked */
	assert_true(flags & AT_STATX_DONT_SYNC);
	if (plain && !r)
		sx->stx_attributes_mask &= STATX_ATTR_AUTOMOUNT | STATX_ATTR_MOUNT_ROOT |
					   STATX_ATTR_DAX;
	return r;
}

/* Makes a file of SIZE with data in each page; the block has its only descriptor. */
static struct fab_block *new_block(struct fab_closer *c, bool *vanished)
{
	enum ohca_front_status status;
	struct fab_block *b;
	struct stat st;
	int fd = memfd_create("block", MFD_CLOEXEC);

	assert_int_equal(ftruncate(fd, SIZE), 0);
	assert_int_equal(fstat(fd, &st), 0);
	memset(&seen, 0, sizeof(seen));
	b = fab_block_new(fd, SIZE, c, false, vanished, &status);
	assert_non_null(b);
	assert_int_equal(status, OHCA_FRONT_OK);
	seen.at = fab_block_mem(b);
	seen.fd = fd;
	seen.ino = st.st_ino;
	for (size_t i = 0; i < SIZE; i += PAGE)
		*(volatile uint32_t *)(seen.at + i) = (uint32_t)(i / PAGE + 1);
	return b;
}

/* A thread frees its pages and closes the descriptor, after everything was unmapped. */
static void test_closed(void **state)
{
	static struct fab_closer c;
	bool vanished = false;

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		assert_true(fab_closer_start(&c));
		fab_block_free(new_block(&c, &vanished));
		assert_int_equal(seen.unmapped, 0);
		while (fab_blocks_reap())
			;
		assert_true(fab_closer_stop(&c));
		assert_int_equal(seen.unmapped, SIZE);
		assert_false(seen.late);
		assert_int_equal(seen.elsewhere, 1);
		assert_int_equal(seen.here, 0);
		assert_int_equal(c.in_place, 0);
	}
	/* without a thread it is closed, too */
	fab_block_free(new_block(&c, &vanished));
	while (fab_blocks_reap())
		;
	assert_int_equal(seen.unmapped, SIZE);
	assert_false(seen.late);
	assert_int_equal(seen.here, 1);
	assert_int_equal(c.in_place, 1);
	assert_false(vanished);
}

/* The threads close any number of descriptors, however often their ring wraps. */
static void test_many(void **state)
{
	static struct fab_closer c;
	int fd[64];

	(void)state;
	assert_true(fab_closer_start(&c));
	for (uint32_t n = 0; n < 100; n++) {
		for (unsigned int i = 0; i < 64; i++)
			assert_true((fd[i] = dup(STDERR_FILENO)) >= 0);
		for (unsigned int i = 0; i < 64; i++)
			fab_closer_close(&c, fd[i]);
	}
	assert_true(fab_closer_stop(&c));
	assert_int_equal(c.given, 6400);
	assert_int_equal(c.in_place, 0);
	for (unsigned int i = 0; i < 64; i++)
		assert_int_equal(fcntl(fd[i], F_GETFD), -1);
}

/*
 * A file that is not in memory is refused, and no file system is asked, which might not answer. If
 * files on a disk are allowed, only that of the last one is asked.
 */
static void test_refused(void **state)
{
	static struct fab_closer c;
	enum ohca_front_status status;
	bool vanished = false;
	int fd[6], p[2];

	(void)state;
	assert_int_equal(pipe(p), 0);
	fd[0] = p[0];
	fd[1] = open("/proc/self/comm", O_RDWR | O_CLOEXEC);
	fd[2] = open("/dev/zero", O_RDWR | O_CLOEXEC);
	fd[3] = open("/tmp", O_RDONLY | O_CLOEXEC);
	fd[4] = open("/tmp", O_PATH | O_CLOEXEC);
	fd[5] = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	asked = 0;
	for (unsigned int i = 0; i < 6; i++) {
		assert_true(fd[i] >= 0);
		for (unsigned int disk = 0; disk < (i < 5 ? 2 : 1); disk++) {
			assert_null(fab_block_new(fd[i], PAGE, &c, disk, &vanished, &status));
			assert_int_equal(status, OHCA_FRONT_NOT_SHARED);
			assert_int_equal(asked, 0);
		}
		/* on a disk, but not writable, or shorter */
		assert_null(fab_block_new(fd[i], i == 5 ? PAGE : 1ull << 40, &c, true, &vanished,
					  &status));
		assert_int_equal(status, OHCA_FRONT_NOT_SHARED);
		asked = 0;
		/* the caller keeps it */
		assert_int_equal(close(fd[i]), 0);
	}
	close(p[1]);
}

/*
 * A file system of a block device is accepted, unless it is FUSE: fuseblk has the number of its
 * device, but no attributes, and its server answers fstat() and fstatfs().
 */
static void test_disk(void **state)
{
	static struct fab_closer c;
	const int fd = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	enum ohca_front_status status;
	struct fab_block *b;
	bool vanished = false;
	struct stat st;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, SIZE), 0);
	assert_int_equal(fstat(fd, &st), 0);
	if (!major(st.st_dev) || fcntl(fd, F_GET_SEALS) >= 0) {
		close(fd);
		skip();
	}
	for (unsigned int i = 0; i < 2; i++) {
		plain = !i;
		fuse = true;
		asked = 0;
		b = fab_block_new(fd, SIZE, &c, true, &vanished, &status);
		fuse = plain = false;
		assert_null(b);
		assert_int_equal(status, OHCA_FRONT_NOT_SHARED);
		/* fstatfs() alone, if anything */
		assert_int_equal(asked, i);
	}
	assert_null(fab_block_new(fd, SIZE, &c, false, &vanished, &status));
	b = fab_block_new(fd, SIZE, &c, true, &vanished, &status);
	assert_non_null(b);
	assert_int_equal(status, OHCA_FRONT_OK);
	assert_true(fab_block_on_disk(b));
	fab_block_free(b);
	while (fab_blocks_reap())
		;
	assert_false(vanished);
}

/* Whether page @i is still that of the file, with its first contents. */
static bool is_there(size_t i)
{
	return *(const volatile uint32_t *)(seen.at + i * PAGE) == i + 1;
}

/*
 * Pages that are truncated read as zeros and keep what is written; all others are still those of
 * the file.
 */
static void test_vanishes(void **state)
{
	static struct fab_closer c;
	bool vanished = false;
	struct fab_block *b = new_block(&c, &vanished);
	const size_t pages = SIZE / PAGE, half = pages / 2;
	volatile uint32_t *p = (uint32_t *)(uintptr_t)(seen.at + half * PAGE);

	(void)state;
	assert_int_equal(ftruncate(seen.fd, SIZE / 2), 0);
	assert_false(fab_blocks_vanished());
	assert_int_equal(p[0], 0);
	assert_int_equal(p[10 * PAGE / sizeof(*p) + 1], 0);
	assert_true(vanished);
	assert_true(fab_blocks_vanished());
	assert_false(fab_blocks_vanished());
	p[0] = 5;
	assert_int_equal(p[0], 5);
	for (size_t i = 0; i < half; i++)
		assert_true(is_there(i));
	/* so are pages without an access meanwhile, when the file is extended again */
	assert_int_equal(ftruncate(seen.fd, SIZE), 0);
	assert_int_equal(pwrite(seen.fd, &(uint32_t){ 77 }, 4, (off_t)((half + 1) * PAGE)), 4);
	assert_int_equal(p[PAGE / sizeof(*p)], 77);
	assert_int_equal(p[0], 5);
	assert_int_equal(p[10 * PAGE / sizeof(*p)], 0);
	fab_block_free(b);
	while (fab_blocks_reap())
		;
	assert_int_equal(seen.unmapped, SIZE);
}

/*
 * Each page that is replaced is a mapping of its own, and their number is limited: further faults
 * replace pieces of 2 MiB, and the time for each does not depend on the size of the block.
 */
static void test_all_vanish(void **state)
{
	static struct fab_closer c;
	bool vanished = false;
	struct fab_block *b = new_block(&c, &vanished);
	const size_t most = 1024, pages = SIZE / PAGE, piece = (2u << 20) / PAGE;
	const size_t last = 4 * most + 3;
	size_t replaced = 0;

	(void)state;
	assert_int_equal(ftruncate(seen.fd, 0), 0);
	for (size_t i = 0; i < most; i++)
		assert_false(is_there(2 * i));
	/* this one exceeds the limit, and so does the last one of the block */
	assert_false(is_there(last));
	assert_false(is_there(pages - 1));
	assert_true(vanished);
	assert_int_equal(ftruncate(seen.fd, SIZE), 0);
	for (size_t i = 0; i < pages; i++)
		assert_int_equal(pwrite(seen.fd, &(uint32_t){ (uint32_t)i + 1 }, 4,
					(off_t)(i * PAGE)), 4);
	for (size_t i = 0; i < pages; i++) {
		const bool was = i / piece == last / piece || i / piece == pages / piece - 1 ||
				 (i < 2 * most && i % 2 == 0);

		assert_int_equal(is_there(i), !was);
		replaced += was;
	}
	assert_int_equal(replaced, most + 2 * piece);
	fab_block_free(b);
	while (fab_blocks_reap())
		;
	assert_int_equal(seen.unmapped, SIZE);
}

/* On hugetlbfs a huge page replaces another one, because no smaller one can. */
static void test_huge(void **state)
{
	static struct fab_closer c;
	const int fd = memfd_create("huge", MFD_CLOEXEC | MFD_HUGETLB | MAP_HUGE_2MB);
	enum ohca_front_status status;
	bool vanished = false;
	struct fab_block *b;
	uint8_t *p;

	(void)state;
	if (fd < 0)
		skip();
	/* there may be no free huge page: then the first access detects it */
	assert_int_equal(ftruncate(fd, 4 << 20), 0);
	assert_null(fab_block_new(fd, PAGE, &c, false, &vanished, &status));
	assert_int_equal(status, OHCA_FRONT_NOT_SHARED);
	b = fab_block_new(fd, 4 << 20, &c, false, &vanished, &status);
	assert_non_null(b);
	p = fab_block_mem(b);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(((volatile uint8_t *)p)[PAGE + 5], 0);
	p[3 * PAGE] = 1;
	assert_true(vanished);
	assert_true(fab_blocks_vanished());
	fab_block_free(b);
	while (fab_blocks_reap())
		;
}

static int setup(void **state)
{
	(void)state;
	test_thread = pthread_self();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_closed),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_disk),
		cmocka_unit_test(test_vanishes),
		cmocka_unit_test(test_all_vanish),
		cmocka_unit_test(test_huge),
	};

	return cmocka_run_group_tests_name("memory of fronts", tests, setup, NULL);
}
