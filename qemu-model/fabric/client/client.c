// SPDX-License-Identifier: GPL-2.0-or-later
/* ohca-fabric status and other verbs: a client of the control socket. */
#include "fabric/control/control.h"

#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "fabric/fault/words.h"
#include "usage.h"

/* ---- text for people ----------------------------------------------------------- */

static void print_value(const json_t *v)
{
	if (json_is_string(v))
		printf("%s", json_string_value(v));
	else if (json_is_real(v))
		printf("%.3f", json_real_value(v));
	else if (json_is_boolean(v))
		printf("%s", json_is_true(v) ? "yes" : "no");
	else
		printf("%" JSON_INTEGER_FORMAT, json_integer_value(v));
}

/* Print @v, or the members of @v if it is an object, in one line. */
static void print_members(json_t *v)
{
	const char *key, *before = "";
	json_t *member;

	if (!json_is_object(v))
		print_value(v);
	json_object_foreach(v, key, member) {
		printf("%s%s ", before, key);
		print_value(member);
		before = ", ";
	}
	putchar('\n');
}

static void print_status(json_t *v)
{
	const char *key, *inner;
	json_t *member, *item;
	size_t i;

	json_object_foreach(v, key, member) {
		if (json_is_object(member)) {
			json_object_foreach(member, inner, item) {
				printf("%s %s: ", key, inner);
				print_members(item);
			}
		} else if (json_is_array(member)) {
			json_array_foreach(member, i, item) {
				printf("%s: ", key);
				print_members(item);
			}
		} else {
			printf("%s: ", key);
			print_value(member);
			putchar('\n');
		}
	}
}

static void print_nodes(json_t *v)
{
	json_t *node, *port;
	size_t i, k;

	json_array_foreach(json_object_get(v, "nodes"), i, node) {
		printf("%s \"%s\" %s\n", json_string_value(json_object_get(node, "type")),
		       json_string_value(json_object_get(node, "description")),
		       json_string_value(json_object_get(node, "guid")));
		json_array_foreach(json_object_get(node, "ports"), k, port) {
			printf("  ");
			print_members(port);
		}
	}
}

/* Print a part of a topology file. */
static void print_text(json_t *v)
{
	printf("%s", json_string_value(json_object_get(v, "text")));
}

static void print_lft(json_t *v)
{
	const json_int_t first = json_integer_value(json_object_get(v, "first"));
	json_t *port;
	size_t i;

	json_array_foreach(json_object_get(v, "lft"), i, port)
		if (json_integer_value(port) != IB_LFT_NO_PORT)
			printf("%" JSON_INTEGER_FORMAT " %" JSON_INTEGER_FORMAT "\n",
			       first + (json_int_t)i, json_integer_value(port));
}

/* Print a path, as ibtracert does: each node with its input and output port. */
static void print_way(json_t *v)
{
	json_t *hop, *port;
	size_t i;

	printf("LID %" JSON_INTEGER_FORMAT "\n", json_integer_value(json_object_get(v, "lid")));
	json_array_foreach(json_object_get(v, "hops"), i, hop) {
		port = json_object_get(hop, "in");
		if (port)
			printf("[%" JSON_INTEGER_FORMAT "] ", json_integer_value(port));
		printf("%s \"%s\" %s lid %" JSON_INTEGER_FORMAT,
		       json_string_value(json_object_get(hop, "type")),
		       json_string_value(json_object_get(hop, "description")),
		       json_string_value(json_object_get(hop, "guid")),
		       json_integer_value(json_object_get(hop, "lid")));
		port = json_object_get(hop, "out");
		if (port)
			printf(" [%" JSON_INTEGER_FORMAT "] %s ->", json_integer_value(port),
			       json_string_value(json_object_get(hop, "state")));
		putchar('\n');
	}
	printf("%s\n", json_string_value(json_object_get(v, "end")));
}

/* Print the calendar time of @ns of the fabric's clock, which is @now_ns now. */
static void print_when(json_int_t ns, json_int_t now_ns)
{
	struct timespec now;
	int64_t at;
	char text[32];
	time_t s;

	clock_gettime(CLOCK_REALTIME, &now);
	at = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000 - (now_ns - ns) / 1000;
	s = (time_t)(at / 1000000);
	strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", localtime(&s));
	printf("%s.%06u", text, (unsigned int)(at % 1000000));
}

/* Print the journal: when, by whom, and what. Virtual time is printed as it is. */
static void print_log(json_t *v)
{
	const json_int_t now_ns = json_integer_value(json_object_get(v, "now_ns"));
	json_t *e;
	size_t i;

	json_array_foreach(json_object_get(v, "log"), i, e) {
		const json_int_t ns = json_integer_value(json_object_get(e, "ns"));

		if (json_object_get(v, "virtual"))
			printf("%.6f s", (double)ns / 1e9);
		else
			print_when(ns, now_ns);
		if (json_object_get(e, "script"))
			printf(" script %" JSON_INTEGER_FORMAT " line %" JSON_INTEGER_FORMAT ": ",
			       json_integer_value(json_object_get(e, "script")),
			       json_integer_value(json_object_get(e, "line")));
		else
			printf(" pid %" JSON_INTEGER_FORMAT ": ",
			       json_integer_value(json_object_get(e, "pid")));
		puts(json_string_value(json_object_get(e, "text")));
	}
}

/*
 * @needs: a member that each reply has; the last verb has requests of its own. @min to @max
 *	arguments, as @usage describes
 */
static const struct {
	const char *name;
	void (*print)(json_t *v);
	const char *needs;
	int min, max;
	const char *usage;
} verbs[] = {
	{ "status", print_status, "switches", 0, 0, "write status" },
	{ "topology", print_text, "text", 0, 1, "write topology, or topology NODE" },
	{ "counters", print_nodes, "nodes", 0, 1, "write counters, or counters NODE" },
	{ "lft", print_lft, "lft", 1, 1, "write lft NODE, a switch" },
	{ "log", print_log, "log", 0, 0, "write log" },
	{ "trace", print_way, NULL, 2, 2, "write trace FROM TO" },
};

/* Index of @verb in verbs[], or their number. */
static unsigned int find_verb(const char *verb)
{
	unsigned int i;

	for (i = 0; i < IB_ARRAY_SIZE(verbs) && strcmp(verb, verbs[i].name); i++)
		;
	return i;
}

bool fab_is_control_verb(const char *verb)
{
	return find_verb(verb) < IB_ARRAY_SIZE(verbs) || fab_is_fault_verb(verb) ||
	       !strcmp(verb, "capture") || !strcmp(verb, "script") || !strcmp(verb, "metrics") ||
	       !strcmp(verb, "adaptive") || !strcmp(verb, "run");
}

/* ---- the socket ---------------------------------------------------------------- */

FILE *fab_client_dial(const char *path)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	FILE *s;

	if (strlen(path) < sizeof(un.sun_path))
		memcpy(un.sun_path, path, strlen(path) + 1);
	else
		errno = ENAMETOOLONG;
	if (fd < 0 || !un.sun_path[0] || connect(fd, (struct sockaddr *)&un, sizeof(un))) {
		fprintf(stderr, "ohca-fabric: --control %s: %s: give the PATH of ohca-fabric serve "
			"--control PATH, while it runs\n", path, strerror(errno));
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	s = fdopen(fd, "r");
	if (!s) {
		perror("ohca-fabric");
		close(fd);
	}
	return s;
}

/* If a fabric has closed the connection, continue: it may have sent the reason. */
static bool send_all(int fd, const char *text, size_t len)
{
	while (len) {
		ssize_t n = send(fd, text, len, MSG_NOSIGNAL);

		if (n < 0 && errno != EINTR)
			return false;
		text += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	return true;
}

bool fab_client_send(int fd, json_t *v)
{
	char *text = v ? json_dumps(v, JSON_COMPACT) : NULL;
	bool ok = text && send_all(fd, text, strlen(text)) && send_all(fd, "\n", 1);

	free(text);
	json_decref(v);
	return ok;
}

/* @text: request the text form, if there is one */
static void send_request(int fd, const char *verb, const char *node, json_int_t first, bool text)
{
	fab_client_send(fd, json_pack("{s:s, s:I, s:s*, s:o*}", "command", verb, "first", first,
				      "node", node, "file", text ? json_true() : NULL));
}

/* Print an error of a fabric that may have another version than this program. */
static void print_error(const char *error, const json_t *v)
{
	const json_t *version = json_object_get(v, "version");

	fprintf(stderr, "ohca-fabric: %s", error);
	if (version && json_integer_value(version) != FAB_CONTROL_VERSION)
		fprintf(stderr, " (the fabric has version %" JSON_INTEGER_FORMAT " of the control "
			"protocol, this program has %d: use the same release of both)",
			json_integer_value(version), FAB_CONTROL_VERSION);
	fputc('\n', stderr);
}

json_t *fab_client_reply(FILE *s, const char *name, char **line, size_t *size)
{
	const bool any = getline(line, size, s) > 0;
	json_t *v = any ? json_loads(*line, 0, NULL) : NULL;
	const char *error = json_string_value(json_object_get(v, "error"));

	if (!json_is_object(v))
		error = any ? "the reply is not from a fabric: give the PATH of ohca-fabric serve "
			      "--control PATH" :
			      "the fabric closed the connection: start ohca-fabric serve again";
	if (!error)
		return v;
	if (name && json_object_get(v, "errors"))
		fab_script_print_errors(name, v);
	else
		print_error(error, v);
	json_decref(v);
	return NULL;
}

bool fab_client_complete(const json_t *v, const char *needs)
{
	if (json_object_get(v, needs))
		return true;
	fprintf(stderr, "ohca-fabric: the reply has no \"%s\": the fabric has another version than "
		"this program: use the same release of both\n", needs);
	return false;
}

/*
 * Send a request of one reply; @name: its file, @way: the reply is a path; *@script: set to the
 * number of the script, if it is one. Return: exit status.
 */
static int ask_once(FILE *s, json_t *v, const char *name, bool way, bool json, json_int_t *script)
{
	char *line = NULL;
	size_t size = 0;
	json_t *reply;
	int rc = EXIT_SUCCESS;

	fab_client_send(fileno(s), v);
	reply = fab_client_reply(s, name, &line, &size);
	if (!reply || json_is_false(json_object_get(reply, "arrives")))
		rc = EXIT_FAILURE;
	*script = json_integer_value(json_object_get(reply, "script"));
	if (reply && json)
		fputs(line, stdout);
	else if (reply && way && fab_client_complete(reply, "hops"))
		print_way(reply);
	else if (way)
		rc = EXIT_FAILURE;
	json_decref(reply);
	free(line);
	return rc;
}

/*
 * Make a request for the path from @from to @to; @mlid: of a multicast packet, or NULL. Return:
 * NULL:
 * @mlid is not a number.
 */
static json_t *trace_words(const char *from, const char *to, const char *mlid)
{
	char *end = NULL;
	const long n = mlid ? strtol(mlid, &end, 0) : 0;

	if (mlid && (end == mlid || *end))
		return NULL;
	return json_pack("{s:s, s:s, s:s, s:o*}", "command", "trace", "from", from, "to", to,
			 "multicast", mlid ? json_integer(n) : NULL);
}

/* Make a request to run virtual time. Return: NULL: the words are not valid. */
static json_t *run_words(int n, char **word)
{
	uint64_t ns;

	if (n != 1 || !fab_word_time(word[0], &ns))
		return NULL;
	return json_pack("{s:s, s:I}", "command", "run", "time_ns", (json_int_t)ns);
}

bool fab_client_pages(FILE *s, const char *command, const char *node, bool file,
		      bool (*part)(void *ctx, json_t *v), void *ctx)
{
	char *line = NULL;
	size_t size = 0;
	bool ok = true;

	for (json_int_t first = 0; ok && first >= 0;) {
		json_t *v, *next;

		send_request(fileno(s), command, node, first, file);
		v = fab_client_reply(s, NULL, &line, &size);
		next = json_object_get(v, "next");
		ok = v && part(ctx, v);
		first = next && json_integer_value(next) > first ? json_integer_value(next) : -1;
		json_decref(v);
	}
	free(line);
	return ok;
}

/* Format of the replies to a verb. */
struct printer {
	unsigned int verb;
	bool json;
};

static bool print_part(void *ctx, json_t *v)
{
	const struct printer *p = ctx;

	if (p->json)
		return !json_dumpf(v, stdout, 0) && putchar('\n') != EOF;
	if (!fab_client_complete(v, verbs[p->verb].needs))
		return false;
	verbs[p->verb].print(v);
	return true;
}

/* Send requests until there is no further part. Return: exit status. */
static int ask_all(FILE *s, unsigned int verb, const char *node, bool json)
{
	struct printer p = { verb, json };
	int rc = EXIT_SUCCESS;

	if (!fab_client_pages(s, verbs[verb].name, node, !json && verbs[verb].print == print_text,
			      print_part, &p))
		rc = EXIT_FAILURE;
	if (fflush(stdout) || ferror(stdout)) {
		perror("ohca-fabric: standard output");
		rc = EXIT_FAILURE;
	}
	return rc;
}

#define MAX_WORDS	64

/* A command line of the client. */
struct line {
	const char *path;
	const char *mlid;
	bool json, wait;
	int n;
	char *word[MAX_WORDS];
};

/* Return: false: @argv is not valid; the error was printed. */
static bool parse_line(struct line *l, int argc, char **argv)
{
	static struct option options[6 + FAB_WORD_OPTIONS + 1] = {
		{ "control", required_argument, NULL, 'c' },
		{ "json", no_argument, NULL, 'j' },
		{ "multicast", required_argument, NULL, 'm' },
		{ "stop", no_argument, NULL, 's' },
		{ "replace", no_argument, NULL, 'r' },
		{ "wait", no_argument, NULL, 'a' },
	};
	int c, which;

	for (unsigned int i = 0; i < FAB_WORD_OPTIONS; i++)
		options[6 + i] = (struct option){ fab_word_option(i) + 2, 1, NULL, 'w' };
	while ((c = getopt_long(argc, argv, "c:j", options, &which)) != -1) {
		if (c == 'c') {
			l->path = optarg;
		} else if (c == 'j') {
			l->json = true;
		} else if (c == 'm' && !strcmp(argv[0], "trace")) {
			l->mlid = optarg;
		} else if ((c == 's' || c == 'r' || c == 'a') && l->n < MAX_WORDS) {
			l->wait |= c == 'a';
			l->word[l->n++] = c == 's' ? "--stop" : c == 'r' ? "--replace" : "--wait";
		} else if (c == 'w' && l->n < MAX_WORDS - 1) {
			l->word[l->n++] = (char *)fab_word_option((unsigned int)which - 6);
			l->word[l->n++] = optarg;
		} else {
			fab_usage_error("use --control PATH, --json and options of the verb");
			return false;
		}
	}
	while (optind < argc && l->n < MAX_WORDS)
		l->word[l->n++] = argv[optind++];
	if (!l->path)
		fab_usage_error("give the control socket of the fabric: --control PATH");
	return l->path;
}

int fab_control_client(int argc, char **argv)
{
	const unsigned int verb = find_verb(argv[0]);
	struct line l = { 0 };
	const char *why, *name = NULL;
	json_t *once = NULL;
	json_int_t script = 0;
	FILE *s;
	int rc;

	if (!strcmp(argv[0], "capture"))
		return fab_capture_client(argc, argv);
	if (!strcmp(argv[0], "metrics"))
		return fab_metrics_client(argc, argv);
	if (!strcmp(argv[0], "adaptive"))
		return fab_adaptive_client(argc, argv);
	if (!parse_line(&l, argc, argv))
		return FAB_EXIT_USAGE;
	if (!strcmp(argv[0], "run")) {
		once = run_words(l.n, l.word);
		if (!once)
			return fab_usage_error("write run TIME, as 10ms or 1.5s, up to 1000000s");
	} else if (verb == IB_ARRAY_SIZE(verbs)) {
		once = strcmp(argv[0], "script") ? fab_fault_words(argv[0], l.n, l.word, &why) :
		       fab_script_words(l.n, l.word, &name, &why);
		if (!once)
			return why ? fab_usage_error(why) : EXIT_FAILURE;
	} else if (l.n < verbs[verb].min || l.n > verbs[verb].max) {
		return fab_usage_error(verbs[verb].usage);
	} else if (!verbs[verb].needs) {
		once = trace_words(l.word[0], l.word[1], l.mlid);
		if (!once)
			return fab_usage_error("write --multicast MLID, a number from 0xc000");
	}
	s = fab_client_dial(l.path);
	if (!s) {
		json_decref(once);
		return EXIT_FAILURE;
	}
	rc = once ? ask_once(s, json_incref(once), name, verb < IB_ARRAY_SIZE(verbs), l.json,
			     &script) :
		    ask_all(s, verb, l.n ? l.word[0] : NULL, l.json);
	if (rc == EXIT_SUCCESS && l.wait)
		rc = fab_script_wait(s, name, json_string_value(json_object_get(once, "text")),
				     script);
	/* the fabric answers no request while time runs: this reply shows that the run has ended */
	if (rc == EXIT_SUCCESS && !strcmp(argv[0], "run"))
		rc = ask_once(s, json_pack("{s:s, s:i}", "command", "run", "time_ns", 0), NULL, false, l.json,
			      &script);
	json_decref(once);
	fclose(s);
	return rc;
}
