/*
 * server/door/away.c - see away.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/door/away.h"
#include "util/until.h"

struct entry {
	unsigned char session[16];
	int64_t until; /* in ms of CLOCK_MONOTONIC; 0: free */
	char address[CK_AWAY_ADDRESS];
};

struct cks_away {
	struct entry list[CK_AWAY_MAX];
	size_t next; /* to be overwritten */
};

struct cks_away *cks_away_create(void)
{
	return calloc(1, sizeof(struct cks_away));
}

void cks_away_destroy(struct cks_away *away)
{
	free(away);
}

static struct entry *find_entry(const struct cks_away *away, const unsigned char session[16])
{
	for (size_t i = 0; i < CK_AWAY_MAX; i++) {
		const struct entry *e = &away->list[i];

		if (e->until > ck_now_ms() && memcmp(e->session, session, 16) == 0)
			return (struct entry *)(uintptr_t)e;
	}
	return NULL;
}

void cks_away_put(struct cks_away *away, const unsigned char session[16], const char *address,
		  uint64_t seconds)
{
	struct entry *e = find_entry(away, session);

	if (!e) {
		e = &away->list[away->next];
		away->next = (away->next + 1) % CK_AWAY_MAX;
	}
	memcpy(e->session, session, 16);
	e->until = ck_now_ms() + (int64_t)seconds * 1000;
	snprintf(e->address, sizeof(e->address), "%s", address);
}

void cks_away_remove(struct cks_away *away, const unsigned char session[16])
{
	struct entry *e = find_entry(away, session);

	if (e)
		e->until = 0;
}

const char *cks_away_find(const struct cks_away *away, const unsigned char session[16])
{
	const struct entry *e = find_entry(away, session);

	return e ? e->address : NULL;
}
