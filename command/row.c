/*
 * command/row.c - see session.h.
 */
#include <stdio.h>
#include <string.h>

#include "command/session.h"

static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text && *text ? text : "-";
}

static double number_of(const json_t *object, const char *name)
{
	return json_number_value(json_object_get(object, name));
}

/* The same session in the report before; NULL: it was not there. */
static const json_t *before(const json_t *last, const json_t *session)
{
	const json_t *s;
	size_t i;

	json_array_foreach(json_object_get(last, "sessions"), i, s)
	{
		if (strcmp(text_of(s, "session"), text_of(session, "session")) == 0)
			return s;
	}
	return NULL;
}

/* "2d03h", "3h05m", "12m07s", "45s" */
static const char *age(double seconds, char out[16])
{
	unsigned long s = (unsigned long)seconds % 100000000;

	if (s >= 86400)
		snprintf(out, 16, "%lud%02luh", s / 86400, s % 86400 / 3600);
	else if (s >= 3600)
		snprintf(out, 16, "%luh%02lum", s / 3600, s % 3600 / 60);
	else if (s >= 60)
		snprintf(out, 16, "%lum%02lus", s / 60, s % 60);
	else
		snprintf(out, 16, "%lus", s);
	return out;
}

/* "0,1", and the sum of their shares. */
static void fill_gpus(const json_t *s, struct ckx_row *row)
{
	const json_t *use, *share;
	size_t i, n = 0;

	row->share = -1;
	json_array_foreach(json_object_get(s, "gpus"), i, use)
	{
		share = json_object_get(use, "share");
		if (share)
			row->share = (row->share < 0 ? 0 : row->share) + json_number_value(share);
		if (n < sizeof(row->gpus))
			n += (size_t)snprintf(row->gpus + n, sizeof(row->gpus) - n, "%s%d",
					      i ? "," : "", (int)number_of(use, "index"));
	}
	if (n == 0)
		strcpy(row->gpus, "-");
}

static void fill(const json_t *s, const json_t *last, double seconds, struct ckx_row *row)
{
	*row = (struct ckx_row){.pid = (long long)number_of(s, "client_pid"),
				.memory = number_of(s, "memory") + number_of(s, "host_memory"),
				.age = number_of(s, "age"),
				.idle = number_of(s, "idle"),
				.calls = number_of(s, "calls") + number_of(s, "commands"),
				.waits = number_of(s, "calls"),
				.bytes = number_of(s, "received") + number_of(s, "sent")};
	snprintf(row->session, sizeof(row->session), "%s", text_of(s, "session"));
	snprintf(row->identity, sizeof(row->identity), "%s", text_of(s, "identity"));
	snprintf(row->state, sizeof(row->state), "%s", text_of(s, "state"));
	snprintf(row->program, sizeof(row->program), "%s", text_of(s, "program"));
	snprintf(row->host, sizeof(row->host), "%s", text_of(s, "host"));
	fill_gpus(s, row);
	if (last) {
		row->waits -= number_of(last, "calls");
		row->calls -= number_of(last, "calls") + number_of(last, "commands");
		row->bytes -= number_of(last, "received") + number_of(last, "sent");
	} else {
		seconds = row->age;
	}
	seconds = seconds > 0.001 ? seconds : 0.001;
	row->calls /= seconds;
	row->waits /= seconds;
	row->bytes /= seconds;
}

size_t ckx_rows(const json_t *report, const json_t *last, struct ckx_row *rows, size_t most)
{
	double seconds = number_of(report, "time") - number_of(last, "time");
	const json_t *s;
	size_t i, n = 0;

	json_array_foreach(json_object_get(report, "sessions"), i, s)
	{
		if (n < most)
			fill(s, last ? before(last, s) : NULL, seconds, &rows[n++]);
	}
	return n;
}

void ckx_row_text(const struct ckx_row *row, char *out, size_t size)
{
	char old[16], rest[16], share[16] = "-";

	if (row->share >= 0)
		snprintf(share, sizeof(share), "%.0f%%", row->share * 100);
	snprintf(out, size,
		 "%-7s %-14.14s %-10s %-5s %5s %7.0f %9.0f %9.0f %8.1f %7s %7s  %s:%lld %s",
		 row->session, row->identity, row->state, row->gpus, share, row->memory / 1048576,
		 row->calls, row->waits, row->bytes / 1e6, age(row->age, old), age(row->idle, rest),
		 row->host, row->pid, row->program);
}

void ckx_head(const json_t *report, char *out, size_t size)
{
	snprintf(out, size, "cricket-rpc-server %s, pid %d, driver %s: %d of %d sessions%s",
		 text_of(report, "release"), (int)number_of(report, "pid"),
		 text_of(report, "driver"), (int)number_of(report, "session_count"),
		 (int)number_of(report, "max_sessions"),
		 json_is_true(json_object_get(report, "all")) ? "" : "; yours:");
}
