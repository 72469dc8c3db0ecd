/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Tests of memory that is not pinned: what paged.c and moving.c share. */
#ifndef PAGED_H
#define PAGED_H

#include "peer.h"

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

/** moving - pages go and come in all ways while the device uses them */
void moving(struct peer *p);

/** swapped - pages go to swap space and come back, while the device uses them */
void swapped(struct peer *p);

/** squeezed - @mib of memory through a region, in a process that may not have as much */
void squeezed(struct peer *p, unsigned int mib);

/** killed - processes are killed in the middle of traffic; before the device is opened */
void killed(void);

#endif
