// SPDX-License-Identifier: GPL-2.0-or-later
/* The library in a 32-bit program: it refuses the device and reports why. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "fake.h"

static void refused(void **state)
{
	struct ibv_context *(*const ways[])(void) = { fake_open, fake_import };

	for (unsigned int i = 0; i < 2; i++) {
		fake.logs = 0;
		errno = 0;
		assert_null(ways[i]());
		assert_int_equal(errno, EOPNOTSUPP);
		assert_int_equal(fake.logs, 1);
		assert_int_equal(fake.opens, 0);
	}
	/* the library has not asked the kernel */
	assert_int_equal(fake.context_req.hw_major, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(refused) };

	return cmocka_run_group_tests_name("provider: 32-bit programs", tests, NULL, NULL);
}
