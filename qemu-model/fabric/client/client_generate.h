/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ohca-fabric generate: writes the topology file of a generated fabric. */
#ifndef OHCA_FABRIC_CLIENT_GENERATE_H
#define OHCA_FABRIC_CLIENT_GENERATE_H

/**
 * fab_generate_client() - write the topology of a SPEC to standard output
 * @argc: number of @argv
 * @argv: generate, the SPEC and options
 *
 * Return: exit status; errors were printed.
 */
int fab_generate_client(int argc, char **argv);

#endif
