/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Tests of memory that is not pinned: what paged.c and moving.c share. */
#ifndef PAGED_H
#define PAGED_H

#include "peer.h"

#include <pthread.h>
#include <stdatomic.h>

#define PATIENCE_MS	30000
#define PAGED_ADD	3	/* what paged_op() adds by an atomic */
#define PAGE		4096u
#define RIGHTS		(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |	\
			 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define ODP		(RIGHTS | IBV_ACCESS_ON_DEMAND)

/** paged_pair - two new QPs instead of what there are, connected to each other */
void paged_pair(struct peer *p);

/** paged_op - one operation from @local to @remote; with @status, else the program ends */
void paged_op(struct peer *p, enum ibv_wr_opcode op, uint64_t local, uint32_t lkey, uint64_t remote,
	      uint32_t rkey, uint32_t len, enum ibv_wc_status status, const char *what);

/** paged_post - post the same, and do not wait */
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
 * struct traffic - a thread that makes the device write and read a region, both ways
 * @at: memory of @mr, at the same address for the device
 * @len: bytes
 * @verify: what was written is there until it is written again; SEND and atomics, too
 * @rounds: done so far
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

/** traffic_on - start it; returns when it runs */
void traffic_on(struct traffic *t, struct peer *p, struct ibv_mr *mr, uint8_t *at, uint32_t len,
		bool verify);

/** rounds_wait - wait until the thread has begun and done @n rounds more */
void rounds_wait(struct traffic *t, unsigned int n);

/** traffic_stop - one round more, then it ends, and @t->mr is deregistered */
void traffic_stop(struct traffic *t);

/** paged_every_op - every operation with @mr, whose memory this process sees at @cpu and the
 * device at @va; @drop: pages are thrown away in between */
void paged_every_op(struct peer *p, struct ibv_mr *mr, uint8_t *cpu, uint64_t va, uint32_t len,
		    bool drop, uint32_t seed);

/** moving - pages go and come in all ways while the device uses them */
void moving(struct peer *p);

/** transports - what the transport @name announces, while pages go; false: no such one */
bool transports(struct peer *p, const char *name);

/** swapped - pages go to swap space and come back, while the device uses them */
void swapped(struct peer *p);

/** squeezed - @mib of memory through a region, in a process that may not have as much */
void squeezed(struct peer *p, unsigned int mib);

/** killed - processes are killed in the middle of traffic; before the device is opened */
void killed(void);

/** stalled - memory of another process does not come, for prefetches or for faults; before the
 * device is opened */
void stalled(bool prefetch);

/** tables - what the kernel's tables of all processes may take; before the device is opened */
void tables(void);

/** paged_killed - six processes do @run, and are killed when they have written a byte to @tell */
void paged_killed(void (*run)(int tell));

/** movable_moving - a dma-buf moves under traffic */
void movable_moving(struct peer *p);

/** movable_revoked - it is revoked under traffic */
void movable_revoked(struct peer *p);

/** movable_pinned - it cannot move, with a kernel that pins it */
void movable_pinned(struct peer *p);

/** movable_killed - processes are killed while it moves; before the device is opened */
void movable_killed(void);

/** movable_held - it is registered and moves until the process is killed */
void movable_held(struct peer *p);

#endif
