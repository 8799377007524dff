/*
 * managed_hints.cu - managed memory that is attached to one stream or to the host, and then used in
 * others. The GPUs of today do not need the promise, and compute the right values; so must
 * everybody.
 */
#include <atomic>
#include <pthread.h>
#include <unistd.h>

#include "check.h"

#define N 16384 /* ints: 16 pages of 4 KiB */

static int *memory, *device, *flag;
static cudaStream_t own, blocking, other;
static int wrong;

__global__ void twice(int *p)
{
	for (int i = threadIdx.x; i < N; i += blockDim.x)
		p[i] *= 2;
}

/* Changes one word as soon as it may. */
__global__ void change(volatile int *go, int *p)
{
	while (*go == 0)
		;
	p[N - 1] = 77;
}

__global__ void spin(volatile int *go)
{
	while (*go == 0)
		;
}

__global__ void through(int **where)
{
	for (int i = threadIdx.x; i < N; i += blockDim.x)
		(*where)[i] *= 2;
}

/* Kernels that look at the flag wait. */
static void hold()
{
	CHECK(cudaMemset(flag, 0, sizeof(*flag)));
	CHECK(cudaStreamSynchronize(NULL));
}

static void release()
{
	int one = 1;

	CHECK(cudaMemcpyAsync(flag, &one, sizeof(one), cudaMemcpyHostToDevice, own));
	CHECK(cudaStreamSynchronize(own));
	CHECK(cudaStreamSynchronize(other));
}

static void begin()
{
	for (int i = 0; i < N; i++)
		memory[i] = i + 1;
}

static void judge(const char *what, int times)
{
	int bad = 0;

	for (int i = 0; i < N; i++)
		bad += memory[i] != times * (i + 1);
	if (bad)
		printf("%s: %d of %d wrong\n", what, bad, N);
	wrong += bad;
}

static void kernels()
{
	cudaStream_t streams[] = {own, NULL, blocking, other, cudaStreamPerThread};
	cudaEvent_t event;
	int word;

	CHECK(cudaEventCreate(&event));
	for (cudaStream_t s : streams) {
		begin();
		twice<<<1, 256, 0, s>>>(memory);
		CHECK(cudaStreamSynchronize(s));
		judge("cudaStreamSynchronize", 2);
		twice<<<1, 256, 0, s>>>(memory);
		CHECK(cudaEventRecord(event, s));
		CHECK(cudaEventSynchronize(event));
		judge("cudaEventSynchronize", 4);
		twice<<<1, 256, 0, s>>>(memory);
		CHECK(cudaEventRecord(event, s));
		while (cudaEventQuery(event) != cudaSuccess)
			usleep(100);
		judge("cudaEventQuery", 8);
		twice<<<1, 256, 0, s>>>(memory);
		while (cudaStreamQuery(s) != cudaSuccess)
			usleep(100);
		judge("cudaStreamQuery", 16);
	}
	/* a blocking copy waits for the blocking streams */
	begin();
	twice<<<1, 256, 0, blocking>>>(memory);
	CHECK(cudaMemcpy(&word, device, sizeof(word), cudaMemcpyDeviceToHost));
	judge("cudaMemcpy", 2);
	CHECK(cudaEventDestroy(event));
}

/* The kernel finds the memory by itself. */
static void indirect()
{
	int **where;

	CHECK(cudaMalloc(&where, sizeof(*where)));
	CHECK(cudaMemcpy(where, &memory, sizeof(memory), cudaMemcpyHostToDevice));
	begin();
	through<<<1, 256, 0, other>>>(where);
	CHECK(cudaStreamSynchronize(other));
	judge("by a pointer in memory", 2);
	CHECK(cudaFree(where));
}

static void graph()
{
	cudaGraphExec_t exec;
	cudaGraph_t captured;

	CHECK(cudaStreamBeginCapture(other, cudaStreamCaptureModeThreadLocal));
	twice<<<1, 256, 0, other>>>(memory);
	CHECK(cudaStreamEndCapture(other, &captured));
	CHECK(cudaGraphInstantiate(&exec, captured, 0));
	begin();
	for (int i = 0; i < 2; i++)
		CHECK(cudaGraphLaunch(exec, other));
	CHECK(cudaStreamSynchronize(other));
	judge("graph", 4);
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(captured));
}

static void CUDART_CB look(void *)
{
	judge("host function", 2);
	for (int i = 0; i < N; i++)
		memory[i] += i + 1;
}

static void function()
{
	begin();
	twice<<<1, 256, 0, other>>>(memory);
	CHECK(cudaLaunchHostFunc(other, look, NULL));
	twice<<<1, 256, 0, other>>>(memory);
	CHECK(cudaStreamSynchronize(other));
	judge("after a host function", 6);
}

static void copies()
{
	static int plain[N];
	cudaMemLocation gpu = {}, cpu = {};

	gpu.type = cudaMemLocationTypeDevice;
	cpu.type = cudaMemLocationTypeHost;
	begin();
	twice<<<1, 256, 0, blocking>>>(memory);
	CHECK(cudaMemcpyAsync(device, memory, sizeof(plain), cudaMemcpyDefault, blocking));
	CHECK(cudaMemsetAsync(memory, 0, sizeof(plain), blocking));
	CHECK(cudaStreamSynchronize(blocking));
	judge("cudaMemsetAsync", 0);
	CHECK(cudaMemcpyAsync(memory, device, sizeof(plain), cudaMemcpyDefault, other));
	CHECK(cudaStreamSynchronize(other));
	judge("cudaMemcpyAsync", 2);
	CHECK(cudaMemset(memory, 0, sizeof(plain)));
	judge("cudaMemset", 0);
	CHECK(cudaMemcpy(memory, device, sizeof(plain), cudaMemcpyDefault));
	judge("cudaMemcpy to it", 2);
	CHECK(cudaMemcpy2D(memory, 64, device, 64, 64, sizeof(plain) / 64, cudaMemcpyDefault));
	judge("cudaMemcpy2D", 2);
	for (int i = 0; i < N; i++)
		plain[i] = 3 * (i + 1);
	CHECK(cudaMemcpy(memory, plain, sizeof(plain), cudaMemcpyDefault));
	judge("cudaMemcpy of plain memory", 3);
	twice<<<1, 256, 0, other>>>(memory);
	CHECK(cudaStreamSynchronize(other));
	CHECK(cudaMemcpy(plain, memory, sizeof(plain), cudaMemcpyDefault));
	EXPECT(plain[N - 1] == 6 * N);
	CHECK(cudaMemPrefetchAsync(memory, sizeof(plain), gpu, 0, other));
	twice<<<1, 256, 0, other>>>(memory);
	CHECK(cudaMemPrefetchAsync(memory, sizeof(plain), cpu, 0, other));
	CHECK(cudaStreamSynchronize(other));
	judge("cudaMemPrefetchAsync", 12);
	CHECK(cudaMemAdvise(memory, sizeof(plain), cudaMemAdviseSetReadMostly, gpu));
	twice<<<1, 256, 0, other>>>(memory);
	CHECK(cudaStreamSynchronize(other));
	judge("cudaMemAdvise", 24);
	CHECK(cudaMemAdvise(memory, sizeof(plain), cudaMemAdviseUnsetReadMostly, gpu));
}

/* The host looks at one page while a kernel is about to change another one. */
static void near()
{
	begin();
	hold();
	change<<<1, 1, 0, other>>>(flag, memory);
	EXPECT(memory[0] == 1 && memory[N - 1] != 0);
	release();
	if (memory[N - 1] != 77)
		printf("near: %d\n", memory[N - 1]);
	wrong += memory[N - 1] != 77;
}

static std::atomic<int> stop;

/* Reads and writes what the host has, with its own instructions and the kernel's, while others
 * launch. */
static void *use(void *p)
{
	char *mine = (char *)p;
	int ends[2];
	long bad = 0;

	EXPECT(pipe(ends) == 0);
	for (int round = 0; !stop || round < 50; round++) {
		mine[0] = mine[8191] = (char)round;
		bad += write(ends[1], mine, 8192) != 8192;
		mine[0] = 1;
		bad += read(ends[0], mine, 8192) != 8192;
		bad += mine[0] != (char)round || mine[8191] != (char)round;
	}
	close(ends[0]);
	close(ends[1]);
	return (void *)bad;
}

/* What is attached to the host is the host's at any time. */
static void meanwhile()
{
	pthread_t thread;
	void *bad, *hosts;

	CHECK(cudaMallocManaged(&hosts, 65536, cudaMemAttachHost));
	hold();
	spin<<<1, 1, 0, other>>>(flag);
	stop = 0;
	EXPECT(pthread_create(&thread, NULL, use, hosts) == 0);
	for (int i = 0; i < 50; i++) {
		twice<<<1, 256, 0, own>>>(memory);
		CHECK(cudaStreamSynchronize(own));
	}
	stop = 1;
	pthread_join(thread, &bad);
	if (bad)
		printf("meanwhile: %ld wrong\n", (long)bad);
	wrong += bad != NULL;
	release();
	CHECK(cudaFree(hosts));
}

static void all(const char *name)
{
	kernels();
	indirect();
	graph();
	function();
	copies();
	near();
	printf("%s: %d wrong\n", name, wrong);
}

static void *in_thread(void *name)
{
	kernels();
	printf("%s: %d wrong\n", (char *)name, wrong);
	return NULL;
}

int main()
{
	pthread_t thread;
	cudaStream_t gone;

	CHECK(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
	CHECK(cudaStreamCreate(&blocking));
	CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
	CHECK(cudaMalloc(&device, N * sizeof(int)));
	CHECK(cudaMalloc(&flag, sizeof(*flag)));
	hold();
	spin<<<1, 1, 0, other>>>(flag); /* loads the kernel */
	release();

	CHECK(cudaMallocManaged(&memory, N * sizeof(int)));
	CHECK(cudaStreamAttachMemAsync(own, memory, 0, cudaMemAttachSingle));
	CHECK(cudaStreamSynchronize(own));
	all("attached to a stream");
	meanwhile();
	EXPECT(pthread_create(&thread, NULL, in_thread, (void *)"in another thread") == 0);
	pthread_join(thread, NULL);
	CHECK(cudaStreamAttachMemAsync(blocking, memory, N * sizeof(int), cudaMemAttachHost));
	CHECK(cudaStreamSynchronize(blocking));
	all("attached to the host");
	CHECK(cudaStreamAttachMemAsync(own, memory, 0, cudaMemAttachGlobal));
	CHECK(cudaStreamSynchronize(own));
	kernels();
	printf("given to all: %d wrong\n", wrong);
	CHECK(cudaFree(memory));

	CHECK(cudaMallocManaged(&memory, N * sizeof(int), cudaMemAttachHost));
	all("made for the host");
	CHECK(cudaStreamCreateWithFlags(&gone, cudaStreamNonBlocking));
	CHECK(cudaStreamAttachMemAsync(gone, memory, 0, cudaMemAttachSingle));
	CHECK(cudaStreamDestroy(gone));
	kernels();
	printf("its stream is gone: %d wrong\n", wrong);
	meanwhile();
	printf("meanwhile: %d wrong\n", wrong);
	return wrong != 0;
}
