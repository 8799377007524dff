/*
 * server/graphs/mirror_list.h - the tables behind mirror.h, for the files that use them. Call all
 * of it with the lock held, except the functions that make and free the tables.
 */
#ifndef CK_SERVER_GRAPHS_MIRROR_LIST_H
#define CK_SERVER_GRAPHS_MIRROR_LIST_H

#include <stdlib.h>

#include "server/graphs/mirror.h"
#include "server/session/locks.h"
#include "util/map.h"
#include "util/range.h"

#define CK_MIRROR_MAX ((size_t)1 << 36)

/* The end of a launch. */
struct cks_mark {
	CUevent event; /* NULL: its context has ended */
	uint64_t ctx;
	unsigned int users; /* mirrors and waiters */
	bool done;	    /* known to be done */
};

struct cks_mirror {
	uint64_t id; /* the client's, in a separate space */
	unsigned char *host;
	size_t size, room; /* bytes of the copy, bytes of the memory */
	bool pinned;
	uint64_t ctx; /* where it is pinned: the context's id and the driver's handle */
	CUcontext context;
	struct cks_pinned *limit; /* within which its memory counts; NULL: of a part */
	struct cks_mirror *whole; /* of whose memory it is a part; NULL: its memory is its own */
	struct cks_mark *mark;	  /* of the newest launch that uses it; NULL: none yet */
	unsigned int uses;	  /* number of uses by owners */
	struct cks_mirror *next;  /* in the list of kept ones */
};

struct cks_use {
	struct cks_mirror *mirror;
	CUgraphNode node; /* of an exec: its node with the copy; NULL: new */
};

/* An outermost graph, or an exec. */
struct cks_owner {
	struct cks_use *uses;
	size_t count, room;
};

struct cks_mirrors {
	struct ck_mutex lock;
	struct ck_map *by_id, *owners; /* by mirror's id; by graph's or exec's */
	struct ck_ranges *by_address;
	struct cks_mirror *kept; /* without owners: still pinned, or in use by a launch */
	bool refused;		 /* the newest mirror, by the limit of pinned memory */
};

/* Whose memory @m uses: marks are kept there. */
static inline struct cks_mirror *cks_mirror_memory(struct cks_mirror *m)
{
	return m->whole ? m->whole : m;
}

/* Ids of ended mirrors, with room for all that can end: two for each use. */
struct cks_gone {
	uint64_t *ids;
	size_t count;
};

static inline struct cks_gone cks_gone_of(const struct cks_owner *o)
{
	return (struct cks_gone){.ids = calloc(2 * o->count + 1, sizeof(uint64_t))};
}

struct cks_mirror *cks_mirror_of(struct cks_mirrors *ms, uint64_t id);
struct cks_mirror *cks_mirror_at(struct cks_mirrors *ms, uint64_t address);
struct cks_owner *cks_owner_of(struct cks_mirrors *ms, uint64_t id, bool make);
CUresult cks_mirror_make(struct cks_request *q, uint64_t id, size_t size, struct cks_mirror **out);
/* The same, in the memory of @whole from byte @offset on. */
CUresult cks_mirror_make_part(struct cks_mirrors *ms, uint64_t id, size_t size,
			      struct cks_mirror *whole, uint64_t offset, struct cks_mirror **out);
void cks_mirror_drop(struct cks_mirrors *ms, struct cks_mirror *m, struct cks_gone *gone);
CUresult cks_owner_add(struct cks_owner *o, struct cks_mirror *m, CUgraphNode node);
void cks_owner_cut(struct cks_mirrors *ms, struct cks_owner *o, size_t first,
		   struct cks_gone *gone);

/* --- mirror_memory.c: the memory of mirrors, and how long launches use it */

/* Take a kept mirror of @room bytes, whole pages, or make one. NULL: out of memory, or *refused. */
struct cks_mirror *cks_disconnected_take(struct cks_request *q, size_t room);
/* Free kept mirrors that no launch uses: all unpinned ones, and of pinned ones @all, or those that
 * are too many. False: there was none. Releases the lock meanwhile. */
bool cks_disconnected_trim(struct cks_mirrors *ms, bool all);
/* Keep a mirror that is no longer in a table. */
void cks_disconnected_give(struct cks_mirrors *ms, struct cks_mirror *m);
/* Free kept mirrors of a context that ends; 0: of all contexts. */
void cks_disconnected_free(struct cks_mirrors *ms, uint64_t ctx);
void cks_mirror_free(struct cks_mirror *m); /* nothing else knows it */
/* Context @ctx ends: wait for its launches of @m, and unpin its memory. True: this took a wait,
 * without the lock, which a function of a launch may need. */
bool cks_mirror_leave(struct cks_mirrors *ms, struct cks_mirror *m, uint64_t ctx);

/* Make a mark after the current work in @stream, with one user. */
CUresult cks_mark_make(struct cks_request *q, CUstream stream, struct cks_mark **out);
void cks_mark_put(struct cks_mark *mark);
/*
 * Wait for the mark. Releases the lock meanwhile: a host function of the launch may need it. The
 * mirrors that use @mark may change.
 */
CUresult cks_mark_wait(struct cks_mirrors *ms, struct cks_mark *mark);

#endif
