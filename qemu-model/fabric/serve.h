/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A running fabric: its sockets, signals and clock in one thread. */
#ifndef OHCA_FABRIC_SERVE_H
#define OHCA_FABRIC_SERVE_H

#include "serve_cfg.h"

/** fab_serve_clock() - current time of the struct fab_serve_time @arg; as of struct fab_data_cfg */
uint64_t fab_serve_clock(void *arg);

/**
 * fab_serve() - run the sealed fabric @f until SIGTERM, SIGINT or SIGHUP
 *
 * Prints one line to standard output when it is ready; SIGUSR1 prints counts of links to standard
 * error.
 *
 * Return: exit status; errors were printed.
 */
int fab_serve(struct fab *f, const struct fab_serve_cfg *cfg);

#endif
