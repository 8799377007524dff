/*
 * loader/halves/mpi_lh.c - the MPI half: the machine's own MPI library, which this program is
 * linked with.
 *
 * Open MPI would install handlers for faults (signals 6, 7, 8, 11) that print where in its own
 * half they happened; the application's debugger or default action is better there.
 */
#include <dlfcn.h>
#include <stdlib.h>

#include "loader/halves/half.h"

extern const char *const lh_names[];
extern const unsigned long lh_hash;

static void *find(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}

int main(void)
{
	setenv("OMPI_MCA_opal_signal", "", 0);
	return ck_half_offer(lh_names, lh_hash, find);
}
