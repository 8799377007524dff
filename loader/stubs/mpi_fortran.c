/*
 * loader/stubs/mpi_fortran.c - the routines of libmpi_mpifh.so.40, Open MPI's library for Fortran,
 * for the application. All of them come here by call_fortran.S. The modules' libraries
 * (libmpi_usempif08 and others) lie in the upper half and call the same routines.
 */
#include "loader/stubs/mpi.h"
#include "loader/stubs/stub.h"

#define ERR_OTHER 16

void lh_fortran_arguments(unsigned int index, void **arguments);

/*
 * The arguments of a routine, before it is called: in registers first, then on the stack. Lengths
 * of strings follow them, and pass as they are.
 */
__attribute__((visibility("hidden"))) void lh_fortran_arguments(unsigned int index,
								void **arguments)
{
	const struct lh_routine *r = &lh_routines[index - lh_first_routine];

	for (unsigned int i = 0; i < r->arguments; i++)
		arguments[i] = r->functions >> i & 1 ? lh_function(LH_PLAIN, arguments[i])
						     : lh_in(arguments[i]);
	/* not before any call: a program may pass the same variable twice */
	if (r->error && (!lh_half_at || !lh_half_at->table || !lh_half_at->table[index]))
		*(int *)arguments[r->error - 1] = ERR_OTHER;
}
