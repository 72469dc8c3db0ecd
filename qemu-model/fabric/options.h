/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command line of ohca-fabric hosts, serve and traffic. */
#ifndef OHCA_FABRIC_OPTIONS_H
#define OHCA_FABRIC_OPTIONS_H

#include "fabric/client/client_traffic.h"
#include "fabric/graph/prefix_route.h"
#include "serve_cfg.h"

/**
 * struct fab_options - options of hosts, serve and traffic; pointers are to strings of the command
 *	line
 * @cfg: of serve; all read @quiet, @control, @wire, @seed, and @rate_scale and @hoq_scale of @data
 * @file: topology file, or NULL
 * @spec: SPEC, or NULL
 * @vls, @mtu: as in struct fab; 0: the default
 * @pkeys: entries of a P_KeyTable; 0: the default
 * @site: as in struct fab
 * @route: [@nroutes] as of fab_prefix_route_add()
 * @traffic: of traffic
 * @token, @listen_tcp: buffers to which @cfg points
 * @is_virtual: virtual time
 */
struct fab_options {
	struct fab_serve_cfg cfg;
	const char *file;
	const char *spec;
	uint8_t vls;
	uint8_t mtu;
	uint16_t pkeys;
	uint8_t site;
	const char *route[FAB_PREFIX_ROUTES];
	unsigned int nroutes;
	struct fab_traffic_options traffic;
	char token[OHCA_LINK_TOKEN_MAX + 1];
	char listen_tcp[OHCA_LINK_TCP_MAX];
	bool is_virtual;
};

/**
 * fab_options_parse() - parse the command line behind the verb
 * @o: with the defaults of the verb; must not be copied after this, since @cfg points into it
 * @argc: number of @argv
 * @argv: the verb and its options; the argument of --listen-node is modified
 *
 * Return: EXIT_SUCCESS, or FAB_EXIT_USAGE; the error was printed.
 */
int fab_options_parse(struct fab_options *o, int argc, char **argv);

#endif
