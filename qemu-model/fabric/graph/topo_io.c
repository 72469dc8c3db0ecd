// SPDX-License-Identifier: GPL-2.0-or-later
/* Topology files: read as a whole, written in ibnetdiscover's format. */
#include "topo_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_READ	65536u

/* Read all of @fd, at most FAB_MAX_FILE + 1 bytes. Return: NULL, errno has the reason. */
static char *read_all(int fd, size_t *len)
{
	size_t cap = FIRST_READ;
	struct stat st;
	char *text = NULL;
	ssize_t n;

	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size > 0 && st.st_size < FAB_MAX_FILE)
		cap = (size_t)st.st_size + 1;
	*len = 0;
	do {
		char *grown = realloc(text, cap);

		if (!grown) {
			free(text);
			errno = ENOMEM;
			return NULL;
		}
		text = grown;
		do {
			n = read(fd, text + *len, cap - *len);
			if (n > 0)
				*len += (size_t)n;
		} while ((n > 0 && *len < cap) || (n < 0 && errno == EINTR));
		cap = 2 * cap < FAB_MAX_FILE ? 2 * cap : FAB_MAX_FILE + 1;
	} while (n > 0 && *len <= FAB_MAX_FILE);
	if (n >= 0)
		return text;
	n = errno;
	free(text);
	errno = (int)n;
	return NULL;
}

bool fab_topology_load(struct fab *f, const char *path, const struct fab_report *r)
{
	const bool is_stdin = !strcmp(path, "-");
	int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
	char why[512], *text = NULL;
	size_t len;
	bool ok;

	if (fd >= 0)
		text = read_all(fd, &len);
	if (!text) {
		snprintf(why, sizeof(why), "cannot read it: %s", strerror(errno));
		r->say(r->ctx, 0, why);
	}
	if (fd >= 0 && !is_stdin)
		close(fd);
	if (!text)
		return false;
	ok = fab_topology_parse(f, text, len, r);
	free(text);
	return ok;
}

/* ---- writing ------------------------------------------------------------------- */

static char kind_letter(const struct fab_node *n)
{
	return n->type == IB_NODE_SWITCH_DEVICE ? 'S' :
	       n->type == IB_NODE_CHANNEL_ADAPTER ? 'H' : 'R';
}

/* Write a description without the bytes that would end its line. Return: false: failed. */
static bool write_desc(const struct fab *f, uint32_t n, FILE *out)
{
	const char *d = f->desc[n].text;
	bool ok = putc('"', out) != EOF;

	for (unsigned int i = 0; ok && i < FAB_DESC_LEN && d[i]; i++)
		ok = putc(d[i] == '\n' || d[i] == '\r' ? ' ' : d[i], out) != EOF;
	return ok && putc('"', out) != EOF;
}

static bool write_head(const struct fab *f, uint32_t i, FILE *out)
{
	const struct fab_node *n = &f->node[i];
	const struct fab_port *p0;

	if (fprintf(out, "\nvendid=0x%x\ndevid=0x%x\nsysimgguid=0x%" PRIx64 "\n", n->vendor_id,
		    n->device_id, n->sys_guid) < 0)
		return false;
	if (n->type != IB_NODE_SWITCH_DEVICE)
		return fprintf(out, "%s=0x%" PRIx64 "\n%s\t%u \"%c-%016" PRIx64 "\"\t\t# ",
			       kind_letter(n) == 'H' ? "caguid" : "rtguid", n->guid,
			       kind_letter(n) == 'H' ? "Ca" : "Rt", n->nports, kind_letter(n),
			       n->guid) >= 0 && write_desc(f, i, out) && putc('\n', out) != EOF;
	p0 = &f->port[fab_port_of(n, 0)];
	return fprintf(out, "switchguid=0x%" PRIx64 "(%" PRIx64 ")\nSwitch\t%u \"S-%016" PRIx64
		       "\"\t\t# ", n->guid, p0->guid, n->nports, n->guid) >= 0 &&
	       write_desc(f, i, out) &&
	       fprintf(out, " %s port 0 lid %u lmc %u\n", n->base_port0 ? "base" : "enhanced",
		       p0->pi.lid, p0->pi.lmc) >= 0;
}

unsigned int topo_end_lid(const struct fab *f, uint32_t p)
{
	const struct fab_node *n = &f->node[f->port[p].node];

	return fab_end_lid(f, n->type == IB_NODE_SWITCH_DEVICE ? fab_port_of(n, 0) : p);
}

const struct ib_port_info *topo_link_info(const struct fab *f, uint32_t p)
{
	const struct fab_port *port = &f->port[p];

	return fab_outside(f, p) && f->node[port->node].type != IB_NODE_SWITCH_DEVICE ?
		&f->port[port->peer].pi : &port->pi;
}

bool topo_is_up(const struct fab *f, uint32_t p)
{
	return f->port[p].peer != FAB_NO_PORT && topo_link_info(f, p)->state != IB_PS_DOWN;
}

const char *fab_link_rate(const struct fab *f, uint32_t p, char buf[16])
{
	return topo_is_up(f, p) ? topo_rate_name(topo_rate_of(topo_link_info(f, p)), buf) : "-";
}

static bool write_port(const struct fab *f, uint32_t p, unsigned int num, FILE *out)
{
	const struct fab_port *port = &f->port[p], *peer = &f->port[port->peer];
	const struct fab_node *n = &f->node[port->node], *far = &f->node[peer->node];
	const bool is_switch = n->type == IB_NODE_SWITCH_DEVICE;
	char rate[16];

	return fprintf(out, "[%u]", num) >= 0 &&
	       (is_switch || fprintf(out, "(%" PRIx64 ") ", port->guid) >= 0) &&
	       fprintf(out, "\t\"%c-%016" PRIx64 "\"[%u]", kind_letter(far), far->guid,
		       fab_port_num(f, port->peer)) >= 0 &&
	       (far->type == IB_NODE_SWITCH_DEVICE ||
		fprintf(out, "(%" PRIx64 ") ", peer->guid) >= 0) &&
	       fputs("\t\t# ", out) != EOF &&
	       (is_switch || fprintf(out, "lid %u lmc %u ", topo_end_lid(f, p), port->pi.lmc) >= 0) &&
	       write_desc(f, peer->node, out) &&
	       fprintf(out, " lid %u %s\n", topo_end_lid(f, port->peer),
		       topo_rate_name(topo_rate_of(topo_link_info(f, p)), rate)) >= 0;
}

bool fab_topology_write_node(const struct fab *f, uint32_t i, FILE *out)
{
	const struct fab_node *n = &f->node[i];
	bool ok = write_head(f, i, out);

	for (unsigned int num = 1; ok && num <= n->nports; num++) {
		uint32_t p = fab_port_of(n, num);

		if (topo_is_up(f, p))
			ok = write_port(f, p, num, out);
	}
	return ok;
}

void fab_topology_write(const struct fab *f, FILE *out)
{
	for (uint32_t i = 0; i < f->nodes; i++)
		fab_topology_write_node(f, i, out);
}
