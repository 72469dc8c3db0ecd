// SPDX-License-Identifier: GPL-2.0-or-later
/* ohca-fabric script: the words of the command line, and the errors of the reply. */
#include "client.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

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
	bool stop = false, replace = false, wait = false;
	int files = 0;
	json_t *text;

	*name = NULL;
	*why = "write script [--replace] [--wait] FILE, or script --stop";
	for (int i = 0; i < n; i++) {
		if (!strcmp(w[i], "--stop"))
			stop = true;
		else if (!strcmp(w[i], "--replace"))
			replace = true;
		else if (!strcmp(w[i], "--wait"))
			wait = true;
		else if (files++ == 0)
			*name = w[i];
	}
	if (files != !stop || (stop && (replace || wait)))
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

/* Line @n of @text, without what is before its first word. */
static const char *line_of(const char *text, unsigned int n, int *len)
{
	while (--n && (text = strchr(text, '\n')))
		text++;
	if (text)
		text += strspn(text, " \t");
	*len = text ? (int)strcspn(text, "\r\n") : 0;
	return text ? text : "";
}

static void print_entry(const char *name, const char *text, const json_t *e)
{
	const double ns = (double)json_integer_value(json_object_get(e, "ns"));
	const unsigned int n = (unsigned int)json_integer_value(json_object_get(e, "line"));
	const char *why = json_string_value(json_object_get(e, "error"));
	const bool skipped = json_object_get(e, "skipped");
	int len;
	const char *line = line_of(text, n, &len);

	printf("%s:%u: %.6f s: %.*s%s%s\n", name, n, ns / 1e9, len, line,
	       skipped ? ": it was never so, nothing was done" : why ? ": FAILED: " : "", why ? why : "");
}

/* Whether reply @v is about script @number. */
static bool is_same(const char *name, const json_t *v, json_int_t number)
{
	if (json_integer_value(json_object_get(v, "script")) == number)
		return true;
	fprintf(stderr, "%s: another client has stopped or replaced it\n", name);
	return false;
}

int fab_script_wait(FILE *s, const char *name, const char *text, json_int_t number)
{
	static const struct timespec pause = { .tv_nsec = 20000000 };
	json_int_t end = 0, played = 0, left = 1, failed = 0;
	char *line = NULL;
	size_t size = 0;
	bool ok = true;

	while (left || end < played) {
		json_t *v, *e;
		size_t i;

		fab_client_send(fileno(s), json_pack("{s:s, s:I}", "command", "script", "log", end));
		v = fab_client_reply(s, NULL, &line, &size);
		ok = v && fab_client_complete(v, "played") && is_same(name, v, number);
		if (!ok) {
			json_decref(v);
			break;
		}
		played = json_integer_value(json_object_get(v, "played"));
		left = json_integer_value(json_object_get(v, "left"));
		failed = json_integer_value(json_object_get(v, "failed"));
		json_array_foreach(json_object_get(v, "log"), i, e)
			print_entry(name, text, e);
		end = json_integer_value(json_object_get(v, "end"));
		json_decref(v);
		fflush(stdout);
		if (left && end == played)
			nanosleep(&pause, NULL);
	}
	free(line);
	return ok && !failed ? EXIT_SUCCESS : EXIT_FAILURE;
}
