// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Versions that do not fit: of libibverbs, of the driver, of the device. */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE	/* dl_iterate_phdr() */
#endif
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "compat.h"
#include "ohca.h"
#include "ohca_abi.h"
#include "version.h"

#define STRING_OF(x) #x
#define STRING(x) STRING_OF(x)

/* ohca-lab doctor reads this text in the file. */
static const char ohca_versions[] __attribute__((used)) =
	"libohca: interface " STRING(OHCA_MAJOR) ", uverbs ABI " STRING(
		OHCA_UVERBS_ABI_VERSION) ", rdma-core " STRING(OHCA_RDMA_CORE);

void ohca_refuse(const char *device, const char *format, ...)
{
	va_list args;
	char why[200];

	va_start(args, format);
	vsnprintf(why, sizeof(why), format, args);
	va_end(args);
	fprintf(stderr, "libohca: %s: %s\n", device, why);
}

unsigned int ohca_library_version(const char *path)
{
	static const char name[] = "libibverbs.so.";
	const char *at = strrchr(path, '/');
	unsigned int part[3] = {};

	at = at ? at + 1 : path;
	if (strncmp(at, name, sizeof(name) - 1))
		return 0;
	at += sizeof(name) - 1;
	for (unsigned int i = 0; i < 3; i++) {
		if (*at < '0' || *at > '9')
			return 0;
		for (; *at >= '0' && *at <= '9'; at++)
			part[i] = part[i] * 10 + (*at - '0');
		if (i < 2 && *at++ != '.')
			return 0;
	}
	return part[2];
}

/* How often the interface had changed up to this rdma-core, without a new number of the ABI. */
static int ohca_library_changes(unsigned int version)
{
	return (version >= 45) + (version >= 54) + (version >= 62);
}

bool ohca_library_fits(unsigned int version, unsigned int built)
{
	return !version ||
	       ohca_library_changes(version) == ohca_library_changes(built);
}

static int ohca_find_library(struct dl_phdr_info *info, size_t size, void *data)
{
	unsigned int *version = data;
	char *path;

	if (!info->dlpi_name || !strstr(info->dlpi_name, "/libibverbs.so."))
		return 0;
	path = realpath(info->dlpi_name, NULL);
	if (!path)
		return 0;
	*version = ohca_library_version(path);
	free(path);
	return 1;
}

bool ohca_check_library(const char *device)
{
	unsigned int version = 0;

	dl_iterate_phdr(ohca_find_library, &version);
	if (ohca_library_fits(version, OHCA_RDMA_CORE))
		return true;
	ohca_refuse(
		device,
		"libibverbs is of rdma-core %u, this library is for %u: install the library for %u",
		version, OHCA_RDMA_CORE, version);
	return false;
}
