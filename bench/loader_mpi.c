/*
 * bench/loader_mpi.c - ping-pong of two ranks: latency of 1 byte, bandwidth of 1 MiB, as the
 * medians of rounds. Prints "LATENCY-us BANDWIDTH-MB/s"; see bench/loader.sh.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define ROUNDS 31

static int order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Seconds for one way, the median. */
static double one_way(char *buffer, int bytes, int times, int rank)
{
	double took[ROUNDS];

	for (int r = 0; r < ROUNDS; r++) {
		double at;

		MPI_Barrier(MPI_COMM_WORLD);
		at = MPI_Wtime();
		for (int i = 0; i < times; i++) {
			if (rank == 0) {
				MPI_Send(buffer, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
				MPI_Recv(buffer, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD,
					 MPI_STATUS_IGNORE);
			} else if (rank == 1) {
				MPI_Recv(buffer, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD,
					 MPI_STATUS_IGNORE);
				MPI_Send(buffer, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
			}
		}
		took[r] = (MPI_Wtime() - at) / times / 2;
	}
	qsort(took, ROUNDS, sizeof(double), order);
	return took[ROUNDS / 2];
}

int main(int argc, char **argv)
{
	char *buffer = calloc(1, 1 << 20);
	double latency, large;
	int rank;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	one_way(buffer, 1, 2000, rank);
	latency = one_way(buffer, 1, 2000, rank);
	large = one_way(buffer, 1 << 20, 20, rank);
	if (rank == 0)
		printf("%.3f %.0f\n", latency * 1e6, (1 << 20) / large / 1e6);
	MPI_Finalize();
	return 0;
}
