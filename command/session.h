/*
 * command/session.h - a session in a server's report, as a line of a table.
 */
#ifndef CK_COMMAND_SESSION_H
#define CK_COMMAND_SESSION_H

#include <jansson.h>
#include <stddef.h>

#define CKX_ROW_HEAD                                                                               \
	"SESSION IDENTITY       STATE      GPU   SHARE     MIB   CALLS/S   WAITS/S     MB/S     "  \
	"AGE "                                                                                     \
	"   IDLE  PROGRAM"

struct ckx_row {
	char session[16], identity[64], state[16], program[256], host[64];
	long long pid;
	char gpus[16];		  /* their numbers; "-": not known */
	double share;		  /* of their time, 1 for each GPU; negative: not known */
	double memory, age, idle; /* bytes, wherever they are; seconds */
	/* A second: since @last, else since the session began. Of the calls, some waited for their reply. */
	double calls, waits, bytes;
};

/* Fill in the rows of @report; @last, an earlier one, may be NULL. Returns their number, at most @most. */
size_t ckx_rows(const json_t *report, const json_t *last, struct ckx_row *rows, size_t most);

/* The line of a row, without newline; and the line that says which server it is. */
void ckx_row_text(const struct ckx_row *row, char *out, size_t size);
void ckx_head(const json_t *report, char *out, size_t size);

#endif
