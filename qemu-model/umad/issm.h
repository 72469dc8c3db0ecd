/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The file of a subnet manager: while it is open, PortInfo.CapabilityMask has IsSM, as with the
 * kernel's issm devices. It is a pipe, which has no reader until a program opens it. All functions
 * need the lock of wire.h.
 */
#ifndef OHCA_UMAD_ISSM_H
#define OHCA_UMAD_ISSM_H

#include <stddef.h>
#include <stdint.h>

/** um_issm_path() - the name to open, valid in this process. Return: 0 or -errno */
int um_issm_path(char *path, size_t size);

/** um_issm_update() - check whether it is open. Return: when to call again, INT64_MAX: never */
int64_t um_issm_update(int64_t now_ns);

/** um_issm_fd() - while it is open: a descriptor that gets POLLERR when it is closed; else -1 */
int um_issm_fd(void);

#endif
