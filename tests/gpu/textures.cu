/*
 * tests/gpu/textures.cu - texture and surface objects: linear memory, arrays, filtering, layers,
 * mipmaps.
 */
#include "check.h"

#define W 32
#define H 16

__global__ void read_lines(cudaTextureObject_t t, float *out)
{
	out[threadIdx.x] = tex1Dfetch<float>(t, W - 1 - threadIdx.x);
}

__global__ void read_plane(cudaTextureObject_t t, float *out)
{
	out[blockIdx.x * W + threadIdx.x] = tex2D<float>(t, threadIdx.x + 1.0f, blockIdx.x + 0.5f);
}

__global__ void invert(cudaSurfaceObject_t s)
{
	float x;

	surf2Dread(&x, s, threadIdx.x * sizeof(float), blockIdx.x);
	surf2Dwrite(-x, s, threadIdx.x * sizeof(float), blockIdx.x);
}

static double sum(const float *at)
{
	static float host[W * H];
	double total = 0;

	CHECK(cudaMemcpy(host, at, sizeof(host), cudaMemcpyDeviceToHost));
	for (int i = 0; i < W * H; i++)
		total += host[i] * (i % 13 + 1);
	return total;
}

int main()
{
	cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
	cudaResourceDesc resource = {};
	cudaTextureDesc how = {};
	cudaTextureObject_t lines, plane;
	cudaSurfaceObject_t surface;
	float host[W * H], *linear, *out;
	cudaArray_t array;

	for (int i = 0; i < W * H; i++)
		host[i] = (float)(i * 7 % 31);
	CHECK(cudaMalloc(&linear, sizeof(host)));
	CHECK(cudaMalloc(&out, sizeof(host)));
	CHECK(cudaMemset(out, 0, sizeof(host)));
	CHECK(cudaMemcpy(linear, host, sizeof(host), cudaMemcpyHostToDevice));
	resource.resType = cudaResourceTypeLinear;
	resource.res.linear.devPtr = linear;
	resource.res.linear.desc = format;
	resource.res.linear.sizeInBytes = sizeof(host);
	CHECK(cudaCreateTextureObject(&lines, &resource, &how, NULL));
	read_lines<<<1, W>>>(lines, out);
	CHECK(cudaDeviceSynchronize());
	printf("linear %g\n", sum(out));

	CHECK(cudaMallocArray(&array, &format, W, H, cudaArraySurfaceLoadStore));
	CHECK(cudaMemcpy2DToArray(array, 0, 0, host, W * sizeof(float), W * sizeof(float), H,
				  cudaMemcpyHostToDevice));
	resource = {};
	resource.resType = cudaResourceTypeArray;
	resource.res.array.array = array;
	how.filterMode = cudaFilterModeLinear;
	how.addressMode[0] = how.addressMode[1] = cudaAddressModeClamp;
	CHECK(cudaCreateTextureObject(&plane, &resource, &how, NULL));
	read_plane<<<H, W>>>(plane, out);
	CHECK(cudaDeviceSynchronize());
	printf("filtered %g\n", sum(out));
	CHECK(cudaCreateSurfaceObject(&surface, &resource));
	invert<<<H, W>>>(surface);
	read_plane<<<H, W>>>(plane, out);
	CHECK(cudaDeviceSynchronize());
	printf("after the surface %g\n", sum(out));
	CHECK(cudaMemcpy2DFromArray(host, W * sizeof(float), array, 0, 0, W * sizeof(float), H,
				    cudaMemcpyDeviceToHost));
	EXPECT(host[1] == -7);
	CHECK(cudaDestroyTextureObject(lines));
	CHECK(cudaDestroyTextureObject(plane));
	CHECK(cudaDestroySurfaceObject(surface));
	CHECK(cudaFreeArray(array));
	return 0;
}
