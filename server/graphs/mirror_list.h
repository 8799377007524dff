/*
 * server/graphs/mirror_list.h - the tables behind mirror.h, for the files that work on them. Everything
 * but ck_mirrors' own functions is called with its lock held.
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
	CUevent event;		/* NULL: its context has gone */
	uint64_t ctx;
	unsigned int users;	/* mirrors, and who waits */
	bool done;		/* it has been waited for, or seen */
};

struct ck_mirror {
	uint64_t id;		/* the client's, in a space of their own */
	unsigned char *host;
	size_t size, room;	/* bytes of the copy; of the memory */
	bool pinned;
	uint64_t ctx;		/* in which it is pinned: its id, and the driver's own */
	CUcontext context;
	struct ck_mark *mark;	/* of the newest launch that uses it; NULL: there was none */
	unsigned int uses;	/* by owners */
	struct ck_mirror *next;	/* of those that are kept */
};

struct ck_use {
	struct ck_mirror *mirror;
	CUgraphNode node;	/* of an exec: its own node in which the copy is; NULL: fresh */
};

/* A graph that lies in no other, or an exec. */
struct ck_owner {
	struct ck_use *uses;
	size_t count, room;
};

struct ck_mirrors {
	struct ck_mutex lock;
	struct ck_map *by_id, *owners;	/* by mirror's id; by graph's or exec's */
	struct ck_ranges *by_address;
	struct ck_mirror *kept;	/* nobody's now: pinned, or a launch may use it yet */
};

/* Ids of mirrors that have gone; room for all that can go. */
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

/* --- mirror_memory.c: the memory of mirrors, and until when launches use it */

/* A mirror of @room bytes, whole pages: one that is kept, or a new one. NULL: no memory. */
struct ck_mirror *ck_kept_take(struct ck_request *q, size_t room);
/* It is in no table any more. */
void ck_kept_give(struct ck_mirrors *ms, struct ck_mirror *m);
/* Free those that are kept in a context that goes; 0: in any. */
void ck_kept_free(struct ck_mirrors *ms, uint64_t ctx);
void ck_mirror_free(struct ck_mirror *m);
/* Context @ctx goes: wait for its launches of @m, and let go of what is pinned in it. */
void ck_mirror_leave(struct ck_mirror *m, uint64_t ctx);

/* A mark behind what is in @stream now, with one user. */
CUresult ck_mark_make(struct ck_request *q, CUstream stream, struct ck_mark **out);
void ck_mark_put(struct ck_mark *mark);
/*
 * The lock is let go meanwhile: a host function of the very launch may need it, and @mark's mirrors
 * may change.
 */
CUresult ck_mark_wait(struct ck_mirrors *ms, struct ck_mark *mark);

#endif
