/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Doorbells of an HCA: flat arrays, written by any thread of any process that has them mapped, and
 * read by the owner of the engine (engine/object/doorbell.c).
 *
 * A write of a doorbell sets one bit of a bitmap for each ring of work requests, with a summary bit
 * for each word of it, and a word for each CQ and EQ. Writers set the lowest level first, the
 * reader clears the highest first, so no doorbell is lost; at worst the reader finds a number twice
 * or an empty word. Nothing overflows, so a writer never waits for the reader.
 *
 * All contents may be any bits at any time: the writer may be another, hostile process. Numbers are
 * positions of bits; the reader masks those that are beyond the tables. Only the writer reads
 * @owner: it separates the queues of a guest's processes.
 */
#ifndef OHCA_FRONT_DOORBELL_H
#define OHCA_FRONT_DOORBELL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OHCA_DB_EQS		64u		/* event queues of a device */
#define OHCA_DB_MAX		(1u << 16)	/* objects of a kind */
#define OHCA_DB_UARS		0xffffu

/** enum ohca_db_kind - objects with an owner page */
enum ohca_db_kind { OHCA_DB_QP, OHCA_DB_SRQ, OHCA_DB_CQ, OHCA_DB_NUM };

/** enum ohca_ring_kind - bitmaps, in the order in which the owner serves them */
enum ohca_ring_kind { OHCA_RING_SQ, OHCA_RING_RQ, OHCA_RING_CQ, OHCA_RING_SRQ, OHCA_RING_NUM };

/** Bits of struct ohca_doorbells.pending: one for each ring, and these. */
#define OHCA_PEND_RING(kind)	(1u << (kind))
#define OHCA_PEND_EQ		(1u << 4)
#define OHCA_PEND_AQ		(1u << 5)	/* the admin queue's producer index was written */
#define OHCA_PEND_ATTN		(1u << 6)	/* a message waits in the socket (front/proto.h) */
#define OHCA_PEND_ENGINE	(OHCA_PEND_ATTN - 1)	/* those that the engine serves */

/** enum ohca_db_bad - why a doorbell was ignored; each has the counter OHCA_CNT_* of its name */
enum ohca_db_bad { OHCA_DB_BAD_SIZE, OHCA_DB_BAD_HANDLE, OHCA_DB_BAD_UAR, OHCA_DB_BAD_NUM };

/**
 * CQ arm word: two bits for each of the four SNs that a request may carry (any event,
 * solicited only), and the consumer index of the last one. Requests with different SNs
 * do not replace each other: all but one are stale, and only the CQ knows which.
 */
#define OHCA_ARM_ANY(sn)	(1ull << (sn))
#define OHCA_ARM_SOL(sn)	(1ull << (4 + (sn)))
#define OHCA_ARM_REQ		0xffull
#define OHCA_ARM_CI_SHIFT	32

/** EQ word: the consumer index in the low half, and these bits. */
#define OHCA_EQ_WORD_VALID	(1ull << 32)
#define OHCA_EQ_WORD_ARM	(1ull << 33)

/**
 * struct ohca_db_sizes - sizes of the arrays
 * @max: [enum ohca_db_kind] numbers of objects, each a power of two from 2 to OHCA_DB_MAX
 * @uars: UAR pages, from 1 to OHCA_DB_UARS
 */
struct ohca_db_sizes {
	uint32_t max[OHCA_DB_NUM];
	uint32_t uars;
};

/**
 * struct ohca_db_ring - numbers of one kind whose doorbells were written
 * @bits: a bit for each number; @bits_mask: bits of a word that are numbers
 * @sum: a bit for each word of @bits; @sum_mask: bits of a word of it that stand for words
 * @words: of @bits; @sums: of @sum
 */
struct ohca_db_ring {
	_Atomic uint64_t *bits;
	_Atomic uint64_t *sum;
	uint64_t bits_mask, sum_mask;
	uint32_t words, sums;
};

/**
 * struct ohca_doorbells - addresses of the arrays
 * @size: as given to ohca_doorbells_place()
 * @pending: OHCA_PEND_*: kinds that were written; the writer ORs, the owner exchanges
 * @aq_db: the admin queue's producer index, as last written
 * @bad: [enum ohca_db_bad] doorbells that were ignored
 * @eq: [OHCA_DB_EQS] words of EQs
 * @ring: bitmaps
 * @arm: [max of CQ] arm words
 * @owner: [kind][number] UAR page + 1 of the object; 0: there is none
 */
struct ohca_doorbells {
	struct ohca_db_sizes size;
	_Atomic uint32_t *pending;
	_Atomic uint32_t *aq_db;
	_Atomic uint64_t *bad;
	_Atomic uint64_t *eq;
	struct ohca_db_ring ring[OHCA_RING_NUM];
	_Atomic uint64_t *arm;
	_Atomic uint32_t *owner[OHCA_DB_NUM];
};

/**
 * ohca_doorbells_bytes() - size of the arrays
 *
 * Return: bytes, a multiple of 4,096; 0: @s is not valid.
 */
size_t ohca_doorbells_bytes(const struct ohca_db_sizes *s);

/**
 * ohca_doorbells_place() - compute the addresses of the arrays
 * @db: filled in
 * @s: valid sizes; the same on both sides of shared memory
 * @mem: ohca_doorbells_bytes() of memory, aligned to 64 bytes; its creator has set it to 0
 */
void ohca_doorbells_place(struct ohca_doorbells *db, const struct ohca_db_sizes *s, void *mem);

/**
 * ohca_doorbells_ring() - process a write of a UAR page. any thread; no lock, no allocation
 * @uar: page; @off: offset in it; @val: value, in CPU order; @size: bytes, only 8 is valid
 *
 * Return: whether the owner has work, and must be notified; if not the doorbell was ignored and
 * counted in @bad, as firmware-if/ohca_regs.h describes.
 */
bool ohca_doorbells_ring(const struct ohca_doorbells *db, uint32_t uar, uint32_t off, uint64_t val,
			 unsigned int size);

/**
 * ohca_doorbells_admin() - process a write of OHCA_REG_AQ_DB. any thread; no lock
 * @pi: the admin queue's producer index. The caller must notify the owner.
 */
void ohca_doorbells_admin(const struct ohca_doorbells *db, uint32_t pi);

/** ohca_doorbells_set() - set number @n of @kind. any thread */
void ohca_doorbells_set(const struct ohca_doorbells *db, enum ohca_ring_kind kind, uint32_t n);

#endif /* OHCA_FRONT_DOORBELL_H */
