/*
 * foreign_memory.cu - copies of memory on a device that is not current: unified addressing finds
 * it. Every form, first without peer access. A kernel of the current device needs that access, and
 * has it at the end where there is any.
 */
#include <vector>

#include "check.h"

static const size_t SIZE = 5 << 20, PITCH = 1024;

static std::vector<char> pattern(int seed)
{
	std::vector<char> bytes(SIZE);

	for (size_t i = 0; i < SIZE; i++)
		bytes[i] = (char)(i * 31 + i / 4096 + seed);
	return bytes;
}

static void expect(const char *what, const char *device, const std::vector<char> &want)
{
	std::vector<char> got(SIZE);

	CHECK(cudaMemcpy(got.data(), device, SIZE, cudaMemcpyDefault));
	printf("%s: %s\n", what, got == want ? "right" : "wrong");
}

/* To memory of another device, and back. */
static void host_copies(char *there, cudaStream_t stream)
{
	std::vector<char> got(SIZE);
	char *pinned;

	CHECK(cudaMemcpy(there, pattern(1).data(), SIZE, cudaMemcpyHostToDevice));
	expect("copy to the device", there, pattern(1));
	CHECK(cudaMemcpyAsync(there, pattern(2).data(), SIZE, cudaMemcpyHostToDevice, stream));
	CHECK(cudaStreamSynchronize(stream));
	expect("asynchronous copy", there, pattern(2));
	CHECK(cudaMallocHost(&pinned, SIZE));
	memcpy(pinned, pattern(3).data(), SIZE);
	CHECK(cudaMemcpyAsync(there, pinned, SIZE, cudaMemcpyHostToDevice, stream));
	CHECK(cudaStreamSynchronize(stream));
	expect("pinned memory", there, pattern(3));
	memset(pinned, 0, SIZE);
	CHECK(cudaMemcpyAsync(pinned, there, SIZE, cudaMemcpyDeviceToHost, stream));
	CHECK(cudaStreamSynchronize(stream));
	printf("and back: %s\n", memcmp(pinned, pattern(3).data(), SIZE) ? "wrong" : "right");
	CHECK(cudaMemcpy2D(got.data(), PITCH, there, PITCH, PITCH, SIZE / PITCH,
			   cudaMemcpyDeviceToHost));
	printf("rows: %s\n", got == pattern(3) ? "right" : "wrong");
	CHECK(cudaFreeHost(pinned));
}

static void device_copies(char *here, char *there, cudaStream_t stream)
{
	CHECK(cudaMemcpy(here, pattern(4).data(), SIZE, cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(there, here, SIZE, cudaMemcpyDeviceToDevice));
	expect("to the other", there, pattern(4));
	CHECK(cudaMemcpy(there, pattern(5).data(), SIZE, cudaMemcpyHostToDevice));
	CHECK(cudaMemcpyAsync(here, there, SIZE, cudaMemcpyDefault, stream));
	CHECK(cudaStreamSynchronize(stream));
	expect("from the other", here, pattern(5));
	CHECK(cudaMemcpy2D(there, PITCH, here, PITCH, PITCH / 2, SIZE / PITCH, cudaMemcpyDefault));
	expect("rows of both", there, pattern(5));
}

__global__ void twice(char *to, const char *from)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;

	to[i] = 2 * from[i];
}

static void kernel(char *here, char *there, int device)
{
	std::vector<char> want = pattern(6);
	int can = 0;

	CHECK(cudaDeviceCanAccessPeer(&can, 0, device));
	if (!can)
		return;
	CHECK(cudaDeviceEnablePeerAccess(device, 0));
	CHECK(cudaMemcpy(there, want.data(), SIZE, cudaMemcpyHostToDevice));
	twice<<<SIZE / 256, 256>>>(here, there);
	for (char &c : want)
		c = (char)(2 * c);
	expect("kernel", here, want);
	CHECK(cudaMemset(there, 0, SIZE));
	expect("fill", there, std::vector<char>(SIZE, 0));
	CHECK(cudaDeviceDisablePeerAccess(device));
	CHECK(cudaMemcpy(there, pattern(7).data(), SIZE, cudaMemcpyHostToDevice));
	expect("after peer access", there, pattern(7));
}

int main()
{
	char *before, *here, *there;
	cudaStream_t stream;
	int count;

	CHECK(cudaGetDeviceCount(&count));
	CHECK(cudaMalloc(&before, SIZE)); /* while there is no other context */
	CHECK(cudaSetDevice(count - 1));
	CHECK(cudaMalloc(&there, SIZE));
	CHECK(cudaSetDevice(0));
	CHECK(cudaMalloc(&here, SIZE));
	CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	host_copies(there, stream);
	device_copies(here, there, stream);
	device_copies(before, there, stream);
	CHECK(cudaSetDevice(count - 1));
	host_copies(before, 0);
	CHECK(cudaSetDevice(0));
	kernel(here, there, count - 1);
	return 0;
}
