/*
 * command/sessions/top.c - `cricket top`: the sessions of a server on this host, live, with keys to
 * sort, suspend and end.
 */
#include <curses.h>
#include <getopt.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command/config/command.h"
#include "command/sessions/control.h"
#include "command/sessions/top.h"

#define ESCAPE 27

static const struct option options[] = {{"server", required_argument, NULL, 's'},
					{NULL, 0, NULL, 0}};

static double get_memory(const struct ckx_session_row *row)
{
	return row->memory;
}

static double get_calls(const struct ckx_session_row *row)
{
	return row->calls;
}

static double get_bytes(const struct ckx_session_row *row)
{
	return row->bytes;
}

static double get_share(const struct ckx_session_row *row)
{
	return row->share;
}

static double get_waits(const struct ckx_session_row *row)
{
	return row->waits;
}

static double get_age(const struct ckx_session_row *row)
{
	return row->age;
}

/* Ended by one without a name. */
static const struct ckx_order orders[] = {
	{'m', "memory", get_memory},
	{'c', "calls", get_calls},
	{'b', "data", get_bytes},
	{'a', "age", get_age},
	{'g', "share", get_share},
	{'w', "waits", get_waits},
	{0, NULL, NULL},
};

static const struct ckx_order *order_of_qsort; /* of one thread */

static int compare_rows(const void *a, const void *b)
{
	double x = order_of_qsort->value(a), y = order_of_qsort->value(b);

	return x < y   ? 1
	       : x > y ? -1
		       : strcmp(((const struct ckx_session_row *)a)->session,
				((const struct ckx_session_row *)b)->session);
}

size_t ckx_top_index(const struct ckx_top *t)
{
	for (size_t i = 0; i < t->count; i++) {
		if (strcmp(t->rows[i].session, t->chosen) == 0)
			return i;
	}
	return 0;
}

/* Make the rows again: the report, the filter or the order is new. */
static void make_rows(struct ckx_top *t)
{
	size_t all = ckx_rows(t->report, t->last, t->rows, CKX_TOP_ROWS);

	t->count = 0;
	for (size_t i = 0; i < all; i++) {
		if (ckx_session_row_has(&t->rows[i], t->filter))
			t->rows[t->count++] = t->rows[i];
	}
	order_of_qsort = t->order;
	qsort(t->rows, t->count, sizeof(t->rows[0]), compare_rows);
	snprintf(t->chosen, sizeof(t->chosen), "%s",
		 t->count ? t->rows[ckx_top_index(t)].session : "");
}

/* Ask for the next report; false: the server has gone, or the connection. */
static bool refresh_report(struct ckx_top *t)
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
	return true;
}

static void send_command(struct ckx_top *t, const char *name)
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

static void move_bar(struct ckx_top *t, int by)
{
	size_t at = ckx_top_index(t);

	if (t->count > 0 && (by < 0 ? at > 0 : at + 1 < t->count))
		at += (size_t)by;
	snprintf(t->chosen, sizeof(t->chosen), "%s", t->count ? t->rows[at].session : "");
}

/* A key of the filter that is being typed. */
static void handle_filter_key(struct ckx_top *t, int key)
{
	size_t n = strlen(t->filter);

	if (key == ESCAPE)
		t->filter[0] = '\0';
	if (key == ESCAPE || key == '\n' || key == KEY_ENTER) {
		t->mode = CKX_TOP_LIST;
	} else if (key == KEY_BACKSPACE || key == 127 || key == '\b') {
		t->filter[n > 0 ? n - 1 : 0] = '\0';
	} else if (key >= ' ' && key < 256 && n + 1 < sizeof(t->filter)) {
		t->filter[n] = (char)key;
		t->filter[n + 1] = '\0';
	}
}

/* A key of the list. */
static void handle_list_key(struct ckx_top *t, int key)
{
	for (const struct ckx_order *o = orders; o->name; o++) {
		if (o->key == key)
			t->order = o;
	}
	if (key == '?' || key == 'h')
		t->mode = CKX_TOP_HELP;
	else if (key == '/')
		t->mode = CKX_TOP_FILTER;
	else if (key == ESCAPE)
		t->filter[0] = '\0';
	else if (key == KEY_UP || key == 'k')
		move_bar(t, -1);
	else if (key == KEY_DOWN || key == 'j')
		move_bar(t, 1);
	else if ((key == 'e' || key == 's') && t->count > 0)
		t->mode = key == 'e' ? CKX_TOP_END : CKX_TOP_SUSPEND;
	else if (key == 'r' && t->count > 0)
		send_command(t, "resume");
}

/* False: quit. */
static bool handle_key(struct ckx_top *t, int key)
{
	enum ckx_top_mode mode = t->mode;

	if (mode == CKX_TOP_FILTER) {
		handle_filter_key(t, key);
		return true;
	}
	t->mode = CKX_TOP_LIST;
	if (mode == CKX_TOP_LIST) {
		t->message[0] = '\0';
		handle_list_key(t, key);
		return key != 'q';
	}
	if (mode != CKX_TOP_HELP && key == 'y')
		send_command(t, mode == CKX_TOP_END ? "end" : "suspend");
	return true;
}

/* Until a key quits, or the server has gone: false. */
static bool show_screen(struct ckx_top *t)
{
	bool there = refresh_report(t);
	int key = ERR;

	while (there) {
		make_rows(t);
		ckx_top_draw(t);
		timeout(1000);
		key = getch();
		if (key != ERR && !handle_key(t, key))
			return true;
		if (key == ERR || t->message[0])
			there = refresh_report(t);
	}
	return false;
}

/* A terminal may be one that the library of this host does not know, as over ssh. */
static int reject_terminal(void)
{
	const char *type = getenv("TERM");

	if (!isatty(1) || !isatty(0))
		return ckx_error("top needs a terminal; `cricket status --watch` does not");
	return ckx_error("this host does not know the terminal TERM=%s; `TERM=xterm cricket top` "
			 "may do, and `cricket status --watch` does",
			 type ? type : "");
}

int ckx_top(const struct ckx_command *self, int argc, char **argv)
{
	static struct ckx_top t;
	int option = getopt_long(argc, argv, "s:", options, NULL);
	const char *server = option == 's' ? optarg : argv[optind];
	SCREEN *screen;
	bool there;

	if (option == '?' || argc - optind > (option == 's' ? 0 : 1))
		return ckx_usage(self);
	t = (struct ckx_top){.fd = ckx_control_open(server), .order = &orders[1]};
	if (t.fd < 0)
		return CKX_FAILED;
	setlocale(LC_CTYPE, "");
	screen = isatty(1) && isatty(0) ? newterm(NULL, stdout, stdin) : NULL;
	if (!screen) {
		close(t.fd);
		return reject_terminal();
	}
	cbreak();
	noecho();
	keypad(stdscr, TRUE);
	set_escdelay(25); /* Escape alone is a key, too */
	curs_set(0);
	there = show_screen(&t);
	endwin();
	delscreen(screen);
	close(t.fd);
	json_decref(t.report);
	json_decref(t.last);
	ckx_gpus_close(t.gpus);
	return there ? CKX_OK : ckx_error("the server has ended");
}
