// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Shared memory of a link: size, creation, mapping.
 */
#include "link_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEALS	(F_SEAL_SHRINK | F_SEAL_GROW)

static unsigned int lane_blocks(unsigned int vl, unsigned int vls)
{
	if (vl == OHCA_LINK_VL15)
		return OHCA_SHM_VL15_BLOCKS;
	return vl < vls ? OHCA_LINK_BLOCKS : 0;
}

static unsigned int lane_bshift(unsigned int vl, unsigned int shift)
{
	return 6 + (vl == OHCA_LINK_VL15 ? 0 : shift);
}

static size_t round_up(size_t v, size_t to)
{
	return (v + to - 1) / to * to;
}

/* Bytes before the first data area: control page and all descriptors. */
static size_t head_size(unsigned int vls)
{
	size_t blocks = 2 * ((size_t)vls * OHCA_LINK_BLOCKS + OHCA_SHM_VL15_BLOCKS);

	return round_up(OHCA_SHM_DESC_OFF + blocks * sizeof(struct ohca_shm_desc),
			OHCA_SHM_ALIGN);
}

uint64_t shm_size(unsigned int vls, unsigned int shift)
{
	uint64_t size = head_size(vls);

	for (unsigned int vl = 0; vl < OHCA_SHM_LANES; vl++)
		size += 2 * round_up((size_t)lane_blocks(vl, vls) << lane_bshift(vl, shift),
				     OHCA_SHM_ALIGN);
	return size;
}

int shm_create(unsigned int vls, unsigned int shift)
{
	int fd = memfd_create("ohca-link", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -1;
	if (ftruncate(fd, (off_t)shm_size(vls, shift)) ||
	    fcntl(fd, F_ADD_SEALS, SEALS | F_SEAL_SEAL)) {
		int e = errno;

		close(fd);
		errno = e;
		return -1;
	}
	return fd;
}

/* Map @size bytes at @off twice, one behind the other. */
static uint8_t *map_mirror(int fd, off_t off, size_t size, int prot)
{
	uint8_t *p = mmap(NULL, 2 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	if (mmap(p, size, prot, MAP_SHARED | MAP_FIXED, fd, off) == MAP_FAILED ||
	    mmap(p + size, size, prot, MAP_SHARED | MAP_FIXED, fd, off) == MAP_FAILED) {
		munmap(p, 2 * size);
		return NULL;
	}
	return p;
}

int shm_attach(struct shm_map *map, int fd, unsigned int vls, unsigned int shift,
	       unsigned int tx_dir, struct ohca_link_err *err)
{
	uint64_t want = shm_size(vls, shift);
	size_t desc = OHCA_SHM_DESC_OFF;
	off_t data = (off_t)head_size(vls);
	struct stat st;
	int seals;
	void *p;

	memset(map, 0, sizeof(*map));
	seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || (seals & SEALS) != SEALS)
		return link_err(err, OHCA_LINK_E_PROTO, 0,
				"the peer's shared memory is not sealed against resizing");
	if (fstat(fd, &st))
		return link_err(err, OHCA_LINK_E_SYS, errno, "fstat of shared memory");
	if (st.st_size < 0 || (uint64_t)st.st_size != want)
		return link_err(err, OHCA_LINK_E_PROTO, 0,
				"the peer's shared memory has %lld bytes instead of %llu",
				(long long)st.st_size, (unsigned long long)want);

	p = mmap(NULL, head_size(vls), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return link_err(err, OHCA_LINK_E_SYS, errno, "mmap of shared memory");
	map->ctl = p;
	map->ctl_size = head_size(vls);

	for (unsigned int d = 0; d < 2; d++) {
		for (unsigned int vl = 0; vl < OHCA_SHM_LANES; vl++) {
			struct shm_lane *lane = &map->lane[d][vl];
			unsigned int blocks = lane_blocks(vl, vls);
			size_t size = round_up((size_t)blocks << lane_bshift(vl, shift),
					       OHCA_SHM_ALIGN);

			if (!blocks)
				continue;
			lane->desc = (void *)((uint8_t *)p + desc);
			lane->data = map_mirror(fd, data, size,
						d == tx_dir || tx_dir == SHM_BOTH ?
						PROT_READ | PROT_WRITE : PROT_READ);
			if (!lane->data) {
				link_err(err, OHCA_LINK_E_SYS, errno, "mmap of a lane");
				shm_detach(map);
				return -1;
			}
			lane->blocks = blocks;
			lane->bshift = lane_bshift(vl, shift);
			desc += blocks * sizeof(struct ohca_shm_desc);
			data += (off_t)size;
		}
	}
	return 0;
}

void shm_detach(struct shm_map *map)
{
	for (unsigned int d = 0; d < 2; d++) {
		for (unsigned int vl = 0; vl < OHCA_SHM_LANES; vl++) {
			struct shm_lane *lane = &map->lane[d][vl];

			if (lane->data)
				munmap(lane->data, 2 * round_up((size_t)lane->blocks <<
								lane->bshift,
								OHCA_SHM_ALIGN));
		}
	}
	if (map->ctl)
		munmap(map->ctl, map->ctl_size);
	memset(map, 0, sizeof(*map));
}

size_t ohca_link_bytes(const struct ohca_link *l)
{
	size_t n = sizeof(*l) + l->map.ctl_size + link_stream_bytes(l);

	for (unsigned int d = 0; d < 2; d++) {
		for (unsigned int vl = 0; vl < OHCA_SHM_LANES; vl++) {
			const struct shm_lane *lane = &l->map.lane[d][vl];

			n += round_up((size_t)lane->blocks << lane->bshift, OHCA_SHM_ALIGN);
		}
	}
	return n;
}
