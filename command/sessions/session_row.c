/*
 * command/sessions/session_row.c - see session.h.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command/sessions/session.h"
#include "util/text.h"
#include "util/util.h"

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
static const json_t *find_last_session(const json_t *last, const json_t *session)
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

/* "0,1", and the sum of their shares. */
static void fill_gpus(const json_t *s, struct ckx_session_row *row)
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

static void fill_row(const json_t *s, const json_t *last, double seconds,
		     struct ckx_session_row *row)
{
	*row = (struct ckx_session_row){.pid = (long long)number_of(s, "client_pid"),
					.memory = number_of(s, "memory") +
						  number_of(s, "host_memory"),
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

size_t ckx_rows(const json_t *report, const json_t *last, struct ckx_session_row *rows, size_t most)
{
	double seconds = number_of(report, "time") - number_of(last, "time");
	const json_t *s;
	size_t i, n = 0;

	json_array_foreach(json_object_get(report, "sessions"), i, s)
	{
		if (n < most)
			fill_row(s, last ? find_last_session(last, s) : NULL, seconds, &rows[n++]);
	}
	return n;
}

/* --- the columns */

#define CELL 320

static void session_text(const struct ckx_session_row *r, char out[CELL])
{
	snprintf(out, CELL, "%s", r->session);
}

static void program_text(const struct ckx_session_row *r, char out[CELL])
{
	snprintf(out, CELL, "%s", r->program);
}

static void state_text(const struct ckx_session_row *r, char out[CELL])
{
	snprintf(out, CELL, "%s", r->state);
}

static void gpus_text(const struct ckx_session_row *r, char out[CELL])
{
	snprintf(out, CELL, "%s", r->gpus);
}

static void share_text(const struct ckx_session_row *r, char out[CELL])
{
	if (r->share < 0)
		snprintf(out, CELL, "-");
	else
		snprintf(out, CELL, "%.0f%%", r->share * 100);
}

static void memory_text(const struct ckx_session_row *r, char out[CELL])
{
	ckx_bytes(r->memory, out);
}

static void calls_text(const struct ckx_session_row *r, char out[CELL])
{
	ckx_number(r->calls, out);
}

static void data_text(const struct ckx_session_row *r, char out[CELL])
{
	ckx_bytes(r->bytes, out);
}

static void age_text(const struct ckx_session_row *r, char out[CELL])
{
	ckx_time(r->age, out);
}

static void waits_text(const struct ckx_session_row *r, char out[CELL])
{
	ckx_number(r->waits, out);
}

static void idle_text(const struct ckx_session_row *r, char out[CELL])
{
	ckx_time(r->idle, out);
}

static void identity_text(const struct ckx_session_row *r, char out[CELL])
{
	snprintf(out, CELL, "%s", r->identity);
}

static void client_text(const struct ckx_session_row *r, char out[CELL])
{
	snprintf(out, CELL, "%s:%lld", r->host, r->pid);
}

/* The program's name gets the room that the others leave, up to PROGRAM_MOST. */
#define PROGRAM 1
#define PROGRAM_LEAST 17
#define PROGRAM_MOST 40

static const struct column {
	const char *name;
	int width; /* of its text; negative: on the left */
	int from;  /* the least width of a terminal that shows it */
	void (*text)(const struct ckx_session_row *row, char out[CELL]);
} columns[] = {
	{"SESSION", -7, 0, session_text},  {"PROGRAM", -PROGRAM_LEAST, 0, program_text},
	{"STATE", -10, 0, state_text},	   {"GPU", -4, 0, gpus_text},
	{"SHARE", 5, 0, share_text},	   {"MEMORY", 8, 0, memory_text},
	{"CALLS/S", 7, 0, calls_text},	   {"DATA/S", 8, 0, data_text},
	{"AGE", 6, 0, age_text},	   {"WAITS/S", 7, 129, waits_text},
	{"IDLE", 6, 136, idle_text},	   {"IDENTITY", -18, 99, identity_text},
	{"CLIENT", -20, 121, client_text},
};

static int width_of(size_t at, int width)
{
	int room = width, least = columns[at].width;

	if (at != PROGRAM)
		return least;
	for (size_t i = 0; i < CK_ARRAY_SIZE(columns); i++) {
		if (i != PROGRAM && columns[i].from <= width)
			room -= abs(columns[i].width) + 1;
	}
	return -ck_max(PROGRAM_LEAST, ck_min(room, PROGRAM_MOST));
}

/* Add the cell @text to a line; the last one has no blanks behind it. */
static void put_cell(FILE *out, const char *text, int width, bool first)
{
	char cut[CELL];

	ck_text_copy(cut, (size_t)ck_min(abs(width) + 1, CELL), text);
	fprintf(out, "%s%*s", first ? "" : " ", width, cut);
}

/* @row: NULL for the heads. */
static void put_line(const struct ckx_session_row *row, int width, char *line, size_t size)
{
	FILE *out = fmemopen(line, size, "w");
	char text[CELL];
	size_t n;

	line[0] = '\0';
	for (size_t i = 0; out && i < CK_ARRAY_SIZE(columns); i++) {
		if (columns[i].from > width)
			continue;
		if (row)
			columns[i].text(row, text);
		put_cell(out, row ? text : columns[i].name, width_of(i, width), i == 0);
	}
	if (out)
		fclose(out);
	line[size - 1] = '\0';
	for (n = strlen(line); n > 0 && line[n - 1] == ' '; n--)
		line[n - 1] = '\0';
}

void ckx_session_row_head(int width, char *out, size_t size)
{
	put_line(NULL, width, out, size);
}

void ckx_session_row_text(const struct ckx_session_row *row, int width, char *out, size_t size)
{
	put_line(row, width, out, size);
}

bool ckx_session_row_has(const struct ckx_session_row *row, const char *text)
{
	char client[CELL];

	client_text(row, client);
	return strcasestr(row->session, text) || strcasestr(row->program, text) ||
	       strcasestr(row->state, text) || strcasestr(row->identity, text) ||
	       strcasestr(client, text);
}

/* --- the server and its GPUs */

void ckx_head(const json_t *report, int width, char *out, size_t size)
{
	int waiting = (int)number_of(report, "waiting_count"), n;
	char waits[32] = "";

	if (waiting > 0)
		snprintf(waits, sizeof(waits), ", %d waiting", waiting);
	n = snprintf(out, size, "%s: %d of %d sessions%s%s", text_of(report, "host"),
		     (int)number_of(report, "session_count"),
		     (int)number_of(report, "max_sessions"), waits,
		     json_is_true(json_object_get(report, "all")) ? "" : ", yours listed");
	if (n + snprintf(out + n, size - (size_t)n, "; cricket-rpc-server %s, pid %d, driver %s",
			 text_of(report, "release"), (int)number_of(report, "pid"),
			 text_of(report, "driver")) >
	    width)
		out[n] = '\0';
	ck_text_plain(out, size);
}

#define BAR 20

void ckx_gpu_text(const json_t *gpu, int width, char *out, size_t size)
{
	double used = number_of(gpu, "used"), all = number_of(gpu, "memory");
	const json_t *share = json_object_get(gpu, "utilization");
	char bar[BAR + 1], name[64], texts[2][16], use[32] = "";
	int filled = all > 0 ? (int)(used / all * BAR + 0.5) : 0;

	memset(bar, ' ', BAR);
	memset(bar, '|', (size_t)ck_max(0, ck_min(filled, BAR)));
	bar[BAR] = '\0';
	if (share)
		snprintf(use, sizeof(use), "  %3.0f%% busy", json_number_value(share) * 100);
	ck_text_copy(name, (size_t)ck_max(8, ck_min(width - 42 - BAR, 30)) + 1,
		     text_of(gpu, "name"));
	snprintf(out, size, "GPU %d %s [%s] %s of %s%s", (int)number_of(gpu, "index"), name, bar,
		 ckx_bytes(used, texts[0]), ckx_bytes(all, texts[1]), use);
}
