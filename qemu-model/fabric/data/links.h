/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Links and HCAs at switch ports: they attach, train and detach; see links.c. */
#ifndef OHCA_FABRIC_DATA_LINKS_H
#define OHCA_FABRIC_DATA_LINKS_H

#include "data_priv.h"
#include "hport_priv.h"

/** fab_link_set_phy() - set the settings of its port for the next training of the link of @dp */
void fab_link_set_phy(struct fab_data *d, const struct fab_dport *dp);

/** fab_link_wake() - rounds check the link of @dp again, whose sleep is over */
void fab_link_wake(struct fab_data *d, struct fab_dport *dp);

/** fab_link_use() - a packet leaves by the idle link of @dp. Credits that arrive end its sleep. */
void fab_link_use(struct fab_data *d, struct fab_dport *dp);

/** fab_links_used() - kick the links in fab_data.used */
void fab_links_used(struct fab_data *d);

/**
 * fab_tx_begin() - reserve room for a packet of @len bytes that leaves @out by its link or to its
 *	HCA
 *
 * Return: the buffer for the packet, or NULL: there is no credit.
 */
static inline uint8_t *fab_tx_begin(struct fab_data *d, struct fab_dport *out, unsigned int vl,
				    uint32_t len)
{
	uint8_t *b;

	if (out->hport)
		return fab_hport_takes(out->hport, vl, 1, len) ? d->scratch[1] : NULL;
	b = ohca_link_tx_begin(out->link, vl, len);
	if (fab_unlikely(out->idle && b))
		fab_link_use(d, out);
	return b;
}

/**
 * fab_port_attach() - attach link @l or HCA @h to switch port @p
 * Return: false if out of memory; nothing has changed then.
 */
bool fab_port_attach(struct fab_data *d, uint32_t p, struct ohca_link *l, struct fab_hport *h);

/** fab_port_detach() - detach and free the link or HCA of @dp, and log @why */
void fab_port_detach(struct fab_data *d, struct fab_dport *dp, const char *why);

/**
 * fab_port_up() - set the port up: the wire of @dp has trained to @st with @peer
 * @st: its width and speeds, or sets of bits
 * @vls: lanes that both have
 *
 * Return: false: they have nothing in common.
 */
bool fab_port_up(struct fab_data *d, struct fab_dport *dp, const struct ohca_link_cfg *peer,
		 const struct ohca_link_state *st, unsigned int vls);

/** fab_port_down() - set the port down */
void fab_port_down(struct fab_data *d, struct fab_dport *dp);

/** fab_link_train() - train of struct fab_wires; @ctx: the data path */
void fab_link_train(void *ctx, uint32_t port, bool enable);

/** fab_link_count() - count of struct fab_wires; @ctx: the data path */
void fab_link_count(void *ctx, uint32_t port);

/** fab_link_ctrl() - fab_data_ctrl() for port @dp */
bool fab_link_ctrl(struct fab_data *d, struct fab_dport *dp);

#endif
