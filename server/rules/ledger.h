/*
 * server/rules/ledger.h - each identity's use since the server's program began.
 */
#ifndef CK_SERVER_RULES_LEDGER_H
#define CK_SERVER_RULES_LEDGER_H

#include <stddef.h>
#include <stdint.h>

#include "server/session/identity.h"

#define CK_LEDGER_MOST 1000 /* identities; the rest share the last row, "others" */

struct cks_ledger_row {
	char name[sizeof(((struct cks_identity *)0)->name)];
	uint64_t sessions, gpu_us;
};

/* All 0: empty. */
struct cks_ledger {
	struct cks_ledger_row *rows;
	size_t count, room;
};

/* The row of the identity of that name; NULL: out of memory. Valid until the next call. */
struct cks_ledger_row *cks_ledger_row(struct cks_ledger *ledger, const char *name);
void cks_ledger_free(struct cks_ledger *ledger);

#endif
