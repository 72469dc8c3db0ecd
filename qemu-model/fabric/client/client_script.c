// SPDX-License-Identifier: GPL-2.0-or-later
/* ohca-fabric script: the words of the command line, and the errors of the reply. */
#include "client.h"

#include <stdlib.h>
#include <string.h>

/* The text of file @name, "-": standard input, as JSON. Return: NULL: what is wrong was printed. */
static json_t *read_script(const char *name)
{
	static char text[FAB_CONTROL_LINE];
	FILE *from = strcmp(name, "-") ? fopen(name, "r") : stdin;
	size_t len = from ? fread(text, 1, sizeof(text), from) : 0;
	/* JSON text has no byte 0 */
	json_t *v = memchr(text, 0, len) ? NULL : json_stringn(text, len);

	if (!from || ferror(from))
		perror(name);
	else if (len == sizeof(text))
		fprintf(stderr, "%s: the script is too long: write less than 64 KiB\n", name);
	else if (!v)
		fprintf(stderr, "%s: this is no text: write it as UTF-8\n", name);
	if (!from || ferror(from) || len == sizeof(text)) {
		json_decref(v);
		v = NULL;
	}
	if (from && from != stdin)
		fclose(from);
	return v;
}

json_t *fab_script_words(int n, char **w, const char **name, const char **why)
{
	bool stop = false, replace = false;
	int files = 0;
	json_t *text;

	*name = NULL;
	*why = "write script [--replace] FILE, or script --stop";
	for (int i = 0; i < n; i++) {
		if (!strcmp(w[i], "--stop"))
			stop = true;
		else if (!strcmp(w[i], "--replace"))
			replace = true;
		else if (files++ == 0)
			*name = w[i];
	}
	if (files != !stop || (stop && replace))
		return NULL;
	if (stop)
		return json_pack("{s:s, s:b}", "command", "script", "stop", 1);
	*why = NULL;
	text = read_script(*name);
	return text ? json_pack("{s:s, s:b, s:o}", "command", "script", "replace", replace, "text",
				text) : NULL;
}

void fab_script_print_errors(const char *name, const json_t *reply)
{
	const json_t *list = json_object_get(reply, "errors");
	json_t *e;
	size_t i;

	json_array_foreach(list, i, e)
		fprintf(stderr, "%s:%d: %s\n", name,
			(int)json_integer_value(json_object_get(e, "line")),
			json_string_value(json_object_get(e, "error")));
}
