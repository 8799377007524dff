/*
 * loader/stubs/mpi.c - libmpi.so.40 for the application: handles and functions that pass to the MPI
 * half and back.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "loader/stubs/mpi.h"

const char lh_stub_half[] = "mpi";
const int lh_stub_code = 16;

/* The entries that the w collectives need; generated, in entries.S. */
int lh_PMPI_Comm_test_inter(void *comm, int *flag);
int lh_PMPI_Comm_size(void *comm, int *size);
int lh_PMPI_Comm_remote_size(void *comm, int *size);
int lh_PMPI_Topo_test(void *comm, int *status);
int lh_PMPI_Comm_rank(void *comm, int *rank);
int lh_PMPI_Cartdim_get(void *comm, int *dims);
int lh_PMPI_Graph_neighbors_count(void *comm, int rank, int *count);
int lh_PMPI_Dist_graph_neighbors_count(void *comm, int *in, int *out, int *weighted);

/* --- handles */

void *lh_in_of(void *p)
{
	return p ? lh_in(*(void **)p) : NULL;
}

/* Written only if it differs: another thread may read the same constant. */
void lh_in_place(void *p, long count)
{
	void **handles = p;

	for (long i = 0; p && i < count; i++) {
		void *in = lh_in(handles[i]);

		if (in != handles[i])
			handles[i] = in;
	}
}

void lh_out_place(void *p, long count)
{
	void **handles = p;

	for (long i = 0; p && i < count; i++) {
		void *out = lh_out(handles[i]);

		if (out != handles[i])
			handles[i] = out;
	}
}

/* --- arrays that may not be written */

void *lh_copy(void *given, long count)
{
	void **copy = NULL, **handles = given;

	for (long i = 0; given && i < count; i++) {
		void *in = lh_in(handles[i]);

		if (in == handles[i])
			continue;
		if (!copy) {
			copy = malloc((size_t)count * sizeof(*copy));
			if (!copy)
				return given;
			memcpy(copy, given, (size_t)count * sizeof(*copy));
		}
		copy[i] = in;
	}
	return copy ? (void *)copy : given;
}

void lh_copy_free(void *copy, void *given)
{
	if (copy != given)
		free(copy);
}

/*
 * Open MPI reads the array of a non-blocking call until the call is done, and does not report when.
 */
void *lh_intern(void *given, long count)
{
	struct kept {
		struct kept *next;
		long count;
		void *handles[];
	};
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct kept *all;
	void *copy = lh_copy(given, count);
	size_t size = (size_t)count * sizeof(void *);
	struct kept *k;

	if (copy == given)
		return given;
	pthread_mutex_lock(&lock);
	for (k = all; k; k = k->next)
		if (k->count == count && !memcmp(k->handles, copy, size))
			break;
	if (!k && (k = malloc(sizeof(*k) + size))) {
		k->count = count;
		memcpy(k->handles, copy, size);
		k->next = all;
		all = k;
	}
	pthread_mutex_unlock(&lock);
	free(copy);
	return k ? (void *)k->handles : given;
}

/* Of a communicator that MPI will refuse anyway nothing is asked: the wrappers pass one that the
 * application sees. */
static void *get_valid_comm(void *comm)
{
	extern char ompi_mpi_comm_null[];

	return comm == (void *)ompi_mpi_comm_null ? NULL : lh_in(comm);
}

long lh_peers(void *comm, enum lh_side side)
{
	int inter = 0, size = 0;

	(void)side;
	comm = get_valid_comm(comm);
	if (!comm || lh_PMPI_Comm_test_inter(comm, &inter))
		return 0;
	if (inter)
		lh_PMPI_Comm_remote_size(comm, &size);
	else
		lh_PMPI_Comm_size(comm, &size);
	return size;
}

/* MPI_GRAPH 2, MPI_CART 1, MPI_DIST_GRAPH 3 in Open MPI. */
long lh_neighbors(void *comm, enum lh_side side)
{
	int kind = 0, n = 0, rank = 0, in = 0, out = 0, weighted;

	comm = get_valid_comm(comm);
	if (!comm || lh_PMPI_Topo_test(comm, &kind))
		return 0;
	switch (kind) {
	case 1:
		lh_PMPI_Cartdim_get(comm, &n);
		return 2 * n;
	case 2:
		lh_PMPI_Comm_rank(comm, &rank);
		lh_PMPI_Graph_neighbors_count(comm, rank, &n);
		return n;
	case 3:
		lh_PMPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted);
		return side == LH_SOURCES ? in : out;
	}
	return 0;
}

/* --- functions of the application; user: the function */

/* The C++ bindings' function gets a fifth argument, the one that the program wrote. */
static long call_op(long in, long inout, long length, long type, long cxx, long f, void *user,
		    const long *stack)
{
	void *datatype = lh_out(*(void **)type);

	(void)f, (void)stack;
	((void (*)(long, long, long, void **, long))user)(in, inout, length, &datatype, cxx);
	return 0;
}

static long call_errhandler(long object, long error, long c, long d, long e, long f, void *user,
			    const long *stack)
{
	void *handle = lh_out(*(void **)object);

	(void)stack;
	((void (*)(void **, long, ...))user)(&handle, error, c, d, e, f);
	return 0;
}

static long call_attribute(long object, long b, long c, long d, long e, long f, void *user,
			   const long *stack)
{
	(void)stack;
	return ((int (*)(void *, long, long, long, long, long))user)(lh_out((void *)object), b, c,
								     d, e, f);
}

static long call_datarep(long buffer, long type, long c, long d, long e, long f, void *user,
			 const long *stack)
{
	(void)stack;
	return ((int (*)(long, void *, long, long, long, long))user)(buffer, lh_out((void *)type),
								     c, d, e, f);
}

void *lh_function(enum lh_kind kind, void *function)
{
	static const lh_target targets[] = {
		[LH_OP] = call_op,
		[LH_ERRHANDLER] = call_errhandler,
		[LH_ATTRIBUTE] = call_attribute,
		[LH_PLAIN] = lh_call_plain,
		[LH_DATAREP] = call_datarep,
	};

	return lh_thunk(targets[kind], function);
}
