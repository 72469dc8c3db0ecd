// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Counts the MADs that a program sends by libibumad: LD_PRELOAD this before libumad2sim. When the
 * program ends, the file that COUNT_SMPS names gets a line "CLASS METHOD ATTRIBUTE COUNT" for each
 * kind of MAD, all hexadecimal except the count.
 */
#include <dlfcn.h>
#include <infiniband/umad.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define ATTRS	256u

/* [LID routed, directed][Get, Set, other][low byte of the attribute] */
static uint64_t sent[2][3][ATTRS];

int umad_send(int fd, int agent, void *umad, int length, int timeout_ms, int retries)
{
	static int (*real)(int, int, void *, int, int, int);
	const uint8_t *mad = umad_get_mad(umad);
	const unsigned int method = mad[3] == 1 || mad[3] == 2 ? mad[3] - 1u : 2;

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "umad_send");
	if (mad[1] == 0x01 || mad[1] == 0x81)
		__atomic_fetch_add(&sent[mad[1] == 0x81][method][mad[17]], 1, __ATOMIC_RELAXED);
	return real(fd, agent, umad, length, timeout_ms, retries);
}

static void __attribute__((destructor)) report(void)
{
	static const char *const method[] = { "Get", "Set", "other" };
	const char *name = getenv("COUNT_SMPS");
	FILE *out = name ? fopen(name, "w") : NULL;

	if (!out)
		return;
	for (unsigned int i = 0; i < 2 * 3 * ATTRS; i++) {
		const uint64_t n = sent[i / 3 / ATTRS][i / ATTRS % 3][i % ATTRS];

		if (n)
			fprintf(out, "%s 0x%04x %s %llu\n", i / 3 / ATTRS ? "directed" : "LID",
				i % ATTRS, method[i / ATTRS % 3], (unsigned long long)n);
	}
	fclose(out);
}
