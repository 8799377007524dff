/*
 * command/top.c - `cricket top`: the sessions of a server on this host, live, with keys to sort, suspend and end.
 */
#include <curses.h>
#include <getopt.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command/command.h"
#include "command/control.h"
#include "command/gpu.h"
#include "command/session.h"

#define CK_LINE 512
#define CK_ROWS 1024 /* sessions shown at most */

static const struct option options[] = {{"server", required_argument, NULL, 's'},
					{NULL, 0, NULL, 0}};

struct column {
	int key;
	const char *name;
	double (*value)(const struct ckx_row *row); /* sorted by it, the largest first */
};

static double memory(const struct ckx_row *row)
{
	return row->memory;
}

static double calls(const struct ckx_row *row)
{
	return row->calls;
}

static double bytes(const struct ckx_row *row)
{
	return row->bytes;
}

static double share(const struct ckx_row *row)
{
	return row->share;
}

static double waits(const struct ckx_row *row)
{
	return row->waits;
}

static double age(const struct ckx_row *row)
{
	return row->age;
}

static const struct column columns[] = {{'m', "memory", memory}, {'c', "calls", calls},
					{'b', "bytes", bytes},	 {'a', "age", age},
					{'g', "share", share},	 {'w', "waits", waits}};

struct top {
	int fd;
	json_t *report, *last; /* NULL: none yet */
	struct ckx_gpus *gpus; /* NULL: not known */
	struct ckx_row rows[CK_ROWS];
	size_t count;
	const struct column *order;
	char chosen[16];   /* the session under the bar */
	char asked;	   /* 'e' or 's': waits for y */
	char message[256]; /* about the last command */
};

static const struct column *order_of_qsort; /* of one thread */

static int compare(const void *a, const void *b)
{
	double x = order_of_qsort->value(a), y = order_of_qsort->value(b);

	return x < y   ? 1
	       : x > y ? -1
		       : strcmp(((const struct ckx_row *)a)->session,
				((const struct ckx_row *)b)->session);
}

/* Ask for the next report; false: the server has gone, or the connection. */
static bool refresh_report(struct top *t)
{
	json_t *report = ckx_control_try(t->fd, json_pack("{s:s}", "command", "status"));

	if (!json_is_true(json_object_get(report, "ok"))) {
		json_decref(report);
		return false;
	}
	if (!t->report)
		t->gpus = ckx_gpus_open(report);
	ckx_gpus_add(t->gpus, report);
	json_decref(t->last);
	t->last = t->report;
	t->report = report;
	t->count = ckx_rows(t->report, t->last, t->rows, CK_ROWS);
	return true;
}

static size_t index_of(const struct top *t)
{
	for (size_t i = 0; i < t->count; i++) {
		if (strcmp(t->rows[i].session, t->chosen) == 0)
			return i;
	}
	return 0;
}

static void draw(struct top *t)
{
	size_t at, first, room = LINES > 4 ? (size_t)LINES - 4 : 1;
	char line[CK_LINE];

	order_of_qsort = t->order;
	qsort(t->rows, t->count, sizeof(t->rows[0]), compare);
	at = index_of(t);
	snprintf(t->chosen, sizeof(t->chosen), "%s", t->count ? t->rows[at].session : "");
	first = at >= room ? at - room + 1 : 0;
	erase();
	ckx_head(t->report, line, sizeof(line));
	mvaddnstr(0, 0, line, COLS);
	attron(A_BOLD);
	mvaddnstr(2, 0, CKX_ROW_HEAD, COLS);
	attroff(A_BOLD);
	for (size_t i = first; i < t->count && i < first + room; i++) {
		ckx_row_text(&t->rows[i], line, sizeof(line));
		if (i == at)
			attron(A_REVERSE);
		mvaddnstr(3 + (int)(i - first), 0, line, COLS);
		attroff(A_REVERSE);
	}
	if (t->asked)
		snprintf(line, sizeof(line), "%s %s? y or n", t->asked == 'e' ? "end" : "suspend",
			 t->chosen);
	else
		snprintf(line, sizeof(line),
			 "%s%ssorted by %s (m c b a g w)  up/down  s suspend  r resume  e end  q "
			 "quit",
			 t->message, t->message[0] ? "  |  " : "", t->order->name);
	mvaddnstr(LINES - 1, 0, line, COLS);
	refresh();
}

static void command(struct top *t, const char *name)
{
	json_t *reply = ckx_control_try(
		t->fd, json_pack("{s:s, s:s}", "command", name, "session", t->chosen));
	const char *error = json_string_value(json_object_get(reply, "error"));

	snprintf(t->message, sizeof(t->message), "%s %s: %s", name, t->chosen,
		 json_is_true(json_object_get(reply, "ok")) ? "done"
		 : error				    ? error
							    : "no answer");
	json_decref(reply);
}

static void move_bar(struct top *t, int by)
{
	size_t at = index_of(t);

	if (t->count > 0 && (by < 0 ? at > 0 : at + 1 < t->count))
		at += (size_t)by;
	snprintf(t->chosen, sizeof(t->chosen), "%s", t->count ? t->rows[at].session : "");
}

/* False: quit. */
static bool press(struct top *t, int key)
{
	char asked = t->asked;

	t->asked = 0;
	if (asked) {
		if (key == 'y')
			command(t, asked == 'e' ? "end" : "suspend");
		return true;
	}
	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
		if (columns[i].key == key)
			t->order = &columns[i];
	}
	if (key == KEY_UP || key == 'k')
		move_bar(t, -1);
	else if (key == KEY_DOWN || key == 'j')
		move_bar(t, 1);
	else if ((key == 'e' || key == 's') && t->count > 0)
		t->asked = (char)key;
	else if (key == 'r' && t->count > 0)
		command(t, "resume");
	return key != 'q';
}

/* Until a key quits, or the server has gone: false. */
static bool show(struct top *t)
{
	bool there = refresh_report(t);
	int key = ERR;

	while (there) {
		draw(t);
		timeout(1000);
		key = getch();
		if (key != ERR && !press(t, key))
			return true;
		if (key == ERR || t->message[0])
			there = refresh_report(t);
	}
	return false;
}

int ckx_top(const struct ckx_command *self, int argc, char **argv)
{
	static struct top t;
	int option = getopt_long(argc, argv, "s:", options, NULL);
	const char *server = option == 's' ? optarg : argv[optind];
	SCREEN *screen;
	bool there;

	if (option == '?' || argc - optind > (option == 's' ? 0 : 1))
		return ckx_usage(self);
	t = (struct top){.fd = ckx_control_open(server), .order = &columns[1]};
	if (t.fd < 0)
		return CKX_FAILED;
	setlocale(LC_CTYPE, "");
	screen = isatty(1) && isatty(0) ? newterm(NULL, stdout, stdin) : NULL;
	if (!screen) {
		close(t.fd);
		return ckx_error("top needs a terminal; `cricket status --watch` does not");
	}
	cbreak();
	noecho();
	keypad(stdscr, TRUE);
	curs_set(0);
	there = show(&t);
	endwin();
	delscreen(screen);
	close(t.fd);
	json_decref(t.report);
	json_decref(t.last);
	ckx_gpus_close(t.gpus);
	return there ? CKX_OK : ckx_error("the server has ended");
}
