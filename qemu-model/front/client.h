/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The side of a front: it connects an HCA's PCI device to the process that hosts the HCA. No QEMU
 * header, no thread, no global. Functions marked "any" are for every thread at every time between
 * ohca_front_welcome() and ohca_front_free(); all others are for one thread at a time.
 *
 * The daemon is not trusted: what it sends is checked, and a call waits no longer than it says.
 * After a failure the front is lost: doorbells and calls do nothing, until it is freed. One limit
 * remains: a write of the eventfd that the daemon passes blocks while the daemon has its counter
 * full and O_NONBLOCK cleared. Who passes another kind of descriptor is refused.
 */
#ifndef OHCA_FRONT_CLIENT_H
#define OHCA_FRONT_CLIENT_H

#include "page.h"
#include "proto.h"

#define OHCA_FRONT_CALL_MS	250	/* that a call waits for its answer */
#define OHCA_FRONT_UNMAP_MS	2000	/* that all calls of an UNMAP of many ranges do */

struct ohca_front;

/**
 * struct ohca_front_err - why something failed
 * @absent: nobody listens
 * @text: one line for the user, terminated
 */
struct ohca_front_err {
	bool absent;
	char text[240];
};

/**
 * ohca_front_start() - connect, and say HELLO
 * @path: the fabric's socket
 * @hello: the HCA; header and clock_ns are filled in
 * @dm_fd: shared memory of @hello->dm_size bytes, or -1; stays the caller's
 * @err: filled in on failure
 *
 * Does not wait. Until ohca_front_welcome() has returned 1 only that and ohca_front_sock(),
 * which is readable when the answer is there, are for the front.
 *
 * Return: NULL on failure.
 */
struct ohca_front *ohca_front_start(const char *path, const struct ohca_front_hello *hello,
				    int dm_fd, struct ohca_front_err *err);

/**
 * ohca_front_welcome() - the answer to HELLO
 * @ms: that it may take
 * @err: filled in if the return is -1
 *
 * Return: 1: the HCA is there; 0: there is no answer yet; -1: the front can only be freed.
 */
int ohca_front_welcome(struct ohca_front *f, int ms, struct ohca_front_err *err);

/** ohca_front_connect() - both, in @ms in all. Return: NULL on failure. */
struct ohca_front *ohca_front_connect(const char *path, const struct ohca_front_hello *hello,
				      int dm_fd, int ms, struct ohca_front_err *err);

/**
 * ohca_front_none() - a front that is lost from its begin, because of @why: all reads 0
 *
 * Return: NULL if out of memory.
 */
struct ohca_front *ohca_front_none(const char *why);

/** ohca_front_free() - close; without BYE the daemon finds that the front has gone; NULL is none */
void ohca_front_free(struct ohca_front *f);

/**
 * ohca_front_call() - send a message, and wait for its answer
 * @msg: the message; its header is filled in
 * @len: bytes of it
 * @fd: a descriptor to be sent along, or -1; stays the caller's
 * @value: what the answer has, or NULL
 *
 * Return: enum ohca_front_status; -1: the front is lost, ohca_front_lost() has the reason.
 */
int ohca_front_call(struct ohca_front *f, enum ohca_front_type type, void *msg, size_t len, int fd,
		    uint64_t *value);

/**
 * ohca_front_map() - an IOMMU translates a range from now on
 * @iova, @len, @block, @off, @flags: as of struct ohca_front_range
 *
 * The daemon is told only if there are too many for it to be told of: it has what was mapped before a
 * doorbell. What it does not take ends the front. No address of the range is mapped, or all are so.
 *
 * Return: 0, or as ohca_front_call().
 */
int ohca_front_map(struct ohca_front *f, uint64_t iova, uint64_t len, uint32_t block, uint64_t off,
		   uint32_t flags);

/**
 * ohca_front_unmap() - addresses from @iova to @last are translated no more: there is no DMA after
 * the return
 *
 * That is a call for each OHCA_FRONT_UNMAP_STEP ranges. A daemon that is not done within
 * OHCA_FRONT_UNMAP_MS, or the last call begun in that time, is lost.
 * Return: as ohca_front_call().
 */
int ohca_front_unmap(struct ohca_front *f, uint64_t iova, uint64_t last);

/** ohca_front_sock() - readable: ohca_front_event() is due */
int ohca_front_sock(const struct ohca_front *f);

/** ohca_front_event() - read what came unasked. Return: false: the front is lost. */
bool ohca_front_event(struct ohca_front *f);

/** ohca_front_lose() - give the front up, because of @why: the daemon finds that it has gone */
void ohca_front_lose(struct ohca_front *f, const char *why);

/** ohca_front_lost() - why the front is lost; NULL: it is not. any */
const char *ohca_front_lost(const struct ohca_front *f);

/**
 * ohca_front_irq_wait() - block until a vector is raised, or may be; for one thread, its own
 * Return: false: the front is lost, or is by the next call, or ohca_front_event(), which is due.
 */
bool ohca_front_irq_wait(struct ohca_front *f);

/** ohca_front_irq_sock() - readable: ohca_front_irq_read() is due; for who has no thread that waits */
int ohca_front_irq_sock(const struct ohca_front *f);

/**
 * ohca_front_irq_read() - a vector is raised, or may be: ohca_front_irq_sock() is readable
 *
 * It does not block: a socket that has no byte all the same, but an urgent one, is given up.
 * Return: as ohca_front_irq_wait().
 */
bool ohca_front_irq_read(struct ohca_front *f);

/** ohca_front_ring() - a write of a UAR page, as of ohca_doorbells_ring(). any; no lock */
void ohca_front_ring(struct ohca_front *f, uint32_t uar, uint32_t off, uint64_t val,
		     unsigned int size);

/** ohca_front_admin() - a write of OHCA_REG_AQ_DB. any; no lock */
void ohca_front_admin(struct ohca_front *f, uint32_t pi);

/** ohca_front_reg() - what BAR 0 reads at @off, @size 4 or 8, by the page. any; no lock */
uint64_t ohca_front_reg(const struct ohca_front *f, uint64_t off, unsigned int size);

/** ohca_front_away() - what BAR 0 reads at @off, @size 4 or 8, while there is no HCA */
uint64_t ohca_front_away(uint64_t off, unsigned int size);

/** ohca_front_slow_reads() - reads of BAR 0 are to be calls of OHCA_FRONT_REG. any */
bool ohca_front_slow_reads(const struct ohca_front *f);

/**
 * ohca_front_clock() - what a UAR page reads. any; no lock
 * @off: offset in the page; @size: bytes
 *
 * Return: the clock (OHCA_UAR_CLOCK) or the half of it that is there, in CPU order; 0 for all else, and
 * if the driver did not acknowledge OHCA_FEATURE_CLOCK.
 */
uint64_t ohca_front_clock(const struct ohca_front *f, uint32_t off, unsigned int size);

/** ohca_front_irq_any() - whether ohca_front_irqs() may find a vector. any */
bool ohca_front_irq_any(const struct ohca_front *f);

/**
 * ohca_front_irqs() - take raised vectors. any
 * @n: only those below are taken
 * @vec: [OHCA_PAGE_VECTORS / 64] filled in: a bit for each
 *
 * What is due before the guest knows of them comes between this and its interrupts.
 * Return: whether there is any.
 */
bool ohca_front_irqs(struct ohca_front *f, unsigned int n, uint64_t *vec);

/**
 * ohca_front_dirty() - whether a log (front/dirty.h) may have something that it had not at the last
 *	call: to be asked after something told that memory was written. any; no lock
 */
bool ohca_front_dirty(struct ohca_front *f);

/** ohca_front_irq_clear() - forget raised vectors, after RESET. any */
void ohca_front_irq_clear(struct ohca_front *f);

#endif /* OHCA_FRONT_CLIENT_H */
