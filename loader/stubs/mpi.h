/*
 * loader/stubs/mpi.h - functions for the generated wrappers of libmpi.so.40.
 */
#ifndef CK_LOADER_STUBS_MPI_H
#define CK_LOADER_STUBS_MPI_H

#include "loader/stubs/mpi_known.h"

/* Of the handle *p, the lower half's; NULL for NULL. */
void *lh_in_of(void *p);

/* @count handles at @p, which may be NULL, in place. */
void lh_in_place(void *p, long count);
void lh_out_place(void *p, long count);

/*
 * A translated copy of an array, or the array itself where nothing differs; and its release. The
 * interned one is never freed; equal contents share one.
 */
void *lh_copy(void *given, long count);
void lh_copy_free(void *copy, void *given);
void *lh_intern(void *given, long count);

/* How many processes an array of the w collectives has an element for. */
enum lh_side { LH_SOURCES, LH_DESTINATIONS };
long lh_peers(void *comm, enum lh_side side);
long lh_neighbors(void *comm, enum lh_side side);

/* The function that the lower half calls in place of the application's @function. */
enum lh_kind { LH_OP, LH_ERRHANDLER, LH_ATTRIBUTE, LH_PLAIN, LH_DATAREP };
void *lh_function(enum lh_kind kind, void *function);

#endif
