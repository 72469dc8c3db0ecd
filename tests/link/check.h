/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Common parts of the tests of links: a directory, checks for leaks, frames, events, errors. */
#ifndef TEST_LINK_CHECK_H
#define TEST_LINK_CHECK_H

#include "pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <time.h>

#include <cmocka.h>

#include "../process.h"
#include "raw.h"

static char dir[] = "/tmp/ohca-link-XXXXXX";

static inline const char *in_dir(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

/* Mappings of links' memory. */
static inline unsigned int mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	unsigned int n = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, "memfd:ohca-link") != NULL;
	fclose(f);
	return n;
}

static unsigned int fds_before;

static inline int make_dir(void **state)
{
	(void)state;
	fds_before = open_fds();
	return mkdtemp(dir) ? 0 : -1;
}

/* Checks that all links have freed their descriptors and mappings, also those that failed. */
static inline int remove_dir(void **state)
{
	(void)state;
	if (open_fds() != fds_before || mappings()) {
		print_error("%u descriptors instead of %u, %u mappings\n", open_fds(), fds_before,
			    mappings());
		return -1;
	}
	return rmdir(dir);
}

static inline int64_t ms_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Checks all fields of an error; @fmt is the text before that of @sys. */
__attribute__((format(printf, 4, 5)))
static inline void expect_err(const struct ohca_link_err *err, int code, int sys, const char *fmt,
			      ...)
{
	char want[sizeof(err->text)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(want, sizeof(want), fmt, ap);
	va_end(ap);
	if (sys) {
		strncat(want, ": ", sizeof(want) - strlen(want) - 1);
		strncat(want, strerror(sys), sizeof(want) - strlen(want) - 1);
	}
	assert_string_equal(err->text, want);
	assert_int_equal(err->code, code);
	assert_int_equal(err->sys, sys);
}

/* Commits one frame of @len bytes filled with @fill. */
static inline bool put_one(struct ohca_link *l, unsigned int vl, size_t len, uint8_t fill)
{
	uint8_t *p = ohca_link_tx_begin(l, vl, len);

	if (!p)
		return false;
	memset(p, fill, len);
	ohca_link_tx_commit(l, vl, len, 0);
	return true;
}

/* The same, and sends it. */
static inline bool send_one(struct ohca_link *l, unsigned int vl, size_t len, uint8_t fill)
{
	const bool put = put_one(l, vl, len, fill);

	ohca_link_kick(l);
	return put;
}

static inline void expect_one(struct ohca_link *l, unsigned int vl, size_t len, uint8_t fill)
{
	struct ohca_link_frame f;

	if (!(ohca_link_rx_pending(l) >> vl & 1))
		simple_take(l);
	assert_true(ohca_link_rx_peek(l, vl, &f));
	assert_int_equal(f.len, len);
	assert_int_equal(f.vl, vl);
	for (size_t i = 0; i < len; i++)
		assert_int_equal(f.data[i], fill);
	ohca_link_rx_release(l, vl);
}

static inline void drain(struct ohca_link *l, int *up, int *down)
{
	for (;;) {
		switch (ohca_link_ctrl(l)) {
		case OHCA_LINK_EV_UP:
			++*up;
			break;
		case OHCA_LINK_EV_DOWN:
			++*down;
			break;
		case OHCA_LINK_EV_NONE:
			return;
		default:
			fail_msg("link ended: %s", ohca_link_error(l));
		}
	}
}

static inline void expect_error(struct ohca_link *l, const char *what)
{
	enum ohca_link_event ev = ohca_link_ctrl(l);

	if (ev == OHCA_LINK_EV_DOWN)
		ev = ohca_link_ctrl(l);
	assert_int_equal(ev, OHCA_LINK_EV_ERROR);
	if (!strstr(ohca_link_error(l), what))
		fail_msg("'%s' does not contain '%s'", ohca_link_error(l), what);
	assert_false(ohca_link_is_up(l));
}

#endif /* TEST_LINK_CHECK_H */
