/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Includes cmocka.h and the headers that it needs before it. */
#ifndef TESTS_IB_CM_H
#define TESTS_IB_CM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#endif
