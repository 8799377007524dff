/*
 * tests/test_apps/textures.cu - arrays, textures and surfaces, compared with the same on the host.
 */
#include <cmath>
#include <vector>
#include "check.h"

static const int W = 16, H = 8, D = 4;

/* A value that differs from texel to texel. */
static float value(int x, int y, int z)
{
	return x + 0.5f * y * y + 3.0f * z;
}

static int clamped(int i, int n)
{
	return i < 0 ? 0 : i >= n ? n - 1 : i;
}

/* The texture unit's weights have 8 bits of fraction. */
static float weight(float x, int *low)
{
	float i = floorf(x);

	*low = (int)i;
	return rintf((x - i) * 256) / 256;
}

static bool near(float a, float b)
{
	return fabsf(a - b) <= 0.05f + 0.01f * fabsf(b);
}

static cudaTextureDesc plain()
{
	cudaTextureDesc desc = {};

	for (int i = 0; i < 3; i++)
		desc.addressMode[i] = cudaAddressModeClamp;
	return desc;
}

static cudaTextureObject_t texture_of(cudaArray_t array, const cudaTextureDesc &desc)
{
	cudaResourceDesc resource = {};
	cudaTextureObject_t texture;

	resource.resType = cudaResourceTypeArray;
	resource.res.array.array = array;
	CHECK(cudaCreateTextureObject(&texture, &resource, &desc, nullptr));
	return texture;
}

struct Results {
	float *device;
	std::vector<float> host;

	Results(int n) : host(n)
	{
		CHECK(cudaMalloc(&device, n * sizeof(float)));
	}

	~Results()
	{
		cudaFree(device);
	}

	float operator[](int i) const
	{
		return host[i];
	}

	void fetch()
	{
		CHECK(cudaGetLastError());
		CHECK(cudaMemcpy(host.data(), device, host.size() * sizeof(float),
				 cudaMemcpyDeviceToHost));
	}
};

__global__ void sample_2d(cudaTextureObject_t t, float *out, float x0, float y0, float dx, float dy,
			  int w)
{
	int x = threadIdx.x, y = blockIdx.x;

	out[y * w + x] = tex2D<float>(t, x0 + x * dx, y0 + y * dy);
}

static cudaArray_t array_2d(std::vector<float> &host, unsigned int flags)
{
	cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
	cudaArray_t array;

	host.resize(W * H);
	for (int i = 0; i < W * H; i++)
		host[i] = value(i % W, i / W, 0);
	CHECK(cudaMallocArray(&array, &format, W, H, flags));
	CHECK(cudaMemcpy2DToArray(array, 0, 0, host.data(), W * sizeof(float), W * sizeof(float), H,
				  cudaMemcpyHostToDevice));
	return array;
}

static void copies()
{
	std::vector<float> host, back(W * H, -1);
	cudaArray_t array = array_2d(host, 0), other;
	cudaChannelFormatDesc format;
	cudaExtent extent;
	unsigned int flags;
	float *linear;

	CHECK(cudaArrayGetInfo(&format, &extent, &flags, array));
	EXPECT(format.x == 32 && format.y == 0 && format.f == cudaChannelFormatKindFloat);
	EXPECT(extent.width == W && extent.height == H && extent.depth == 0 && flags == 0);
	CHECK(cudaMemcpy2DFromArray(back.data(), W * 4, array, 0, 0, W * 4, H,
				    cudaMemcpyDeviceToHost));
	EXPECT(back == host);
	/* a piece of it, and between arrays and linear memory */
	CHECK(cudaMallocArray(&other, &format, W, H));
	CHECK(cudaMemcpy2DArrayToArray(other, 0, 0, array, 0, 0, W * 4, H));
	CHECK(cudaMalloc(&linear, W * H * 4));
	CHECK(cudaMemcpy2DFromArrayAsync(linear, W * 4, other, 0, 0, W * 4, H,
					 cudaMemcpyDeviceToDevice, 0));
	CHECK(cudaMemcpy2DToArray(array, 4 * 4, 2, linear, W * 4, 8 * 4, 3,
				  cudaMemcpyDeviceToDevice));
	CHECK(cudaMemcpy2DFromArray(back.data(), W * 4, array, 0, 0, W * 4, H,
				    cudaMemcpyDeviceToHost));
	for (int y = 0; y < H; y++) {
		for (int x = 0; x < W; x++) {
			bool inside = x >= 4 && x < 12 && y >= 2 && y < 5;

			EXPECT(back[y * W + x] ==
			       (inside ? value(x - 4, y - 2, 0) : value(x, y, 0)));
		}
	}
	EXPECT(cudaMemcpy2DToArray(array, 4, 0, linear, W * 4, W * 4, H,
				   cudaMemcpyDeviceToDevice) == cudaErrorInvalidValue);
	cudaGetLastError();
	CHECK(cudaFree(linear));
	CHECK(cudaFreeArray(other));
	CHECK(cudaFreeArray(array));
	printf("copies of arrays\n");
}

static void filters()
{
	std::vector<float> host;
	cudaArray_t array = array_2d(host, 0);
	cudaTextureDesc desc = plain();
	Results r(32 * 16);

	cudaTextureObject_t point = texture_of(array, desc);
	sample_2d<<<16, 32>>>(point, r.device, -3.34375f, -2.28125f, 0.6875f, 0.875f, 32);
	r.fetch();
	for (int i = 0; i < 32 * 16; i++) {
		int x = clamped((int)floorf(-3.34375f + i % 32 * 0.6875f), W);
		int y = clamped((int)floorf(-2.28125f + i / 32 * 0.875f), H);

		EXPECT(r[i] == host[y * W + x]);
	}
	desc.filterMode = cudaFilterModeLinear;
	cudaTextureObject_t linear = texture_of(array, desc);
	sample_2d<<<16, 32>>>(linear, r.device, -1.125f, -1.25f, 0.625f, 0.75f, 32);
	r.fetch();
	for (int i = 0; i < 32 * 16; i++) {
		int x, y;
		float a = weight(-1.125f + i % 32 * 0.625f - 0.5f, &x);
		float b = weight(-1.25f + i / 32 * 0.75f - 0.5f, &y), sum = 0;

		for (int c = 0; c < 4; c++)
			sum += (c & 1 ? a : 1 - a) * (c & 2 ? b : 1 - b) *
			       host[clamped(y + c / 2, H) * W + clamped(x + c % 2, W)];
		EXPECT(near(r[i], sum));
	}
	cudaTextureDesc told;
	CHECK(cudaGetTextureObjectTextureDesc(&told, linear));
	EXPECT(told.filterMode == cudaFilterModeLinear && told.addressMode[1] == cudaAddressModeClamp);
	cudaResourceDesc resource;
	CHECK(cudaGetTextureObjectResourceDesc(&resource, linear));
	EXPECT(resource.resType == cudaResourceTypeArray && resource.res.array.array == array);
	CHECK(cudaDestroyTextureObject(linear));
	CHECK(cudaDestroyTextureObject(point));
	CHECK(cudaFreeArray(array));
	printf("point and linear filter\n");
}

static void address_modes()
{
	const cudaTextureAddressMode modes[] = {cudaAddressModeWrap, cudaAddressModeMirror,
						cudaAddressModeBorder, cudaAddressModeClamp};
	std::vector<float> host;
	cudaArray_t array = array_2d(host, 0);
	Results r(96);

	for (cudaTextureAddressMode mode : modes) {
		cudaTextureDesc desc = plain();
		cudaTextureObject_t t;

		desc.normalizedCoords = 1;
		desc.addressMode[0] = mode;
		desc.borderColor[0] = -7.0f;
		t = texture_of(array, desc);
		/* from two widths before the texture to four widths after, in the middle of
		 * texels */
		sample_2d<<<1, 96>>>(t, r.device, -2.0f + 0.5f / W, 3.5f / H, 1.0f / W, 0, 96);
		r.fetch();
		for (int i = 0; i < 96; i++) {
			int x = i - 2 * W, period = ((x % (2 * W)) + 2 * W) % (2 * W);
			float want = value(clamped(x, W), 3, 0);

			if (mode == cudaAddressModeWrap)
				want = value(period % W, 3, 0);
			if (mode == cudaAddressModeMirror)
				want = value(period < W ? period : 2 * W - 1 - period, 3, 0);
			if (mode == cudaAddressModeBorder && (x < 0 || x >= W))
				want = -7.0f;
			EXPECT(r[i] == want);
		}
		CHECK(cudaDestroyTextureObject(t));
	}
	CHECK(cudaFreeArray(array));
	printf("address modes\n");
}

__global__ void sample_bytes(cudaTextureObject_t normal, cudaTextureObject_t raw, float *out)
{
	int x = threadIdx.x;
	float4 n = tex1D<float4>(normal, x + 0.5f);
	uchar4 i = tex1D<uchar4>(raw, x + 0.5f);

	out[8 * x] = n.x;
	out[8 * x + 1] = n.y;
	out[8 * x + 2] = n.z;
	out[8 * x + 3] = n.w;
	out[8 * x + 4] = i.x;
	out[8 * x + 5] = i.y;
	out[8 * x + 6] = i.z;
	out[8 * x + 7] = i.w;
}

__global__ void sample_short(cudaTextureObject_t t, float *out)
{
	out[threadIdx.x] = tex1D<float>(t, threadIdx.x + 0.5f);
}

static void formats()
{
	std::vector<unsigned char> bytes(W * 4);
	std::vector<short> shorts(W);
	cudaChannelFormatDesc format = cudaCreateChannelDesc<uchar4>();
	cudaArray_t array, short_array;
	cudaTextureDesc desc = plain();
	Results r(W * 8);

	for (int i = 0; i < W * 4; i++)
		bytes[i] = i * 37 + 11;
	for (int i = 0; i < W; i++)
		shorts[i] = i * 4096 - 32768;
	CHECK(cudaMallocArray(&array, &format, W));
	CHECK(cudaMemcpy2DToArray(array, 0, 0, bytes.data(), W * 4, W * 4, 1,
				  cudaMemcpyHostToDevice));
	cudaTextureObject_t raw = texture_of(array, desc);
	desc.readMode = cudaReadModeNormalizedFloat;
	cudaTextureObject_t normal = texture_of(array, desc);
	sample_bytes<<<1, W>>>(normal, raw, r.device);
	r.fetch();
	for (int i = 0; i < W * 4; i++) {
		EXPECT(fabsf(r[i / 4 * 8 + i % 4] - bytes[i] / 255.0f) < 1e-6f);
		EXPECT(r[i / 4 * 8 + 4 + i % 4] == bytes[i]);
	}
	format = cudaCreateChannelDesc<short>();
	CHECK(cudaMallocArray(&short_array, &format, W));
	CHECK(cudaMemcpy2DToArray(short_array, 0, 0, shorts.data(), W * 2, W * 2, 1,
				  cudaMemcpyHostToDevice));
	cudaTextureObject_t of_short = texture_of(short_array, desc);
	sample_short<<<1, W>>>(of_short, r.device);
	r.fetch();
	for (int i = 0; i < W; i++)
		EXPECT(fabsf(r[i] - fmaxf(shorts[i] / 32767.0f, -1.0f)) < 1e-6f);
	CHECK(cudaDestroyTextureObject(of_short));
	CHECK(cudaDestroyTextureObject(normal));
	CHECK(cudaDestroyTextureObject(raw));
	CHECK(cudaFreeArray(short_array));
	CHECK(cudaFreeArray(array));
	printf("formats\n");
}

__global__ void sample_3d(cudaTextureObject_t t, float *out)
{
	int x = threadIdx.x, y = threadIdx.y, z = blockIdx.x;

	out[(z * H + y) * W + x] = tex3D<float>(t, x + 0.75f, y + 0.5f, z + 0.5f);
}

__global__ void sample_layer(cudaTextureObject_t t, float *out)
{
	int x = threadIdx.x, y = threadIdx.y, z = blockIdx.x;

	out[(z * H + y) * W + x] = tex2DLayered<float>(t, x + 0.5f, y + 0.5f, z);
}

static void volumes()
{
	std::vector<float> host(W * H * D), back(W * H * D);
	cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
	cudaExtent extent = make_cudaExtent(W, H, D);
	cudaTextureDesc desc = plain();
	Results r(W * H * D);

	desc.filterMode = cudaFilterModeLinear;
	for (int i = 0; i < W * H * D; i++)
		host[i] = value(i % W, i / W % H, i / W / H);
	for (unsigned int flags : {(unsigned int)cudaArrayDefault, (unsigned int)cudaArrayLayered}) {
		cudaMemcpy3DParms copy = {};
		cudaTextureObject_t t;
		cudaArray_t array;

		CHECK(cudaMalloc3DArray(&array, &format, extent, flags));
		copy.srcPtr = make_cudaPitchedPtr(host.data(), W * 4, W, H);
		copy.dstArray = array;
		copy.extent = extent;
		copy.kind = cudaMemcpyHostToDevice;
		CHECK(cudaMemcpy3D(&copy));
		t = texture_of(array, desc);
		if (flags)
			sample_layer<<<D, dim3(W, H)>>>(t, r.device);
		else
			sample_3d<<<D, dim3(W, H)>>>(t, r.device);
		r.fetch();
		for (int i = 0; i < W * H * D; i++) {
			float next = host[i % W < W - 1 ? i + 1 : i];

			EXPECT(near(r[i], flags ? host[i] : 0.75f * host[i] + 0.25f * next));
		}
		copy = {};
		copy.srcArray = array;
		copy.dstPtr = make_cudaPitchedPtr(back.data(), W * 4, W, H);
		copy.extent = extent;
		copy.kind = cudaMemcpyDeviceToHost;
		CHECK(cudaMemcpy3DAsync(&copy));
		CHECK(cudaDeviceSynchronize());
		EXPECT(back == host);
		CHECK(cudaDestroyTextureObject(t));
		CHECK(cudaFreeArray(array));
	}
	printf("volumes and layers\n");
}

__global__ void sample_levels(cudaTextureObject_t t, float *out)
{
	out[threadIdx.x] = tex2DLod<float>(t, 0.5f, 0.5f, threadIdx.x * 0.25f);
}

static void mipmaps()
{
	const int levels = 4;
	cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
	cudaMipmappedArray_t mipmap;
	cudaResourceDesc resource = {};
	cudaTextureDesc desc = plain();
	cudaTextureObject_t t;
	Results r(16);

	CHECK(cudaMallocMipmappedArray(&mipmap, &format, make_cudaExtent(16, 16, 0), levels));
	for (int i = 0; i < levels; i++) {
		int n = 16 >> i;
		std::vector<float> host(n * n, 10.0f * i);
		cudaExtent extent;
		cudaArray_t level;

		CHECK(cudaGetMipmappedArrayLevel(&level, mipmap, i));
		CHECK(cudaArrayGetInfo(nullptr, &extent, nullptr, level));
		EXPECT(extent.width == (size_t)n && extent.height == (size_t)n);
		CHECK(cudaMemcpy2DToArray(level, 0, 0, host.data(), n * 4, n * 4, n,
					  cudaMemcpyHostToDevice));
	}
	resource.resType = cudaResourceTypeMipmappedArray;
	resource.res.mipmap.mipmap = mipmap;
	desc.normalizedCoords = 1;
	desc.filterMode = desc.mipmapFilterMode = cudaFilterModeLinear;
	desc.maxMipmapLevelClamp = 2.5f;
	CHECK(cudaCreateTextureObject(&t, &resource, &desc, nullptr));
	sample_levels<<<1, 16>>>(t, r.device);
	r.fetch();
	for (int i = 0; i < 16; i++)
		EXPECT(near(r[i], 10.0f * fminf(i * 0.25f, 2.5f)));
	CHECK(cudaDestroyTextureObject(t));
	CHECK(cudaFreeMipmappedArray(mipmap));
	printf("mipmaps\n");
}

__global__ void surface_write(cudaSurfaceObject_t s)
{
	int x = threadIdx.x, y = threadIdx.y;

	surf2Dwrite(100.0f * y + x, s, x * 4, y);
}

__global__ void surface_move(cudaSurfaceObject_t from, float *out)
{
	int x = threadIdx.x, y = threadIdx.y;
	float inside, clamp, zero;

	surf2Dread(&inside, from, x * 4, y);
	surf2Dread(&clamp, from, (x + 4) * 4, y, cudaBoundaryModeClamp);
	surf2Dread(&zero, from, (x + 4) * 4, y, cudaBoundaryModeZero);
	out[3 * (y * W + x)] = inside;
	out[3 * (y * W + x) + 1] = clamp;
	out[3 * (y * W + x) + 2] = zero;
	surf2Dwrite(inside + 1, from, x * 4, y);
	surf2Dwrite(-1.0f, from, (x + W) * 4, y, cudaBoundaryModeZero);
}

static void surfaces()
{
	std::vector<float> host, back(W * H);
	cudaArray_t array = array_2d(host, cudaArraySurfaceLoadStore);
	cudaResourceDesc resource = {}, told;
	cudaSurfaceObject_t surface;
	Results r(3 * W * H);

	resource.resType = cudaResourceTypeArray;
	resource.res.array.array = array;
	CHECK(cudaCreateSurfaceObject(&surface, &resource));
	CHECK(cudaGetSurfaceObjectResourceDesc(&told, surface));
	EXPECT(told.res.array.array == array);
	surface_write<<<1, dim3(W, H)>>>(surface);
	surface_move<<<1, dim3(W, H)>>>(surface, r.device);
	r.fetch();
	for (int i = 0; i < W * H; i++) {
		int x = i % W, y = i / W;

		EXPECT(r[3 * i] == 100 * y + x);
		EXPECT(r[3 * i + 1] == 100 * y + clamped(x + 4, W));
		EXPECT(r[3 * i + 2] == (x + 4 < W ? 100 * y + x + 4 : 0));
	}
	CHECK(cudaMemcpy2DFromArray(back.data(), W * 4, array, 0, 0, W * 4, H,
				    cudaMemcpyDeviceToHost));
	for (int i = 0; i < W * H; i++)
		EXPECT(back[i] == 100 * (i / W) + i % W + 1);
	CHECK(cudaDestroySurfaceObject(surface));
	CHECK(cudaFreeArray(array));
	printf("surfaces\n");
}

__global__ void sample_linear(cudaTextureObject_t t, float *out)
{
	out[threadIdx.x] = tex1Dfetch<float>(t, (int)threadIdx.x - 4);
}

static void linear_memory()
{
	std::vector<float> host(W * H);
	cudaResourceDesc resource = {};
	cudaTextureDesc desc = {};
	cudaTextureObject_t t;
	size_t pitch, most;
	float *memory;
	Results r(32 * 16);

	for (int i = 0; i < W * H; i++)
		host[i] = value(i % W, i / W, 0);
	CHECK(cudaMalloc(&memory, W * H * 4));
	CHECK(cudaMemcpy(memory, host.data(), W * H * 4, cudaMemcpyHostToDevice));
	resource.resType = cudaResourceTypeLinear;
	resource.res.linear.devPtr = memory;
	resource.res.linear.desc = cudaCreateChannelDesc<float>();
	resource.res.linear.sizeInBytes = W * 4;
	CHECK(cudaCreateTextureObject(&t, &resource, &desc, nullptr));
	sample_linear<<<1, W + 8>>>(t, r.device);
	r.fetch();
	for (int i = 0; i < W + 8; i++)
		EXPECT(r[i] == (i >= 4 && i < W + 4 ? host[i - 4] : 0));
	CHECK(cudaDestroyTextureObject(t));
	CHECK(cudaFree(memory));
	CHECK(cudaMallocPitch(&memory, &pitch, W * 4, H));
	CHECK(cudaMemcpy2D(memory, pitch, host.data(), W * 4, W * 4, H, cudaMemcpyHostToDevice));
	resource = {};
	resource.resType = cudaResourceTypePitch2D;
	resource.res.pitch2D.devPtr = memory;
	resource.res.pitch2D.desc = cudaCreateChannelDesc<float>();
	resource.res.pitch2D.width = W;
	resource.res.pitch2D.height = H;
	resource.res.pitch2D.pitchInBytes = pitch;
	desc = plain();
	CHECK(cudaCreateTextureObject(&t, &resource, &desc, nullptr));
	sample_2d<<<16, 32>>>(t, r.device, -0.34375f, -0.28125f, 0.6875f, 0.875f, 32);
	r.fetch();
	for (int i = 0; i < 32 * 16; i++) {
		int x = clamped((int)floorf(-0.34375f + i % 32 * 0.6875f), W);
		int y = clamped((int)floorf(-0.28125f + i / 32 * 0.875f), H);

		EXPECT(r[i] == host[y * W + x]);
	}
	CHECK(cudaDestroyTextureObject(t));
	CHECK(cudaFree(memory));
	cudaChannelFormatDesc format = cudaCreateChannelDesc<float4>();
	CHECK(cudaDeviceGetTexture1DLinearMaxWidth(&most, &format, 0));
	EXPECT(most >= 1 << 20);
	printf("textures of linear memory\n");
}

__global__ void gather(cudaTextureObject_t t, float *out)
{
	float4 g = tex2Dgather<float4>(t, 3.0f, 2.0f);

	out[0] = g.x;
	out[1] = g.y;
	out[2] = g.z;
	out[3] = g.w;
}

__global__ void sample_cube(cudaTextureObject_t t, float *out)
{
	const float way[6][3] = {{1, 0, 0}, {-1, 0, 0}, {0, 1, 0}, {0, -1, 0}, {0, 0, 1}, {0, 0, -1}};
	const float *v = way[threadIdx.x];

	out[threadIdx.x] = texCubemap<float>(t, v[0], v[1], v[2]);
}

static void gathers_and_cubes()
{
	const int n = 4;
	std::vector<float> host, faces(n * n * 6);
	cudaArray_t array = array_2d(host, cudaArrayTextureGather), cube;
	cudaTextureObject_t t = texture_of(array, plain());
	cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
	cudaMemcpy3DParms copy = {};
	cudaTextureDesc desc = plain();
	Results r(6);

	gather<<<1, 1>>>(t, r.device);
	r.fetch();
	EXPECT(r[0] == value(2, 2, 0) && r[1] == value(3, 2, 0));
	EXPECT(r[2] == value(3, 1, 0) && r[3] == value(2, 1, 0));
	CHECK(cudaDestroyTextureObject(t));
	CHECK(cudaFreeArray(array));

	for (int i = 0; i < n * n * 6; i++)
		faces[i] = i / (n * n) + 1;
	CHECK(cudaMalloc3DArray(&cube, &format, make_cudaExtent(n, n, 6), cudaArrayCubemap));
	copy.srcPtr = make_cudaPitchedPtr(faces.data(), n * 4, n, n);
	copy.dstArray = cube;
	copy.extent = make_cudaExtent(n, n, 6);
	copy.kind = cudaMemcpyHostToDevice;
	CHECK(cudaMemcpy3D(&copy));
	desc.normalizedCoords = 1;
	t = texture_of(cube, desc);
	sample_cube<<<1, 6>>>(t, r.device);
	r.fetch();
	for (int i = 0; i < 6; i++)
		EXPECT(r[i] == i + 1);
	CHECK(cudaDestroyTextureObject(t));
	CHECK(cudaFreeArray(cube));
	printf("gathers and cubes\n");
}

int main()
{
	copies();
	filters();
	address_modes();
	formats();
	volumes();
	mipmaps();
	surfaces();
	linear_memory();
	gathers_and_cubes();
	return 0;
}
