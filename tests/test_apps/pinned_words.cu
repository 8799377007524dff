/*
 * pinned_words.cu [STEPS BUFFERS BYTES WAY] - pinned memory of which CPU and kernels use single
 * words, as a serving loop does: the CPU writes a few words, a kernel reads them and may write
 * others, and nothing is copied.
 *
 * With arguments: only such a loop, of STEPS steps. WAY is read, write (the kernel writes a word of
 * each buffer, too) or copy (to device memory, ahead of the kernel). Prints microseconds a step on
 * stderr.
 */
#include <cstring>
#include <ctime>
#include <thread>

#include "check.h"

#define MOST 16

struct inputs {
	int *p[MOST];
};

/* Adds the first 16 words of all buffers; with @last, writes that word of each buffer. */
__global__ void gather(inputs in, int count, size_t last, int *out)
{
	int sum = 0;

	for (int i = 0; i < count; i++)
		sum += in.p[i][threadIdx.x & 15];
	out[threadIdx.x] = sum;
	if (last && threadIdx.x == 0) {
		for (int i = 0; i < count; i++)
			in.p[i][last] += i + 1;
	}
}

__global__ void store(int *p, int at, int value)
{
	p[at] = value;
}

__global__ void store_byte(unsigned char *p, int at, int value)
{
	p[at] = (unsigned char)value;
}

__global__ void add_to(int *p, int at, int value)
{
	p[at] += value;
}

__global__ void copy_word(int *to, const int *from)
{
	*to = *from;
}

__global__ void fill(int *p, int n, int value)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		p[i] = value + i;
}

static double now()
{
	timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}

static int *pinned(size_t bytes)
{
	int *p;

	CHECK(cudaHostAlloc(&p, bytes, cudaHostAllocDefault));
	memset(p, 0, bytes);
	return p;
}

static int *on_device(size_t bytes)
{
	int *p;

	CHECK(cudaMalloc(&p, bytes));
	return p;
}

static void serve(int steps, int count, size_t bytes, const char *way)
{
	bool copies = strcmp(way, "copy") == 0;
	size_t last = strcmp(way, "write") == 0 ? bytes / sizeof(int) - 1 : 0;
	int *out = on_device(128), *back = pinned(128), wrong = 0;
	inputs host = {}, device = {};
	cudaStream_t s;
	double began = 0;

	CHECK(cudaStreamCreate(&s));
	for (int i = 0; i < count; i++) {
		host.p[i] = pinned(bytes);
		device.p[i] = copies ? on_device(bytes) : host.p[i];
	}
	for (int k = 0; k < steps + 20; k++) {
		int want = 0;

		if (k == 20)
			began = now();
		for (int i = 0; i < count; i++) {
			for (int j = 0; j < 16; j++)
				host.p[i][j] = k + i;
			if (copies)
				CHECK(cudaMemcpyAsync(device.p[i], host.p[i], 64, cudaMemcpyHostToDevice, s));
			want += k + i;
		}
		gather<<<1, 32, 0, s>>>(device, count, last, out);
		CHECK(cudaGetLastError());
		CHECK(cudaMemcpyAsync(back, out, 128, cudaMemcpyDeviceToHost, s));
		CHECK(cudaStreamSynchronize(s));
		wrong += back[0] != want || back[31] != want;
		for (int i = 0; last && i < count; i++)
			wrong += host.p[i][last] != (k + 1) * (i + 1);
	}
	fprintf(stderr, "%.1f us a step\n", (now() - began) / steps);
	printf("%s, %d buffers: %d wrong\n", way, count, wrong);
}

static void two_streams()
{
	int *p = pinned(4096), wrong = 0;
	cudaStream_t s[2];

	for (cudaStream_t &one : s)
		CHECK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
	for (int k = 1; k <= 50; k++) {
		for (int i = 0; i < 2; i++) /* words of one page, beside each other */
			store<<<1, 1, 0, s[i]>>>(p, i, k + i);
		for (int i = 0; i < 2; i++) {
			p[2 + i] = 10 * k + i;
			CHECK(cudaStreamSynchronize(s[i]));
			wrong += p[i] != k + i || p[2 + i] != 10 * k + i;
		}
		for (int i = 0; i < 2; i++)
			add_to<<<1, 1, 0, s[i]>>>(p, 2 + i, 1);
		CHECK(cudaDeviceSynchronize());
		wrong += p[2] != 10 * k + 1 || p[3] != 10 * k + 2;
	}
	printf("two streams: %d wrong\n", wrong);
	CHECK(cudaFreeHost(p));
}

static void one_word()
{
	unsigned char *p = (unsigned char *)pinned(4096), wrong = 0;

	for (int k = 1; k <= 50; k++) { /* bytes of one word, by both, while the kernel may run */
		store_byte<<<1, 1>>>(p, 0, k);
		p[1] = (unsigned char)(k + 1);
		CHECK(cudaDeviceSynchronize());
		wrong += p[0] != k || p[1] != k + 1;
		store_byte<<<1, 1>>>(p, 2, k + 2);
		CHECK(cudaDeviceSynchronize());
		wrong += p[0] != k || p[1] != k + 1 || p[2] != k + 2;
	}
	printf("one word: %d wrong\n", wrong);
	CHECK(cudaFreeHost(p));
}

static void again()
{
	int wrong = 0;

	for (int k = 1; k <= 30; k++) { /* often at the address of the last one */
		int *p = pinned(4096 << k % 3);

		p[7] = k;
		add_to<<<1, 1>>>(p, 7, 1);
		store<<<1, 1>>>(p, 8, k);
		CHECK(cudaDeviceSynchronize());
		wrong += p[7] != k + 1 || p[8] != k || p[9] != 0;
		CHECK(cudaFreeHost(p));
	}
	printf("allocated again: %d wrong\n", wrong);
}

static void polled()
{
	int *p = pinned(4096), wrong = 0;
	cudaStream_t s;
	cudaEvent_t e;

	CHECK(cudaStreamCreate(&s));
	CHECK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
	for (int k = 1; k <= 50; k++) {
		store<<<1, 1, 0, s>>>(p, 0, k);
		while (cudaStreamQuery(s) == cudaErrorNotReady)
			;
		wrong += p[0] != k;
		store<<<1, 1, 0, s>>>(p, 1, k);
		CHECK(cudaEventRecord(e, s));
		while (cudaEventQuery(e) == cudaErrorNotReady)
			;
		wrong += p[1] != k;
		store<<<1, 1, 0, s>>>(p, 2, k);
		CHECK(cudaEventRecord(e, s));
		CHECK(cudaEventSynchronize(e));
		wrong += p[2] != k;
	}
	printf("queries and events: %d wrong\n", wrong);
	for (int k = 1; k <= 5; k++) { /* no call says that the kernel has ended */
		store<<<1, 1, 0, s>>>(p, 3, k);
		cudaStreamQuery(s);
		while (*(volatile int *)&p[3] != k)
			;
	}
	printf("polled: %d\n", p[3]);
	CHECK(cudaFreeHost(p));
}

struct seen {
	int *p;
	int value;
};

static void look(void *argument)
{
	seen *s = (seen *)argument;

	s->value = s->p[0];
	s->p[1] = s->value + 1;
}

static void functions()
{
	seen s = { pinned(4096), 0 };
	int wrong = 0;

	for (int k = 1; k <= 20; k++) {
		store<<<1, 1>>>(s.p, 0, k);
		CHECK(cudaLaunchHostFunc(0, look, &s));
		copy_word<<<1, 1>>>(s.p + 2, s.p + 1);
		CHECK(cudaDeviceSynchronize());
		wrong += s.value != k || s.p[2] != k + 1;
	}
	printf("host functions: %d wrong\n", wrong);
	CHECK(cudaFreeHost(s.p));
}

static void with_copies()
{
	int *p = pinned(8192), *d = on_device(8192), plain[2], wrong = 0;
	cudaStream_t s;

	CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	store<<<1, 1, 0, s>>>(p, 0, -1); /* kernels use it from now on */
	CHECK(cudaStreamSynchronize(s));
	for (int k = 1; k <= 20; k++) { /* each in the order of the stream, without a wait */
		store<<<1, 1, 0, s>>>(p, 0, k);
		CHECK(cudaMemcpyAsync(d, p, 8, cudaMemcpyHostToDevice, s));
		add_to<<<1, 1, 0, s>>>(d, 0, 100);
		CHECK(cudaMemcpyAsync(p + 1000, d, 4, cudaMemcpyDeviceToHost, s));
		add_to<<<1, 1, 0, s>>>(p, 1000, 1000);
		CHECK(cudaMemsetAsync(p + 1500, k, 4, s));
		CHECK(cudaStreamSynchronize(s));
		wrong += p[0] != k || p[1000] != k + 1100 || (p[1500] & 255) != k;
		p[1] = 7 * k;
		CHECK(cudaMemcpy(d, p, 8, cudaMemcpyHostToDevice));
		CHECK(cudaMemcpy(plain, d, 8, cudaMemcpyDeviceToHost));
		wrong += plain[0] != k || plain[1] != 7 * k;
		CHECK(cudaMemcpy2D(p + 500, 8, d, 4, 4, 2, cudaMemcpyDeviceToHost));
		wrong += p[500] != k || p[502] != 7 * k;
	}
	printf("copies: %d wrong\n", wrong);
	CHECK(cudaFreeHost(p));
}

static void graph()
{
	int *p = pinned(4096), wrong = 0;
	cudaGraph_t captured;
	cudaGraphExec_t exec;
	cudaStream_t s;

	CHECK(cudaStreamCreate(&s));
	CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	add_to<<<1, 1, 0, s>>>(p, 0, 5);
	copy_word<<<1, 1, 0, s>>>(p + 1, p);
	CHECK(cudaStreamEndCapture(s, &captured));
	CHECK(cudaGraphInstantiateWithFlags(&exec, captured, 0));
	for (int k = 1; k <= 100; k++) {
		p[0] = k;
		CHECK(cudaGraphLaunch(exec, s));
		CHECK(cudaStreamSynchronize(s));
		wrong += p[0] != k + 5 || p[1] != k + 5;
	}
	printf("graph: %d wrong\n", wrong);
	CHECK(cudaFreeHost(p));
}

static void sizes()
{
	for (size_t bytes = 4096; bytes <= (8u << 20); bytes <<= 1) {
		int n = (int)(bytes / sizeof(int)), wrong = 0, *p = pinned(bytes);

		for (int k = 1; k <= 3; k++) {
			fill<<<(n + 255) / 256, 256>>>(p, n, k);
			CHECK(cudaDeviceSynchronize());
			for (int i = 0; i < n; i++)
				wrong += p[i] != k + i;
			memset(p, k, bytes / 2);
			add_to<<<1, 1>>>(p, 3, 1);
			CHECK(cudaDeviceSynchronize());
			wrong += p[3] != k * 0x01010101 + 1 || p[n - 1] != k + n - 1;
		}
		EXPECT(wrong == 0);
		CHECK(cudaFreeHost(p));
	}
	printf("sizes: all right\n");
}

/* In a thread: as the serving loop, with a stream of its own and words of its own. */
static void work(int *p, int index, int *wrong)
{
	cudaStream_t s;

	CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	for (int k = 1; k <= 100; k++) {
		p[index] = k;
		add_to<<<1, 1, 0, s>>>(p, index, 1);
		copy_word<<<1, 1, 0, s>>>(p + 16 + index, p + index);
		CHECK(cudaStreamSynchronize(s));
		*wrong += p[index] != k + 1 || p[16 + index] != k + 1;
	}
}

static void threads()
{
	int *p = pinned(4096), wrong[4] = {};
	std::thread all[4];

	for (int i = 0; i < 4; i++)
		all[i] = std::thread(work, p, i, &wrong[i]);
	for (std::thread &one : all)
		one.join();
	printf("threads: %d wrong\n", wrong[0] + wrong[1] + wrong[2] + wrong[3]);
	CHECK(cudaFreeHost(p));
}

int main(int argc, char **argv)
{
	if (argc == 5) {
		serve(atoi(argv[1]), atoi(argv[2]), strtoul(argv[3], NULL, 0), argv[4]);
		return 0;
	}
	two_streams();
	one_word();
	again();
	polled();
	functions();
	with_copies();
	graph();
	sizes();
	threads();
	return 0;
}
