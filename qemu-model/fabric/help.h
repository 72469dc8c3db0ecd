/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The text of ohca-fabric --help. */
#ifndef OHCA_FABRIC_HELP_H
#define OHCA_FABRIC_HELP_H

/** fab_help_print() - print it to standard output */
void fab_help_print(void);

#endif
