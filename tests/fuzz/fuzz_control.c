// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Requests of any bytes to the control socket of a fabric: each gets a reply, one JSON object in
 * one line. An input that begins with ! is a script, of which one second is played.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/control/control.h"
#include "fabric/graph/generate.h"
#include "fabric/fault/script.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct fab *new_fabric(void)
{
	struct fab *f = fab_new();
	char why[256];

	if (!f || !fab_generate(f, "fat-tree:4", why, sizeof(why)) || !fab_seal(f))
		abort();
	/* a NodeDescription with special characters, and one switch with a table */
	memcpy(f->desc[0].text, "\xff\"\n\\", 4);
	f->sw[0].lft = calloc(1, IB_LFT_PER_BLOCK);
	if (!f->sw[0].lft)
		abort();
	f->sw[0].lft_blocks = 1;
	f->sw[0].si.linear_top = 40;
	return f;
}

static void check_reply(const char *text)
{
	const char *end = text ? strchr(text, '\n') : NULL;
	json_t *v, *error;

	if (!end || end[1])
		abort();
	v = json_loads(text, 0, NULL);
	error = json_object_get(v, "error");
	if (!json_is_object(v) || (error && !*json_string_value(error)))
		abort();
	json_decref(v);
}

static void play_script(struct fab_mgmt *m, const char *text, size_t len)
{
	static struct fab_script_error e[FAB_SCRIPT_ERRORS];
	uint64_t ends_ns;
	unsigned int n = fab_script_start(m, text, len, e, &ends_ns);

	if (n > FAB_SCRIPT_ERRORS || !n == !m->script)
		abort();
	for (unsigned int i = 0; i < n; i++)
		if (!e[i].line || !e[i].text[0] || (i && e[i].line < e[i - 1].line))
			abort();
	for (unsigned int i = 0; i < 10; i++) {
		m->now_ns += 100000000;
		fab_script_timer(m, m->now_ns);
		fab_mgmt_timer(m, m->now_ns);
	}
	fab_script_stop(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct fab *f;
	static struct fab_mgmt m;

	if (!f) {
		f = new_fabric();
		fab_mgmt_init(&m, f, NULL, NULL);
	}
	if (size && *data == '!') {
		play_script(&m, (const char *)data + 1, size - 1);
		return 0;
	}
	/* split into lines, as the socket does it */
	for (const uint8_t *end = data + size; data < end;) {
		const uint8_t *nl = memchr(data, '\n', (size_t)(end - data));
		const size_t len = (size_t)((nl ? nl : end) - data);
		struct fab_spool_cfg capture = { .n = 0 };
		char *text = fab_control_answer(&m, NULL, (const char *)data, len,
						&capture);

		check_reply(text);
		free(text);
		data += len + (nl != NULL);
	}
	fab_script_stop(&m);
	return 0;
}
