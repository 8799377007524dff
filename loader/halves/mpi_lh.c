/*
 * loader/halves/mpi_lh.c - the MPI half: the machine's own MPI library, which this program is
 * linked with; mpi_lh.exe is Open MPI, mpich_lh.exe is MPICH.
 *
 * Open MPI would install handlers for faults (signals 6, 7, 8, 11) that print where in its own
 * half they happened; the application's debugger or default action is better there. UCX, which
 * MPICH and Open MPI 5 are linked with, has installed its own when it was loaded. Open MPI 5 would
 * also map memory of the node's daemon at an address of that one's choice, but a half maps in its
 * window only.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>

#include "loader/halves/half.h"

#define SIGNALS 32 /* without the real-time ones */

extern const char *const lh_names[];
extern const unsigned long lh_hash;

static struct sigaction inherited[SIGNALS];

/* Before any library's constructor has run. */
static void note_signals(void)
{
	for (int i = 1; i < SIGNALS; i++)
		sigaction(i, NULL, &inherited[i]);
}

__attribute__((section(".preinit_array"), used)) static void (*const first)(void) = note_signals;

static void *find_symbol(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}

int main(void)
{
	for (int i = 1; i < SIGNALS; i++)
		sigaction(i, &inherited[i], NULL);
	setenv("OMPI_MCA_opal_signal", "", 0);
	setenv("PMIX_MCA_gds", "hash", 0);
	return ck_half_offer(lh_names, lh_hash, find_symbol);
}
