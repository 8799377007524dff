/*
 * loader/stubs/mpi_cxx.c - functions that libmpi_cxx.so.40, the C++ bindings of Open MPI 4, needs
 * of libmpi beside MPI's functions. Debian's mpicxx links it into every program. It lies in the
 * upper half, because its classes are the program's; so it calls the stub.
 *
 * The names are Open MPI's. Operations written in C++ work (gen/mpi.py: CXX). Attributes with
 * functions and error handlers written in C++ would put addresses of the program into objects of
 * the MPI half: these are refused.
 */
#include <stdbool.h>
#include <stdio.h>

#include "loader/stubs/mpi.h"

#define API __attribute__((visibility("default")))
#define ERR_OTHER 16

extern char ompi_mpi_errors_return[];

int ompi_attr_create_keyval(void);
void *ompi_errhandler_create(void);
int ompi_errhandler_invoke(void *handler, void *object, int type, int error, const char *message);

/* Lists of a program's additions: error codes, and representations of data. None is here. */
API int ompi_errcode_intern_lastused;
API char ompi_errcodes_intern[256] __attribute__((aligned(32)));
API char ompi_registered_datareps[256] __attribute__((aligned(32)));

static void warn_unsupported(bool *told, const char *what)
{
	if (!__atomic_exchange_n(told, true, __ATOMIC_RELAXED))
		fprintf(stderr, "kernel-loader: mpi: %s; use the C function\n", what);
}

API int ompi_attr_create_keyval(void)
{
	static bool told;

	warn_unsupported(&told, "Create_keyval of the C++ bindings is not supported");
	return ERR_OTHER;
}

/* Its caller writes into the result, which is therefore data of this half. */
API void *ompi_errhandler_create(void)
{
	static bool told;

	warn_unsupported(
		&told,
		"Create_errhandler of the C++ bindings is not supported: errors are returned");
	return ompi_mpi_errors_return;
}

API int ompi_errhandler_invoke(void *handler, void *object, int type, int error,
			       const char *message)
{
	(void)handler, (void)object, (void)type, (void)message;
	return error;
}
