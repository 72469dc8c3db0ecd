// SPDX-License-Identifier: GPL-2.0-or-later
/* ohca-fabric script: words of the command line, and the errors and results of the reply. */
#include "client.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

bool fab_script_read(const char *name, char *text, size_t *len)
{
	FILE *from = strcmp(name, "-") ? fopen(name, "r") : stdin;
	bool ok = false;

	*len = from ? fread(text, 1, FAB_CONTROL_LINE, from) : 0;
	if (!from || ferror(from))
		perror(name);
	else if (*len == FAB_CONTROL_LINE)
		fprintf(stderr, "%s: the script is too long: write less than 64 KiB\n", name);
	else if (memchr(text, 0, *len))
		/* JSON text cannot contain a byte 0 */
		fprintf(stderr, "%s: this is not text: write it as UTF-8\n", name);
	else
		ok = true;
	if (ok)
		text[*len] = 0;
	if (from && from != stdin)
		fclose(from);
	return ok;
}

/* Read the script as a JSON string. Return: NULL: the error was printed. */
static json_t *read_script(const char *name)
{
	static char text[FAB_CONTROL_LINE];
	json_t *v;
	size_t len;

	if (!fab_script_read(name, text, &len))
		return NULL;
	v = json_stringn(text, len);
	if (!v)
		fprintf(stderr, "%s: this is not text: write it as UTF-8\n", name);
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

/* Line @n of @text, without leading blanks. */
static const char *line_of(const char *text, unsigned int n, int *len)
{
	while (--n && (text = strchr(text, '\n')))
		text++;
	if (text)
		text += strspn(text, " \t");
	*len = text ? (int)strcspn(text, "\r\n") : 0;
	return text ? text : "";
}

void fab_script_print(const char *name, const char *text, unsigned int line, double ns, bool skipped,
		      const char *why)
{
	int len;
	const char *words = line_of(text, line, &len);

	printf("%s:%u: %.6f s: %.*s%s%s\n", name, line, ns / 1e9, len, words,
	       skipped ? ": the condition was never true" : why ? ": FAILED: " : "", why ? why : "");
}

static void print_entry(const char *name, const char *text, const json_t *e)
{
	fab_script_print(name, text, (unsigned int)json_integer_value(json_object_get(e, "line")),
			 (double)json_integer_value(json_object_get(e, "ns")), json_object_get(e, "skipped"),
			 json_string_value(json_object_get(e, "error")));
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
