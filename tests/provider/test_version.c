// SPDX-License-Identifier: GPL-2.0-or-later
/* Versions that do not fit: which are refused, and the line on standard error that reports it. */
#define _GNU_SOURCE	/* dl_iterate_phdr() */
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "fake.h"
#include "version.h"

#define MAJOR(n) OHCA_FIELD_PREP(OHCA_VERSION_MAJOR, n)
#define NEXT (OHCA_MAJOR + 1)

/* Opens a device in vain. Return: the text on standard error. */
static const char *refused(struct ibv_context *(*open)(void))
{
	static char text[512];
	FILE *file = tmpfile();
	int saved = dup(2);

	assert_non_null(file);
	fflush(stderr);
	dup2(fileno(file), 2);
	errno = 0;
	assert_null(open());
	assert_int_equal(errno, EPROTO);
	fflush(stderr);
	dup2(saved, 2);
	close(saved);
	rewind(file);
	text[fread(text, 1, sizeof(text) - 1, file)] = 0;
	fclose(file);
	assert_int_equal(fake.opens, 0);
	/* one line */
	assert_non_null(strchr(text, '\n'));
	assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
	return text;
}

static void expect(const char *text, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void expect(const char *text, const char *format, ...)
{
	char want[512];
	va_list args;
	int n = snprintf(want, sizeof(want), "libohca: ohca_0: ");

	va_start(args, format);
	n += vsnprintf(want + n, sizeof(want) - n, format, args);
	va_end(args);
	snprintf(want + n, sizeof(want) - n, ": %s\n",
		 "use library, driver and device of the same release");
	assert_string_equal(text, want);
}

/* The driver refuses, or reports a version or limits that the library does not support. */
static void driver(void **state)
{
	fake.hw_version = MAJOR(OHCA_MAJOR);
	fake.max_inline = OHCA_MAX_INLINE + 1;
	fake.max_sge = OHCA_MAX_SGE;
	fake.ports = 1;
	fake.fail = EPROTO;
	expect(refused(fake_open),
	       "the driver refuses interface version %u, which this library uses", OHCA_MAJOR);
	expect(refused(fake_open),
	       "the driver reports limits that interface version %u does not allow", OHCA_MAJOR);
	fake.hw_version = MAJOR(NEXT) | 7;
	expect(refused(fake_open), "the device has interface version %u.7, this library is for %u",
	       NEXT, OHCA_MAJOR);
	/* the context of another process, whose library may differ */
	expect(refused(fake_import),
	       "the device has interface version %u.7, this library is for %u", NEXT, OHCA_MAJOR);
	/* a minor version adds only what a library may ignore */
	fake.hw_version = MAJOR(OHCA_MAJOR) | 7;
	fake.max_inline = OHCA_MAX_INLINE;
	fake_close(fake_open());
}

static void library(void **state)
{
	static const struct {
		const char *path;
		unsigned int version;
	} t[] = {
		{ "/usr/lib/x86_64-linux-gnu/libibverbs.so.1.14.56.1", 56 },
		{ "/opt/lib/libibverbs.so.1.14.44.0", 44 },
		{ "libibverbs.so.1.15.65", 65 },
		{ "/lib/libibverbs.so.1", 0 },
		{ "/lib/libibverbs.so.1.14", 0 },
		{ "/lib/libibverbs.so.1.14.", 0 },
		{ "/lib/libibverbs.so.1.x.56.0", 0 },
		{ "/lib/libibverbs.so.", 0 },
		{ "/libibverbs.so.1.14.56.0/program", 0 },
		{ "", 0 },
	};

	for (unsigned int i = 0; i < sizeof(t) / sizeof(t[0]); i++)
		assert_int_equal(ohca_library_version(t[i].path), t[i].version);
	assert_true(ohca_library_fits(0, 44) && ohca_library_fits(0, 56));
	assert_true(ohca_library_fits(44, 44) && ohca_library_fits(43, 44));
	assert_true(ohca_library_fits(45, 53) && ohca_library_fits(53, 45));
	assert_true(ohca_library_fits(54, 56) && ohca_library_fits(59, 61));
	assert_true(ohca_library_fits(62, 63) && ohca_library_fits(65, 65));
	assert_false(ohca_library_fits(54, 53) || ohca_library_fits(50, 56));
	assert_false(ohca_library_fits(62, 61) || ohca_library_fits(59, 63));
	assert_false(ohca_library_fits(45, 44) || ohca_library_fits(56, 44));
	assert_false(ohca_library_fits(44, 45) || ohca_library_fits(44, 56));
	/* this program has no libibverbs: its version is unknown */
	assert_true(ohca_check_library("ohca_0"));
}

/* Names of loaded libraries, as the dynamic linker reports them. Linked with --wrap. */
static const char *loaded[4];

int __wrap_dl_iterate_phdr(int (*each)(struct dl_phdr_info *, size_t, void *), void *data);

int __wrap_dl_iterate_phdr(int (*each)(struct dl_phdr_info *, size_t, void *), void *data)
{
	for (unsigned int i = 0; i < 4; i++) {
		struct dl_phdr_info info = { .dlpi_name = loaded[i] };
		int rc = each(&info, sizeof(info), data);

		if (rc)
			return rc;
	}
	return 0;
}

/* Makes file @name in @dir, or a symbolic link to @to. Return: its path. */
static char *put(const char *dir, const char *name, const char *to)
{
	char *path = malloc(256);
	FILE *f;

	snprintf(path, 256, "%s/%s", dir, name);
	if (to) {
		assert_int_equal(symlink(to, path), 0);
	} else {
		f = fopen(path, "w");
		assert_non_null(f);
		fclose(f);
	}
	return path;
}

/* The file that the name of the loaded library leads to contains the version. */
static void loaded_library(void **state)
{
	static const char ours[] = "libibverbs.so.1.15.%u.0";
	const unsigned int other = OHCA_RDMA_CORE < 45 ? 62 : 44;
	char dir[] = "/tmp/ohca-version-XXXXXX", name[2][64], want[256], text[512];
	char *good, *bad, *link[2];
	FILE *file;
	int saved;

	assert_non_null(mkdtemp(dir));
	snprintf(name[0], sizeof(name[0]), ours, OHCA_RDMA_CORE);
	snprintf(name[1], sizeof(name[1]), ours, other);
	good = put(dir, name[0], NULL);
	bad = put(dir, name[1], NULL);
	link[0] = put(dir, "libibverbs.so.1", name[1]);
	link[1] = put(dir, "libibverbs.so.2", name[0]);
	loaded[0] = "";
	loaded[2] = "/lib/libc.so.6";
	/* the first library of that name counts */
	loaded[1] = link[1];
	loaded[3] = link[0];
	assert_true(ohca_check_library("ohca_0"));
	loaded[1] = NULL;
	file = tmpfile();
	saved = dup(2);
	assert_non_null(file);
	fflush(stderr);
	dup2(fileno(file), 2);
	assert_false(ohca_check_library("ohca_0"));
	fflush(stderr);
	dup2(saved, 2);
	close(saved);
	rewind(file);
	text[fread(text, 1, sizeof(text) - 1, file)] = 0;
	fclose(file);
	snprintf(want, sizeof(want), "libohca: ohca_0: libibverbs is of rdma-core %u, this library "
		 "is for %u: install the library for %u\n", other, OHCA_RDMA_CORE, other);
	assert_string_equal(text, want);
	/* a library whose file is gone has no version */
	unlink(link[0]);
	assert_true(ohca_check_library("ohca_0"));
	memset(loaded, 0, sizeof(loaded));
	unlink(link[1]);
	unlink(good);
	unlink(bad);
	assert_int_equal(rmdir(dir), 0);
	free(good);
	free(bad);
	free(link[0]);
	free(link[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(driver), cmocka_unit_test(library),
		cmocka_unit_test(loaded_library),
	};

	return cmocka_run_group_tests_name("provider: versions", tests, NULL, NULL);
}
