/*
 * server/evacuation/marks.h - shared by the files of evacuation.h: which 2 MiB of the host pool
 * have the content of the device memory that belongs there.
 *
 * A mark is the hash of a content (server/processes/piece_hash.h). The pool has one for each of its
 * slots of 2 MiB, as long as nothing else is written there; device memory gets one before each
 * copy. A slot whose marks differ is stale.
 */
#ifndef CK_SERVER_EVACUATION_MARKS_H
#define CK_SERVER_EVACUATION_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/evacuation/piece_hasher.h"
#include "server/processes/piece_hash.h"

struct cks_marks {
	struct cks_piece_key key;
	struct cks_piece_hash *pool, *device; /* by slot */
	size_t count;
};

/* With a key of its own; NULL: out of memory. */
struct cks_marks *cks_marks_create(void);
void cks_marks_destroy(struct cks_marks *marks); /* accepts NULL */

/* Marks for @size bytes of the pool. 0 or -ENOMEM. */
int cks_marks_grow(struct cks_marks *marks, size_t size);
/* Nothing is known of the pool any more. */
void cks_marks_forget(struct cks_marks *marks);

/* The device memory that belongs to @slot has changed its mark to @hash; NULL: to none. */
void cks_marks_set_device(struct cks_marks *marks, size_t slot, const struct cks_piece_hash *hash);

/* The first stale bytes of [*@from, @end), both offsets in the pool: their size, and *@from is
 * where they begin; 0: none. */
size_t cks_marks_next(const struct cks_marks *marks, size_t *from, size_t end);

/* The stale slots from @from on, @size bytes, are about to be copied: the pool's bytes there are
 * unknown if that fails. */
void cks_marks_begin_copy(struct cks_marks *marks, size_t from, size_t size);
/* The stale slots from @from on, @size bytes, have been copied to @bytes in the pool, which has
 * whole slots. @changing: the device memory may have changed since its mark. */
void cks_marks_set_copied(struct cks_marks *marks, size_t from, size_t size, const char *bytes,
			  bool changing);

#endif
