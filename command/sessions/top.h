/*
 * command/sessions/top.h - the state of `cricket top`, and its screen.
 */
#ifndef CK_COMMAND_SESSIONS_TOP_H
#define CK_COMMAND_SESSIONS_TOP_H

#include <stdbool.h>

#include "command/sessions/gpu.h"
#include "command/sessions/session.h"

#define CKX_TOP_ROWS 1024 /* sessions shown at most */

/* Rows are sorted by a value, the largest first. */
struct ckx_order {
	int key;
	const char *name;
	double (*value)(const struct ckx_session_row *row);
};

enum ckx_top_mode {
	CKX_TOP_LIST,
	CKX_TOP_HELP,	 /* until a key */
	CKX_TOP_FILTER,	 /* the filter is being typed */
	CKX_TOP_END,	 /* waits for y */
	CKX_TOP_SUSPEND, /* the same */
};

struct ckx_top {
	int fd;
	json_t *report, *last;			   /* NULL: none yet */
	struct ckx_gpus *gpus;			   /* NULL: not known */
	struct ckx_session_row rows[CKX_TOP_ROWS]; /* those that the filter leaves, sorted */
	size_t count;
	const struct ckx_order *order;
	enum ckx_top_mode mode;
	char filter[64];   /* empty: all rows */
	char chosen[16];   /* the session under the bar */
	char message[256]; /* about the last command */
};

/* The place of the chosen row; 0 if it has gone. */
size_t ckx_top_index(const struct ckx_top *top);

/* Draw the whole screen. */
void ckx_top_draw(const struct ckx_top *top);

#endif
