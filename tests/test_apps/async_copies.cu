/*
 * async_copies.cu - copies to pinned memory do not wait for their turn: the calls return while a
 * function of the stream holds it up, and each kind of synchronisation finds the bytes in place.
 */
#include <atomic>
#include <cstring>
#include <thread>

#include "check.h"

#define N 100000

static std::atomic<int> go;

static void wait_for_go(void *)
{
	while (!go)
		std::this_thread::yield();
}

__global__ void twice(int *p, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		p[i] *= 2;
}

static void fill(int *p, int n, int first)
{
	for (int i = 0; i < n; i++)
		p[i] = first + i;
}

static int wrong(const int *p, int n, int first, int step)
{
	int count = 0;

	for (int i = 0; i < n; i++)
		count += p[i] != (first + i) * step;
	return count;
}

/*
 * All that is enqueued later behind a function that holds the stream up has run once: a kernel is
 * loaded at its first launch, which may wait for all of the device (CUDA C++ Programming Guide,
 * "Lazy Loading"), and so for the function, which waits for us.
 */
static void load(int *device, int *host, cudaStream_t s)
{
	go = 1;
	CHECK(cudaMemsetAsync(device, 0, N * sizeof(int), s));
	CHECK(cudaMemsetAsync(device, 0, 10 * sizeof(int), s));
	CHECK(cudaLaunchHostFunc(s, wait_for_go, NULL));
	twice<<<1, 256, 0, s>>>(device, 10);
	CHECK(cudaMemcpyAsync(host, device, sizeof(int), cudaMemcpyDeviceToHost, s));
	CHECK(cudaMemcpyAsync(device, host, sizeof(int), cudaMemcpyHostToDevice, s));
	CHECK(cudaStreamSynchronize(s));
}

/* Up, a kernel, down; all enqueued while the stream is held up, and finished by @sync. */
static int round_trip(int *in, int *out, int *device, int n, cudaStream_t s, int how)
{
	cudaEvent_t done;
	int bad = 0;

	CHECK(cudaEventCreate(&done));
	go = 0;
	fill(in, n, how);
	memset(out, 0, n * sizeof(int));
	CHECK(cudaMemcpyAsync(device, in, n * sizeof(int), cudaMemcpyHostToDevice, s));
	CHECK(cudaLaunchHostFunc(s, wait_for_go, NULL));
	twice<<<(n + 255) / 256, 256, 0, s>>>(device, n);
	CHECK(cudaMemcpyAsync(out, device, n * sizeof(int), cudaMemcpyDeviceToHost, s));
	CHECK(cudaMemsetAsync(device, 0, n * sizeof(int), s));
	CHECK(cudaEventRecord(done, s));
	bad += cudaStreamQuery(s) != cudaErrorNotReady;
	go = 1;
	if (how == 0)
		CHECK(cudaStreamSynchronize(s));
	else if (how == 1)
		CHECK(cudaEventSynchronize(done));
	else if (how == 2)
		CHECK(cudaDeviceSynchronize());
	else if (how == 3)
		while (cudaEventQuery(done) == cudaErrorNotReady)
			std::this_thread::yield();
	else
		while (cudaStreamQuery(s) == cudaErrorNotReady)
			std::this_thread::yield();
	bad += wrong(out, n, how, 2);
	CHECK(cudaEventDestroy(done));
	return bad;
}

/* What a function behind the copy sees. */
struct seen {
	const int *p;
	int value;
};

static void look(void *data)
{
	struct seen *s = (struct seen *)data;

	s->value = *s->p;
}

int main()
{
	const char *names[] = { "stream", "event", "device", "event query", "stream query" };
	int *in, *out, *device, *other, small = 7, from = 0;
	struct seen seen;
	cudaStream_t s, t;

	CHECK(cudaMallocHost(&in, N * sizeof(int)));
	CHECK(cudaMallocHost(&out, N * sizeof(int)));
	CHECK(cudaMalloc(&device, N * sizeof(int)));
	CHECK(cudaMalloc(&other, 64));
	CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	CHECK(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
	load(device, out, s);
	load(device, out, t);
	for (int how = 0; how < 5; how++)
		printf("%s: %d wrong, small %d wrong\n", names[how],
		       round_trip(in, out, device, N, s, how),
		       round_trip(in, out, device, 10, s, how));

	/* a stream that is held up holds up no other, and no synchronous copy */
	go = 0;
	out[0] = out[1] = 0;
	CHECK(cudaMemcpy(other, &small, sizeof(small), cudaMemcpyHostToDevice));
	CHECK(cudaStreamSynchronize(0)); /* it may have returned before, and t waits for none */
	CHECK(cudaLaunchHostFunc(s, wait_for_go, NULL));
	CHECK(cudaMemcpyAsync(out, other, sizeof(int), cudaMemcpyDeviceToHost, s));
	CHECK(cudaMemcpyAsync(out + 1, other, sizeof(int), cudaMemcpyDeviceToHost, t));
	CHECK(cudaStreamSynchronize(t));
	printf("other stream: %d %d\n", out[0], out[1]);
	CHECK(cudaMemcpyAsync(&from, other, sizeof(int), cudaMemcpyDeviceToHost, t));
	CHECK(cudaStreamSynchronize(t));
	go = 1;
	CHECK(cudaStreamSynchronize(s));
	printf("both: %d %d, to pageable memory: %d\n", out[0], out[1], from);

	/* a function finds what a copy before it has brought */
	seen.p = out + 2;
	out[2] = 0;
	CHECK(cudaMemcpyAsync(out + 2, other, sizeof(int), cudaMemcpyDeviceToHost, s));
	CHECK(cudaLaunchHostFunc(s, look, &seen));
	CHECK(cudaStreamSynchronize(s));
	printf("function: %d\n", seen.value);

	/* what a copy brings is what the next one, in the same stream, takes away */
	int back[2] = { 0, 0 };
	small = 8;
	CHECK(cudaMemcpy(other, &small, sizeof(small), cudaMemcpyHostToDevice));
	CHECK(cudaMemcpyAsync(out, other, sizeof(int), cudaMemcpyDeviceToHost, 0));
	CHECK(cudaMemcpyAsync(other + 1, out, sizeof(int), cudaMemcpyHostToDevice, 0));
	CHECK(cudaMemcpyAsync(out + 1, other + 1, sizeof(int), cudaMemcpyDeviceToHost, 0));
	CHECK(cudaMemcpy2D(other, 4, out + 1, 4, 4, 1, cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(back, other, sizeof(back), cudaMemcpyDeviceToHost));
	printf("there and back: %d %d\n", back[0], back[1]);

	/* memory that is freed is waited for */
	CHECK(cudaMemcpyAsync(out, device, N * sizeof(int), cudaMemcpyDeviceToHost, s));
	CHECK(cudaFreeHost(out));
	CHECK(cudaFreeHost(in));
	CHECK(cudaMallocHost(&out, N * sizeof(int)));
	fill(out, N, 1);
	CHECK(cudaMemcpyAsync(device, out, N * sizeof(int), cudaMemcpyHostToDevice, s));
	twice<<<(N + 255) / 256, 256, 0, s>>>(device, N);
	CHECK(cudaMemcpyAsync(out, device, N * sizeof(int), cudaMemcpyDeviceToHost, s));
	CHECK(cudaStreamSynchronize(s));
	printf("anew: %d wrong\n", wrong(out, N, 1, 2));
	CHECK(cudaFreeHost(out));
	return 0;
}
