/*
 * tests/test_apps/copies.cu - every way to copy and to set memory, at sizes and places that are
 * not aligned, compared with the same done on the host.
 */
#include <cstring>
#include <vector>
#include "check.h"

typedef unsigned char byte;

/* Bytes that differ from their neighbours and from one fill to the next. */
static void fill(byte *p, size_t size, unsigned int seed)
{
	for (size_t i = 0; i < size; i++) {
		seed = seed * 1664525u + 1013904223u;
		p[i] = seed >> 24;
	}
}

static void linear(size_t size, size_t shift, bool pinned)
{
	std::vector<byte> pageable(2 * (size + shift));
	byte *host = pageable.data(), *back, *a, *b;

	if (pinned)
		CHECK(cudaMallocHost(&host, 2 * (size + shift)));
	back = host + size + shift;
	fill(host, size + shift, size);
	CHECK(cudaMalloc(&a, size + shift));
	CHECK(cudaMalloc(&b, size + shift));
	CHECK(cudaMemcpy(a + shift, host + shift, size, cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(b + shift, a + shift, size, cudaMemcpyDeviceToDevice));
	CHECK(cudaMemcpy(back, b + shift, size, cudaMemcpyDefault));
	EXPECT(memcmp(host + shift, back, size) == 0);

	cudaStream_t s;
	CHECK(cudaStreamCreate(&s));
	memset(back, 0, size);
	fill(host, size + shift, size + 1);
	CHECK(cudaMemcpyAsync(b + shift, host + shift, size, cudaMemcpyHostToDevice, s));
	CHECK(cudaMemcpyAsync(a + shift, b + shift, size, cudaMemcpyDeviceToDevice, s));
	CHECK(cudaMemcpyAsync(back, a + shift, size, cudaMemcpyDeviceToHost, s));
	CHECK(cudaStreamSynchronize(s));
	EXPECT(memcmp(host + shift, back, size) == 0);
	CHECK(cudaStreamDestroy(s));
	CHECK(cudaFree(a));
	CHECK(cudaFree(b));
	if (pinned)
		CHECK(cudaFreeHost(host));
}

/* The host's buffer may be written again as soon as a pageable copy has returned. */
static void reuse_of_the_buffer()
{
	const int rounds = 50, size = 60000;
	std::vector<byte> host(size), want(size), got(size);
	cudaStream_t s;
	byte *dev;

	CHECK(cudaStreamCreate(&s));
	CHECK(cudaMalloc(&dev, rounds * size));
	for (int r = 0; r < rounds; r++) {
		fill(host.data(), size, r);
		CHECK(cudaMemcpyAsync(dev + r * size, host.data(), size, cudaMemcpyHostToDevice, s));
	}
	CHECK(cudaStreamSynchronize(s));
	for (int r = 0; r < rounds; r++) {
		fill(want.data(), size, r);
		CHECK(cudaMemcpy(got.data(), dev + r * size, size, cudaMemcpyDeviceToHost));
		EXPECT(got == want);
	}
	CHECK(cudaFree(dev));
	CHECK(cudaStreamDestroy(s));
}

static void rectangles(bool async)
{
	const size_t width = 131, height = 17, hpitch = 150;
	std::vector<byte> host(hpitch * height), back(hpitch * height, 9), want(hpitch * height, 9);
	byte *a, *b;
	size_t pa, pb;

	fill(host.data(), host.size(), 5);
	CHECK(cudaMallocPitch(&a, &pa, width, height));
	CHECK(cudaMallocPitch(&b, &pb, 2 * width, height));
	EXPECT(pa >= width && pb >= 2 * width);
	if (async) {
		CHECK(cudaMemcpy2DAsync(a, pa, host.data(), hpitch, width, height,
					cudaMemcpyHostToDevice, 0));
		CHECK(cudaMemcpy2DAsync(b + 7, pb, a, pa, width, height,
					cudaMemcpyDeviceToDevice, 0));
		CHECK(cudaMemcpy2DAsync(back.data() + 3, hpitch, b + 7, pb, width, height,
					cudaMemcpyDeviceToHost, 0));
		CHECK(cudaStreamSynchronize(0));
	} else {
		CHECK(cudaMemcpy2D(a, pa, host.data(), hpitch, width, height,
				   cudaMemcpyHostToDevice));
		CHECK(cudaMemcpy2D(b + 7, pb, a, pa, width, height, cudaMemcpyDeviceToDevice));
		CHECK(cudaMemcpy2D(back.data() + 3, hpitch, b + 7, pb, width, height,
				   cudaMemcpyDeviceToHost));
	}
	for (size_t y = 0; y < height; y++)
		memcpy(&want[y * hpitch + 3], &host[y * hpitch], width);
	EXPECT(back == want);

	CHECK(cudaMemset2D(a + 1, pa, 0xa5, 100, height - 2));
	CHECK(cudaMemcpy2D(back.data(), hpitch, a, pa, width, height, cudaMemcpyDeviceToHost));
	for (size_t y = 0; y < height; y++) {
		memcpy(&want[y * hpitch], &host[y * hpitch], width);
		if (y < height - 2)
			memset(&want[y * hpitch + 1], 0xa5, 100);
		EXPECT(memcmp(&want[y * hpitch], &back[y * hpitch], width) == 0);
	}
	CHECK(cudaFree(a));
	CHECK(cudaFree(b));
}

static void boxes()
{
	const size_t w = 37, h = 11, d = 5, cut = 9;
	std::vector<byte> host(w * h * d), back(w * h * d, 0);
	struct cudaMemcpy3DParms in = { 0 }, out = { 0 };
	struct cudaPitchedPtr dev;

	fill(host.data(), host.size(), 77);
	CHECK(cudaMalloc3D(&dev, make_cudaExtent(w, h, d)));
	in.srcPtr = make_cudaPitchedPtr(host.data(), w, w, h);
	in.dstPtr = dev;
	in.extent = make_cudaExtent(w, h, d);
	in.kind = cudaMemcpyHostToDevice;
	CHECK(cudaMemcpy3D(&in));
	/* Back comes a box from the middle, to another place. */
	out.srcPtr = dev;
	out.srcPos = make_cudaPos(cut, 2, 1);
	out.dstPtr = make_cudaPitchedPtr(back.data(), w, w, h);
	out.dstPos = make_cudaPos(1, 1, 2);
	out.extent = make_cudaExtent(w - cut - 1, h - 3, d - 2);
	out.kind = cudaMemcpyDeviceToHost;
	CHECK(cudaMemcpy3DAsync(&out, 0));
	CHECK(cudaStreamSynchronize(0));
	for (size_t z = 0; z < d - 2; z++)
		for (size_t y = 0; y < h - 3; y++)
			EXPECT(memcmp(&back[((z + 2) * h + y + 1) * w + 1],
				      &host[((z + 1) * h + y + 2) * w + cut], w - cut - 1) == 0);
	EXPECT(back[0] == 0 && back[w * h * d - 1] == 0);
	CHECK(cudaFree(dev.ptr));
}

typedef int (*memset_16)(unsigned long long, unsigned short, size_t);
typedef int (*memset_32)(unsigned long long, unsigned int, size_t);

static void *driver_call(const char *name)
{
	cudaDriverEntryPointQueryResult found;
	void *call = NULL;

	CHECK(cudaGetDriverEntryPointByVersion(name, &call, 12000, cudaEnableDefault, &found));
	EXPECT(found == cudaDriverEntryPointSuccess && call != NULL);
	return call;
}

static void sets()
{
	const size_t size = 1001;
	std::vector<byte> got(size), want(size, 0x11);
	byte *dev;

	CHECK(cudaMalloc(&dev, size));
	CHECK(cudaMemset(dev, 0x11, size));
	CHECK(cudaMemsetAsync(dev + 13, 0x22, 5, 0));
	memset(&want[13], 0x22, 5);
	EXPECT(((memset_16)driver_call("cuMemsetD16"))((unsigned long long)dev + 100, 0xbeef, 33) == 0);
	for (int i = 0; i < 33; i++)
		memcpy(&want[100 + 2 * i], "\xef\xbe", 2);
	EXPECT(((memset_32)driver_call("cuMemsetD32"))((unsigned long long)dev + 400, 0x01020304, 77) == 0);
	for (int i = 0; i < 77; i++)
		memcpy(&want[400 + 4 * i], "\x04\x03\x02\x01", 4);
	CHECK(cudaMemcpy(got.data(), dev, size, cudaMemcpyDeviceToHost));
	EXPECT(got == want);
	CHECK(cudaFree(dev));
}

/* Memory of the host that was there first, registered afterwards; and what pointers are told to
 * be. */
static void registered()
{
	std::vector<byte> memory(3 * 65536);
	byte *dev, *host = (byte *)(((size_t)memory.data() + 65535) & ~(size_t)65535);
	struct cudaPointerAttributes at;

	CHECK(cudaHostRegister(host, 65536, cudaHostRegisterDefault));
	CHECK(cudaPointerGetAttributes(&at, host));
	EXPECT(at.type == cudaMemoryTypeHost);
	CHECK(cudaMalloc(&dev, 65536));
	CHECK(cudaPointerGetAttributes(&at, dev + 100));
	EXPECT(at.type == cudaMemoryTypeDevice && at.device == 0);
	fill(host, 65536, 3);
	CHECK(cudaMemcpyAsync(dev, host, 65536, cudaMemcpyHostToDevice, 0));
	CHECK(cudaStreamSynchronize(0));
	memset(host, 0, 65536);
	CHECK(cudaMemcpyAsync(host, dev, 65536, cudaMemcpyDeviceToHost, 0));
	CHECK(cudaStreamSynchronize(0));
	std::vector<byte> want(65536);
	fill(want.data(), 65536, 3);
	EXPECT(memcmp(host, want.data(), 65536) == 0);
	CHECK(cudaHostUnregister(host));
	CHECK(cudaFree(dev));
}

int main()
{
	const size_t sizes[] = { 1, 3, 4, 255, 4097, 65536, 1000003, 9000001 };

	for (size_t size : sizes) {
		for (size_t shift = 0; shift < 6; shift += 5) {
			linear(size, shift, false);
			linear(size, shift, true);
		}
	}
	printf("copies: linear, pageable and pinned\n");
	reuse_of_the_buffer();
	printf("copies: the buffer is free when the copy returns\n");
	rectangles(false);
	rectangles(true);
	printf("copies: 2D\n");
	boxes();
	printf("copies: 3D\n");
	sets();
	printf("copies: memset of 8, 16 and 32 bits\n");
	registered();
	printf("copies: registered memory\n");
	return 0;
}
