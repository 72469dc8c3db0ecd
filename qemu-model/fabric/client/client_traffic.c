// SPDX-License-Identifier: GPL-2.0-or-later
/* ohca-fabric traffic: its options, and its output; see client_traffic.h. */
#include "client_traffic.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "fabric/fault/words.h"
#include "usage.h"

/* ---- options ------------------------------------------------------------------- */

static bool set_size(struct fab_traffic_cfg *cfg, const char *arg)
{
	uint64_t size;
	const char *rest = fab_option_size(arg, &size);

	if (rest && !*rest && size && size <= FAB_TRAFFIC_SIZE) {
		cfg->size = (uint32_t)size;
		return true;
	}
	fprintf(stderr, "ohca-fabric: --size: '%s' is not a size from 1 to 1G\n", arg);
	return false;
}

static bool set_load(struct fab_traffic_cfg *cfg, const char *arg)
{
	if (!fab_option_number("--load", arg, 100, &cfg->load))
		return false;
	if (!cfg->load)
		fab_usage_error("--load must be at least 1");
	return cfg->load;
}

/* Parse N[,N...] */
static bool set_sls(struct fab_traffic_cfg *cfg, const char *arg)
{
	const char *text = arg;

	for (cfg->sls = 0; cfg->sls < IB_NUM_SLS; text++) {
		char *end;
		const unsigned long sl = strtoul(text, &end, 10);

		if (*text < '0' || *text > '9' || sl >= IB_NUM_SLS)
			break;
		cfg->sl[cfg->sls++] = (uint8_t)sl;
		text = end;
		if (!*text)
			return true;
		if (*text != ',')
			break;
	}
	fprintf(stderr, "ohca-fabric: --sl: '%s' is not up to 16 numbers from 0 to 15, with commas between\n",
		arg);
	return false;
}

static bool read_paths(struct fab_traffic_options *o, const char *name)
{
	FILE *in = fopen(name, "r");
	unsigned int line = 0;
	bool ok;

	if (!in) {
		fprintf(stderr, "ohca-fabric: --path-sl %s: %s\n", name, strerror(errno));
		return false;
	}
	fab_paths_end(&o->paths);
	ok = fab_paths_read(&o->paths, in, &line);
	fclose(in);
	o->cfg.paths = &o->paths;
	if (!ok && line)
		fprintf(stderr, "%s:%u: a line has three numbers: SLID, DLID and SL\n", name, line);
	else if (!ok)
		fprintf(stderr, "ohca-fabric: --path-sl %s: it cannot be read\n", name);
	return ok;
}

static bool set_congestion(struct fab_traffic_options *o, const char *arg)
{
	char why[128];

	o->cfg.cc = &o->congestion;
	fab_congestion_usual(&o->congestion);
	if (!arg || fab_congestion_parse(&o->congestion, arg, why, sizeof(why)))
		return true;
	fprintf(stderr, "ohca-fabric: --congestion-control: %s\n", why);
	return false;
}

/* @arg: whether hosts accept packets in any order, or in order only. */
static bool set_adaptive(struct fab_traffic_options *o, const char *arg)
{
	o->adaptive = (struct fab_adaptive_cfg){
		.sls = UINT16_MAX,
		.any_order = !arg || !strcmp(arg, "any"),
		.gap_ns = FAB_ADAPTIVE_GAP_NS,
	};
	o->cfg.adaptive = &o->adaptive;
	if (o->adaptive.any_order || !strcmp(arg, "kept"))
		return true;
	fprintf(stderr, "ohca-fabric: --adaptive: '%s' is neither any nor kept\n", arg);
	return false;
}

static bool set_transport(struct fab_traffic_cfg *cfg, const char *arg)
{
	static const char *const names[FAB_TRANSPORTS] = {
		[FAB_TRANSPORT_UC] = "uc", [FAB_TRANSPORT_UD] = "ud", [FAB_TRANSPORT_RC] = "rc",
	};

	for (enum fab_transport i = 0; i < FAB_TRANSPORTS; i++) {
		if (strcmp(arg, names[i]))
			continue;
		cfg->transport = i;
		return true;
	}
	fprintf(stderr, "ohca-fabric: --transport: '%s' is none of rc, uc, ud\n", arg);
	return false;
}

static bool set_interval(struct fab_traffic_options *o, const char *arg)
{
	if (fab_word_time(arg, &o->interval_ns) && o->interval_ns)
		return true;
	fprintf(stderr, "ohca-fabric: --interval: '%s' is not a time such as 10us or 1ms\n", arg);
	return false;
}

bool fab_traffic_option(struct fab_traffic_options *o, int code, const char *arg)
{
	o->any = true;
	switch (code) {
	case FAB_TRAFFIC_PATTERN:
		o->cfg.pattern = fab_pattern_find(arg);
		if (o->cfg.pattern != FAB_PATTERNS)
			return true;
		fprintf(stderr, "ohca-fabric: --pattern: '%s' is none of uniform, permutation, incast, "
			"incast-victim, hot-spot, all-to-all, all-reduce-ring, all-reduce-halving\n", arg);
		return false;
	case FAB_TRAFFIC_ROUTING:
		o->cfg.routing = fab_routing_find(arg);
		if (o->cfg.routing != FAB_ROUTINGS)
			return true;
		fprintf(stderr, "ohca-fabric: --routing: '%s' is neither minhop nor updn\n", arg);
		return false;
	case FAB_TRAFFIC_SIZE_OPTION:
		return set_size(&o->cfg, arg);
	case FAB_TRAFFIC_MESSAGES_OPTION:
		return fab_option_number("--messages", arg, FAB_TRAFFIC_MESSAGES, &o->cfg.messages);
	case FAB_TRAFFIC_LOAD:
		return set_load(&o->cfg, arg);
	case FAB_TRAFFIC_SL:
		return set_sls(&o->cfg, arg);
	case FAB_TRAFFIC_PATH_SL:
		return read_paths(o, arg);
	case FAB_TRAFFIC_CONGESTION:
		return set_congestion(o, arg);
	case FAB_TRAFFIC_ADAPTIVE:
		return set_adaptive(o, arg);
	case FAB_TRAFFIC_TRANSPORT:
		return set_transport(&o->cfg, arg);
	case FAB_TRAFFIC_FLOWS:
		o->flows = true;
		return true;
	case FAB_TRAFFIC_SERIES:
		o->series = arg;
		return true;
	case FAB_TRAFFIC_INTERVAL:
		return set_interval(o, arg);
	case FAB_TRAFFIC_SCRIPT:
		o->script = arg;
		return true;
	default:
		fab_usage_error("unknown option or argument");
		return false;
	}
}

/* ---- results ------------------------------------------------------------------- */

static void print_ns(const char *name, uint64_t ns)
{
	printf("%s: %" PRIu64 ".%03u us\n", name, ns / 1000, (unsigned int)(ns % 1000));
}

static double gbps(uint64_t bytes, uint64_t ns)
{
	return ns ? 8.0 * (double)bytes / (double)ns : 0;
}

/* Print the rates of several service levels while all hosts send, and their shares. */
static void print_shares(const struct fab_traffic_result *r)
{
	uint64_t all = 0;

	for (unsigned int sl = 0; sl < IB_NUM_SLS; sl++)
		all += r->share[sl];
	for (unsigned int sl = 0; sl < IB_NUM_SLS; sl++)
		if (r->share[sl])
			printf("sl%u: %.3f Gb/s, %.2f %%\n", sl, gbps(r->share[sl], r->share_ns),
			       100.0 * (double)r->share[sl] / (double)all);
	print_ns("shares", r->share_ns);
}

/* Print ports of switches whose packets may wait for each other for ever. */
static void print_circle(const struct fab *f, const struct fab_circle *c)
{
	fputs(c->n ? "circle:" : "circle: none", stdout);
	for (uint32_t i = 0; i < c->n; i++)
		printf("%s %.64s:%u", i ? "," : "", f->desc[f->port[c->port[i]].node].text,
		       fab_port_num(f, c->port[i]));
	putchar('\n');
}

static void print_result(const struct fab *f, const struct fab_traffic_cfg *cfg,
			 const struct fab_traffic_result *r)
{
	printf("pattern: %s\nrouting: %s\nrate_scale: %u\nhosts: %u\nmessages: %" PRIu64 "\nlost: %" PRIu64 "\n"
	       "packets: %" PRIu64 "\nhops: %" PRIu64 "\nbytes: %" PRIu64 "\n",
	       fab_pattern_name(cfg->pattern), fab_routing_name(cfg->routing), cfg->rate_scale, r->hosts,
	       r->messages, r->lost, r->packets, r->hops, r->bytes);
	print_ns("time", r->ns);
	printf("host: %.3f Gb/s\n", gbps(r->bytes, r->ns) / r->hosts);
	if (cfg->pattern == FAB_PATTERN_INCAST || cfg->pattern == FAB_PATTERN_INCAST_VICTIM)
		printf("hot: %.3f Gb/s\n", gbps(r->hot.bytes, r->hot.ns));
	if (cfg->pattern == FAB_PATTERN_INCAST_VICTIM)
		printf("victim: %.3f Gb/s\n", gbps(r->victim.bytes, r->victim.ns));
	if (cfg->sls > 1 || cfg->paths)
		print_shares(r);
	if (cfg->cc)
		printf("fecn: %" PRIu64 "\nbecn: %" PRIu64 "\nccti_max: %" PRIu64 "\n", r->fecns, r->becns,
		       r->ccti_max);
	if (cfg->adaptive)
		printf("adaptive: %" PRIu64 "\nreordered: %" PRIu64 "\n", r->adaptive,
		       r->reordered);
	if (r->bus_bytes)
		printf("bus: %.3f Gb/s\n", gbps(r->bus_bytes, r->ns));
	print_ns("message_p50", r->p50_ns);
	print_ns("message_p90", r->p90_ns);
	print_ns("message_p99", r->p99_ns);
	print_ns("message_max", r->max_ns);
	print_circle(f, &r->circle);
}

/* ---- bytes of each host ---------------------------------------------------------- */

/* @series: the file, for intervals of @interval_ns, or NULL; @begun: its first line is written */
struct watch {
	const struct fab *f;
	FILE *series;
	uint64_t interval_ns;
	bool begun;
};

static void print_flows(void *arg, const struct fab_traffic_sender *s, uint32_t n, uint64_t ns)
{
	const struct watch *w = arg;

	for (uint32_t i = 0; i < n; i++)
		if (s[i].bytes)
			printf("flow %.64s: %.3f Gb/s\n", w->f->desc[s[i].node].text, gbps(s[i].bytes, ns));
}

/* Write a name in CSV: quoted, quotes doubled. */
static void write_name(FILE *out, const char *name)
{
	fputs(",\"", out);
	for (unsigned int i = 0; i < 64 && name[i]; i++) {
		if (name[i] == '"')
			putc('"', out);
		putc(name[i], out);
	}
	putc('"', out);
}

static void write_series(void *arg, const struct fab_traffic_sender *s, uint32_t n, uint64_t at_ns)
{
	struct watch *w = arg;

	if (!w->begun) {
		fputs("us", w->series);
		for (uint32_t i = 0; i < n; i++)
			write_name(w->series, w->f->desc[s[i].node].text);
		putc('\n', w->series);
		w->begun = true;
	}
	fprintf(w->series, "%" PRIu64 ".%03u", at_ns / 1000, (unsigned int)(at_ns % 1000));
	for (uint32_t i = 0; i < n; i++)
		fprintf(w->series, ",%.3f", gbps(s[i].bytes, w->interval_ns));
	putc('\n', w->series);
}

/* Return: false: a write failed; the error was printed. */
static bool end_series(const struct fab_traffic_options *o, struct watch *w)
{
	bool ok;

	if (!w->series)
		return true;
	ok = !ferror(w->series);
	ok &= !fclose(w->series);
	if (!ok)
		fprintf(stderr, "ohca-fabric: --series %s: it cannot be written\n", o->series);
	return ok;
}

/* ---- faults ---------------------------------------------------------------------- */

/* Text of the script file @name */
struct script {
	const char *name;
	char text[FAB_CONTROL_LINE];
};

static void print_played(void *arg, const struct fab_script_entry *e)
{
	const struct script *s = arg;

	fab_script_print(s->name, s->text, e->line, (double)e->ns, e->skipped, e->why[0] ? e->why : NULL);
}

int fab_traffic_client(struct fab *f, const struct fab_traffic_options *o)
{
	struct watch w = { .f = f, .interval_ns = o->interval_ns };
	const struct fab_traffic_watcher watcher = {
		.interval_ns = o->series ? o->interval_ns : 0,
		.series = write_series,
		.flows = o->flows ? print_flows : NULL,
		.arg = &w,
	};
	static struct script text;
	struct fab_traffic_script script = { .text = text.text, .played = print_played, .arg = &text };
	struct fab_traffic_cfg cfg = o->cfg;
	struct fab_traffic_result r;
	char why[FAB_REQUEST_WHY + 128];
	bool ran;

	text.name = o->script;
	if (o->script && !fab_script_read(o->script, text.text, &script.len))
		return EXIT_FAILURE;
	if (o->script)
		cfg.script = &script;
	if (o->series)
		w.series = fopen(o->series, "w");
	if (o->series && !w.series) {
		fprintf(stderr, "ohca-fabric: --series %s: %s\n", o->series, strerror(errno));
		return EXIT_FAILURE;
	}
	if (o->series || o->flows)
		cfg.watcher = &watcher;
	ran = fab_traffic_run(f, &cfg, &r, why, sizeof(why));
	if (ran) {
		print_result(f, &cfg, &r);
		fab_circle_end(&r.circle);
	} else {
		fprintf(stderr, "ohca-fabric: %s\n", why);
	}
	return end_series(o, &w) && ran && !r.failed ? EXIT_SUCCESS : EXIT_FAILURE;
}
