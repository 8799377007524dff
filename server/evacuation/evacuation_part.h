/*
 * server/evacuation/evacuation_part.h - shared by the files of evacuation.h.
 */
#ifndef CK_SERVER_EVACUATION_EVACUATION_PART_H
#define CK_SERVER_EVACUATION_EVACUATION_PART_H

#include <stdatomic.h>
#include <stdbool.h>

#include "server/evacuation/evacuation.h"
#include "server/evacuation/host_pool.h"
#include "server/evacuation/marks.h"
#include "server/evacuation/piece_hasher.h"
#include "server/evacuation/pieces.h"
#include "server/processes/pool_table.h"

/* Where a piece of memory had its place in the pool the last time. */
struct cks_pool_place {
	CUdeviceptr at;
	size_t size, offset;
};

struct cks_evacuation {
	struct cks_host_pool *pool;
	struct cks_evacuated *list; /* by address */
	size_t count;
	size_t extent;	       /* bytes of the pool in which they lie */
	_Atomic uint64_t away; /* bytes of the list */
	/* for sessions that are saved again and again: */
	struct cks_marks *marks; /* NULL before the first time */
	struct cks_piece_hasher *hasher;
	struct cks_pool_place *places; /* by address */
	size_t place_count;
	bool marked;   /* this way off the GPU copies stale slots only */
	size_t copied; /* bytes of them */
	struct cks_pool_saved saved;
};

/* Does the driver have the functions for a way off the GPU, and is no memory away yet? */
bool cks_evacuation_possible(const struct cks_evacuation *evacuation);
void cks_evacuation_forget_list(struct cks_evacuation *evacuation);

/* --- copies.c */

/* A context of @device; false: the session has none. */
bool cks_evacuation_context(struct cks_session *session, CUdevice device, uint64_t *id,
			    CUcontext *context);
/* Copy the pieces of the list from number @first on to those before *@end, and wait for that; *@end
 * is lowered to the first that failed. With marks, @first is 0. @changing: the program runs
 * meanwhile. */
CUresult cks_evacuation_copy(struct cks_session *session, bool out, bool changing, size_t first,
			     size_t *end);

/* --- changes.c */

/* Give each piece of the list its place in the pool, where it was before if possible: within @room
 * bytes. Pieces without room leave the list. */
void cks_evacuation_place(struct cks_evacuation *evacuation, uint64_t room, bool saves);
/* Before copies of a session that is saved, in a context that is current: its pool is in a file,
 * and has marks. Sets @evacuation->marked. */
void cks_evacuation_mark(struct cks_evacuation *evacuation, bool saves);
/* Hash the pieces of @device, in @stream of the current context: which slots are stale? */
void cks_evacuation_compare(struct cks_evacuation *evacuation, CUdevice device, CUstream stream);
/* The stale slots of the first @count pieces of @device have been copied. */
void cks_evacuation_note_copied(struct cks_evacuation *evacuation, CUdevice device, size_t count,
				bool changing);

#endif
