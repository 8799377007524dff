/*
 * tests/test_apps/any_runtime.c - one program for every release of the CUDA runtime from 11.8 on.
 *
 *   any_runtime /path/libcudart.so.11.0 takes that runtime (its static form is linked with one)
 *
 * Does by hand what nvcc's host code does (registers a fat binary, its kernels and variables),
 * because an old nvcc is not needed for an old runtime: it hands the container to the driver as it
 * is. Prints the runtime's version, then what it did; what the driver refuses as not supported is
 * said to be refused, and is no failure.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "any_runtime.h"

#ifdef STATIC_RUNTIME
#define CALL(type, name, arguments) extern type name arguments;
RUNTIME_CALLS(CALL)
#undef CALL
#define open_runtime(path) ((void)(path))
#else
#define CALL(type, name, arguments) static type(*name) arguments;
RUNTIME_CALLS(CALL)
#undef CALL

static void open_runtime(const char *path)
{
	void *runtime = path ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;

	if (!runtime) {
		fprintf(stderr, "any_runtime: %s\n", path ? dlerror() : "which libcudart?");
		exit(2);
	}
#define CALL(type, name, arguments)                                                                \
	name = (type(*) arguments)dlsym(runtime, #name);                                           \
	if (!name) {                                                                               \
		fprintf(stderr, "any_runtime: no " #name "\n");                                    \
		exit(2);                                                                           \
	}
	RUNTIME_CALLS(CALL)
#undef CALL
}
#endif

#define N 10000

/* The fat binary, as nvcc made it of any_runtime_device.cu. */
__asm__(".section .nv_fatbin,\"a\"\n.balign 8\nfat_binary_data:\n.incbin \"" FATBIN "\"\n.text\n");
extern const char fat_binary_data[];

/* Their addresses name the device's kernels and variables, as nvcc's host stubs do. */
static char scale_stub, add_stub;
static float factor;
static int counter;
static void *device_data, *stream;
static float host_data[N];

static void check(int error, int line, const char *what)
{
	if (!error)
		return;
	printf("any_runtime.c:%d: %s: %s\n", line, what, cudaGetErrorName(error));
	exit(1);
}
#define CHECK(call) check((call), __LINE__, #call)

static void expect(int is, int line, const char *what)
{
	if (is)
		return;
	printf("any_runtime.c:%d: not so: %s\n", line, what);
	exit(1);
}
#define EXPECT(condition) expect((condition), __LINE__, #condition)

static void **register_binary(void)
{
	static struct fat_binary wrapper = {FAT_BINARY_MAGIC, 1, fat_binary_data, NULL};
	void **binary = __cudaRegisterFatBinary(&wrapper);

	__cudaRegisterFunction(binary, &scale_stub, "scale", "scale", -1, NULL, NULL, NULL, NULL,
			       NULL);
	__cudaRegisterFunction(binary, &add_stub, "add", "add", -1, NULL, NULL, NULL, NULL, NULL);
	__cudaRegisterVar(binary, &factor, "factor", "factor", 0, sizeof(factor), 1, 0);
	__cudaRegisterVar(binary, &counter, "counter", "counter", 0, sizeof(counter), 0, 0);
	__cudaRegisterFatBinaryEnd(binary);
	return binary;
}

static void query(void)
{
	char properties[8192] = "";
	int runtime = 0, driver = 0, count = 0, warp = 0;

	CHECK(cudaRuntimeGetVersion(&runtime));
	CHECK(cudaDriverGetVersion(&driver));
	CHECK(cudaGetDeviceCount(&count));
	CHECK(cudaSetDevice(0));
	CHECK(cudaGetDeviceProperties(properties, 0));
	CHECK(cudaDeviceGetAttribute(&warp, ATTRIBUTE_WARP_SIZE, 0));
	EXPECT(driver >= runtime && count > 0 && warp == 32 && strlen(properties) > 0);
	printf("runtime %d\n", runtime);
}

static int launch_scale(void *data, int n, void *on)
{
	void *arguments[] = {&data, &n};

	return cudaLaunchKernel(&scale_stub, (struct dim3){(unsigned)(n + 255) / 256, 1, 1},
				(struct dim3){256, 1, 1}, arguments, 0, on);
}

static void kernels(void)
{
	float five = 5, back = 0;
	int blocks = 0, count = 0;

	for (int i = 0; i < N; i++)
		host_data[i] = (float)i;
	CHECK(cudaMalloc(&device_data, sizeof(host_data)));
	CHECK(cudaMemcpy(device_data, host_data, sizeof(host_data), HOST_TO_DEVICE));
	CHECK(cudaMemcpyToSymbol(&factor, &five, sizeof(five), 0, HOST_TO_DEVICE));
	CHECK(cudaMemcpyFromSymbol(&back, &factor, sizeof(back), 0, DEVICE_TO_HOST));
	CHECK(launch_scale(device_data, N, NULL));
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(host_data, device_data, sizeof(host_data), DEVICE_TO_HOST));
	CHECK(cudaMemcpyFromSymbol(&count, &counter, sizeof(count), 0, DEVICE_TO_HOST));
	for (int i = 0; i < N; i++)
		EXPECT(host_data[i] == 5.0f * (float)i);
	CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, &scale_stub, 256, 0));
	EXPECT(back == 5 && count == N && blocks > 0);
	printf("kernel, constant, variable: right\n");
}

static void streams(void)
{
	void *events[2], *pinned, *grid_data, *arguments[3];
	int seven = 7, n = N, *numbers;
	float ms = -1;

	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaEventCreate(&events[0]));
	CHECK(cudaEventCreate(&events[1]));
	CHECK(cudaMallocHost(&pinned, N * sizeof(int)));
	CHECK(cudaMalloc(&grid_data, N * sizeof(int)));
	arguments[0] = &grid_data, arguments[1] = &seven, arguments[2] = &n;
	numbers = pinned;
	for (int i = 0; i < N; i++)
		numbers[i] = i;
	CHECK(cudaEventRecord(events[0], stream));
	CHECK(cudaMemcpyAsync(grid_data, pinned, N * sizeof(int), HOST_TO_DEVICE, stream));
	CHECK(cudaLaunchKernel(&add_stub, (struct dim3){(N + 127) / 128, 1, 1},
			       (struct dim3){128, 1, 1}, arguments, 128 * sizeof(int), stream));
	CHECK(cudaMemcpyAsync(pinned, grid_data, N * sizeof(int), DEVICE_TO_HOST, stream));
	CHECK(cudaEventRecord(events[1], stream));
	CHECK(cudaStreamWaitEvent(stream, events[1], 0));
	CHECK(cudaEventSynchronize(events[1]));
	CHECK(cudaEventElapsedTime(&ms, events[0], events[1]));
	CHECK(cudaStreamSynchronize(stream));
	for (int i = 0; i < N; i++)
		EXPECT(numbers[i] == i + 7);
	EXPECT(ms >= 0);
	CHECK(cudaEventDestroy(events[0]));
	CHECK(cudaEventDestroy(events[1]));
	CHECK(cudaFreeHost(pinned));
	CHECK(cudaFree(grid_data));
	printf("streams, events, asynchronous copies: right\n");
}

static void errors(void)
{
	EXPECT(cudaMemcpy(device_data, host_data, sizeof(host_data), 77) != 0);
	EXPECT(cudaGetLastError() != 0 && cudaGetLastError() == 0);
	EXPECT(cudaSetDevice(1000) != 0);
	EXPECT(cudaGetLastError() != 0);
	EXPECT(strcmp(cudaGetErrorName(ERROR_INVALID_VALUE), "cudaErrorInvalidValue") == 0);
	EXPECT(strcmp(cudaGetErrorString(ERROR_INVALID_VALUE), "invalid argument") == 0);
	printf("errors: right\n");
}

/* Whether @error says that the driver has no such thing; prints so. */
static int refused(int error, const char *what)
{
	if (error != ERROR_NOT_SUPPORTED)
		return 0;
	cudaGetLastError();
	printf("%s: refused\n", what);
	return 1;
}

static void pools(void)
{
	void *data;
	int error = cudaMallocAsync(&data, sizeof(host_data), stream);

	if (refused(error, "pools"))
		return;
	CHECK(error);
	CHECK(cudaMemcpyAsync(data, device_data, sizeof(host_data), 3, stream));
	CHECK(launch_scale(data, N, stream));
	CHECK(cudaMemcpyAsync(host_data, data, sizeof(host_data), DEVICE_TO_HOST, stream));
	CHECK(cudaFreeAsync(data, stream));
	CHECK(cudaStreamSynchronize(stream));
	for (int i = 0; i < N; i++)
		EXPECT(host_data[i] == 25.0f * (float)i);
	printf("pools: right\n");
}

static void graphs(void)
{
	void *graph, *exec;
	int error = cudaStreamBeginCapture(stream, 0);

	if (refused(error, "graphs"))
		return;
	CHECK(error);
	CHECK(launch_scale(device_data, N, stream));
	CHECK(cudaStreamEndCapture(stream, &graph));
	CHECK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
	CHECK(cudaGraphLaunch(exec, stream));
	CHECK(cudaGraphLaunch(exec, stream));
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
	CHECK(cudaMemcpy(host_data, device_data, sizeof(host_data), DEVICE_TO_HOST));
	for (int i = 0; i < N; i++)
		EXPECT(host_data[i] == 125.0f * (float)i);
	printf("graphs: right\n");
}

/* After a reset all is gone, and the next call begins anew. */
static void reset(void)
{
	float two = 2;
	int count = 1;

	CHECK(cudaStreamDestroy(stream));
	CHECK(cudaFree(device_data));
	CHECK(cudaDeviceReset());
	CHECK(cudaMemcpyFromSymbol(&count, &counter, sizeof(count), 0, DEVICE_TO_HOST));
	EXPECT(count == 0);
	CHECK(cudaMalloc(&device_data, sizeof(host_data)));
	CHECK(cudaMemset(device_data, 0, sizeof(host_data)));
	CHECK(cudaMemcpyToSymbol(&factor, &two, sizeof(two), 0, HOST_TO_DEVICE));
	CHECK(launch_scale(device_data, N, NULL));
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaMemcpyFromSymbol(&count, &counter, sizeof(count), 0, DEVICE_TO_HOST));
	EXPECT(count == N);
	printf("reset: right\n");
}

int main(int argc, char **argv)
{
	void **binary;

	open_runtime(argc > 1 ? argv[1] : NULL);
	binary = register_binary();
	query();
	kernels();
	streams();
	errors();
	pools();
	graphs();
	reset();
	__cudaUnregisterFatBinary(binary);
	return 0;
}
