/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Standard error, to which writes do not block: a pipe without a reader must not stop the fabric.
 */
#ifndef OHCA_FABRIC_STDERR_H
#define OHCA_FABRIC_STDERR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

/**
 * fab_stderr_write() - write @len bytes of @text, as far as standard error accepts them
 *
 * A pipe that is writable accepts PIPE_BUF bytes.
 *
 * Return: whether all were written.
 */
bool fab_stderr_write(const char *text, size_t len);

/**
 * fab_stderr_line() - write a line; one thread only
 * @arg: not used
 * @fmt, @ap: the line, as of vprintf(), without its end; at most 1,023 bytes are written
 *
 * Lines that standard error does not accept are counted. The next line begins with their number.
 */
void fab_stderr_line(void *arg, const char *fmt, va_list ap);

#endif
