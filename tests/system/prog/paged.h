/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Tests of memory that is not pinned: declarations for paged.c, moving.c and others. */
#ifndef PAGED_H
#define PAGED_H

#include "peer.h"

#include <pthread.h>
#include <stdatomic.h>

#define PATIENCE_MS	30000
#define PAGED_ADD	3	/* the addend of atomics in paged_op() */
#define PAGE		4096u
#define RIGHTS		(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |	\
			 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define ODP		(RIGHTS | IBV_ACCESS_ON_DEMAND)

/** paged_pair - replaces the QPs by two new ones, connected to each other */
void paged_pair(struct peer *p);

/** paged_op - one operation from @local to @remote; ends the program unless it has @status */
void paged_op(struct peer *p, enum ibv_wr_opcode op, uint64_t local, uint32_t lkey, uint64_t remote,
	      uint32_t rkey, uint32_t len, enum ibv_wc_status status, const char *what);

/** paged_post - posts the same operation, without waiting */
void paged_post(struct peer *p, enum ibv_wr_opcode op, uint64_t local, uint32_t lkey,
		uint64_t remote, uint32_t rkey, uint32_t len);

/** paged_recv - one receive WQE of the QP that p->qp is connected to */
void paged_recv(struct peer *p, uint64_t addr, uint32_t len, uint32_t lkey);

/** paged_map - mmap(), for reading and writing */
uint8_t *paged_map(size_t len, int flags, int fd);

/** paged_file - a file of @len bytes in memory */
int paged_file(size_t len, unsigned int flags);

/** paged_reg - ibv_reg_mr() */
struct ibv_mr *paged_reg(struct peer *p, void *addr, size_t len, int access);

/** paged_dereg - ibv_dereg_mr() */
void paged_dereg(struct ibv_mr *mr);

/**
 * struct traffic - a thread that makes the device write and read a region, in both directions
 * @at: memory of @mr, at the same address for the device
 * @len: bytes
 * @verify: written data stay until the next write; the thread uses SEND and atomics, too
 * @rounds: completed so far
 */
struct traffic {
	struct peer *p;
	struct ibv_mr *mr;
	uint8_t *at;
	uint32_t len;
	bool verify;
	atomic_uint rounds;
	atomic_bool stop;
	pthread_t thread;
};

/** traffic_on - starts the thread; returns when it runs */
void traffic_on(struct traffic *t, struct peer *p, struct ibv_mr *mr, uint8_t *at, uint32_t len,
		bool verify);

/** rounds_wait - waits until the thread has begun and completed @n more rounds */
void rounds_wait(struct traffic *t, unsigned int n);

/** traffic_stop - ends the thread after one more round, and deregisters @t->mr */
void traffic_stop(struct traffic *t);

/**
 * paged_every_op - every operation with @mr
 *
 * The process accesses this memory at @cpu, the device at @va. @drop: pages are removed in between.
 */
void paged_every_op(struct peer *p, struct ibv_mr *mr, uint8_t *cpu, uint64_t va, uint32_t len,
		    bool drop, uint32_t seed);

/** moving - pages are removed and added in all ways while the device uses them */
void moving(struct peer *p);

/**
 * transports - the capabilities of transport @name, while pages are removed; false: unknown @name
 */
bool transports(struct peer *p, const char *name);

/** swapped - pages are swapped out and in while the device uses them */
void swapped(struct peer *p);

/** squeezed - uses a region of @mib MiB in a process that may not have as much memory */
void squeezed(struct peer *p, unsigned int mib);

/** killed - processes are killed during traffic; to be called before the device is opened */
void killed(void);

/**
 * stalled - prefetches or faults wait for memory of another process
 *
 * To be called before the device is opened.
 */
void stalled(bool prefetch);

/** tables - limit of the kernel's tables of all processes; before the device is opened */
void tables(void);

/**
 * paged_killed - six processes call @run, and are killed after they have written a byte to @tell
 */
void paged_killed(void (*run)(int tell));

/** movable_moving - a dma-buf moves under traffic */
void movable_moving(struct peer *p);

/** movable_revoked - a dma-buf is revoked under traffic */
void movable_revoked(struct peer *p);

/** movable_pinned - a kernel that pins a dma-buf cannot move it */
void movable_pinned(struct peer *p);

/** movable_killed - processes are killed while a dma-buf moves; before the device is opened */
void movable_killed(void);

/** movable_held - a dma-buf is registered and moves until the process is killed */
void movable_held(struct peer *p);

#endif
