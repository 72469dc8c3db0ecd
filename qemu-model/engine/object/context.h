/* SPDX-License-Identifier: GPL-2.0-or-later */
/* QUERY_CONTEXT. */
#ifndef OHCA_OBJECT_CONTEXT_H
#define OHCA_OBJECT_CONTEXT_H

struct ohca_cmd;

/* Commands: each returns enum ohca_admin_status. */
int ohca_cmd_query_context(struct ohca_cmd *c);

#endif /* OHCA_OBJECT_CONTEXT_H */
