// SPDX-License-Identifier: GPL-2.0-or-later
/* Agents of programs; see agent.h. */
#include "agent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "node.h"
#include "rmpp.h"
#include "wire.h"

#define OUI_OFFSET	37u	/* of a vendor's class (16.5.1) */

struct message {
	struct message *next;
	size_t len;
	struct ib_user_mad h;
	uint8_t mad[];
};

/* @number: unique, and the upper half of its requests' TIDs; 0: free */
struct agent {
	uint32_t number;
	uint8_t class;
	uint32_t oui;
	bool rmpp;
	uint64_t methods[2];
};

struct file {
	int fd;
	unsigned int count;
	size_t bytes;
	struct message *head, **tail;
	struct agent agent[UM_AGENTS];
};

/*
 * A request and its time limit. @is_message: RMPP has sent it, and repeats it; the time limit
 * begins with its acknowledgment.
 */
struct pending {
	struct pending *next;
	uint32_t agent;
	bool is_message;
	unsigned int timeout_ms, retries;
	int64_t due_ns;
	ib_mad_addr_t to;
	struct ib_mad mad;
};

static struct file *files[UM_FILES];
static struct pending *pending;
static unsigned int npending;
static uint32_t last_number;

static void rmpp_received(uint32_t agent, const ib_mad_addr_t *from, const uint8_t *msg,
			  size_t len);
static void rmpp_failed(uint32_t agent, const ib_mad_addr_t *to, const uint8_t *msg);

static const struct um_rmpp_ops rmpp_ops = {
	.send = um_node_send,
	.received = rmpp_received,
	.failed = rmpp_failed,
};
static struct um_rmpp rmpp = { .ops = &rmpp_ops };

static struct file *file_of(int fd)
{
	for (unsigned int i = 0; i < UM_FILES; i++)
		if (files[i] && files[i]->fd == fd)
			return files[i];
	return NULL;
}

static struct agent *agent_of(int fd, int id)
{
	struct file *f = file_of(fd);

	return f && id >= 0 && id < (int)UM_AGENTS && f->agent[id].number ? &f->agent[id] : NULL;
}

static struct agent *find_agent(uint32_t number, struct file **f)
{
	for (unsigned int i = 0; i < UM_FILES; i++)
		for (unsigned int j = 0; files[i] && j < UM_AGENTS; j++)
			if (files[i]->agent[j].number == number) {
				*f = files[i];
				return &files[i]->agent[j];
			}
	return NULL;
}

/* ---- the queue ----------------------------------------------------------------- */

static bool has_room(const struct file *f, size_t len)
{
	return f->count < UM_QUEUE && (!f->count || f->bytes + len <= UM_QUEUE_BYTES);
}

/*
 * A message that ends a request is never dropped: there are at most UM_PENDING and UM_RMPP_SENDS of
 * these.
 *
 * Return: whether it is in the queue.
 */
static bool push_message(uint32_t number, const ib_mad_addr_t *addr, const void *mad, size_t len,
			 uint32_t status)
{
	const uint64_t one = 1;
	struct message *m;
	struct file *f;
	struct agent *a = number ? find_agent(number, &f) : NULL;

	if (!a || (!status && !has_room(f, len)))
		return false;
	m = malloc(sizeof(*m) + len);
	if (!m)
		return false;
	*m = (struct message){
		.len = len,
		.h = {
			.agent_id = (uint32_t)(a - f->agent),
			.status = status,
			.length = (uint32_t)(sizeof(m->h) + len),
			.addr = *addr,
		},
	};
	memcpy(m->mad, mad, len);
	*f->tail = m;
	f->tail = &m->next;
	f->count++;
	f->bytes += len;
	while (write(f->fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	return true;
}

/* Queue the response to a request; without room, the request ends as without a response. */
static void push_response(uint32_t number, const ib_mad_addr_t *from, const void *mad, size_t len)
{
	if (!push_message(number, from, mad, len, 0))
		push_message(number, from, mad, sizeof(struct ib_mad_hdr), ETIMEDOUT);
}

static void pop_message(struct file *f)
{
	struct message *m = f->head;
	uint64_t one;

	f->head = m->next;
	if (!f->head)
		f->tail = &f->head;
	f->count--;
	f->bytes -= m->len;
	free(m);
	while (read(f->fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

int um_file_receive(int fd, void *umad, size_t *len)
{
	struct file *f = file_of(fd);
	const size_t room = *len;
	struct message *m;
	int id;

	if (!f)
		return -EBADF;
	m = f->head;
	if (!m)
		return -EAGAIN;
	*len = m->len;
	memcpy(umad, &m->h, sizeof(m->h));
	memcpy((uint8_t *)umad + sizeof(m->h), m->mad, m->len < room ? m->len : room);
	if (m->len > room)
		return -ENOSPC;
	id = (int)m->h.agent_id;
	pop_message(f);
	return id;
}

int um_file_open(void)
{
	unsigned int i;

	for (i = 0; i < UM_FILES && files[i]; i++)
		;
	if (i == UM_FILES)
		return -EMFILE;
	files[i] = calloc(1, sizeof(*files[i]));
	if (!files[i])
		return -ENOMEM;
	files[i]->tail = &files[i]->head;
	files[i]->fd = eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC);
	if (files[i]->fd >= 0)
		return files[i]->fd;
	free(files[i]);
	files[i] = NULL;
	return -errno;
}

int um_file_close(int fd)
{
	for (unsigned int i = 0; i < UM_FILES; i++) {
		struct file *f = files[i];

		if (!f || f->fd != fd)
			continue;
		for (unsigned int id = 0; id < UM_AGENTS; id++)
			um_agent_remove(fd, (int)id);
		while (f->head)
			pop_message(f);
		close(fd);
		free(f);
		files[i] = NULL;
		return 0;
	}
	return -EBADF;
}

void um_file_forget(void)
{
	/* other data stays: the parent's threads may have been changing it */
	for (unsigned int i = 0; i < UM_FILES; i++) {
		if (files[i])
			close(files[i]->fd);
		files[i] = NULL;
	}
}

/* ---- agents -------------------------------------------------------------------- */

static bool has_oui(uint8_t class)
{
	return class >= 0x30 && class <= 0x4f;
}

static bool overlap(const struct agent *a, const struct agent *b)
{
	return a->number && a->class == b->class && (!has_oui(a->class) || a->oui == b->oui) &&
	       ((a->methods[0] & b->methods[0]) || (a->methods[1] & b->methods[1]));
}

int um_agent_add(int fd, const struct umad_reg_attr *attr)
{
	struct file *f = file_of(fd);
	struct agent a = {
		.class = attr->mgmt_class,
		.oui = attr->oui & 0xffffff,
		.rmpp = attr->rmpp_version && !(attr->flags & UMAD_USER_RMPP),
		.methods = { attr->method_mask[0], attr->method_mask[1] },
	};
	unsigned int id;

	if (!f)
		return -EBADF;
	for (unsigned int i = 0; i < UM_FILES; i++)
		for (unsigned int j = 0; files[i] && j < UM_AGENTS; j++)
			if (overlap(&files[i]->agent[j], &a))
				return -EPERM;
	for (id = 0; id < UM_AGENTS && f->agent[id].number; id++)
		;
	if (id == UM_AGENTS)
		return -ENOMEM;
	/* random: receivers know the TIDs of the port's previous owner for a while */
	if (!last_number && getrandom(&last_number, sizeof(last_number), 0) < 0)
		last_number = 0;
	last_number += 1 + (last_number == UINT32_MAX);
	a.number = last_number;
	f->agent[id] = a;
	return (int)id;
}

static void free_pending(struct pending **at)
{
	struct pending *p = *at;

	*at = p->next;
	npending--;
	free(p);
}

int um_agent_remove(int fd, int id)
{
	struct agent *a = agent_of(fd, id);
	struct pending **p = &pending;

	if (!a)
		return -EINVAL;
	um_rmpp_forget(&rmpp, a->number);
	while (*p) {
		if ((*p)->agent == a->number)
			free_pending(p);
		else
			p = &(*p)->next;
	}
	a->number = 0;
	return 0;
}

/* ---- sending ------------------------------------------------------------------- */

static bool is_response(const struct ib_mad_hdr *h)
{
	return h->method & IB_METHOD_RESP || h->method == IB_METHOD_TRAP_REPRESS;
}

/*
 * Whether a response is from the destination of the request. A directed route, or the permissive
 * LID, does not contain the responder's LID; a trap is repressed by the subnet manager, whatever
 * its LID.
 */
static bool comes_from(const struct pending *p, const struct ib_mad_hdr *h,
		       const ib_mad_addr_t *from)
{
	return h->mgmt_class == IB_CLASS_SUBN_DR || h->method == IB_METHOD_TRAP_REPRESS ||
	       p->to.lid == ib_to_be16(0xffff) || p->to.lid == from->lid;
}

static struct pending **find_pending(const struct ib_mad_hdr *h, const ib_mad_addr_t *from)
{
	struct pending **p = &pending;

	while (*p && ((*p)->mad.hdr.tid != h->tid || (*p)->mad.hdr.mgmt_class != h->mgmt_class ||
		      !comes_from(*p, h, from)))
		p = &(*p)->next;
	return p;
}

/* Register a request before its MAD is sent: the response may arrive at once. */
static int await(const struct agent *a, const ib_mad_addr_t *to, const struct ib_mad *mad,
		 bool is_message, unsigned int timeout_ms, unsigned int retries, int64_t now_ns)
{
	struct pending *p;

	if (npending >= UM_PENDING)
		return -ENOSPC;
	p = malloc(sizeof(*p));
	if (!p)
		return -ENOMEM;
	*p = (struct pending){
		.next = pending,
		.agent = a->number,
		.is_message = is_message,
		.timeout_ms = timeout_ms,
		.retries = retries,
		.due_ns = is_message ? INT64_MAX : now_ns + timeout_ms * 1000000ll,
		.to = *to,
		.mad = *mad,
	};
	pending = p;
	npending++;
	um_wire_wake(p->due_ns);
	return 0;
}

static void name_request(const struct agent *a, struct ib_mad_hdr *h)
{
	h->tid = ib_to_be64((ib_be64(h->tid) & 0xffffffff) | (uint64_t)a->number << 32);
}

/* Send by RMPP. A request, which is one of SA's GetMulti, has an answer in the other direction. */
static int send_message(const struct agent *a, const ib_mad_addr_t *to, const uint8_t *data, size_t len,
			unsigned int timeout_ms, unsigned int retries, int64_t now_ns)
{
	struct ib_mad first = { 0 };
	bool waits = false;
	uint8_t *msg;
	int r = 0;

	if (len > UM_RMPP_MAX)
		return -EMSGSIZE;
	msg = malloc(len);
	if (!msg)
		return -ENOMEM;
	memcpy(msg, data, len);
	if (!is_response((void *)msg)) {
		name_request(a, (void *)msg);
		memcpy(&first, msg, len < sizeof(first) ? len : sizeof(first));
		waits = timeout_ms;
	}
	if (waits)
		r = await(a, to, &first, true, timeout_ms, retries, now_ns);
	if (!r) {
		r = um_rmpp_send(&rmpp, a->number, to, msg, len, timeout_ms, retries, now_ns);
		if (r && waits)
			free_pending(find_pending(&first.hdr, to));
	}
	free(msg);
	um_wire_wake(now_ns);
	return r;
}

int um_agent_send(int fd, int id, const void *umad, size_t len, unsigned int timeout_ms,
		  unsigned int retries, int64_t now_ns)
{
	const struct agent *a = agent_of(fd, id);
	const uint8_t *data = (const uint8_t *)umad + sizeof(struct ib_user_mad);
	struct ib_mad mad = { 0 };
	ib_mad_addr_t to;
	int r;

	if (!a || len < sizeof(struct ib_mad_hdr))
		return -EINVAL;
	memcpy(&to, (const uint8_t *)umad + offsetof(struct ib_user_mad, addr), sizeof(to));
	/* a table without records is an RMPP message, too, which has only headers */
	if (a->rmpp && len >= UM_RMPP_HEADERS && um_rmpp_is(data))
		return send_message(a, &to, data, len, timeout_ms, retries, now_ns);
	if (len > IB_MAD_LEN)
		return -EINVAL;
	memcpy(&mad, data, len);
	if (!is_response(&mad.hdr)) {
		name_request(a, &mad.hdr);
		r = timeout_ms ? await(a, &to, &mad, false, timeout_ms, retries, now_ns) : 0;
		if (r)
			return r;
	}
	um_node_send(&to, &mad);
	return 0;
}

/* ---- receiving ----------------------------------------------------------------- */

static bool wants(const struct agent *a, const struct ib_mad *mad)
{
	const struct ib_mad_hdr *h = &mad->hdr;
	const uint8_t *oui = (const uint8_t *)mad + OUI_OFFSET;

	return a->number && a->class == h->mgmt_class &&
	       a->methods[h->method / 64] >> (h->method % 64) & 1 &&
	       (!has_oui(a->class) || a->oui == (uint32_t)(oui[0] << 16 | oui[1] << 8 | oui[2]));
}

static const struct agent *find_responder(const struct ib_mad *mad)
{
	for (unsigned int i = 0; i < UM_FILES; i++)
		for (unsigned int j = 0; files[i] && j < UM_AGENTS; j++)
			if (wants(&files[i]->agent[j], mad))
				return &files[i]->agent[j];
	return NULL;
}

static void rmpp_received(uint32_t agent, const ib_mad_addr_t *from, const uint8_t *msg,
			  size_t len)
{
	const struct ib_mad_hdr *h = (const void *)msg;
	struct pending **p;

	if (!(h->method & IB_METHOD_RESP)) {
		push_message(agent, from, msg, len, 0);
		return;
	}
	p = find_pending(h, from);
	if (!*p)	/* its request has ended */
		return;
	free_pending(p);
	push_response(agent, from, msg, len);
}

static void rmpp_failed(uint32_t agent, const ib_mad_addr_t *to, const uint8_t *msg)
{
	const struct ib_mad_hdr *h = (const void *)msg;
	struct pending **p;

	if (!is_response(h)) {
		p = find_pending(h, to);
		if (!*p)	/* it has been answered */
			return;
		free_pending(p);
	}
	push_message(agent, to, msg, sizeof(struct ib_mad_hdr), ETIMEDOUT);
}

static bool deliver_response(const struct ib_mad *mad, const ib_mad_addr_t *from)
{
	struct pending **p = find_pending(&mad->hdr, from);
	const struct agent *a;
	uint32_t number = 0;
	struct file *f;

	if (*p) {
		number = (*p)->agent;
	} else if (um_rmpp_is(mad)) {
		/* a segment that is repeated, of a message that is complete */
		number = (uint32_t)(ib_be64(mad->hdr.tid) >> 32);
	}
	a = number ? find_agent(number, &f) : NULL;
	if (!a)
		return false;
	if (a->rmpp && um_rmpp_is(mad)) {
		const int64_t now = um_now_ns();

		if (!um_rmpp_receive(&rmpp, number, from, mad, now))
			return true;
		p = find_pending(&mad->hdr, from);
		if (*p)		/* the answer, or the rest of it, is arriving */
			(*p)->due_ns = now + (*p)->timeout_ms * 1000000ll;
		return true;
	}
	if (!*p)
		return false;
	free_pending(p);
	push_response(number, from, mad, sizeof(*mad));
	return true;
}

bool um_agent_deliver(const struct ib_mad *mad, const ib_mad_addr_t *from)
{
	const struct agent *a;

	if (is_response(&mad->hdr))
		return deliver_response(mad, from);
	a = find_responder(mad);
	if (!a)
		return false;
	if (a->rmpp && um_rmpp_is(mad))
		um_rmpp_receive(&rmpp, a->number, from, mad, um_now_ns());
	else
		push_message(a->number, from, mad, sizeof(*mad), 0);
	return true;
}

/* ---- time ---------------------------------------------------------------------- */

/*
 * Repeat one request that is due, with its next time limit, or end it. Return: false: none is due.
 */
static bool expire_one(int64_t now_ns)
{
	struct pending **at = &pending, *p;

	while (*at && (*at)->due_ns > now_ns)
		at = &(*at)->next;
	p = *at;
	if (!p)
		return false;
	if (p->retries) {
		p->retries--;
		p->due_ns = now_ns + p->timeout_ms * 1000000ll;
		if (!p->is_message)
			um_node_send(&p->to, &p->mad);	/* which may end it */
		return true;
	}
	push_message(p->agent, &p->to, &p->mad, sizeof(struct ib_mad_hdr), ETIMEDOUT);
	free_pending(at);
	return true;
}

int64_t um_agent_timer(int64_t now_ns)
{
	int64_t due;

	while (expire_one(now_ns))
		;
	due = um_rmpp_timer(&rmpp, now_ns);
	for (const struct pending *p = pending; p; p = p->next)
		due = p->due_ns < due ? p->due_ns : due;
	return due;
}
