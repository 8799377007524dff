/*
 * tests/loader/mpi_cxx.cc - an MPI program in C++, linked as mpicxx links, with OpenMP and
 * thread-local data: C's functions, and with Open MPI 4 the classes of the C++ bindings.
 */
#include <cstdio>
#include <mpi.h>

static thread_local char data[256];

static int threads()
{
	int count = 0;

#pragma omp parallel for num_threads(3) reduction(+ : count)
	for (int i = 0; i < 3; i++) {
		data[i] = 1;
		count += data[i];
	}
	return count;
}

#if OMPI_MAJOR_VERSION < 5
static void larger(const void *from, void *to, int count, const MPI::Datatype &type)
{
	const int *in = static_cast<const int *>(from);
	int *inout = static_cast<int *>(to);

	for (int i = 0; i < count && type == MPI::INT; i++)
		if (in[i] > inout[i])
			inout[i] = in[i];
}

static int largest(int mine)
{
	MPI::Intracomm half = MPI::COMM_WORLD.Split(mine % 2, mine);
	MPI::Op op;
	int most = -1;

	op.Init(larger, true);
	MPI::COMM_WORLD.Allreduce(&mine, &most, 1, MPI::INT, op);
	op.Free();
	half.Free();
	return most;
}

/* What the half would call in this half, or free here: refused, with a line each. */
static void refused()
{
	int key = MPI::Comm::Create_keyval(MPI::Comm::NULL_COPY_FN, MPI::Comm::NULL_DELETE_FN, NULL);

	(void)key;
}
#else
static int largest(int mine)
{
	int most = -1;

	MPI_Allreduce(&mine, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	return most;
}

static void refused()
{
}
#endif

int main(int argc, char **argv)
{
	int rank, sum, count = threads();

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	int most = largest(rank);
	if (argc > 1)
		refused();
	if (rank == 0)
		std::printf("largest %d, sum %d, %d threads\n", most, sum, count);
	MPI_Finalize();
}
