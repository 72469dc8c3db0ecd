/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A fabric that runs: its sockets, signals and clock in one thread. */
#ifndef OHCA_FABRIC_SERVE_H
#define OHCA_FABRIC_SERVE_H

#include "graph.h"

/**
 * struct fab_serve_cfg - how it runs
 * @umad2sim: name of the sockets for libumad2sim, or NULL
 * @stats: print counts at the end
 */
struct fab_serve_cfg {
	const char *umad2sim;
	bool stats;
};

/**
 * fab_serve() - run the sealed fabric @f until SIGTERM or SIGINT
 *
 * Prints one line to standard output when it is ready; SIGUSR1 prints counts to standard error.
 *
 * Return: exit status; what went wrong was printed.
 */
int fab_serve(struct fab *f, const struct fab_serve_cfg *cfg);

#endif
