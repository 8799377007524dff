/*
 * command/trace.c - `cricket trace`: the file that CRICKET_TRACE has made, for Perfetto and chrome://tracing.
 *
 * A call is an event of the length of its wait; a one-way message is an instant. Times are those of the machine's
 * monotonic clock, so files of several processes of one machine may be one file.
 */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command/command.h"
#include "command/trace_line.h"

static json_t *text_of(const char *bytes, size_t size)
{
	json_t *string = json_stringn(bytes, size);

	return string ? string : json_string("not text");
}

static json_t *event_of(const struct ckx_trace_line *l)
{
	json_t *event =
		json_pack("{s:o, s:s, s:s, s:f, s:I, s:I, s:{s:o, s:I}}", "name",
			  text_of(l->name, strlen(l->name)), "cat", l->waits ? "wait" : "one-way",
			  "ph", l->waits ? "X" : "i", "ts", (double)l->ns / 1e3, "pid",
			  (json_int_t)l->pid, "tid", (json_int_t)l->thread, "args", "message",
			  text_of(l->text, l->text_size), "bytes", (json_int_t)l->bytes);
	json_t *args = json_object_get(event, "args");

	if (l->waits) {
		json_object_set_new(event, "dur", json_real((double)l->took / 1e3));
		json_object_set_new(args, "result", json_integer(l->error));
	} else {
		json_object_set_new(event, "s", json_string("t")); /* in its thread's row */
	}
	return event;
}

/* The number of events; -1: the file cannot be read. */
static long convert(FILE *in)
{
	struct ckx_trace_line line;
	char *bytes = NULL;
	size_t room = 0;
	long count = 0;
	ssize_t n;

	fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", stdout);
	while ((n = getline(&bytes, &room, in)) > 0) {
		json_t *event;

		n -= bytes[n - 1] == '\n';
		if (!ckx_trace_line(bytes, (size_t)n, &line))
			continue; /* stderr may have others' lines too */
		event = event_of(&line);
		fputs(count++ ? ",\n" : "\n", stdout);
		json_dumpf(event, stdout, JSON_COMPACT | JSON_REAL_PRECISION(17));
		json_decref(event);
	}
	fputs("\n]}\n", stdout);
	free(bytes);
	return ferror(in) ? -1 : count;
}

int ckx_trace(const struct ckx_command *self, int argc, char **argv)
{
	static const struct option none[] = {{NULL, 0, NULL, 0}};
	const char *path;
	long count;
	FILE *in;

	if (getopt_long(argc, argv, "", none, NULL) != -1 || argc - optind != 1)
		return ckx_usage(self);
	path = argv[optind];
	in = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
	if (!in)
		return ckx_error("%s: %s", path, strerror(errno));
	count = convert(in);
	if (in != stdin)
		fclose(in);
	if (count < 0)
		return ckx_error("%s cannot be read", path);
	if (fflush(stdout) != 0)
		return ckx_error("writing the events: %s", strerror(errno));
	if (count == 0)
		return ckx_error(
			"%s has no line of a trace: run the program with CRICKET_TRACE=FILE", path);
	return CKX_OK;
}
