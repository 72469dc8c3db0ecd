/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The agents of the ports: the interface for the rest of the device. */
#ifndef OHCA_MANAGEMENT_MAD_H
#define OHCA_MANAGEMENT_MAD_H

#include <stdint.h>

#include "engine/engine.h"

struct ohca_cmd;

int ohca_mad_init(ohca_engine *e);	/* ohca_new: 0 or -1 (memory) */
void ohca_mad_free(ohca_engine *e);
void ohca_mad_reset(ohca_engine *e);	/* agents and ports as after power-on */
void ohca_mad_enable(ohca_engine *e);	/* ports begin to train */
/* As ohca_link_change(). */
void ohca_mad_link(ohca_engine *e, unsigned int port, const struct ohca_link_rate *rate);
/* When ohca_mad_timer() is due, ns or OHCA_NO_DEADLINE. */
uint64_t ohca_mad_deadline(const ohca_engine *e);
void ohca_mad_timer(ohca_engine *e, uint64_t now);

/* Commands: each returns enum ohca_admin_status. */
int ohca_cmd_modify_device(struct ohca_cmd *c);
int ohca_cmd_modify_port(struct ohca_cmd *c);
int ohca_cmd_mad_ifc(struct ohca_cmd *c);

#endif /* OHCA_MANAGEMENT_MAD_H */
