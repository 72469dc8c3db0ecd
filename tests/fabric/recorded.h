/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Outcomes of many small cases, compared with those of an earlier version.
 *
 * The same calls at the same times have the same results in each version: the same SPEC and seed
 * make the same fabric, the same file has the same errors, the same requests have the same answers.
 * Such a test has more cases than a table of expected texts could hold. tests/fabric/recorded/NAME
 * has 16 bits of a checksum for the outcome of each case, in named sections. A case that differs is
 * shown with its new outcome.
 *
 * An intended change of a text or of a behaviour is recorded again: check the cases that fail, then
 * run the test with OHCA_RECORD=1, which writes its file.
 */
#ifndef TESTS_FABRIC_RECORDED_H
#define TESTS_FABRIC_RECORDED_H

#include "cases.h"

#include <zlib.h>

/* The counters of a port that outcomes contain: those of congestion control are left out. */
#define RECORDED_COUNTERS	(offsetof(struct ohca_port_counters, vl_congestion) / sizeof(uint64_t))

/**
 * struct recorded - outcomes of a test
 * @file: the recorded ones
 * @writes: the file is being written
 * @section: name of the section
 * @line: [@size] its line
 * @at: the next outcome in @line
 * @n: outcomes of the section
 * @bad: cases that differed, in all
 */
struct recorded {
	FILE *file;
	bool writes;
	char section[64];
	char *line;
	size_t size;
	const char *at;
	unsigned int n, bad;
};

/** recorded_begin() - compares with the file @name */
static inline void recorded_begin(struct recorded *r, const char *name)
{
	char path[512];

	*r = (struct recorded){ .writes = getenv("OHCA_RECORD") &&
					    !strcmp(getenv("OHCA_RECORD"), "1") };
	assert_non_null(getenv("TOPOLOGIES"));
	snprintf(path, sizeof(path), "%s/../fabric/recorded/%s", getenv("TOPOLOGIES"), name);
	r->file = fopen(path, r->writes ? "w" : "r");
	if (!r->file)
		fail_msg("%s cannot be opened", path);
	if (r->writes)
		fprintf(r->file, "# SPDX-License-Identifier: GPL-2.0-or-later\n# see recorded.h\n");
}

/* Ends the section: it must have no more outcomes. */
static inline void recorded_section_end(struct recorded *r)
{
	if (!r->section[0])
		return;
	if (r->writes) {
		putc('\n', r->file);
	} else if (*r->at != '\n') {
		print_error("%s: %u cases, and more were recorded\n", r->section, r->n);
		r->bad++;
	}
	r->section[0] = 0;
}

/** recorded_section() - the next outcomes are of section @name, which has no colon */
static inline void recorded_section(struct recorded *r, const char *name)
{
	size_t len = strlen(name);

	recorded_section_end(r);
	snprintf(r->section, sizeof(r->section), "%s", name);
	r->n = 0;
	if (r->writes) {
		fprintf(r->file, "%s:", name);
		return;
	}
	do {
		if (getline(&r->line, &r->size, r->file) <= 0)
			fail_msg("%s was not recorded", name);
	} while (r->line[0] == '#');
	if (strncmp(r->line, name, len) || r->line[len] != ':')
		fail_msg("%s: this was recorded: %.60s", name, r->line);
	r->at = r->line + len + 1;
}

/** recorded_case() - the outcome of the next case is @text, of @len bytes; @what: the case */
static inline void recorded_case(struct recorded *r, const char *what, const char *text, size_t len)
{
	const uint32_t crc = (uint32_t)crc32(0, (const uint8_t *)text, (unsigned int)len);
	const unsigned int now = (crc ^ crc >> 16) & 0xffff;
	char *end;

	r->n++;
	if (r->writes) {
		fprintf(r->file, " %04x", now);
		return;
	}
	if (strtoul(r->at, &end, 16) == now && end == r->at + 5) {
		r->at = end;
		return;
	}
	if (r->bad++ < 5)
		print_error("%s, case %u, %s: this is new:\n%.*s\n", r->section, r->n, what,
			    (int)(len < 4000 ? len : 4000), text);
	if (*r->at == ' ')
		r->at += 5;
}

/** recorded_end() - checks that all outcomes were there, and no others */
static inline void recorded_end(struct recorded *r)
{
	recorded_section_end(r);
	if (!r->writes && getline(&r->line, &r->size, r->file) > 0) {
		print_error("this was recorded, too: %.60s\n", r->line);
		r->bad++;
	}
	free(r->line);
	assert_int_equal(fclose(r->file), 0);
	assert_int_equal(r->bad, 0);
	if (r->writes)
		fail_msg("recorded anew: run it again, without OHCA_RECORD");
}

#endif
