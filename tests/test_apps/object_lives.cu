/*
 * object_lives.cu - texture and surface objects that are destroyed while kernels that use them are
 * queued; destroying no object.
 */
#include <atomic>

#include "entry.h"

#define N 256

static std::atomic<bool> opened;

static void CUDART_CB wait_until_opened(void *)
{
	while (!opened)
		;
}

__global__ void look(float *out, cudaTextureObject_t texture, cudaSurfaceObject_t surface)
{
	int i = threadIdx.x;

	out[i] = tex1Dfetch<float>(texture, i) + surf1Dread<float>(surface, i * 4);
}

static cudaArray_t array_of(const float *values)
{
	cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
	cudaArray_t array;

	CHECK(cudaMallocArray(&array, &format, N, 0, cudaArraySurfaceLoadStore));
	CHECK(cudaMemcpy2DToArray(array, 0, 0, values, N * 4, N * 4, 1, cudaMemcpyHostToDevice));
	return array;
}

/* The objects of a kernel that has not begun are destroyed, at once. */
static void destroy_early(void)
{
	cudaResourceDesc linear = {}, surface_of = {};
	cudaSurfaceObject_t surface;
	cudaTextureObject_t texture;
	cudaTextureDesc desc = {};
	float values[N], *in, *out;
	int wrong = 0;
	cudaStream_t stream;
	cudaFuncAttributes loaded;

	for (int i = 0; i < N; i++)
		values[i] = i;
	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	CHECK(cudaMalloc(&in, sizeof(values)));
	CHECK(cudaMalloc(&out, sizeof(values)));
	CHECK(cudaMemcpy(in, values, sizeof(values), cudaMemcpyHostToDevice));
	linear.resType = cudaResourceTypeLinear;
	linear.res.linear.devPtr = in;
	linear.res.linear.desc = cudaCreateChannelDesc<float>();
	linear.res.linear.sizeInBytes = sizeof(values);
	surface_of.resType = cudaResourceTypeArray;
	surface_of.res.array.array = array_of(values);
	CHECK(cudaCreateTextureObject(&texture, &linear, &desc, NULL));
	CHECK(cudaCreateSurfaceObject(&surface, &surface_of));
	/* the first launch of a kernel may load it, and that may wait for all work */
	CHECK(cudaFuncGetAttributes(&loaded, look));
	CHECK(cudaLaunchHostFunc(stream, wait_until_opened, NULL));
	look<<<1, N, 0, stream>>>(out, texture, surface);
	CHECK(cudaDestroyTextureObject(texture));
	CHECK(cudaDestroySurfaceObject(surface));
	opened = true;
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaMemcpy(values, out, sizeof(values), cudaMemcpyDeviceToHost));
	for (int i = 0; i < N; i++)
		wrong += values[i] != 2 * i;
	printf("destroyed before the kernel ran: %d wrong\n", wrong);
	CHECK(cudaFreeArray(surface_of.res.array.array));
}

int main()
{
	destroy_early();
	printf("no object: %d %d\n", CU(cuTexObjectDestroy)(0), CU(cuSurfObjectDestroy)(0));
	return 0;
}
