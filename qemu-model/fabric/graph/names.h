/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names of nodes and ports. All commands and options that name a node accept the same names:
 *
 *	its NodeDescription, which may have blanks and colons
 *	its NodeGUID, or the PortGUID of one of its ports: 0x and hexadecimal digits, or 16 digits
 *	the same as ibnetdiscover prints it: S-, H- or R- and hexadecimal digits
 *
 * A NodeGUID of 0x and 16 digits, as in replies, has precedence; then a NodeDescription, the first
 * of several nodes with the same one; then other GUIDs. Each look-up is one in a hash table. Owner
 * thread only.
 */
#ifndef OHCA_FABRIC_NAMES_H
#define OHCA_FABRIC_NAMES_H

#include "graph.h"

/** fab_names_seal() - make the tables of names, once, when @f is complete. False: out of memory. */
bool fab_names_seal(struct fab *f);

/** fab_find_guid() - node with NodeGUID @guid, or FAB_NONE */
uint32_t fab_find_guid(const struct fab *f, uint64_t guid);

/** fab_find_node() - the node with the name @name, or FAB_NONE */
uint32_t fab_find_node(const struct fab *f, const char *name);

/** fab_find_port() - the port NODE:P, NODE as above, or FAB_NO_PORT */
uint32_t fab_find_port(const struct fab *f, const char *name);

/** fab_port_with_guid() - the port with PortGUID @guid, or FAB_NO_PORT */
uint32_t fab_port_with_guid(const struct fab *f, uint64_t guid);

/** fab_find_port_guid() - the port with the PortGUID @name, written as above, or FAB_NO_PORT */
uint32_t fab_find_port_guid(const struct fab *f, const char *name);

#define FAB_NAMES_NEAR	4u	/* names that are suggested */

/**
 * fab_names_near() - find nodes with names like @name, which no node has
 * @text: [@size] filled in with "the nearest are 'a', 'b', ...", at most FAB_NAMES_NEAR of them
 *
 * Names with a common beginning are near; the case of letters does not matter. Searches all nodes.
 */
void fab_names_near(const struct fab *f, const char *name, char *text, size_t size);

#endif
