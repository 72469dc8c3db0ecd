// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ohca-fabric metrics: state and counters of a fabric and its ports as OpenMetrics text, which
 * Prometheus reads. All samples of a metric must be together, so all replies are read first.
 */
#include "client.h"
#include "usage.h"

#include <ctype.h>
#include <getopt.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/mgmt/counter.h"

#define NAME_LEN	64
#define WORD_BYTES	4	/* PortXmitData and PortRcvData count words of 4 bytes */

/*
 * Counters that each port with a cable shows from the beginning, so that their first increase is
 * visible. The others appear when they are not 0.
 */
static const char *const always[] = {
	"PortXmitData", "PortRcvData", "PortXmitPkts", "PortRcvPkts", "SymbolErrorCounter",
	"LinkDownedCounter", "PortRcvErrors", "PortXmitDiscards", "PortXmitWait",
};

static bool is_always(const char *counter)
{
	for (unsigned int i = 0; i < sizeof(always) / sizeof(*always); i++)
		if (!strcmp(always[i], counter))
			return true;
	return false;
}

/* ---- names and labels ---------------------------------------------------------- */

/* LinkDownedCounter becomes link_downed: an underscore before each word, without Counter. */
static void snake(const char *name, char out[NAME_LEN])
{
	size_t len = strlen(name), n = 0;

	if (len > 7 && !strcmp(name + len - 7, "Counter"))
		len -= 7;
	for (size_t i = 0; i < len && n + 2 < NAME_LEN; i++) {
		const unsigned char c = (unsigned char)name[i];

		if (i && isupper(c) && !isupper((unsigned char)name[i - 1]))
			out[n++] = '_';
		out[n++] = (char)tolower(c);
	}
	out[n] = 0;
}

/*
 * Print @name="@text", with the three characters escaped that OpenMetrics requires in a label's
 * value.
 */
static void put_label(const char *before, const char *name, const char *text)
{
	printf("%s%s=\"", before, name);
	for (; text && *text; text++) {
		if (*text == '\n')
			fputs("\\n", stdout);
		else if (*text == '\\' || *text == '"')
			printf("\\%c", *text);
		else
			putchar(*text);
	}
	putchar('"');
}

static const char *text_of(const json_t *v, const char *member)
{
	return json_string_value(json_object_get(v, member));
}

static json_int_t number_of(const json_t *v, const char *member)
{
	return json_integer_value(json_object_get(v, member));
}

/* Print {node="...",guid="...",port="..."; the caller closes it */
static void put_port(const json_t *node, const json_t *port)
{
	put_label("{", "node", text_of(node, "description"));
	put_label(",", "guid", text_of(node, "guid"));
	printf(",port=\"%" JSON_INTEGER_FORMAT "\"", number_of(port, "port"));
}

static void put_family(const char *name, const char *type, const char *help)
{
	printf("# TYPE %s %s\n# HELP %s %s\n", name, type, name, help);
}

/* ---- ports --------------------------------------------------------------------- */

#define for_each_port(nodes, i, k, node, port)				\
	json_array_foreach(nodes, i, node)				\
		json_array_foreach(json_object_get(node, "ports"), k, port)

/* Print counter @name of all ports; @with_cable: nodes with their cables, as in topology. */
static void put_counter(const char *name, const json_t *nodes, const json_t *with_cable)
{
	const bool words = !strcmp(name, "PortXmitData") || !strcmp(name, "PortRcvData");
	char family[NAME_LEN + 32], part[NAME_LEN];
	json_t *node, *port;
	size_t i, k;

	snake(name, part);
	snprintf(family, sizeof(family), "infiniband_%s%s", part, words ? "_bytes" : "");
	put_family(family, "counter", name);
	for_each_port(nodes, i, k, node, port) {
		const json_t *top = json_array_get(json_object_get(json_array_get(with_cable, i),
								   "ports"), k);
		const json_int_t v = number_of(port, name);

		if (!v && !(is_always(name) && json_object_get(top, "peer")))
			continue;
		printf("%s_total", family);
		put_port(node, port);
		/* does not fit into 64 bits; Prometheus rounds to a double anyway */
		if (words && v > INT64_MAX / WORD_BYTES)
			printf("} %.0f\n", (double)v * WORD_BYTES);
		else
			printf("} %" JSON_INTEGER_FORMAT "\n", words ? v * WORD_BYTES : v);
	}
}

static int state_of(const char *name)
{
	static const char *const states[] = { "", "Down", "Init", "Armed", "Active" };

	for (int i = 1; i < 5; i++)
		if (name && !strcmp(name, states[i]))
			return i;
	return 0;
}

static void put_links(const json_t *nodes)
{
	json_t *node, *port;
	size_t i, k;

	put_family("infiniband_port_state", "gauge",
		   "PortState of a port with a cable: 1 Down, 2 Initialize, 3 Armed, 4 Active");
	for_each_port(nodes, i, k, node, port) {
		if (!json_object_get(port, "peer"))
			continue;
		fputs("infiniband_port_state", stdout);
		put_port(node, port);
		printf("} %d\n", state_of(text_of(port, "state")));
	}
	/* not the type info: readers of the older text format, as of a file, do not know it */
	put_family("infiniband_port_info", "gauge", "The cable of a port, and the rate of its link");
	for_each_port(nodes, i, k, node, port) {
		if (!json_object_get(port, "peer"))
			continue;
		fputs("infiniband_port_info", stdout);
		put_port(node, port);
		put_label(",", "peer", text_of(port, "peer"));
		printf(",peer_port=\"%" JSON_INTEGER_FORMAT "\"", number_of(port, "peer_port"));
		put_label(",", "rate", text_of(port, "rate"));
		fputs("} 1\n", stdout);
	}
}

/* ---- the fabric ---------------------------------------------------------------- */

/* Members of "status", and their metrics */
static const struct {
	const char *object, *member, *type, *name, *help;
} totals[] = {
	{ NULL, "switches", "gauge", "switches", "Switches" },
	{ NULL, "channel_adapters", "gauge", "channel_adapters", "Channel adapters" },
	{ NULL, "cables", "gauge", "cables", "Cables" },
	{ NULL, "links_up", "gauge", "links_up", "Cables with a link" },
	{ NULL, "links_active", "gauge", "links_active", "Links with both ends Active" },
	{ NULL, "other_mads", "counter", "other_mads", "MADs other than SMPs" },
	{ NULL, "lost_mads", "counter", "lost_mads", "MADs that were lost" },
	{ NULL, "traps", "counter", "traps", "Traps" },
	{ NULL, "memory_bytes", "gauge", "memory_bytes", "Memory of the fabric" },
	{ NULL, "cpu_seconds", "counter", "cpu_seconds", "Processor time of the fabric" },
	{ "data", "delivered", "counter", "delivered_packets", "Data packets that arrived" },
	{ "data", "hops", "counter", "packet_hops", "Wires that data packets have passed" },
	{ "data", "fecns", "counter", "fecn_marks", "Marks by FECN at switches" },
	{ "data", "buffer_bytes", "gauge", "buffer_bytes", "Memory of packets that wait" },
	{ "hosted", "machines", "gauge", "machines", "Machines whose HCAs the fabric hosts" },
};

static void put_total(const json_t *status, unsigned int i)
{
	const json_t *from = totals[i].object ? json_object_get(status, totals[i].object) : status;
	const json_t *v = json_object_get(from, totals[i].member);
	char family[NAME_LEN];

	if (!json_is_number(v))
		return;
	snprintf(family, sizeof(family), "ohca_fabric_%s", totals[i].name);
	put_family(family, totals[i].type, totals[i].help);
	printf("%s%s ", family, strcmp(totals[i].type, "counter") ? "" : "_total");
	if (json_is_real(v))
		printf("%.3f\n", json_real_value(v));
	else
		printf("%" JSON_INTEGER_FORMAT "\n", json_integer_value(v));
}

static void put_fabric(const json_t *status)
{
	json_t *dropped = json_object_get(json_object_get(status, "data"), "dropped"), *v;
	const char *reason;

	for (unsigned int i = 0; i < sizeof(totals) / sizeof(*totals); i++)
		put_total(status, i);
	put_family("ohca_fabric_dropped_packets", "counter", "Data packets that ended on the way");
	json_object_foreach(dropped, reason, v) {
		fputs("ohca_fabric_dropped_packets_total", stdout);
		put_label("{", "reason", reason);
		printf("} %" JSON_INTEGER_FORMAT "\n", json_integer_value(v));
	}
}

/* ---- the replies --------------------------------------------------------------- */

/* Read member @member of all parts of the reply to @verb. Return: NULL: the error was printed. */
static json_t *gather(FILE *s, const char *verb, const char *member)
{
	json_t *all = json_array();
	char *line = NULL;
	size_t size = 0;

	for (json_int_t first = 0; first >= 0;) {
		json_t *v, *next;

		/* if this fails there is no reply, and fab_client_reply() reports it */
		fab_client_send(fileno(s), json_pack("{s:s, s:I}", "command", verb, "first", first));
		v = fab_client_reply(s, NULL, &line, &size);
		if (!v || !fab_client_complete(v, member)) {
			json_decref(v);
			json_decref(all);
			all = NULL;
			break;
		}
		json_array_extend(all, json_object_get(v, member));
		next = json_object_get(v, "next");
		first = next && json_integer_value(next) > first ? json_integer_value(next) : -1;
		json_decref(v);
	}
	free(line);
	return all;
}

static int put_all(FILE *s)
{
	json_t *ports = gather(s, "topology", "nodes"), *counters = NULL, *status = NULL;
	char *line = NULL;
	size_t size = 0;

	if (ports)
		counters = gather(s, "counters", "nodes");
	if (counters) {
		fab_client_send(fileno(s), json_pack("{s:s}", "command", "status"));
		status = fab_client_reply(s, NULL, &line, &size);
	}
	if (status) {
		put_fabric(status);
		put_links(ports);
		for (unsigned int i = 0; i < FAB_COUNTERS; i++)
			put_counter(fab_counter_name(i), counters, ports);
		puts("# EOF");
	}
	free(line);
	json_decref(ports);
	json_decref(counters);
	json_decref(status);
	if (!status)
		return EXIT_FAILURE;
	if (fflush(stdout) || ferror(stdout)) {
		perror("ohca-fabric: standard output");
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}

int fab_metrics_client(int argc, char **argv)
{
	static const struct option options[] = {
		{ "control", required_argument, NULL, 'c' },
		{ NULL, 0, NULL, 0 },
	};
	const char *path = NULL;
	FILE *s;
	int c, rc;

	while ((c = getopt_long(argc, argv, "c:", options, NULL)) != -1) {
		if (c != 'c')
			return fab_usage_error("write metrics --control PATH");
		path = optarg;
	}
	if (!path || optind != argc)
		return fab_usage_error("write metrics --control PATH");
	s = fab_client_dial(path);
	if (!s)
		return EXIT_FAILURE;
	rc = put_all(s);
	fclose(s);
	return rc;
}
