/*
 * command/sessions/session.h - a server's report as lines of text: the server, its GPUs, and its
 * sessions as a table.
 *
 * The table has as many columns as fit into the width of a terminal: those that say who runs what,
 * first.
 */
#ifndef CK_COMMAND_SESSIONS_SESSION_H
#define CK_COMMAND_SESSIONS_SESSION_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define CKX_WIDTH_ALL 1000 /* not a terminal: all columns */

struct ckx_session_row {
	char session[16], identity[64], state[16], program[256], host[64];
	long long pid;
	char gpus[16];		  /* their numbers; "-": not known */
	double share;		  /* of their time, 1 for each GPU; negative: not known */
	double memory, age, idle; /* bytes, wherever they are; seconds */
	/* A second: since @last, else since the session began. Of the calls, some waited for their
	 * reply. */
	double calls, waits, bytes;
};

/* Fill in the rows of @report; @last, an earlier one, may be NULL. Returns their number, at most
 * @most. */
size_t ckx_rows(const json_t *report, const json_t *last, struct ckx_session_row *rows,
		size_t most);

/* The heads of the columns that @width has room for, and the line of a row, without newline. */
void ckx_session_row_head(int width, char *out, size_t size);
void ckx_session_row_text(const struct ckx_session_row *row, int width, char *out, size_t size);

/* Does a row contain @text, in the case of the letters or another one? */
bool ckx_session_row_has(const struct ckx_session_row *row, const char *text);

/* The line that says which server it is, and how full; with its release if @width has room. */
void ckx_head(const json_t *report, int width, char *out, size_t size);

/* The line of one of the report's GPUs, with a bar of its used memory. */
void ckx_gpu_text(const json_t *gpu, int width, char *out, size_t size);

/* units.c: the same forms as on the web page. "883 KiB", "1.5 GiB"; "3h05m", "45s"; "9999", "12.3
 * k". */
const char *ckx_bytes(double bytes, char out[16]);
const char *ckx_time(double seconds, char out[16]);
const char *ckx_number(double number, char out[16]);

/* The width of the terminal @fd; CKX_WIDTH_ALL: it is none. */
int ckx_width(int fd);

#endif
