/*
 * server/door/absent_sessions.c - see absent_sessions.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/door/absent_sessions.h"
#include "util/until.h"

struct entry {
	unsigned char session[16];
	int64_t until; /* in ms of CLOCK_MONOTONIC; 0: free; INT64_MAX: it is about to leave */
	char address[CK_ABSENT_ADDRESS];
};

struct cks_absent_sessions {
	struct entry list[CK_ABSENT_MAX];
	size_t next; /* to be overwritten */
};

struct cks_absent_sessions *cks_absent_sessions_create(void)
{
	return calloc(1, sizeof(struct cks_absent_sessions));
}

void cks_absent_sessions_destroy(struct cks_absent_sessions *away)
{
	free(away);
}

static struct entry *find_entry(const struct cks_absent_sessions *away,
				const unsigned char session[16])
{
	for (size_t i = 0; i < CK_ABSENT_MAX; i++) {
		const struct entry *e = &away->list[i];

		if (e->until > ck_now_ms() && memcmp(e->session, session, 16) == 0)
			return (struct entry *)(uintptr_t)e;
	}
	return NULL;
}

static void put_entry(struct cks_absent_sessions *away, const unsigned char session[16],
		      const char *address, int64_t until)
{
	struct entry *e = find_entry(away, session);

	if (!e) {
		e = &away->list[away->next];
		away->next = (away->next + 1) % CK_ABSENT_MAX;
	}
	memcpy(e->session, session, 16);
	e->until = until;
	snprintf(e->address, sizeof(e->address), "%s", address);
}

void cks_absent_sessions_leave(struct cks_absent_sessions *away, const unsigned char session[16])
{
	put_entry(away, session, "", INT64_MAX);
}

void cks_absent_sessions_put(struct cks_absent_sessions *away, const unsigned char session[16],
			     const char *address, uint64_t seconds)
{
	put_entry(away, session, address, ck_now_ms() + (int64_t)seconds * 1000);
}

void cks_absent_sessions_remove(struct cks_absent_sessions *away, const unsigned char session[16])
{
	struct entry *e = find_entry(away, session);

	if (e)
		e->until = 0;
}

const char *cks_absent_sessions_find(const struct cks_absent_sessions *away,
				     const unsigned char session[16], bool *leaves)
{
	const struct entry *e = find_entry(away, session);

	if (leaves)
		*leaves = e && e->until == INT64_MAX;
	return e ? e->address : NULL;
}
