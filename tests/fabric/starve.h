/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A test whose allocations can fail, and are counted. The linker replaces the C library's functions
 * by these: see WRAP in the Makefile.
 */
#ifndef TESTS_FABRIC_STARVE_H
#define TESTS_FABRIC_STARVE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void __real_free(void *p);
char *__real_strdup(const char *s);
int __real_posix_memalign(void **p, size_t align, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void __wrap_free(void *p);
char *__wrap_strdup(const char *s);
int __wrap_posix_memalign(void **p, size_t align, size_t n);

static unsigned int left;	/* allocations until one fails; 0: none */
static bool failed;		/* one has failed */
static long live;		/* allocations that were not freed */

static bool no_memory(void)
{
	if (!left || --left)
		return false;
	failed = true;
	return true;
}

/* Counts an allocation. */
static void *made(void *p)
{
	live += p != NULL;
	return p;
}

void *__wrap_malloc(size_t n)
{
	return no_memory() ? NULL : made(__real_malloc(n));
}

void *__wrap_calloc(size_t n, size_t size)
{
	return no_memory() ? NULL : made(__real_calloc(n, size));
}

void *__wrap_realloc(void *p, size_t n)
{
	void *grown;

	if (no_memory())
		return NULL;
	grown = __real_realloc(p, n);
	live += !p && grown;
	return grown;
}

void __wrap_free(void *p)
{
	live -= p != NULL;
	__real_free(p);
}

char *__wrap_strdup(const char *s)
{
	return no_memory() ? NULL : made(__real_strdup(s));
}

int __wrap_posix_memalign(void **p, size_t align, size_t n)
{
	int r = no_memory() ? ENOMEM : __real_posix_memalign(p, align, n);

	live += !r;
	return r;
}

/* Lets allocation number @n from now on fail. */
static void starve(unsigned int n)
{
	left = n;
	failed = false;
}

/* Ends that. Return: whether an allocation has failed. */
static bool fed(void)
{
	left = 0;
	return failed;
}

#endif
