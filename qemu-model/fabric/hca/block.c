// SPDX-License-Identifier: GPL-2.0-or-later
/* Files of another process, mapped; see block.h. */
#include "block.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define REAP_NS		100000u
#define REAP_LEAST	(16ull << 20)	/* in one system call: 150 us if all pages exist */
#define REAP_MOST	(1ull << 30)	/* if no page seems to exist */
#define FAULTS_MOST	1024u		/* pages of a block that are replaced; each takes some us */
#define PIECE		(2ull << 20)	/* is replaced for each fault after these */

struct fab_block {
	struct fab_block *next;
	uint8_t *mem;
	uint64_t size;
	uint64_t page;		/* only whole pages can be unmapped */
	unsigned int faults;
	int fd;
	bool disk;
	_Atomic bool held;
	struct fab_closer *closer;
	bool *vanished;
};

/*
 * One set for each thread that maps and accesses blocks: a bus error is delivered to the thread
 * that has accessed memory, so these do not change while its handler reads them.
 */
static _Thread_local struct fab_block *mapped, *freed;
static _Thread_local volatile sig_atomic_t some_vanished;
static _Thread_local uint64_t reap_step = REAP_LEAST;

/* ---- memory that vanishes ------------------------------------------------------ */

static bool block_cover(uint8_t *at, uint64_t n)
{
	return mmap(at, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED |
		    MAP_NORESERVE, -1, 0) != MAP_FAILED;
}

/* Replace the @n bytes that contain offset @off; @n is a multiple of the page. */
static bool block_cover_at(const struct fab_block *b, uint64_t off, uint64_t n)
{
	const uint64_t from = off / n * n;

	return block_cover(b->mem + from, n < b->size - from ? n : b->size - from);
}

/*
 * Replace the page at @addr by other memory. Each single page makes two more mappings, and their
 * number is limited: so after FAULTS_MOST pages each fault replaces a piece. That unmaps the pages
 * of the piece, which takes some 60 us. All of a block would take 30 ms for each GiB, and a front
 * chooses its size: it is replaced only if this process has no more mappings.
 */
static bool block_vanishes(struct fab_block *b, const void *addr)
{
	const uint64_t off = (uint64_t)((uintptr_t)addr - (uintptr_t)b->mem);

	*b->vanished = true;
	return (b->faults++ < FAULTS_MOST && block_cover_at(b, off, b->page)) ||
	       block_cover_at(b, off, b->page > PIECE ? b->page : PIECE) ||
	       block_cover(b->mem, b->size);
}

static void block_bus_error(int sig, siginfo_t *si, void *context)
{
	const int error = errno;

	(void)context;
	for (struct fab_block *b = si->si_code > 0 ? mapped : NULL; b; b = b->next) {
		if ((uintptr_t)si->si_addr - (uintptr_t)b->mem >= b->size)
			continue;
		if (!block_vanishes(b, si->si_addr))
			break;
		some_vanished = 1;
		errno = error;
		return;
	}
	/* the error is one of this program */
	signal(sig, SIG_DFL);
	raise(sig);
}

/* Set before each block: handlers belong to the process, and other code may have set one since. */
static bool block_watch(void)
{
	const struct sigaction sa = {
		.sa_sigaction = block_bus_error,
		.sa_flags = SA_SIGINFO | SA_RESTART,
	};

	return !sigaction(SIGBUS, &sa, NULL);
}

bool fab_blocks_vanished(void)
{
	const bool was = some_vanished;

	some_vanished = 0;
	return was;
}

/* ---- blocks -------------------------------------------------------------------- */

/*
 * Whether @fd is a file of at least @size bytes in memory, in whole pages of @page: then an access
 * waits for no disk and no server. But a front can punch a hole in its memfd, and an access to the
 * hole sleeps in a page fault until the punch is over: some 160 ms for each GiB, in which no HCA
 * has a turn. This cannot be prevented.
 */
static bool is_memory(int fd, uint64_t size, uint64_t *page)
{
	struct statfs fs;
	struct stat st;

	/* this calls no file system, and fails for all files that are not in memory */
	if (fcntl(fd, F_GET_SEALS) < 0)
		return false;
	if (fstat(fd, &st) || st.st_size < 0 || size > (uint64_t)st.st_size || fstatfs(fd, &fs))
		return false;
	/*
	 * pages of tmpfs may be large, too, but it unmaps parts of them; the last page may be a
	 * part
	 */
	*page = (uint64_t)sysconf(_SC_PAGESIZE);
	if ((unsigned long)fs.f_type != HUGETLBFS_MAGIC)
		return true;
	*page = (uint64_t)st.st_blksize;
	return size % *page == 0;
}

/*
 * Whether @fd is a file of at least @size bytes in a file system of a block device. Such a file
 * system may be one of a server, too (fuseblk, as of ntfs-3g).
 */
static bool is_on_disk(int fd, uint64_t size, uint64_t *page)
{
	struct statfs fs;
	struct statx sx;
	struct stat st;

	/*
	 * This calls no server, as fstat() and fstatfs() may. File systems without a block device
	 * have the major number 0. FUSE with one has no attributes, and ext4 and xfs have.
	 */
	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &sx) ||
	    !S_ISREG(sx.stx_mode) || !sx.stx_dev_major ||
	    !(sx.stx_attributes_mask & STATX_ATTR_NODUMP))
		return false;
	if (fstatfs(fd, &fs) || (unsigned long)fs.f_type == FUSE_SUPER_MAGIC)
		return false;
	*page = (uint64_t)sysconf(_SC_PAGESIZE);
	return !fstat(fd, &st) && st.st_size >= 0 && size <= (uint64_t)st.st_size;
}

struct fab_block *fab_block_new(int fd, uint64_t size, struct fab_closer *closer, bool disk,
				bool *vanished, enum ohca_front_status *status)
{
	bool in_memory;
	struct fab_block *b;
	uint64_t page;

	*status = OHCA_FRONT_INVALID;
	if (!size || size > SIZE_MAX)
		return NULL;
	*status = OHCA_FRONT_NOT_SHARED;
	in_memory = is_memory(fd, size, &page);
	if (!in_memory && !(disk && is_on_disk(fd, size, &page)))
		return NULL;
	*status = OHCA_FRONT_NO_MEMORY;
	b = block_watch() ? calloc(1, sizeof(*b)) : NULL;
	if (!b)
		return NULL;
	b->size = size;
	b->page = page;
	b->fd = fd;
	b->disk = !in_memory;
	b->closer = closer;
	b->vanished = vanished;
	b->mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (b->mem == MAP_FAILED) {
		*status = errno == ENOMEM ? OHCA_FRONT_NO_MEMORY : OHCA_FRONT_NOT_SHARED;
		free(b);
		return NULL;
	}
	/* the machine's memory does not belong into core files of the daemon */
	if (madvise(b->mem, size, MADV_DONTDUMP)) {
		/* core files are larger then */
	}
	b->next = mapped;
	mapped = b;
	*status = OHCA_FRONT_OK;
	return b;
}

void fab_block_free(struct fab_block *b)
{
	struct fab_block **at = &mapped;

	if (!b)
		return;
	while (*at != b)
		at = &(*at)->next;
	*at = b->next;
	b->next = freed;
	freed = b;
}

void *fab_block_mem(const struct fab_block *b)
{
	return b->mem;
}

uint64_t fab_block_size(const struct fab_block *b)
{
	return b->size;
}

bool fab_block_on_disk(const struct fab_block *b)
{
	return b->disk;
}

void fab_block_hold(struct fab_block *b)
{
	atomic_store(&b->held, true);
}

void fab_block_let_go(struct fab_block *b)
{
	atomic_store(&b->held, false);
}

/* ---- unmapping ----------------------------------------------------------------- */

static uint64_t block_clock(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Unmap from its end, so that the begin of the rest does not change. */
static void block_shrink(struct fab_block *b)
{
	const uint64_t page = 1ull << 21, n = b->size > reap_step ? reap_step : b->size;
	/* hugetlbfs unmaps whole pages */
	uint64_t left = (b->size - n) / page * page;

	if (munmap(b->mem + left, b->size - left) && left) {
		/* perhaps the pages are larger */
		left = 0;
		munmap(b->mem, b->size);
	}
	b->size = left;
}

/* The link to the first freed block that is not held. */
static struct fab_block **block_free_one(void)
{
	struct fab_block **at = &freed;

	while (*at && atomic_load(&(*at)->held))
		at = &(*at)->next;
	return at;
}

bool fab_blocks_left(void)
{
	return freed;
}

bool fab_blocks_reap(void)
{
	const uint64_t begin = freed ? block_clock() : 0;
	struct fab_block **at = block_free_one();
	uint64_t last = begin, now;

	while (*at) {
		struct fab_block *b = *at;

		block_shrink(b);
		if (!b->size) {
			*at = b->next;
			fab_closer_close(b->closer, b->fd);
			free(b);
		}
		now = block_clock();
		if (now - last > REAP_NS && reap_step > REAP_LEAST)
			reap_step /= 2;
		else if (now - last < REAP_NS / 8 && reap_step < REAP_MOST)
			reap_step *= 2;
		last = now;
		at = block_free_one();
		if (now - begin >= REAP_NS)
			break;
	}
	return *at;
}
