/*
 * command/sessions/metrics.c - `cricket metrics`: the state of a server on this host for
 * Prometheus; see metrics.h.
 *
 * The number of series is bounded: no label has a session, a program or a host in it.
 */
#include <getopt.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command/config/command.h"
#include "command/sessions/control.h"
#include "command/sessions/gpu.h"
#include "command/sessions/metrics.h"
#include "util/util.h"

#define IDENTITIES 100
#define PLACES 2 /* of memory: on the GPU, in the host */

static const char *const places[PLACES][2] = {{"gpu", "memory"}, {"host", "host_memory"}};

static double number_of(const json_t *object, const char *name)
{
	return json_number_value(json_object_get(object, name));
}

static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : "";
}

static void begin_metric(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP cricket_%s %s\n# TYPE cricket_%s %s\n", name, help, name, type);
}

/* The value of a label; a line break in one would end the line. */
static void put_text(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '\n')
			fputs("\\n", out);
		else if (*text == '"' || *text == '\\')
			fprintf(out, "\\%c", *text);
		else
			fputc(*text, out);
	}
}

/* A sample with one label, or none: NULL. */
static void put_sample(FILE *out, const char *name, const char *label, const char *text,
		       double value)
{
	fprintf(out, "cricket_%s", name);
	if (label) {
		fprintf(out, "{%s=\"", label);
		put_text(out, text);
		fputs("\"}", out);
	}
	fprintf(out, " %.17g\n", value);
}

static void put_alone(FILE *out, const char *name, const char *type, const char *help, double value)
{
	begin_metric(out, name, type, help);
	put_sample(out, name, NULL, NULL, value);
}

/* A sample for each field of @object. */
static void put_fields(FILE *out, const char *name, const char *label, const json_t *object)
{
	const char *field;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)object, field, value)
		put_sample(out, name, label, field, json_number_value(value));
}

static double sum_of(const json_t *report, const char *field, const char *by, const char *value)
{
	const json_t *s;
	double sum = 0;
	size_t i;

	json_array_foreach(json_object_get(report, "sessions"), i, s)
	{
		if (!by || strcmp(text_of(s, by), value) == 0)
			sum += field ? number_of(s, field) : 1;
	}
	return sum;
}

static void put_sessions(FILE *out, const json_t *report)
{
	static const char *const states[] = {"running", "idle",	    "suspending", "suspended",
					     "parked",	"resuming", "kept"};

	begin_metric(out, "sessions", "gauge", "Sessions, by state.");
	for (size_t i = 0; i < CK_ARRAY_SIZE(states); i++)
		put_sample(out, "sessions", "state", states[i],
			   sum_of(report, NULL, "state", states[i]));
	put_alone(out, "park_memory_bytes", "gauge",
		  "Host memory of workers for device memory that they move themselves.",
		  sum_of(report, "park_memory", NULL, NULL));
	put_alone(out, "sessions_max", "gauge", "Sessions that the server admits (--max-sessions).",
		  number_of(report, "max_sessions"));
	put_alone(out, "waiting_clients", "gauge", "Clients that wait for a session.",
		  number_of(report, "waiting_count"));
	begin_metric(out, "session_memory_bytes", "gauge",
		     "Device memory of all sessions, by where it is: on GPUs, or in host memory.");
	for (size_t i = 0; i < PLACES; i++)
		put_sample(out, "session_memory_bytes", "place", places[i][0],
			   sum_of(report, places[i][1], NULL, NULL));
	begin_metric(out, "spares", "gauge", "Worker processes without a client, by state.");
	put_fields(out, "spares", "state", json_object_get(report, "spares"));
}

/* Counts of times become Prometheus's sums of all counts up to each bound. */
static void put_histogram(FILE *out, const char *name, const char *help, const json_t *latencies,
			  const char *field)
{
	const json_t *times = json_object_get(latencies, field), *bound;
	const json_t *counts = json_object_get(times, "counts");
	double sum = 0;
	size_t i;

	if (!times)
		return; /* an older server */
	begin_metric(out, name, "histogram", help);
	json_array_foreach(json_object_get(latencies, "bounds"), i, bound)
	{
		sum += json_number_value(json_array_get(counts, i));
		fprintf(out, "cricket_%s_bucket{le=\"%g\"} %.17g\n", name, json_number_value(bound),
			sum);
	}
	sum += json_number_value(json_array_get(counts, i));
	fprintf(out, "cricket_%s_bucket{le=\"+Inf\"} %.17g\n", name, sum);
	fprintf(out, "cricket_%s_sum %.17g\n", name, number_of(times, "sum"));
	fprintf(out, "cricket_%s_count %.17g\n", name, sum);
}

static void put_latencies(FILE *out, const json_t *latencies)
{
	put_histogram(out, "call_seconds", "Times of calls in the server, with what they wait for.",
		      latencies, "call");
	put_histogram(out, "round_trip_seconds",
		      "Round trips to clients over TCP, as the kernel measures them.", latencies,
		      "round_trip");
	put_histogram(out, "session_start_seconds",
		      "Times from a client's hello until its session stands.", latencies, "start");
}

static void put_totals(FILE *out, const json_t *totals)
{
	put_alone(out, "sessions_started_total", "counter", "Sessions that have begun.",
		  number_of(totals, "sessions"));
	put_alone(out, "calls_total", "counter", "Calls that were answered.",
		  number_of(totals, "calls"));
	put_alone(out, "commands_total", "counter", "One-way commands that were carried out.",
		  number_of(totals, "commands"));
	begin_metric(out, "bytes_total", "counter", "Bytes from and to clients.");
	put_sample(out, "bytes_total", "direction", "received", number_of(totals, "received"));
	put_sample(out, "bytes_total", "direction", "sent", number_of(totals, "sent"));
	put_alone(out, "suspends_total", "counter", "Sessions that have left the GPU.",
		  number_of(totals, "suspends"));
	begin_metric(out, "refused_total", "counter", "Sessions that were refused, by reason.");
	put_fields(out, "refused_total", "reason", json_object_get(totals, "refused"));
	put_latencies(out, json_object_get(totals, "latencies"));
}

/* The use of GPU @index by sessions: @field, or their number. */
static double use_of_gpu(const json_t *report, json_int_t index, const char *field)
{
	const json_t *s, *use;
	size_t i, j;
	double sum = 0;

	json_array_foreach(json_object_get(report, "sessions"), i, s)
	{
		json_array_foreach(json_object_get(s, "gpus"), j, use)
		{
			if (json_integer_value(json_object_get(use, "index")) == index)
				sum += field ? number_of(use, field) : 1;
		}
	}
	return sum;
}

static void put_gpus(FILE *out, const json_t *report)
{
	static const struct {
		const char *name, *field, *help;
		bool of_sessions;
	} rows[] = {
		{"gpu_memory_bytes", "memory", "Memory of a GPU.", false},
		{"gpu_memory_used_bytes", "used", "Memory of a GPU in use, by anyone.", false},
		{"gpu_utilization_ratio", "utilization", "Part of the time in which kernels ran.",
		 false},
		{"gpu_sessions", NULL, "Sessions that use a GPU.", true},
		{"gpu_sessions_memory_bytes", "memory", "Memory of a GPU in use by sessions.",
		 true},
	};
	const json_t *gpu;
	char index[16];
	size_t at;

	for (size_t i = 0; i < CK_ARRAY_SIZE(rows); i++) {
		begin_metric(out, rows[i].name, "gauge", rows[i].help);
		json_array_foreach(json_object_get(report, "gpus"), at, gpu)
		{
			json_int_t n = json_integer_value(json_object_get(gpu, "index"));

			snprintf(index, sizeof(index), "%d", (int)n);
			if (rows[i].of_sessions)
				put_sample(out, rows[i].name, "gpu", index,
					   use_of_gpu(report, n, rows[i].field));
			else if (json_object_get(gpu, rows[i].field))
				put_sample(out, rows[i].name, "gpu", index,
					   number_of(gpu, rows[i].field));
		}
	}
}

/* The identities of @report, as the keys of an object. */
static json_t *identities_of(const json_t *report)
{
	json_t *set = json_object();
	const json_t *s;
	size_t i;

	json_array_foreach(json_object_get(report, "sessions"), i, s)
	{
		if (json_object_size(set) < IDENTITIES)
			json_object_set_new(set, text_of(s, "identity"), json_true());
	}
	return set;
}

/* The use by identities, also in sessions that have ended. The server keeps the number of rows
 * small. */
static void put_identity_totals(FILE *out, const json_t *report)
{
	static const struct {
		const char *name, *field, *help;
	} rows[] = {
		{"identity_sessions_total", "sessions", "Sessions of an identity that have begun."},
		{"identity_gpu_seconds_total", "gpu_time", "GPU time of an identity (--gpu-time)."},
	};
	const json_t *row;
	size_t at;

	for (size_t i = 0; i < CK_ARRAY_SIZE(rows); i++) {
		begin_metric(out, rows[i].name, "counter", rows[i].help);
		json_array_foreach(json_object_get(report, "identities"), at, row)
		{
			if (at < IDENTITIES && json_object_get(row, rows[i].field))
				put_sample(out, rows[i].name, "identity", text_of(row, "identity"),
					   number_of(row, rows[i].field));
		}
	}
}

static void put_identities(FILE *out, const json_t *report)
{
	json_t *set = identities_of(report), *unused;
	const char *name;

	begin_metric(out, "identity_sessions", "gauge", "Sessions of an identity.");
	json_object_foreach(set, name, unused) put_sample(
		out, "identity_sessions", "identity", name, sum_of(report, NULL, "identity", name));
	begin_metric(out, "identity_memory_bytes", "gauge", "Memory of its sessions on GPUs.");
	json_object_foreach(set, name, unused)
		put_sample(out, "identity_memory_bytes", "identity", name,
			   sum_of(report, "memory", "identity", name));
	put_identity_totals(out, report);
	json_decref(set);
}

void ckx_metrics_print(const json_t *report, bool identities, FILE *out)
{
	const json_t *totals = json_object_get(report, "totals");

	put_alone(out, "up", "gauge", "Whether the server answers.", report != NULL);
	if (!report)
		return;
	begin_metric(out, "build_info", "gauge", "Its release and driver.");
	fputs("cricket_build_info{release=\"", out);
	put_text(out, text_of(report, "release"));
	fputs("\",driver=\"", out);
	put_text(out, text_of(report, "driver"));
	fputs("\"} 1\n", out);
	put_sessions(out, report);
	if (totals) /* root and the server's user see them */
		put_totals(out, totals);
	if (json_object_get(report, "gpus"))
		put_gpus(out, report);
	if (identities)
		put_identities(out, report);
}

int ckx_metrics(const struct ckx_command *self, int argc, char **argv)
{
	static const struct option options[] = {{"identities", no_argument, NULL, 'i'},
						{"server", required_argument, NULL, 's'},
						{NULL, 0, NULL, 0}};
	const char *server = NULL;
	struct ckx_gpus *gpus;
	bool identities = false;
	json_t *report;
	int option, fd;

	while ((option = getopt_long(argc, argv, "is:", options, NULL)) != -1) {
		if (option == '?')
			return ckx_usage(self);
		identities |= option == 'i';
		server = option == 's' ? optarg : server;
	}
	if (argc - optind > (server ? 0 : 1))
		return ckx_usage(self);
	fd = ckx_control_open(server ? server : argv[optind]);
	if (fd < 0)
		return CKX_FAILED;
	report = ckx_control_ask(fd, json_pack("{s:s}", "command", "status"));
	close(fd);
	if (!report)
		return CKX_FAILED;
	gpus = ckx_gpus_open(report);
	ckx_gpus_add(gpus, report);
	ckx_metrics_print(report, identities, stdout);
	ckx_gpus_close(gpus);
	json_decref(report);
	return CKX_OK;
}
