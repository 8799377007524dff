/*
 * loader/stubs/mpi.h - what the generated wrappers of libmpi.so.40 call.
 */
#ifndef CK_LOADER_STUBS_MPI_H
#define CK_LOADER_STUBS_MPI_H

#include <stddef.h>
#include <stdint.h>

/* An address that both halves know, each its own: where the application sees it, and where in the
 * table the lower half's is. */
struct lh_known {
	void *here;
	unsigned int index;
};
extern const struct lh_known lh_known[];

/* A routine of Fortran, all of whose arguments are addresses; in the order of the table, from index
 * lh_first_routine on. */
struct lh_routine {
	uint8_t arguments;  /* without the lengths of strings */
	uint8_t error;	    /* the argument that gets the error code, counted from 1; 0: none */
	uint32_t functions; /* arguments that are functions, a bit each */
};
extern const struct lh_routine lh_routines[];
extern const unsigned int lh_first_routine;

/* One handle, from the application's to the lower half's and back; *p, NULL for NULL. */
void *lh_in(void *handle);
void *lh_out(void *handle);
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
