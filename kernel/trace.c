// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The tracepoints' code. */
#define CREATE_TRACE_POINTS
#include "trace.h"
