/*
 * command/sessions/top_draw.c - the screen of `cricket top`: the server, a line for each GPU, the
 * sessions, a line of keys.
 */
#include <curses.h>

#include "command/sessions/top.h"

#define LINE 512
#define GPUS_LEAST 3 /* lines, if there are so many GPUs; a quarter of a high screen */

static const char *const help[] = {
	"up, down, k, j   choose a session",
	"m c b g w a      sort by memory, calls, data, share of the GPU, waits, age",
	"/                show only sessions that contain a text; Escape shows all",
	"s                suspend the session: its GPU memory moves into host memory",
	"r                resume it",
	"e                end it: its program's CUDA calls fail",
	"?, h             this help",
	"q                quit",
	"",
	"MEMORY is on the GPUs, or in host memory while a session is suspended.",
	"SHARE is the part of the GPUs' time in which kernels of the session ran.",
	"CALLS/S and DATA/S are of the last second. A wider terminal shows more.",
};

static void put_line(int line, const char *text)
{
	if (move(line, 0) == ERR)
		return; /* below the screen */
	clrtoeol();
	addnstr(text, COLS);
}

static void draw_help(void)
{
	for (size_t i = 0; i < sizeof(help) / sizeof(help[0]); i++)
		put_line((int)i + 2, help[i]);
	put_line(LINES - 1, "any key goes back to the sessions");
}

/* Returns the next free line. */
static int draw_gpus(const json_t *report, int at)
{
	const json_t *list = json_object_get(report, "gpus"), *gpu;
	int room = LINES / 4 > GPUS_LEAST ? LINES / 4 : GPUS_LEAST, shown = 0;
	char line[LINE];
	size_t i;

	json_array_foreach(list, i, gpu)
	{
		if (shown == room - 1 && json_array_size(list) - i > 1) {
			snprintf(line, sizeof(line), "and %zu more GPUs: `cricket status`",
				 json_array_size(list) - i);
			put_line(at + shown++, line);
			break;
		}
		ckx_gpu_text(gpu, COLS, line, sizeof(line));
		put_line(at + shown++, line);
	}
	return at + shown;
}

static void draw_rows(const struct ckx_top *t, int top)
{
	size_t at = ckx_top_index(t), room = LINES > top + 2 ? (size_t)(LINES - top - 2) : 1;
	size_t first = at >= room ? at - room + 1 : 0;
	char line[LINE];

	attron(A_BOLD);
	ckx_session_row_head(COLS, line, sizeof(line));
	put_line(top, line);
	attroff(A_BOLD);
	for (size_t i = first; i < t->count && i < first + room; i++) {
		ckx_session_row_text(&t->rows[i], COLS, line, sizeof(line));
		if (i == at)
			attron(A_REVERSE);
		put_line(top + 1 + (int)(i - first), line);
		attroff(A_REVERSE);
	}
	if (t->count == 0)
		put_line(top + 1, t->filter[0] ? "No session contains the text of the filter."
					       : "No sessions. On another host: cricket run -s "
						 "HOST -- PROGRAM");
}

static void draw_keys(const struct ckx_top *t)
{
	char line[LINE];

	if (t->mode == CKX_TOP_END || t->mode == CKX_TOP_SUSPEND)
		snprintf(line, sizeof(line), "%s %s? y or n",
			 t->mode == CKX_TOP_END ? "end" : "suspend", t->chosen);
	else if (t->mode == CKX_TOP_FILTER)
		snprintf(line, sizeof(line), "show sessions with: %s_  (Enter, Escape)", t->filter);
	else
		snprintf(line, sizeof(line), "%s%ssorted by %s%s%s  |  ? help  / filter  q quit",
			 t->message, t->message[0] ? "  |  " : "", t->order->name,
			 t->filter[0] ? ", with " : "", t->filter);
	put_line(LINES - 1, line);
}

void ckx_top_draw(const struct ckx_top *t)
{
	char line[LINE];

	erase();
	ckx_head(t->report, COLS, line, sizeof(line));
	put_line(0, line);
	if (t->mode == CKX_TOP_HELP) {
		draw_help();
	} else {
		draw_rows(t, draw_gpus(t->report, 1) + 1);
		draw_keys(t);
	}
	refresh();
}
