/*
 * managed_copies.cu - copies from the device into managed memory, while another thread launches
 * kernels: each kind of copy, whole and in rows, alone and in a graph. All bytes arrive, and those
 * beside them stay.
 */
#include <atomic>
#include <cstring>
#include <thread>

#include "check.h"

#define WIDTH 3000 /* bytes of a row, less than a page */
#define ROWS 40
#define PITCH 3072
#define SIZE (WIDTH * ROWS)
#define ROUNDS 40

__device__ unsigned char variable[SIZE];

__global__ void work(int *p)
{
	p[threadIdx.x]++;
}

/* Rows of WIDTH bytes. */
__global__ void add(unsigned char *to, size_t pitch, const unsigned char *from, size_t from_pitch, int value)
{
	for (int x = threadIdx.x; x < WIDTH; x += blockDim.x)
		to[blockIdx.x * pitch + x] = from[blockIdx.x * from_pitch + x] + value;
}

static unsigned char *from, *to; /* device, managed */
static cudaStream_t stream;
static cudaGraphExec_t whole, rows;

/* --- the copies; each is over when it returns */

static void copy_linear(unsigned char *at)
{
	CHECK(cudaMemcpy(at, from, SIZE, cudaMemcpyDeviceToHost));
}

static void copy_async(unsigned char *at)
{
	CHECK(cudaMemcpyAsync(at, from, SIZE, cudaMemcpyDeviceToHost, stream));
	CHECK(cudaStreamSynchronize(stream));
}

static void copy_by_address(unsigned char *at)
{
	CHECK(cudaMemcpyAsync(at, from, SIZE, cudaMemcpyDefault, stream));
	CHECK(cudaStreamSynchronize(stream));
}

static void copy_packed(unsigned char *at)
{
	CHECK(cudaMemcpy2D(at, WIDTH, from, WIDTH, WIDTH, ROWS, cudaMemcpyDeviceToHost));
}

static void copy_rows(unsigned char *at)
{
	CHECK(cudaMemcpy2DAsync(at, PITCH, from, WIDTH, WIDTH, ROWS, cudaMemcpyDeviceToHost, stream));
	CHECK(cudaStreamSynchronize(stream));
}

static void copy_variable(unsigned char *at)
{
	CHECK(cudaMemcpyFromSymbol(at, variable, SIZE, 0, cudaMemcpyDeviceToHost));
}

static void launch_whole(unsigned char *)
{
	CHECK(cudaGraphLaunch(whole, stream));
	CHECK(cudaStreamSynchronize(stream));
}

static void launch_rows(unsigned char *)
{
	CHECK(cudaGraphLaunch(rows, stream));
	CHECK(cudaStreamSynchronize(stream));
}

/* Kernels of the graph write the memory before it is read, and after it is written. */
static cudaGraphExec_t capture(size_t pitch)
{
	cudaGraphExec_t exec;
	cudaGraph_t graph;

	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	add<<<ROWS, WIDTH / 10, 0, stream>>>(to + 100, pitch, from, WIDTH, 0);
	CHECK(cudaMemcpy2DAsync(from, WIDTH, to + 100, pitch, WIDTH, ROWS, cudaMemcpyHostToDevice, stream));
	if (pitch == WIDTH)
		CHECK(cudaMemcpyAsync(to + 100, from, SIZE, cudaMemcpyDeviceToHost, stream));
	else
		CHECK(cudaMemcpy2DAsync(to + 100, pitch, from, WIDTH, WIDTH, ROWS, cudaMemcpyDeviceToHost, stream));
	add<<<ROWS, WIDTH / 10, 0, stream>>>(to + 100, pitch, to + 100, pitch, 1);
	CHECK(cudaStreamEndCapture(stream, &graph));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	CHECK(cudaGraphDestroy(graph));
	return exec;
}

/* --- whether they are right */

static long wrong_bytes(size_t pitch, int value, int beside)
{
	long wrong = to[99] != beside || to[100 + pitch * ROWS] != beside;

	for (size_t y = 0; y < ROWS; y++)
		for (size_t x = 0; x < pitch; x++)
			wrong += to[100 + y * pitch + x] != (x < WIDTH ? value : beside);
	return wrong;
}

static long judge(const char *name, void (*copy)(unsigned char *), size_t pitch, int more = 0)
{
	long wrong = 0;

	for (int i = 1; i <= ROUNDS; i++) {
		memset(to, 100 + i, 200 + pitch * ROWS);
		CHECK(cudaMemset(from, i, SIZE));
		CHECK(cudaMemcpyToSymbol(variable, from, SIZE, 0, cudaMemcpyDeviceToDevice));
		CHECK(cudaStreamSynchronize(0)); /* the others do not wait for it */
		copy(to + 100);
		wrong += wrong_bytes(pitch, i + more, 100 + i) != 0;
	}
	printf("%s: %ld wrong\n", name, wrong);
	return wrong;
}

int main()
{
	std::atomic<bool> over{false};
	cudaStream_t other;
	long wrong = 0;
	int *p;

	CHECK(cudaMalloc(&from, SIZE));
	CHECK(cudaMallocManaged(&to, 200 + PITCH * ROWS));
	CHECK(cudaMalloc(&p, 4096));
	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
	whole = capture(WIDTH);
	rows = capture(PITCH);
	std::thread thread([&] {
		while (!over) {
			work<<<1, 32, 0, other>>>(p);
			CHECK(cudaStreamSynchronize(other));
		}
	});
	wrong += judge("linear", copy_linear, WIDTH);
	wrong += judge("asynchronous", copy_async, WIDTH);
	wrong += judge("by address", copy_by_address, WIDTH);
	wrong += judge("packed rows", copy_packed, WIDTH);
	wrong += judge("rows", copy_rows, PITCH);
	wrong += judge("a variable", copy_variable, WIDTH);
	wrong += judge("in a graph", launch_whole, WIDTH, 1);
	wrong += judge("rows in a graph", launch_rows, PITCH, 1);
	over = true;
	thread.join();
	printf("%ld wrong\n", wrong);
	return wrong != 0;
}
