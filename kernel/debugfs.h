/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* OpenHCA driver: debugfs; debugfs.c. */
#ifndef OHCA_DEBUGFS_H
#define OHCA_DEBUGFS_H

struct ohca_dev;

void ohca_debugfs_init(void);
void ohca_debugfs_exit(void);
void ohca_debugfs_add(struct ohca_dev *dev);
void ohca_debugfs_remove(struct ohca_dev *dev);

#endif /* OHCA_DEBUGFS_H */
