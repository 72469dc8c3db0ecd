/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Included first in programs for the guests: they are compiled with the C library of Debian 13 and
 * run with that of Debian 12, which lacks the C23 variants of scanf() and strtol().
 */
#define _GNU_SOURCE
#include <features.h>
#undef __GLIBC_USE_C23_STRTOL
#define __GLIBC_USE_C23_STRTOL 0
#undef __GLIBC_USE_C2X_STRTOL
#define __GLIBC_USE_C2X_STRTOL 0
