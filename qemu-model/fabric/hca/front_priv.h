/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shared by the files of fronts. */
#ifndef OHCA_FABRIC_FRONT_PRIV_H
#define OHCA_FABRIC_FRONT_PRIV_H

#include "block.h"
#include "front.h"
#include "front/page.h"
#include "front/proto.h"
#include "persist.h"

/**
 * struct front_msg - a message that was received
 * @len: its bytes
 * @fd: its descriptor, or -1
 * @starved: this process had no room for a descriptor
 * @last: it takes long: all HCAs get a turn before the next message is processed
 */
struct front_msg {
	size_t len;
	int fd;
	bool starved, last;
};

/**
 * struct fab_front - a front
 * @s: the set that contains it
 * @index: its index there
 * @door: the socket by which it connected, for @place of struct fab_fronts_cfg
 * @sock: its socket, or -1
 * @wake: eventfd that it writes to wake us, or -1
 * @irq: socket that notifies it of interrupts, or -1
 * @hca: its HCA; NULL after BYE, and while @from has the HCA
 * @page: of @page_bytes, or NULL
 * @dm: device memory, or NULL
 * @block: blocks of its memory; @ranges: of the last MEM in each; @maps: of an IOMMU in each
 * @log: for each block, and last for @dm: log of writes there, in @log_block
 * @bytes: of all blocks, logs and @dm
 * @persist: journal of FLUSHes to a disk; NULL: there was none
 * @broken: an error of a disk was logged; @limited: a refusal by the memory limit was logged
 * @calls: it has set OHCA_PEND_ATTN
 * @looked: the last pass of the loop in which its messages were processed
 * @map_tail: entries of its ring of mappings that were read, modulo 2^32
 * @hello: as received
 * @token: by which another front may get the HCA; 0: none may
 * @to: the front that may get its HCA, or NULL; @from: the front whose HCA it may get, or NULL
 * @reach: memory that the HCA will access, of a front with @from
 * @bad: why it must be ended, or NULL
 * @vanished: an access to one of the blocks has found no memory
 * @desc: NodeDescription, @id: the front's name of the device; for messages
 */
struct fab_front {
	struct fab_fronts *s;
	uint32_t index;
	void *door;
	int sock, wake, irq;
	struct fab_hca *hca;
	struct ohca_page *page;
	size_t page_bytes;
	struct fab_block *dm;
	struct fab_block *block[OHCA_FRONT_BLOCKS];
	unsigned int ranges[OHCA_FRONT_BLOCKS], maps[OHCA_FRONT_BLOCKS];
	struct fab_hca_log log[OHCA_FRONT_LOG_DM + 1];
	struct fab_block *log_block[OHCA_FRONT_LOG_DM + 1];
	uint64_t bytes;
	struct fab_persist *persist;
	uint64_t looked;
	uint32_t map_tail;
	struct ohca_front_hello hello;
	uint64_t token;
	struct fab_front *to, *from;
	struct fab_hca_reach reach;
	const char *bad;
	bool calls, vanished, broken, limited;
	char desc[64], id[65];
};

/**
 * struct fab_fronts - all fronts of a fabric
 * @cfg: as of fab_fronts_new()
 * @front: [@room] each at its index, or NULL
 * @calls: one of them calls
 * @bytes: of all fronts; @refused: how often they would have exceeded the limit
 * @objects_refused: of fronts that have ended, see struct fab_front_stats
 * @pass: number of the pass of the loop, from 1
 * @persister: writes blocks to their disk
 * @range: ranges of a MEM
 * @strangers: HELLOs with an unknown token
 * @why: reason to end a front, if it is not a fixed text
 * @in: the message that is being processed; last, since MEM has no fixed size
 */
struct fab_fronts {
	struct fab_fronts_cfg cfg;
	struct fab_front **front;
	uint32_t room;
	bool calls;
	uint64_t bytes, refused, objects_refused;
	uint64_t pass;
	struct fab_persister persister;
	struct fab_hca_range range[OHCA_FRONT_RANGES];
	uint64_t strangers;
	char why[160];
	union {
		struct ohca_front_hdr hdr;
		struct ohca_front_hello hello;
		struct ohca_front_block block;
		struct ohca_front_log log;
		struct ohca_front_mem mem;
		struct ohca_front_unmap unmap;
		struct ohca_front_reg reg;
		struct ohca_front_run run;
		struct ohca_front_lies lies;
		uint8_t bytes[OHCA_FRONT_MAX];
	} in;
};

/* ---- front_sock.c ---- */

/**
 * fab_front_recv() - receive the next message into @s->in
 * @m: filled in; the caller owns its descriptor
 *
 * Return: 1; 0: there is none; -1: the front has disconnected, or @why has the violation.
 */
int fab_front_recv(struct fab_fronts *s, int sock, struct front_msg *m, const char **why);

/** fab_front_drop_fd() - close the descriptor of a message, if it is still there */
void fab_front_drop_fd(struct fab_fronts *s, struct front_msg *m);

/**
 * fab_front_send() - send a message
 * @msg: its header is filled in
 * @seq: of the message that it answers, little-endian as received
 * @fds: NULL, or OHCA_FRONT_FDS descriptors
 *
 * Return: false: it cannot be sent now.
 */
bool fab_front_send(int sock, struct ohca_front_hdr *msg, enum ohca_front_type type, size_t len,
		    uint32_t seq, const int *fds);

/** fab_front_refuse() - send ERROR with @text; @code: enum ohca_link_errcode */
void fab_front_refuse(int sock, int code, const char *text);

/* ---- hello.c ---- */

/**
 * fab_front_card() - fill in the configuration of the card that a HELLO requests
 * @h: the HELLO; @now_ns: CLOCK_MONOTONIC; @mem_max: @hca_max of struct fab_fronts_cfg
 * @cfg: filled in, except for @dm
 *
 * Return: NULL, or the name of the field that is not valid.
 */
const char *fab_front_card(const struct ohca_front_hello *h, uint64_t now_ns, uint64_t mem_max,
			   struct ohca_cfg *cfg);

/**
 * fab_front_text() - copy @n bytes of text to @to, which has more, with a terminator, printable
 *	only
 */
void fab_front_text(char *to, const uint8_t *from, size_t n);

/* ---- message.c ---- */

/**
 * fab_front_message() - process @s->in, and answer. Return: NULL, or why the front must be ended.
 */
const char *fab_front_message(struct fab_front *f, struct front_msg *m);

/** fab_front_persist() - @persist of struct fab_hca_cfg, for front @f */
bool fab_front_persist(void *f, const struct iovec *mem, unsigned int n, uint64_t tag);

/** fab_front_maps() - @maps of struct fab_hca_cfg, for front @f */
unsigned int fab_front_maps(void *f);

/* ---- move.c ---- */

/**
 * fab_front_leaver() - the front whose HCA @f may get, by the token in its HELLO
 * Return: NULL: @err has the reason.
 */
struct fab_front *fab_front_leaver(struct fab_front *f, struct ohca_link_err *err);

/** fab_front_join() - @f is the front that may get the HCA of @from: the token is used up */
void fab_front_join(struct fab_front *f, struct fab_front *from);

/** fab_front_leave() - Return: a new token by which a front may get the HCA of @f; 0: none may */
uint64_t fab_front_leave(struct fab_front *f);

/** fab_front_decide() - the machine continues at @f, and not at the other front: @f gets the HCA */
void fab_front_decide(struct fab_front *f);

/** fab_front_part() - @f ends: the other front, if there is one, keeps the HCA */
void fab_front_part(struct fab_front *f);

/** fab_front_reach() - the memory that the HCA of @f accesses, or will access */
struct fab_hca_reach *fab_front_reach(struct fab_front *f);

/* ---- front.c ---- */

/** fab_front_end() - end a front; @code: enum ohca_link_errcode; @why: NULL: it has disconnected */
void fab_front_end(struct fab_front *f, int code, const char *why);

/**
 * fab_front_charge() - count @n more bytes of @f
 * Return: false: it would exceed its limit, or that of all fronts.
 */
bool fab_front_charge(struct fab_front *f, uint64_t n);

/** fab_front_discharge() - count @n bytes less */
void fab_front_discharge(struct fab_front *f, uint64_t n);

/** fab_front_unhost() - free the HCA, and all memory with it */
void fab_front_unhost(struct fab_front *f);

#endif
