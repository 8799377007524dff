/*
 * tests/test_apps/host_functions.cu - functions of the host in streams: in order, the stream waits,
 * and one that blocks holds up nothing but its own stream.
 *
 * With an argument, how a program ends meanwhile: "pending" sleeps with a function that does not
 * return, "leave" returns from main with one under way, "exit" ends the process inside one, "lost"
 * waits for its server to go.
 */
#include <atomic>
#include <cstring>
#include <thread>
#include <unistd.h>

#include "check.h"

#define MANY 10000
#define N 1024

static std::atomic<bool> open_gate;
static std::atomic<int> counter;

__global__ void add_one(int *data)
{
	data[blockIdx.x * blockDim.x + threadIdx.x]++;
}

static void wait_at_gate(void *)
{
	while (!open_gate)
		usleep(100);
}

static void count(void *)
{
	counter++;
}

/* --- one stream: copy, function, kernel, function */

struct look {
	const int *host;
	int sum, order;
};

static void look_at(void *data)
{
	struct look *look = (struct look *)data;

	usleep(20000);
	for (int i = 0; i < N; i++)
		look->sum += look->host[i];
	look->order = ++counter;
}

static void order()
{
	struct look first = { 0 }, second = { 0 };
	int *host, *dev;

	CHECK(cudaMallocHost(&host, N * sizeof(int)));
	CHECK(cudaMalloc(&dev, N * sizeof(int)));
	CHECK(cudaMemset(dev, 0, N * sizeof(int)));
	first.host = second.host = host;
	counter = 0;
	for (struct look *l : { &first, &second }) {
		add_one<<<N / 128, 128>>>(dev);
		CHECK(cudaGetLastError());
		CHECK(cudaMemcpyAsync(host, dev, N * sizeof(int), cudaMemcpyDeviceToHost, 0));
		CHECK(cudaLaunchHostFunc(0, look_at, l));
	}
	CHECK(cudaDeviceSynchronize());
	EXPECT(first.sum == N && first.order == 1);
	EXPECT(second.sum == 2 * N && second.order == 2);
	CHECK(cudaFree(dev));
	CHECK(cudaFreeHost(host));
	printf("a function sees what was copied before it\n");
}

/* --- what a function writes is seen by a copy behind it that was enqueued before it ran */

static void fill(void *data)
{
	usleep(20000);
	for (int i = 0; i < N; i++)
		((int *)data)[i] = 7;
}

static void written_late()
{
	static int back[N];
	cudaStream_t stream;
	int *host, *dev;

	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaMallocHost(&host, N * sizeof(int)));
	CHECK(cudaMalloc(&dev, N * sizeof(int)));
	memset(host, 0, N * sizeof(int));
	CHECK(cudaLaunchHostFunc(stream, fill, host));
	CHECK(cudaMemcpyAsync(dev, host, N * sizeof(int), cudaMemcpyHostToDevice, stream));
	add_one<<<N / 128, 128, 0, stream>>>(dev);
	CHECK(cudaGetLastError());
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaMemcpy(back, dev, N * sizeof(int), cudaMemcpyDeviceToHost));
	for (int i = 0; i < N; i++)
		EXPECT(back[i] == 8);
	CHECK(cudaFree(dev));
	CHECK(cudaFreeHost(host));
	CHECK(cudaStreamDestroy(stream));
	printf("a copy behind a function sees what it wrote\n");
}

/* --- two streams; the main thread opens the gate only when the other stream is through */

static void two_streams()
{
	static int back[N];
	cudaStream_t closed, other;
	cudaEvent_t passed;
	int *dev;

	CHECK(cudaStreamCreateWithFlags(&closed, cudaStreamNonBlocking));
	CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
	CHECK(cudaEventCreate(&passed));
	CHECK(cudaMalloc(&dev, 2 * N * sizeof(int)));
	CHECK(cudaMemset(dev, 0, 2 * N * sizeof(int)));
	CHECK(cudaDeviceSynchronize());
	open_gate = false;
	counter = 0;
	CHECK(cudaLaunchHostFunc(closed, wait_at_gate, NULL));
	add_one<<<N / 128, 128, 0, closed>>>(dev);
	CHECK(cudaEventRecord(passed, closed));
	add_one<<<N / 128, 128, 0, other>>>(dev + N);
	CHECK(cudaMemcpyAsync(back, dev + N, N * sizeof(int), cudaMemcpyDeviceToHost, other));
	CHECK(cudaStreamSynchronize(other));
	EXPECT(back[0] == 1 && back[N - 1] == 1);
	EXPECT(cudaStreamQuery(closed) == cudaErrorNotReady);
	EXPECT(cudaEventQuery(passed) == cudaErrorNotReady);
	open_gate = true;
	CHECK(cudaStreamSynchronize(closed));
	CHECK(cudaEventQuery(passed));
	CHECK(cudaMemcpy(back, dev, N * sizeof(int), cudaMemcpyDeviceToHost));
	EXPECT(back[0] == 1 && back[N - 1] == 1);
	CHECK(cudaFree(dev));
	CHECK(cudaStreamDestroy(closed));
	CHECK(cudaStreamDestroy(other));
	printf("a function that blocks holds up its own stream alone\n");
}

/* --- calls of CUDA in a function; callbacks with the state of their stream */

static void call_cuda(void *data)
{
	cudaError_t *results = (cudaError_t *)data;
	void *p;

	results[0] = cudaMalloc(&p, 16);
	results[1] = cudaStreamSynchronize(0);
	results[2] = cudaLaunchHostFunc(0, count, NULL);
}

static cudaStream_t told_stream;
static cudaError_t told_status = cudaErrorUnknown;

static void callback(cudaStream_t stream, cudaError_t status, void *data)
{
	told_stream = stream;
	told_status = status;
	*(volatile int *)data = 5;
}

static void inside()
{
	cudaError_t results[3] = { cudaSuccess };
	cudaStream_t stream;
	int data = 0;

	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaLaunchHostFunc(stream, call_cuda, results));
	CHECK(cudaStreamAddCallback(stream, callback, &data, 0));
	CHECK(cudaStreamSynchronize(stream));
	for (cudaError_t result : results)
		EXPECT(result == cudaErrorNotPermitted);
	EXPECT(told_stream == stream && told_status == cudaSuccess && data == 5);
	EXPECT(cudaLaunchHostFunc(stream, NULL, NULL) == cudaErrorInvalidValue);
	EXPECT(cudaStreamAddCallback(stream, callback, NULL, 1) == cudaErrorInvalidValue);
	CHECK(cudaStreamDestroy(stream));
	cudaGetLastError();
	printf("CUDA may not be called in a function\n");
}

static void *last;
static std::atomic<int> out_of_order;

static void in_turn(void *data)
{
	if ((char *)data != (char *)last + 1)
		out_of_order++;
	last = data;
	counter++;
}

static void many()
{
	cudaStream_t stream;

	CHECK(cudaStreamCreate(&stream));
	counter = 0;
	last = NULL;
	for (size_t i = 1; i <= MANY; i++)
		CHECK(cudaLaunchHostFunc(stream, in_turn, (void *)i));
	CHECK(cudaStreamSynchronize(stream));
	EXPECT(counter == MANY && out_of_order == 0);
	CHECK(cudaStreamDestroy(stream));
	printf("%d functions, in order\n", MANY);
}

static void user_objects()
{
	cudaUserObject_t object;

	counter = 0;
	CHECK(cudaUserObjectCreate(&object, NULL, count, 2, cudaUserObjectNoDestructorSync));
	CHECK(cudaUserObjectRetain(object, 1));
	CHECK(cudaUserObjectRelease(object, 2));
	usleep(20000);
	EXPECT(counter == 0);
	CHECK(cudaUserObjectRelease(object, 1));
	for (int i = 0; i < 30000 && counter == 0; i++)
		usleep(1000);
	EXPECT(counter == 1);
	EXPECT(cudaUserObjectCreate(&object, NULL, NULL, 1, cudaUserObjectNoDestructorSync) ==
	       cudaErrorInvalidValue);
	cudaGetLastError();
	printf("an object is destroyed with its last reference\n");
}

static void leave(void *)
{
	exit(3);
}

/* The server is taken away while one function blocks and a callback waits behind it. */
static int lost()
{
	volatile int data = 0;

	CHECK(cudaStreamAddCallback(0, callback, (void *)&data, 0));
	usleep(50000);
	printf("waiting\n");
	fflush(stdout);
	for (int i = 0; i < 3000 && data == 0; i++)
		usleep(10000);
	EXPECT(data == 5 && told_status != cudaSuccess);
	printf("the callback was told of an error\n");
	return 0;
}

static int end(const char *how)
{
	CHECK(cudaFree(0));
	if (!strcmp(how, "exit")) {
		CHECK(cudaLaunchHostFunc(0, leave, NULL));
		pause();
	}
	CHECK(cudaLaunchHostFunc(0, wait_at_gate, NULL));
	if (!strcmp(how, "lost"))
		return lost();
	usleep(50000);
	printf("waiting\n");
	fflush(stdout);
	if (!strcmp(how, "pending"))
		sleep(60);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return end(argv[1]);
	order();
	written_late();
	two_streams();
	inside();
	many();
	user_objects();
	return 0;
}
