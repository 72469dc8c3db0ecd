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
 * @last: no other one is looked at before all HCAs had a turn, since this one takes long
 */
struct front_msg {
	size_t len;
	int fd;
	bool starved, last;
};

/**
 * struct fab_front - a front
 * @s: of these
 * @index: its place among them
 * @door: the socket that it came by, for place of struct fab_fronts_cfg
 * @sock, @wake, @irq: its socket; what it writes to wake us; what it reads interrupts from; or -1
 * @hca: NULL after BYE, and while it is @from's
 * @page: of @page_bytes, or NULL
 * @dm: device memory, or NULL
 * @block: what its memory lies in; @ranges of the last MEM, and @maps of an IOMMU, are in each
 * @log: of each, at last of @dm: what is written there is noted in @log_block
 * @bytes: of all blocks, logs and @dm
 * @persist: FLUSHes of those that are on a disk; NULL: none has been
 * @broken: the log says that a disk is; @limited: that there would be too much memory
 * @calls: it has set OHCA_PEND_ATTN
 * @looked: the pass of the loop in which its messages were looked at last
 * @map_tail: entries of its ring of mappings that were read, modulo 2^32
 * @hello: as it came
 * @token: by which another one may have the HCA; 0: none may
 * @to, @from: one that may, and the one that it is of, or NULL
 * @reach: what it will reach, of a front with @from
 * @bad: why it is to be ended, or NULL
 * @vanished: an access to one of them has found none
 * @desc: NodeDescription, @id: what the front calls the device; for messages
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
 * struct fab_fronts - all of a fabric
 * @cfg: as of fab_fronts_new()
 * @front: [@room] each at its index, or NULL
 * @calls: one of them calls
 * @bytes: of all fronts; @refused: how often it would have been too much
 * @objects_refused: of those that have gone, see struct fab_front_stats
 * @pass: of the loop, from 1
 * @persister: writes blocks to their disk
 * @range: of a MEM
 * @strangers: HELLOs with a token that nobody has
 * @why: a front is to be ended, where that takes more than a fixed text
 * @in: the message that is looked at; last, since MEM has no size
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
 * fab_front_recv() - the next message, into @s->in
 * @m: filled in; its descriptor is the caller's
 *
 * Return: 1; 0: there is none; -1: the front is gone, or @why says what is wrong.
 */
int fab_front_recv(struct fab_fronts *s, int sock, struct front_msg *m, const char **why);

/** fab_front_drop_fd() - close the descriptor of a message, if it is still there */
void fab_front_drop_fd(struct fab_fronts *s, struct front_msg *m);

/**
 * fab_front_send() - send a message
 * @msg: its header is filled in
 * @seq: little-endian, as it came
 * @fds: NULL, or OHCA_FRONT_FDS descriptors
 *
 * Return: false: it cannot be sent now.
 */
bool fab_front_send(int sock, struct ohca_front_hdr *msg, enum ohca_front_type type, size_t len,
		    uint32_t seq, const int *fds);

/** fab_front_refuse() - send ERROR; @code: enum ohca_link_errcode */
void fab_front_refuse(int sock, int code, const char *text);

/* ---- hello.c ---- */

/**
 * fab_front_card() - the card that a HELLO asks for
 * @h: the HELLO; @now_ns: CLOCK_MONOTONIC; @mem_max: as hca_max of struct fab_fronts_cfg
 * @cfg: filled in but for @dm
 *
 * Return: NULL, or the name of the field that is not valid.
 */
const char *fab_front_card(const struct ohca_front_hello *h, uint64_t now_ns, uint64_t mem_max,
			   struct ohca_cfg *cfg);

/** fab_front_text() - @n bytes of @from, perhaps terminated, to @to of more bytes, for people */
void fab_front_text(char *to, const uint8_t *from, size_t n);

/* ---- message.c ---- */

/** fab_front_message() - act by @s->in, and answer. Return: NULL, or why the front is to be ended. */
const char *fab_front_message(struct fab_front *f, struct front_msg *m);

/** fab_front_persist() - persist of struct fab_hca_cfg, of front @f */
bool fab_front_persist(void *f, const struct iovec *mem, unsigned int n, uint64_t tag);

/** fab_front_maps() - maps of struct fab_hca_cfg, of front @f */
unsigned int fab_front_maps(void *f);

/* ---- move.c ---- */

/**
 * fab_front_leaver() - the front whose HCA the HELLO of @f may have, by its token
 * Return: NULL: @err says why it may not.
 */
struct fab_front *fab_front_leaver(struct fab_front *f, struct ohca_link_err *err);

/** fab_front_join() - @f is the one that may have the HCA of @from: the token is used up */
void fab_front_join(struct fab_front *f, struct fab_front *from);

/** fab_front_leave() - Return: a new token by which a front may have the HCA of @f; 0: none may */
uint64_t fab_front_leave(struct fab_front *f);

/** fab_front_decide() - the machine goes on at @f: at the other one it does not */
void fab_front_decide(struct fab_front *f);

/** fab_front_part() - @f goes: the other one, if there is one, has the HCA */
void fab_front_part(struct fab_front *f);

/** fab_front_reach() - what the HCA of @f reaches, or will reach */
struct fab_hca_reach *fab_front_reach(struct fab_front *f);

/* ---- front.c ---- */

/** fab_front_end() - end a front; @code: enum ohca_link_errcode; @why: NULL: it has gone */
void fab_front_end(struct fab_front *f, int code, const char *why);

/**
 * fab_front_charge() - @f is to have @n bytes more
 * Return: false: it would be more than it, or all, may have.
 */
bool fab_front_charge(struct fab_front *f, uint64_t n);

/** fab_front_discharge() - it has @n bytes less */
void fab_front_discharge(struct fab_front *f, uint64_t n);

/** fab_front_unhost() - the HCA goes away, and all memory with it */
void fab_front_unhost(struct fab_front *f);

#endif
