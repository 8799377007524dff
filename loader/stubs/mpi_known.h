/*
 * loader/stubs/mpi_known.h - shared by the stubs of Open MPI and of MPICH: addresses that both
 * halves know, and functions whose arguments need no more than these.
 */
#ifndef CK_LOADER_STUBS_MPI_KNOWN_H
#define CK_LOADER_STUBS_MPI_KNOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/stubs/stub.h"

/* An address that both halves know, each its own: where the application sees it, and where in the
 * table the lower half's is. */
struct lh_known {
	void *here;
	unsigned int index;
	bool pointed; /* the lower half has it in a variable, and that is in the table */
};
extern const struct lh_known lh_known[];

/* From the application's to the lower half's and back; others are returned as they are. */
void *lh_in(void *address);
void *lh_out(void *address);

/*
 * The function that the lower half calls in place of the application's @function: it runs
 * target(..., function). One that is known to both halves, or NULL, is returned as it is.
 */
void *lh_thunk(lh_target target, void *function);

/* Calls @user with all arguments as they are. */
long lh_call_plain(long a, long b, long c, long d, long e, long f, void *user, const long *stack);

/*
 * A function called by call_routine.S: each argument is a number, a function, or an address that
 * may be known. Generated, in the order of the table, from index lh_first_routine on.
 */
struct lh_routine {
	uint8_t arguments;  /* to be looked at */
	uint8_t error;	    /* the one that gets the error code, counted from 1; 0: none */
	uint32_t functions; /* those that are functions, a bit each */
};
extern const struct lh_routine lh_routines[];
extern const unsigned int lh_first_routine;

/* The library's MPI_ERR_OTHER, for calls that cannot be made; the stub's own. */
extern const int lh_stub_code;

#endif
