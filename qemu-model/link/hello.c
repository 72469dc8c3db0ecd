// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The begin of a link: the first message of each side. By TCP it always has OHCA_WIRE_MSG_MAX
 * bytes, whatever version the peer has, and stays in the socket until it is complete (SO_RCVLOWAT):
 * no memory is used for a peer that has not identified itself. A peek ends before an urgent byte,
 * however many bytes follow it, while the socket is readable: so a peer that sends one before its
 * message is complete is refused.
 */
#include "link_priv.h"

#include <endian.h>
#include <errno.h>
#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

int64_t link_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

void ohca_link_cfg_init(struct ohca_link_cfg *cfg)
{
	memset(cfg, 0, sizeof(*cfg));
	cfg->node_type = 1;
	cfg->port_num = 1;
	cfg->vl_cap = 8;
	cfg->mtu_cap = 5;
	cfg->shift_max = OHCA_LINK_SHIFT_MAX;
	cfg->shift_pref = OHCA_LINK_SHIFT_DEFAULT;
	cfg->width_sup = 1 | 2;
	cfg->speed_sup = 1 | 2 | 4;
	cfg->speed_ext_sup = 1 | 2;
}

int link_check_cfg(const struct ohca_link_cfg *c, const char *whose, struct ohca_link_err *err)
{
	if (c->vl_cap != 1 && c->vl_cap != 2 && c->vl_cap != 4 && c->vl_cap != 8 &&
	    c->vl_cap != 15)
		return link_err(err, OHCA_LINK_E_CONFIG, 0, "%s port has %u data VLs", whose,
				c->vl_cap);
	if (c->mtu_cap < 1 || c->mtu_cap > 5)
		return link_err(err, OHCA_LINK_E_CONFIG, 0, "%s port has MTU code %u", whose,
				c->mtu_cap);
	if (c->shift_min > c->shift_max || c->shift_max > OHCA_LINK_SHIFT_MAX)
		return link_err(err, OHCA_LINK_E_CONFIG, 0, "%s port has credit shifts %u-%u",
				whose, c->shift_min, c->shift_max);
	return 0;
}

/* ---- HELLO messages ------------------------------------------------------------ */

void link_hello_fill(struct ohca_wire_hello *h, const struct ohca_link_cfg *c)
{
	memset(h, 0, sizeof(*h));
	link_hdr_init(&h->hdr, OHCA_WIRE_HELLO, sizeof(*h));
	h->node_guid = htole64(c->node_guid);
	h->port_guid = htole64(c->port_guid);
	h->node_type = c->node_type;
	h->port_num = c->port_num;
	h->want_port = c->want_port;
	h->vl_cap = c->vl_cap;
	h->mtu_cap = c->mtu_cap;
	h->shift_min = c->shift_min;
	h->shift_max = c->shift_max;
	h->shift_pref = c->shift_pref;
	h->width_sup = c->width_sup;
	h->speed_sup = c->speed_sup;
	h->speed_ext_sup = c->speed_ext_sup;
	memcpy(h->desc, c->desc, strnlen(c->desc, sizeof(h->desc)));
	memcpy(h->place, c->place, strnlen(c->place, sizeof(h->place)));
}

/* Copy the peer's text without control characters, for terminals and logs. */
static void hello_text(char *to, const uint8_t *from, size_t size)
{
	for (size_t i = 0; i + 1 < size && from[i]; i++)
		to[i] = from[i] >= 0x20 && from[i] < 0x7f ? (char)from[i] : '?';
}

/* Parse HELLO: @h: copied; @c: filled in from it, and checked. Return: 0 or -1. */
static int hello_parse(const void *buf, size_t len, struct ohca_wire_hello *h,
		       struct ohca_link_cfg *c, struct ohca_link_err *err)
{
	int type = link_check_hdr(buf, len, err);

	if (type < 0)
		return -1;
	if (type != OHCA_WIRE_HELLO || len < sizeof(*h))
		return link_err(err, OHCA_LINK_E_PROTO, 0,
				"the peer sent message type %d of %zu bytes instead of HELLO",
				type, len);
	memcpy(h, buf, sizeof(*h));
	memset(c, 0, sizeof(*c));
	c->node_guid = le64toh(h->node_guid);
	c->port_guid = le64toh(h->port_guid);
	c->node_type = h->node_type;
	c->port_num = h->port_num;
	c->want_port = h->want_port;
	c->vl_cap = h->vl_cap;
	c->mtu_cap = h->mtu_cap;
	c->shift_min = h->shift_min;
	c->shift_max = h->shift_max;
	c->shift_pref = h->shift_pref;
	c->width_sup = h->width_sup;
	c->speed_sup = h->speed_sup;
	c->speed_ext_sup = h->speed_ext_sup;
	memcpy(c->proof, h->proof, sizeof(c->proof));
	hello_text(c->desc, h->desc, sizeof(c->desc));
	hello_text(c->place, h->place, sizeof(c->place));
	return link_check_cfg(c, "the peer's", err);
}

/* Send a first message. Return: 0, or -1 with errno. */
static int send_first(int fd, const void *msg, size_t len)
{
	uint8_t buf[OHCA_WIRE_MSG_MAX] = { 0 };

	memcpy(buf, msg, len);
	return link_send(fd, buf, link_is_tcp(fd) ? sizeof(buf) : len);
}

/* By TCP @buf has OHCA_WIRE_MSG_MAX bytes. Return: length of the message, or -1. */
static ssize_t first_len(const uint8_t *buf, struct ohca_link_err *err)
{
	struct ohca_wire_hdr h;
	uint32_t len;

	memcpy(&h, buf, sizeof(h));
	len = le32toh(h.len);
	if (le32toh(h.magic) != OHCA_WIRE_MAGIC || len < sizeof(h) || len > OHCA_WIRE_MSG_MAX)
		return link_err(err, OHCA_LINK_E_PROTO, 0,
				"the peer does not use the OpenHCA link protocol");
	return (ssize_t)len;
}

/*
 * Receive the first message of the peer: @buf has room for OHCA_WIRE_MSG_MAX bytes.
 * Return: its length, 0: it has not arrived yet, -1: it never will
 */
static ssize_t recv_first(int fd, const struct ohca_link_closer *closer, uint8_t *buf,
			  struct ohca_link_err *err)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP | POLLPRI };
	const bool tcp = link_is_tcp(fd);
	ssize_t n = tcp ? recv(fd, buf, OHCA_WIRE_MSG_MAX, MSG_DONTWAIT | MSG_PEEK) :
		    link_recv(fd, closer, buf, OHCA_WIRE_MSG_MAX);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 0 && errno == EMSGSIZE)
		return link_err(err, OHCA_LINK_E_PROTO, 0,
				"the peer sent a first message of more than %u bytes",
				OHCA_WIRE_MSG_MAX);
	if (n < 0)
		return link_err(err, errno == ECONNREFUSED ? OHCA_LINK_E_PATH : OHCA_LINK_E_SYS,
				errno, "the peer cannot be reached");
	if (!n || (tcp && n < OHCA_WIRE_MSG_MAX))
		return n && poll(&p, 1, 0) == 0 ? 0 :
		       link_err(err, OHCA_LINK_E_PROTO, 0, p.revents & POLLPRI ?
				"the peer sent urgent data in its first message" :
				"the peer closed the socket before its first message");
	if (!tcp)
		return n;
	if (recv(fd, buf, OHCA_WIRE_MSG_MAX, MSG_DONTWAIT) != OHCA_WIRE_MSG_MAX)
		return link_err(err, OHCA_LINK_E_SYS, errno, "the peer cannot be reached");
	return first_len(buf, err);
}

/* ---- the proof ------------------------------------------------------------------ */

int ohca_link_read_token(const char *name, char *token, struct ohca_link_err *err)
{
	FILE *file = fopen(name, "r");
	size_t n = 0;

	if (!file)
		return link_err(err, OHCA_LINK_E_SYS, errno, "token %.80s", name);
	if (fgets(token, OHCA_LINK_TOKEN_MAX + 1, file))
		n = strcspn(token, "\r\n");
	fclose(file);
	token[n] = 0;
	return n >= OHCA_LINK_TOKEN_MIN ? 0 :
	       link_err(err, OHCA_LINK_E_CONFIG, 0, "token %.80s: its first line has fewer than %u "
			"characters: 'openssl rand -hex 32' makes one", name, OHCA_LINK_TOKEN_MIN);
}

static void prove(const uint8_t *nonce, const char *token, uint8_t proof[OHCA_WIRE_PROOF])
{
	struct hmac_sha256_ctx c;

	static_assert(OHCA_WIRE_PROOF == SHA256_DIGEST_SIZE, "the proof is a code");
	memset(proof, 0, OHCA_WIRE_PROOF);
	if (!token)
		return;
	hmac_sha256_set_key(&c, strlen(token), (const uint8_t *)token);
	hmac_sha256_update(&c, OHCA_WIRE_NONCE, nonce);
	hmac_sha256_digest(&c, OHCA_WIRE_PROOF, proof);
}

bool ohca_link_proven(const struct ohca_link_cfg *peer, const uint8_t nonce[OHCA_LINK_NONCE],
		      const char *token)
{
	uint8_t want[OHCA_WIRE_PROOF];

	if (!token)
		return true;
	prove(nonce, token, want);
	return memeql_sec(want, peer->proof, sizeof(want));
}

/* ---- both sides ----------------------------------------------------------------- */

static void free_rings(struct ohca_link *l)
{
	link_stream_free(l);
	link_unmap(l);
	free(l);
}

/* Make a link over @fd, which the link then owns. Return: NULL on failure. */
static struct ohca_link *make_link(int fd, const struct ohca_link_cfg *cfg,
				   const struct ohca_link_cfg *peer, unsigned int vls,
				   unsigned int shift, struct ohca_link_err *err)
{
	struct ohca_link *l = link_new(cfg, peer, vls, shift);

	if (l) {
		l->sock = fd;
		if (!link_stream_new(l)) {
			link_tcp_begun(fd);
			return l;
		}
	}
	link_err(err, OHCA_LINK_E_SYS, errno, "making the link");
	if (l)
		free_rings(l);
	return NULL;
}

void ohca_link_free(struct ohca_link *l)
{
	if (!l)
		return;
	if (l->sock >= 0)
		link_close_sock(l->cfg.closer, l->sock);
	link_close(l->cfg.closer, l->my_wake);
	free_rings(l);
}

const struct ohca_link_cfg *ohca_link_peer(const struct ohca_link *l)
{
	return &l->peer;
}

unsigned int ohca_link_vls(const struct ohca_link *l)
{
	return l->vls;
}

/* ---- listening side ------------------------------------------------------------ */

int ohca_link_listen(const char *path, struct ohca_link_err *err)
{
	return link_path_is_tcp(path) ? link_tcp_listen(path, err) : link_unix_listen(path, err);
}

int ohca_link_greet(int fd, uint8_t nonce[OHCA_LINK_NONCE], struct ohca_link_err *err)
{
	struct ohca_wire_greeting g;

	memset(nonce, 0, OHCA_LINK_NONCE);
	if (!link_is_tcp(fd))
		return 0;
	link_tcp_prepare(fd);
	if (getrandom(nonce, OHCA_LINK_NONCE, GRND_NONBLOCK) != OHCA_LINK_NONCE)
		return link_err(err, OHCA_LINK_E_SYS, errno, "getrandom");
	link_hdr_init(&g.hdr, OHCA_WIRE_GREETING, sizeof(g));
	memcpy(g.nonce, nonce, sizeof(g.nonce));
	return send_first(fd, &g, sizeof(g)) ?
	       link_err(err, OHCA_LINK_E_SYS, errno, "sending GREETING") : 0;
}

void ohca_link_hello_reject(int fd, int code, const char *text)
{
	struct ohca_wire_error e;

	link_error_msg(&e, code, text);
	(void)send_first(fd, &e, sizeof(e));
}

int ohca_link_hello_recv(int fd, const struct ohca_link_closer *closer, struct ohca_link_cfg *peer,
			 struct ohca_link_err *err)
{
	uint8_t buf[OHCA_WIRE_MSG_MAX];
	struct ohca_wire_hello h;
	struct ohca_link_err e;
	ssize_t n = recv_first(fd, closer, buf, &e);

	if (!n)
		return 0;
	if (n > 0 && !hello_parse(buf, (size_t)n, &h, peer, &e))
		return 1;
	ohca_link_hello_reject(fd, e.code, e.text);
	if (err)
		*err = e;
	return -1;
}

/* Choose VLs and credit_shift of a listener @c and its peer. Return: 0 or -1. */
static int agree(const struct ohca_link_cfg *c, const struct ohca_link_cfg *peer,
		 unsigned int *vls, unsigned int *shift, struct ohca_link_err *err)
{
	const unsigned int lo = c->shift_min > peer->shift_min ? c->shift_min : peer->shift_min;
	const unsigned int hi = c->shift_max < peer->shift_max ? c->shift_max : peer->shift_max;

	if (link_check_cfg(c, "our", err))
		return -1;
	if (lo > hi)
		return link_err(err, OHCA_LINK_E_CONFIG, 0,
				"no common credit shift: peer %u-%u, listener %u-%u",
				peer->shift_min, peer->shift_max, c->shift_min, c->shift_max);
	*shift = c->shift_pref < lo ? lo : c->shift_pref > hi ? hi : c->shift_pref;
	*vls = c->vl_cap < peer->vl_cap ? c->vl_cap : peer->vl_cap;
	return 0;
}

struct ohca_link *ohca_link_hello_reply(int fd, const struct ohca_link_cfg *peer,
					const struct ohca_link_cfg *cfg,
					struct ohca_link_err *err)
{
	unsigned int vls = 0, shift = 0;
	struct ohca_link *l = NULL;
	struct ohca_wire_hello h;
	struct ohca_link_err e;

	if (agree(cfg, peer, &vls, &shift, &e))
		goto fail;
	l = make_link(fd, cfg, peer, vls, shift, &e);
	if (!l)
		goto fail;
	link_hello_fill(&h, cfg);
	h.vls = (uint8_t)vls;
	h.shift = (uint8_t)shift;
	if (!send_first(fd, &h, sizeof(h)))
		return l;
	link_err(&e, OHCA_LINK_E_SYS, errno, "sending HELLO");
fail:
	ohca_link_hello_reject(fd, e.code, e.text);
	if (err)
		*err = e;
	if (l)
		ohca_link_free(l);
	else
		link_close_sock(cfg->closer, fd);
	return NULL;
}

/* ---- connecting side ----------------------------------------------------------- */

/* Send HELLO. @nonce: of the listener, NULL: it has none. Return: 0 or -1. */
static int send_hello(int sock, const struct ohca_link_cfg *cfg, const uint8_t *nonce,
		      struct ohca_link_err *err)
{
	struct ohca_wire_hello h;

	link_hello_fill(&h, cfg);
	if (nonce)
		prove(nonce, cfg->token, h.proof);
	return send_first(sock, &h, sizeof(h)) ?
	       link_err(err, OHCA_LINK_E_SYS, errno, "sending HELLO") : 0;
}

int ohca_link_connect_start(const char *path, const struct ohca_link_cfg *cfg, int timeout_ms,
			    struct ohca_link_err *err)
{
	const bool tcp = link_path_is_tcp(path);
	int sock;

	if (link_check_cfg(cfg, "our", err))
		return -1;
	sock = tcp ? link_tcp_connect(path, err) : link_unix_connect(path, timeout_ms, err);
	if (sock < 0 || tcp || !send_hello(sock, cfg, NULL, err))
		return sock;
	link_close_sock(cfg->closer, sock);
	return -1;
}

int ohca_link_connect_finish(int sock, const struct ohca_link_cfg *cfg, struct ohca_link **link,
			     struct ohca_link_err *err)
{
	uint8_t buf[OHCA_WIRE_MSG_MAX];
	struct ohca_wire_greeting g;
	struct ohca_link *l = NULL;
	struct ohca_link_cfg peer;
	struct ohca_wire_hello h;
	ssize_t n = recv_first(sock, cfg->closer, buf, err);
	int type;

	if (!n)
		return 0;
	type = n > 0 ? link_check_hdr(buf, (size_t)n, err) : -1;
	if (type == OHCA_WIRE_GREETING && (size_t)n >= sizeof(g)) {
		memcpy(&g, buf, sizeof(g));
		if (!send_hello(sock, cfg, g.nonce, err))
			return 0;
	} else if (type >= 0 && !hello_parse(buf, (size_t)n, &h, &peer, err)) {
		if (h.vls >= 1 && h.vls <= cfg->vl_cap && h.vls <= 15 &&
		    h.shift >= cfg->shift_min && h.shift <= cfg->shift_max)
			l = make_link(sock, cfg, &peer, h.vls, h.shift, err);
		else
			link_err(err, OHCA_LINK_E_PROTO, 0,
				 "the listener chose %u VLs and credit shift %u: not possible here", h.vls,
				 h.shift);
	}
	if (!l) {
		link_close_sock(cfg->closer, sock);
		return -1;
	}
	*link = l;
	return 1;
}

static void wait_readable(int fd, int64_t end)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int64_t left = end - link_now_ms();

	(void)poll(&p, 1, left > 0 ? (int)left : 0);
}

struct ohca_link *ohca_link_connect(const char *path, const struct ohca_link_cfg *cfg,
				    int timeout_ms, struct ohca_link_err *err)
{
	int64_t end = link_now_ms() + timeout_ms;
	int sock = ohca_link_connect_start(path, cfg, timeout_ms, err);
	struct ohca_link *l = NULL;

	if (sock < 0)
		return NULL;
	for (;;) {
		/* checked before: a listener that repeats GREETING must not extend the wait */
		const bool late = link_now_ms() >= end;

		if (ohca_link_connect_finish(sock, cfg, &l, err))
			return l;
		if (late)
			break;
		wait_readable(sock, end);
	}
	link_err(err, OHCA_LINK_E_TIMEOUT, 0, "the listener did not answer our HELLO in time");
	link_close_sock(cfg->closer, sock);
	return NULL;
}
