/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Versions that do not fit: of libibverbs, of the driver, of the device. What is refused is told in
 * one line on standard error, as libibverbs itself does for the version of the kernel ABI.
 */

#ifndef OHCA_VERSION_H
#define OHCA_VERSION_H

#include <stdbool.h>

/* What to do if library, driver and device do not fit. */
#define OHCA_ONE_RELEASE "use library, driver and device of the same release"

/** ohca_refuse - tell why @device cannot be used, and what to do; without an end of line */
void ohca_refuse(const char *device, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/**
 * ohca_library_version - the rdma-core of a libibverbs
 * @path: its file, as libibverbs.so.1.14.56.1
 *
 * Return: the third number, or 0: the name says nothing.
 */
unsigned int ohca_library_version(const char *path);

/**
 * ohca_library_fits - whether rdma-core @version, 0: unknown, may load a library @built for another
 *
 * Those with one provider ABI may, but for three changes that kept the number: 45 made struct
 * ibv_qp_ex longer, 54 gave ibv_cmd_reg_dmabuf_mr() one more argument, and 62 put members into the
 * middle of struct verbs_context_ops.
 */
bool ohca_library_fits(unsigned int version, unsigned int built);

/** ohca_check_library - ohca_library_fits() of the libibverbs of this process; tells if not */
bool ohca_check_library(const char *device);

#endif /* OHCA_VERSION_H */
