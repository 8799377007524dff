/*
 * loader/stubs/mpich.c - libmpich.so.12 for the application: all of it is generated (gen/mpich.py),
 * and passes by mpi_known.c.
 */
#include "loader/stubs/mpi_known.h"

const char lh_stub_half[] = "mpich";
const int lh_stub_code = 15;
