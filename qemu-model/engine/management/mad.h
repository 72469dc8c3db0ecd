/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Interface of the ports' management agents to the rest of the device. The owner calls. */
#ifndef OHCA_MANAGEMENT_MAD_H
#define OHCA_MANAGEMENT_MAD_H

#include <stdint.h>

#include "engine/engine.h"

struct ohca_cmd;

int ohca_mad_init(ohca_engine *e);	/* for ohca_new(): 0 or -1 (memory) */
void ohca_mad_free(ohca_engine *e);
void ohca_mad_reset(ohca_engine *e);	/* set agents and ports to the power-on state */
void ohca_mad_enable(ohca_engine *e);	/* let the links train */
/* As ohca_link_change(). */
void ohca_mad_link(ohca_engine *e, unsigned int port, const struct ohca_link_rate *rate);
/* When ohca_mad_timer() is due, ns; OHCA_NO_DEADLINE: never. */
uint64_t ohca_mad_deadline(const ohca_engine *e);
/* Run the timers of the agents that are due at @now, ns. */
void ohca_mad_timer(ohca_engine *e, uint64_t now);

/* Commands: each returns enum ohca_admin_status. */
int ohca_cmd_modify_device(struct ohca_cmd *c);
int ohca_cmd_modify_port(struct ohca_cmd *c);
int ohca_cmd_mad_ifc(struct ohca_cmd *c);

#endif /* OHCA_MANAGEMENT_MAD_H */
