/*
 * mpiipc.cu - each rank passes CUDA's handles of its memory and of an event on to the next by MPI,
 * and changes the memory of the one before it: how two processes of one machine share a GPU's
 * memory.
 */
#include <mpi.h>

#include <cstdio>

#define THREADS 32

struct Handles {
	cudaIpcMemHandle_t memory;
	cudaIpcEventHandle_t event;
};

static int failed;

static void check(cudaError_t err, const char *what)
{
	if (err != cudaSuccess) {
		fprintf(stderr, "%s: %s\n", what, cudaGetErrorName(err));
		failed = 1;
	}
}

__global__ void add(int *p, int n)
{
	p[threadIdx.x] += n;
}

int main(int argc, char **argv)
{
	int rank, size, wrong = 0, all = 0, mine[THREADS], *own, *theirs = NULL;
	Handles out, in;
	cudaEvent_t event, ready;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	int next = (rank + 1) % size, before = (rank + size - 1) % size;

	check(cudaMalloc(&own, sizeof(mine)), "cudaMalloc");
	check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventInterprocess), "cudaEventCreate");
	check(cudaMemset(own, 0, sizeof(mine)), "cudaMemset");
	check(cudaEventRecord(event), "cudaEventRecord");
	check(cudaIpcGetMemHandle(&out.memory, own), "cudaIpcGetMemHandle");
	check(cudaIpcGetEventHandle(&out.event, event), "cudaIpcGetEventHandle");
	MPI_Sendrecv(&out, sizeof(out), MPI_BYTE, next, 0, &in, sizeof(in), MPI_BYTE, before, 0, MPI_COMM_WORLD,
		     MPI_STATUS_IGNORE);
	check(cudaIpcOpenMemHandle((void **)&theirs, in.memory, cudaIpcMemLazyEnablePeerAccess),
	      "cudaIpcOpenMemHandle");
	check(cudaIpcOpenEventHandle(&ready, in.event), "cudaIpcOpenEventHandle");
	if (!failed) {
		check(cudaStreamWaitEvent(0, ready), "cudaStreamWaitEvent");
		add<<<1, THREADS>>>(theirs, 100 + rank);
		check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
	}
	MPI_Barrier(MPI_COMM_WORLD);
	check(cudaMemcpy(mine, own, sizeof(mine), cudaMemcpyDeviceToHost), "cudaMemcpy");
	for (int i = 0; i < THREADS; i++)
		wrong += mine[i] != 100 + next;
	wrong += failed;
	if (!failed)
		check(cudaIpcCloseMemHandle(theirs), "cudaIpcCloseMemHandle");
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0)
		printf("mpiipc: %d ranks: %d wrong\n", size, all);
	MPI_Finalize();
	return wrong != 0;
}
