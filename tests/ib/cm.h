/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What cmocka.h wants to find before it. */
#ifndef TESTS_IB_CM_H
#define TESTS_IB_CM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#endif
