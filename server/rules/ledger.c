/*
 * server/rules/ledger.c - see ledger.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/rules/ledger.h"

static struct cks_ledger_row *find_row(struct cks_ledger *l, const char *name)
{
	for (size_t i = 0; i < l->count; i++) {
		if (strcmp(l->rows[i].name, name) == 0)
			return &l->rows[i];
	}
	return NULL;
}

struct cks_ledger_row *cks_ledger_row(struct cks_ledger *l, const char *name)
{
	struct cks_ledger_row *row = find_row(l, name), *rows;

	if (row)
		return row;
	if (l->count == CK_LEDGER_MOST)
		return &l->rows[CK_LEDGER_MOST - 1];
	if (l->count == l->room) {
		rows = realloc(l->rows, (l->room + 16) * sizeof(*rows));
		if (!rows)
			return NULL;
		l->rows = rows;
		l->room += 16;
	}
	row = &l->rows[l->count++];
	*row = (struct cks_ledger_row){.sessions = 0};
	snprintf(row->name, sizeof(row->name), "%s", l->count == CK_LEDGER_MOST ? "others" : name);
	return row;
}

void cks_ledger_free(struct cks_ledger *l)
{
	free(l->rows);
	*l = (struct cks_ledger){.rows = NULL};
}
