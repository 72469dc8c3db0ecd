/* SPDX-License-Identifier: GPL-2.0-or-later */
/* QUERY_DEVICE and QUERY_COUNTERS. */
#ifndef OHCA_DEVICE_QUERY_DEVICE_H
#define OHCA_DEVICE_QUERY_DEVICE_H

struct ohca_cmd;

/* Commands: each returns enum ohca_admin_status. */
int ohca_cmd_query_device(struct ohca_cmd *c);
int ohca_cmd_query_counters(struct ohca_cmd *c);

#endif /* OHCA_DEVICE_QUERY_DEVICE_H */
