/*
 * command/trace/trace.c - `cricket trace`: the file that CRICKET_TRACE has made, for Perfetto and
 * chrome://tracing.
 *
 * A call is an event of the length of its wait; a one-way message is an instant. Times are those of
 * the machine's monotonic clock, so files of several processes of one machine may be one file.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command/config/command.h"
#include "command/trace/trace_line.h"
#include "util/timeline.h"

static void add_event(struct ck_timeline *t, const struct ckx_trace_line *l)
{
	const struct ck_timeline_place place = {l->ns, l->pid, l->thread};

	ck_timeline_begin(t, l->waits ? 'X' : 'i', l->name, l->waits ? "wait" : "one-way", &place);
	if (l->waits)
		ck_timeline_us(t, "dur", l->took);
	else
		ck_timeline_text(t, "s", "t", 1); /* in its thread's row */
	ck_timeline_args(t);
	ck_timeline_text(t, "message", l->text, l->text_size);
	ck_timeline_number(t, "bytes", (int64_t)l->bytes);
	if (l->waits)
		ck_timeline_number(t, "result", l->error);
	ck_timeline_end(t);
}

/* The number of events; -errno: the file cannot be read. */
static long convert_trace(FILE *in)
{
	struct ck_timeline timeline = {.bytes = NULL};
	struct ckx_trace_line line;
	char *bytes = NULL;
	size_t room = 0;
	long count, error;
	ssize_t n;

	fputs(CK_TIMELINE_HEAD, stdout);
	while ((n = getline(&bytes, &room, in)) > 0) {
		n -= bytes[n - 1] == '\n';
		if (!ckx_trace_line(bytes, (size_t)n, &line))
			continue; /* stderr may have others' lines too */
		add_event(&timeline, &line);
		fwrite(timeline.bytes, 1, timeline.size, stdout);
		ck_timeline_clear(&timeline);
	}
	error = ferror(in) ? -errno : 0;
	fputs(CK_TIMELINE_TAIL, stdout);
	count = error ? error : (long)timeline.events;
	ck_timeline_free(&timeline);
	free(bytes);
	return count;
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
	count = convert_trace(in);
	if (in != stdin)
		fclose(in);
	if (count < 0)
		return ckx_error("%s: %s", path, strerror((int)-count));
	if (count == 0)
		return ckx_error("%s contains no trace: run the program with CRICKET_TRACE=FILE",
				 path);
	return CKX_OK;
}
