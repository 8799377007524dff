/*
 * tests/loader/jacobi.cu - an ordinary program of MPI and CUDA: heat on a plate, its rows spread
 * over the ranks. Each rank's part is on its GPU; the rows at the borders go by MPI. Rank 0 then
 * does all of it again on the CPU and compares, bit by bit.
 *
 *	jacobi [ROWS [COLUMNS [STEPS]]]
 */
#include <cuda_runtime.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call)                                                                        \
	do {                                                                               \
		cudaError_t err_ = (call);                                                 \
		if (err_ != cudaSuccess) {                                                 \
			fprintf(stderr, "jacobi: %s: %s\n", #call, cudaGetErrorName(err_)); \
			MPI_Abort(MPI_COMM_WORLD, 1);                                      \
		}                                                                          \
	} while (0)

__host__ __device__ static double mean(double up, double down, double left, double right)
{
	return 0.25 * ((up + down) + (left + right));
}

/* Rows 1 to @rows of @in, with a row of the neighbours above and below. */
__global__ void step(const double *in, double *out, int rows, int columns)
{
	int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y + 1;
	size_t at = (size_t)r * columns + c;

	if (c >= columns || r > rows)
		return;
	if (c == 0 || c == columns - 1)
		out[at] = in[at];
	else
		out[at] = mean(in[at - columns], in[at + columns], in[at - 1], in[at + 1]);
}

static double start(int row, int column, int columns)
{
	return row == 0 ? 100.0 : (row * 31 + column * 17) % columns;
}

static void reference(double *grid, int rows, int columns, int steps)
{
	size_t bytes = (size_t)(rows + 2) * columns * sizeof(double);
	double *next = (double *)malloc(bytes);

	memcpy(next, grid, bytes);
	for (int s = 0; s < steps; s++) {
		for (int r = 1; r <= rows; r++)
			for (int c = 1; c < columns - 1; c++) {
				size_t at = (size_t)r * columns + c;

				next[at] = mean(grid[at - columns], grid[at + columns], grid[at - 1],
						grid[at + 1]);
			}
		memcpy(grid, next, bytes);
	}
	free(next);
}

/* The border rows, through the host: ours out, the neighbours' in. */
static void exchange(double *device, double *host, int rows, int columns, int above, int below)
{
	size_t row = columns * sizeof(double);

	CHECK(cudaMemcpy(host, device + columns, row, cudaMemcpyDeviceToHost));
	CHECK(cudaMemcpy(host + columns, device + (size_t)rows * columns, row, cudaMemcpyDeviceToHost));
	MPI_Sendrecv(host, columns, MPI_DOUBLE, above, 0, host + 2 * columns, columns, MPI_DOUBLE, below,
		     0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Sendrecv(host + columns, columns, MPI_DOUBLE, below, 1, host + 3 * columns, columns,
		     MPI_DOUBLE, above, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	if (below != MPI_PROC_NULL)
		CHECK(cudaMemcpy(device + (size_t)(rows + 1) * columns, host + 2 * columns, row,
				 cudaMemcpyHostToDevice));
	if (above != MPI_PROC_NULL)
		CHECK(cudaMemcpy(device, host + 3 * columns, row, cudaMemcpyHostToDevice));
}

int main(int argc, char **argv)
{
	int rows = argc > 1 ? atoi(argv[1]) : 64, columns = argc > 2 ? atoi(argv[2]) : 64;
	int steps = argc > 3 ? atoi(argv[3]) : 40, rank, size;
	double *grid = NULL, *part, *host, *a, *b;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	int mine = rows / size, above = rank ? rank - 1 : MPI_PROC_NULL;
	int below = rank + 1 < size ? rank + 1 : MPI_PROC_NULL;
	size_t bytes = (size_t)(mine + 2) * columns * sizeof(double);

	rows = mine * size;
	part = (double *)malloc(bytes);
	host = (double *)malloc(4 * columns * sizeof(double));
	for (int r = 0; r < mine + 2; r++)
		for (int c = 0; c < columns; c++)
			part[(size_t)r * columns + c] = start(rank * mine + r, c, columns);
	CHECK(cudaMalloc((void **)&a, bytes));
	CHECK(cudaMalloc((void **)&b, bytes));
	CHECK(cudaMemcpy(a, part, bytes, cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(b, part, bytes, cudaMemcpyHostToDevice));
	for (int s = 0; s < steps; s++) {
		step<<<dim3((columns + 63) / 64, mine), 64>>>(a, b, mine, columns);
		CHECK(cudaGetLastError());
		exchange(b, host, mine, columns, above, below);
		double *swap = a;

		a = b;
		b = swap;
	}
	CHECK(cudaMemcpy(part, a, bytes, cudaMemcpyDeviceToHost));
	if (!rank)
		grid = (double *)malloc((size_t)(rows + 2) * columns * sizeof(double));
	MPI_Gather(part + columns, mine * columns, MPI_DOUBLE, grid ? grid + columns : NULL, mine * columns,
		   MPI_DOUBLE, 0, MPI_COMM_WORLD);
	int wrong = 0;

	if (!rank) {
		double *whole = (double *)malloc((size_t)(rows + 2) * columns * sizeof(double)), sum = 0;

		for (int r = 0; r < rows + 2; r++)
			for (int c = 0; c < columns; c++)
				whole[(size_t)r * columns + c] = start(r, c, columns);
		reference(whole, rows, columns, steps);
		for (size_t i = columns; i < (size_t)(rows + 1) * columns; i++) {
			wrong += grid[i] != whole[i];
			sum += grid[i];
		}
		printf("jacobi: %d ranks, %d x %d, %d steps: %d cells differ from the CPU's, mean %.6f\n", size,
		       rows, columns, steps, wrong, sum / ((double)rows * columns));
	}
	CHECK(cudaFree(a));
	CHECK(cudaFree(b));
	MPI_Bcast(&wrong, 1, MPI_INT, 0, MPI_COMM_WORLD);
	MPI_Finalize();
	return wrong != 0;
}
