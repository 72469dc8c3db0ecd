/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The side of a front: it connects an HCA's PCI device to the process that hosts the HCA. No QEMU
 * header, no thread, no global. Functions marked "any" are for every thread at every time between
 * ohca_front_welcome() and ohca_front_free(); all others are for one thread at a time.
 *
 * The daemon is not trusted: its messages are checked, and every call has a time limit. After a
 * failure the front is lost: doorbells and calls do nothing, until it is freed. One limit remains:
 * a write of the eventfd that the daemon passes blocks while the daemon has its counter full and
 * O_NONBLOCK cleared. A daemon that passes another kind of descriptor is refused.
 */
#ifndef OHCA_FRONT_CLIENT_H
#define OHCA_FRONT_CLIENT_H

#include "page.h"
#include "proto.h"

#define OHCA_FRONT_CALL_MS	250	/* longest wait of a call for its answer */
#define OHCA_FRONT_UNMAP_MS	2000	/* of all calls of an UNMAP of many ranges */

struct ohca_front;

/**
 * struct ohca_front_err - why something failed
 * @absent: no process listens
 * @text: one line for the user, terminated
 */
struct ohca_front_err {
	bool absent;
	char text[240];
};

/**
 * ohca_front_start() - connect, and send HELLO
 * @path: the fabric's socket
 * @hello: the HCA; header and clock_ns are filled in
 * @dm_fd: shared memory of @hello->dm_size bytes, or -1; stays the caller's
 * @err: filled in on failure
 *
 * Does not wait. Until ohca_front_welcome() has returned 1 only ohca_front_welcome(),
 * ohca_front_free() and ohca_front_sock() may be called; the socket is readable when the answer has
 * arrived.
 *
 * Return: NULL on failure.
 */
struct ohca_front *ohca_front_start(const char *path, const struct ohca_front_hello *hello,
				    int dm_fd, struct ohca_front_err *err);

/**
 * ohca_front_welcome() - receive the answer to HELLO
 * @ms: longest wait
 * @err: filled in if the return is -1
 *
 * Return: 1: the HCA exists; 0: there is no answer yet; -1: the front can only be freed.
 */
int ohca_front_welcome(struct ohca_front *f, int ms, struct ohca_front_err *err);

/** ohca_front_connect() - start and welcome, in @ms altogether. Return: NULL on failure. */
struct ohca_front *ohca_front_connect(const char *path, const struct ohca_front_hello *hello,
				      int dm_fd, int ms, struct ohca_front_err *err);

/**
 * ohca_front_none() - create a front that is lost from the begin, because of @why: all reads are 0
 *
 * Return: NULL if out of memory.
 */
struct ohca_front *ohca_front_none(const char *why);

/**
 * ohca_front_free() - close; without BYE the daemon detects the end of the front; NULL does nothing
 */
void ohca_front_free(struct ohca_front *f);

/**
 * ohca_front_call() - send a message, and wait for its answer
 * @msg: the message; its header is filled in
 * @len: bytes of it
 * @fd: a descriptor to send with it, or -1; stays the caller's
 * @value: set to the value of the answer, or NULL
 *
 * Return: enum ohca_front_status; -1: the front is lost, ohca_front_lost() has the reason.
 */
int ohca_front_call(struct ohca_front *f, enum ohca_front_type type, void *msg, size_t len, int fd,
		    uint64_t *value);

/**
 * ohca_front_map() - add a translation of an IOMMU
 * @iova, @len, @block, @off, @flags: as of struct ohca_front_range
 *
 * Writes to the ring of mappings, and calls the daemon only if the ring is full: the daemon reads
 * it before a doorbell can use the translation. A translation that the daemon rejects ends the
 * front. Either no address of the range has a translation already, or all have this one.
 *
 * Return: 0, or as ohca_front_call().
 */
int ohca_front_map(struct ohca_front *f, uint64_t iova, uint64_t len, uint32_t block, uint64_t off,
		   uint32_t flags);

/**
 * ohca_front_maps_read() - have the daemon read all translations that are in the ring
 *
 * This precedes an UNBLOCK: the daemon rejects a translation of a block that it has removed.
 * Return: as ohca_front_call().
 */
int ohca_front_maps_read(struct ohca_front *f);

/**
 * ohca_front_unmap() - remove the translations of addresses from @iova to @last: there is no DMA
 *	after the return
 *
 * Makes a call for each OHCA_FRONT_UNMAP_STEP ranges. The front is lost if the daemon has not
 * finished with the last call that begins within OHCA_FRONT_UNMAP_MS.
 * Return: as ohca_front_call().
 */
int ohca_front_unmap(struct ohca_front *f, uint64_t iova, uint64_t last);

/** ohca_front_sock() - the socket; when it is readable ohca_front_event() is due */
int ohca_front_sock(const struct ohca_front *f);

/** ohca_front_event() - read messages that are no answers. Return: false: the front is lost. */
bool ohca_front_event(struct ohca_front *f);

/** ohca_front_lose() - give the front up, because of @why: the daemon detects its end */
void ohca_front_lose(struct ohca_front *f, const char *why);

/** ohca_front_lost() - why the front is lost; NULL: it is not. any */
const char *ohca_front_lost(const struct ohca_front *f);

/**
 * ohca_front_irq_wait() - block until a vector may be raised; for one thread, its own
 * Return: false: the front is lost, or the next call or ohca_front_event(), which is due, loses it.
 */
bool ohca_front_irq_wait(struct ohca_front *f);

/**
 * ohca_front_irq_sock() - when it is readable ohca_front_irq_read() is due; for callers without a
 *	thread
 */
int ohca_front_irq_sock(const struct ohca_front *f);

/**
 * ohca_front_irq_read() - a vector may be raised: ohca_front_irq_sock() is readable
 *
 * It does not block: a socket that is readable without a byte, as with urgent data, is given up.
 * Return: as ohca_front_irq_wait().
 */
bool ohca_front_irq_read(struct ohca_front *f);

/** ohca_front_ring() - a write of a UAR page, as of ohca_doorbells_ring(). any; no lock */
void ohca_front_ring(struct ohca_front *f, uint32_t uar, uint32_t off, uint64_t val,
		     unsigned int size);

/** ohca_front_admin() - a write of OHCA_REG_AQ_DB. any; no lock */
void ohca_front_admin(struct ohca_front *f, uint32_t pi);

/** ohca_front_reg() - value of BAR 0 at @off, @size 4 or 8, from the page. any; no lock */
uint64_t ohca_front_reg(const struct ohca_front *f, uint64_t off, unsigned int size);

/** ohca_front_away() - value of BAR 0 at @off, @size 4 or 8, while there is no HCA */
uint64_t ohca_front_away(uint64_t off, unsigned int size);

/** ohca_front_slow_reads() - whether reads of BAR 0 have to be calls of OHCA_FRONT_REG. any */
bool ohca_front_slow_reads(const struct ohca_front *f);

/**
 * ohca_front_clock() - value of a UAR page. any; no lock
 * @off: offset in the page; @size: bytes
 *
 * Return: the clock (OHCA_UAR_CLOCK) or the half of it at @off, in CPU order; 0 at other offsets,
 * and if the driver did not acknowledge OHCA_FEATURE_CLOCK.
 */
uint64_t ohca_front_clock(const struct ohca_front *f, uint32_t off, unsigned int size);

/** ohca_front_irq_any() - whether ohca_front_irqs() may find a vector. any */
bool ohca_front_irq_any(const struct ohca_front *f);

/**
 * ohca_front_irqs() - read and clear raised vectors. any
 * @n: only vectors below
 * @vec: [OHCA_PAGE_VECTORS / 64] filled in: a bit for each
 *
 * Work that must precede the interrupts in the guest is due between this call and them.
 * Return: whether there is any.
 */
bool ohca_front_irqs(struct ohca_front *f, unsigned int n, uint64_t *vec);

/**
 * ohca_front_dirty() - whether a log (front/dirty.h) may have new entries since the last call; call
 *	it after an event that reports writes to memory. any; no lock
 */
bool ohca_front_dirty(struct ohca_front *f);

/** ohca_front_irq_clear() - clear raised vectors, after RESET. any */
void ohca_front_irq_clear(struct ohca_front *f);

#endif /* OHCA_FRONT_CLIENT_H */
