/*
 * server/graphs/mirror_list.h - the tables behind mirror.h, for the files that use them. Call all
 * of it with the lock held, except the functions that make and free the tables.
 */
#ifndef CK_SERVER_GRAPHS_MIRROR_LIST_H
#define CK_SERVER_GRAPHS_MIRROR_LIST_H

#include "server/graphs/mirror.h"
#include "server/session/locks.h"
#include "util/map.h"
#include "util/range.h"

#define CK_MIRROR_MAX ((size_t)1 << 36)

/* The end of a launch. */
struct ck_mark {
	CUevent event;		/* NULL: its context has ended */
	uint64_t ctx;
	unsigned int users;	/* mirrors and waiters */
	bool done;		/* known to be done */
};

struct ck_mirror {
	uint64_t id;		/* the client's, in a separate space */
	unsigned char *host;
	size_t size, room;	/* bytes of the copy, bytes of the memory */
	bool pinned;
	uint64_t ctx;		/* where it is pinned: the context's id and the driver's handle */
	CUcontext context;
	struct ck_mark *mark;	/* of the newest launch that uses it; NULL: none yet */
	unsigned int uses;	/* number of uses by owners */
	struct ck_mirror *next;	/* in the list of kept ones */
};

struct ck_use {
	struct ck_mirror *mirror;
	CUgraphNode node;	/* of an exec: its node with the copy; NULL: new */
};

/* An outermost graph, or an exec. */
struct ck_owner {
	struct ck_use *uses;
	size_t count, room;
};

struct ck_mirrors {
	struct ck_mutex lock;
	struct ck_map *by_id, *owners;	/* by mirror's id; by graph's or exec's */
	struct ck_ranges *by_address;
	struct ck_mirror *kept;	/* without owners: still pinned, or in use by a launch */
};

/* Ids of ended mirrors, with room for all that can end. */
struct ck_gone {
	uint64_t *ids;
	size_t count;
};

struct ck_mirror *ck_mirror_of(struct ck_mirrors *ms, uint64_t id);
struct ck_mirror *ck_mirror_at(struct ck_mirrors *ms, uint64_t address);
struct ck_owner *ck_owner_of(struct ck_mirrors *ms, uint64_t id, bool make);
CUresult ck_mirror_make(struct ck_request *q, uint64_t id, size_t size, struct ck_mirror **out);
void ck_mirror_drop(struct ck_mirrors *ms, struct ck_mirror *m, struct ck_gone *gone);
CUresult ck_owner_add(struct ck_owner *o, struct ck_mirror *m, CUgraphNode node);
void ck_owner_cut(struct ck_mirrors *ms, struct ck_owner *o, size_t first, struct ck_gone *gone);

/* --- mirror_memory.c: the memory of mirrors, and how long launches use it */

/* Take a kept mirror of @room bytes, whole pages, or make one. NULL: out of memory. */
struct ck_mirror *ck_kept_take(struct ck_request *q, size_t room);
/* Keep a mirror that is no longer in a table. */
void ck_kept_give(struct ck_mirrors *ms, struct ck_mirror *m);
/* Free kept mirrors of a context that ends; 0: of all contexts. */
void ck_kept_free(struct ck_mirrors *ms, uint64_t ctx);
void ck_mirror_free(struct ck_mirror *m);
/* Context @ctx ends: wait for its launches of @m, and unpin its memory. */
void ck_mirror_leave(struct ck_mirror *m, uint64_t ctx);

/* Make a mark after the current work in @stream, with one user. */
CUresult ck_mark_make(struct ck_request *q, CUstream stream, struct ck_mark **out);
void ck_mark_put(struct ck_mark *mark);
/*
 * Wait for the mark. Releases the lock meanwhile: a host function of the launch may need it. The
 * mirrors that use @mark may change.
 */
CUresult ck_mark_wait(struct ck_mirrors *ms, struct ck_mark *mark);

#endif
